//! Allocation classes, spares and caches: what OpenZFS shows in `zpool status` is what zcheck shows.

use crate::support::{media_of, options, scrub, shared_pool, skipped};
use zfs_format::media::Medium;
use zfs_format::pool::{Assembly, AssemblyError};
use zfs_scrub::outcome::{VdevFacts, exit};
use zfs_scrub::{Kind, Outcome};

const POOL: &str = "classes-special-dedup-log-cache-spare";

fn classes_media() -> Option<Vec<Medium>> {
    shared_pool(POOL).map(|pool| media_of(&pool))
}

fn named(media: &[Medium], wanted: &[&str]) -> Vec<Medium> {
    let is_wanted =
        |medium: &&Medium| wanted.iter().any(|name| medium.path.file_stem().is_some_and(|stem| stem == *name));
    media.iter().filter(is_wanted).cloned().collect()
}

fn classes(vdevs: &[VdevFacts]) -> Vec<(String, String, String)> {
    let row = |vdev: &VdevFacts| (vdev.name.clone(), vdev.class.clone().unwrap_or_default(), vdev.state.clone());
    vdevs.iter().map(row).collect()
}

fn rows(wanted: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    wanted.iter().map(|(name, class, state)| ((*name).into(), (*class).into(), (*state).into())).collect()
}

fn has(outcome: &Outcome, kind: Kind) -> bool {
    outcome.findings.iter().any(|finding| finding.kind == kind)
}

#[test]
fn every_top_level_vdev_has_the_class_of_zpool_status() {
    let Some(media) = classes_media() else { return };
    let outcome = scrub(&media, "classes", &options()).unwrap();
    let expected = [
        ("mirror-0", "normal", "ONLINE"),
        ("mirror-1", "special", "ONLINE"),
        ("dd", "dedup", "ONLINE"),
        ("mirror-3", "log", "ONLINE"),
    ];
    assert_eq!(classes(&outcome.vdevs), rows(&expected));
    assert_eq!(classes(&outcome.caches), rows(&[("ca", "l2cache", "ONLINE")]));
    assert_eq!(classes(&outcome.spares), rows(&[("sp.are", "spare", "AVAIL")]));
    assert!(outcome.findings.is_empty(), "{:?}", outcome.findings);
    assert_eq!(outcome.summary.exit_status, 0);
}

#[test]
fn spares_and_caches_that_were_not_given_are_not_missed() {
    let Some(media) = classes_media() else { return };
    let members = named(&media, &["d.0", "d.1", "sp.0", "sp.1", "dd", "lg.0", "lg.1"]);
    let outcome = scrub(&members, "classes", &options()).unwrap();
    assert_eq!(classes(&outcome.caches), rows(&[("ca", "l2cache", "UNAVAIL")]));
    assert_eq!(classes(&outcome.spares), rows(&[("sp.are", "spare", "UNAVAIL")]));
    assert_eq!((outcome.summary.exit_status, has(&outcome, Kind::MemberMissing)), (0, false));
}

#[test]
fn case_a4_a_cache_alone_names_its_pool_and_holds_no_data() {
    let Some(media) = classes_media() else { return };
    let error = Assembly::new(&named(&media, &["ca"]), None).unwrap_err();
    assert!(matches!(error, AssemblyError::OnlyAuxiliary { .. }));
    let text = error.to_string();
    // The guid of the pool, as its own labels have it.
    let guid = Assembly::new(&named(&media, &["d.0"]), None).unwrap().guid.to_string();
    for part in ["a cache device (L2ARC)", "it holds no pool data", guid.as_str()] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("corrupt") && !text.contains("damage"), "{text}");
}

#[test]
fn case_a4_a_cache_with_a_damaged_header_is_still_one() {
    let Some(pool) = shared_pool(POOL) else { return };
    let mut devices = crate::support::devices_of(&pool);
    devices.retain(|(name, _)| name == "ca");
    devices[0].1[4 << 20..(4 << 20) + 512].fill(0xa5);
    let text = Assembly::new(&crate::support::in_memory(devices), None).unwrap_err().to_string();
    assert!(text.contains("a cache device (L2ARC)") && text.contains("cannot be read"), "{text}");
}

#[test]
fn case_a5_a_spare_alone_holds_no_data() {
    let Some(media) = classes_media() else { return };
    let text = Assembly::new(&named(&media, &["sp.are"]), None).unwrap_err().to_string();
    assert!(text.contains("a hot spare") && text.contains("it holds no pool data"), "{text}");
}

#[test]
fn a_cache_of_another_pool_is_told_apart() {
    let (Some(media), Some(other)) = (classes_media(), shared_pool("single")) else { return };
    let mut given = media_of(&other);
    given.extend(named(&media, &["ca", "sp.are"]));
    let outcome = scrub(&given, "single", &options()).unwrap();
    let notes: Vec<_> = outcome.findings.iter().filter(|finding| finding.kind == Kind::NotAMember).collect();
    assert_eq!((notes.len(), outcome.summary.exit_status), (2, 0), "{notes:?}");
    assert!(outcome.caches.is_empty() && outcome.spares.is_empty());
    assert!(notes.iter().any(|note| note.message.contains("of the pool with guid 12532942791330969179")), "{notes:?}");
}

#[test]
fn case_e13_a_spare_in_use_is_a_member_and_a_spare() {
    let Some(pool) = shared_pool("mirror-spare-in-use") else { return };
    let outcome = scrub(&media_of(&pool), "spar", &options()).unwrap();
    assert_eq!(classes(&outcome.spares), rows(&[("sp", "spare", "INUSE")]));
    assert_eq!(outcome.summary.exit_status, 0);
    // Without the side that is whole, the spare alone has everything.
    let without = |name: &str| {
        let media = media_of(&pool);
        let left = media.into_iter().filter(|medium| medium.path.file_stem().is_some_and(|stem| stem != name));
        scrub(&left.collect::<Vec<_>>(), "spar", &options()).unwrap().summary.exit_status
    };
    assert_eq!(without("m.1"), exit::DEGRADED | exit::INCOMPLETE);
}

#[test]
fn case_e13_a_spare_in_use_in_a_pool_of_version_3() {
    let Some(pool) = shared_pool("public/v3-hotspare") else { return };
    let media = media_of(&pool);
    let outcome = scrub(&media, "pool-v3hotspare", &options()).unwrap();
    assert_eq!(outcome.summary.exit_status, 0, "{:?}", outcome.findings);
    assert_eq!(outcome.vdevs[0].vdev_type, "spare");
    let outcome = scrub(&media[1..], "pool-v3hotspare", &options()).unwrap();
    assert_eq!(outcome.summary.exit_status, exit::DEGRADED | exit::INCOMPLETE);
    // Case A5: its third device is a spare, and was kept with nothing but a guid.
    let text = Assembly::new(&media[2..], None).unwrap_err().to_string();
    assert!(text.contains("a hot spare"), "{text}");
}

#[test]
fn the_embedded_log_of_a_normal_vdev_is_read() {
    // Without a log device intent logs lie in a metaslab of a normal vdev; nothing on disk says which.
    let Some(pool) = shared_pool("zil-unreplayed") else { return };
    let outcome = scrub(&media_of(&pool), "zil", &options()).unwrap();
    assert_eq!(classes(&outcome.vdevs), rows(&[("disk0", "normal", "ONLINE")]));
    if let Some(zdb) = pool.expected.zdb {
        assert_eq!(outcome.totals.blocks, zdb.blocks);
    } else {
        skipped("zil-unreplayed has no numbers of zdb: the pool was copied while imported");
    }
}
