//! Encrypted datasets, with their keys, with wrong ones, and without any.

use crate::support::{damaged_media, media_of, options, shared_cases, shared_pool};
use fixtures::RealPool;
use std::sync::Arc;
use zfs_format::block::{DataKey, MacState, Work};
use zfs_format::codec::cipher::CipherMode;
use zfs_format::dataset::{DatasetMap, GivenKey, UnlockError, unlock};
use zfs_format::media::Medium;
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::ObjectType;
use zfs_format::pool::{Assembly, KeyError, Mos, Secret};
use zfs_scrub::finding::{Finding, Kind, Place};
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::{NotCheckedReason, Verdict};
use zfs_scrub::{Outcome, Severity};

/// All six suites, all three key formats, inherited keys, dedup, a volume.
fn pool() -> Option<RealPool> {
    shared_pool("encryption")
}

fn key(pool: &RealPool, file: &str) -> GivenKey {
    GivenKey { dataset: None, secret: Secret::new(std::fs::read(pool.path.join(file)).unwrap()) }
}

fn unlocked(media: &[Medium], given: &[GivenKey]) -> Result<Assembly, UnlockError> {
    let mut assembly = Assembly::new(media, None).unwrap();
    unlock(&mut assembly, given, &mut Work::default())?;
    Ok(assembly)
}

fn scrub(mut assembly: Assembly) -> Outcome {
    zfs_scrub::scrub(&mut assembly, &options(), &Progress::default()).unwrap()
}

/// Blocks whose content was not checked for want of a key.
fn without_key(outcome: &Outcome) -> u64 {
    let left = outcome.not_checked.iter().filter(|left| left.reason == NotCheckedReason::NoKey);
    left.map(|left| left.blocks.unwrap()).sum()
}

#[test]
fn with_all_keys_every_block_is_decrypted_and_authenticated() {
    let Some(pool) = pool() else { return };
    let media = media_of(&pool);
    let locked = scrub(unlocked(&media, &[]).unwrap());
    let keys = ["key-raw", "key-hex", "key-pw"].map(|file| key(&pool, file));
    let opened = scrub(unlocked(&media, &keys).unwrap());
    for outcome in [&locked, &opened] {
        assert_eq!(outcome.summary.verdict, Verdict::Clean);
        assert!(!outcome.findings.iter().any(|finding| finding.severity > Severity::Note), "{:?}", outcome.findings);
    }
    assert!(without_key(&locked) > 100);
    assert_eq!(without_key(&opened), 0);
    assert_eq!(opened.totals.decoded_blocks, locked.totals.decoded_blocks + without_key(&locked));
    assert_eq!(opened.totals.copies_verified, locked.totals.copies_verified);
}

#[test]
fn one_key_opens_the_datasets_that_inherit_it_and_no_others() {
    let Some(pool) = pool() else { return };
    let media = media_of(&pool);
    let all = without_key(&scrub(unlocked(&media, &[]).unwrap()));
    let named = |dataset: &str| GivenKey { dataset: Some(dataset.into()), ..key(&pool, "key-hex") };
    let left: Vec<u64> = ["crypt/hex", "crypt/hex/dd"]
        .map(|dataset| without_key(&scrub(unlocked(&media, &[named(dataset)]).unwrap())))
        .to_vec();
    assert!(left[0] > 0 && left[0] < all && left[0] == left[1], "{left:?} of {all}");
    let raw = without_key(&scrub(unlocked(&media, &[key(&pool, "key-raw")]).unwrap()));
    let passphrase = without_key(&scrub(unlocked(&media, &[key(&pool, "key-pw")]).unwrap()));
    // What each key opens is left by the other two.
    assert_eq!(left[0] + raw + passphrase, 2 * all);
}

#[test]
fn a_wrong_key_is_said_at_once_and_not_shown() {
    let Some(pool) = pool() else { return };
    let media = media_of(&pool);
    let wrong = |dataset: Option<&str>, bytes: &[u8]| {
        let given = GivenKey { dataset: dataset.map(str::to_owned), secret: Secret::new(bytes.to_vec()) };
        unlocked(&media, &[given]).err().unwrap()
    };
    let secret = "correct horse battery staple, 32";
    let error = wrong(None, secret.as_bytes());
    assert!(matches!(&error, UnlockError::FitsNone { tried } if tried.len() == 8), "{error}");
    assert!(error.to_string().contains("crypt/aes-128-ccm (wrong key"), "{error}");
    assert!(!format!("{error} {error:?}").contains("horse"));
    for dataset in ["crypt/pass", "crypt/pass/child", "crypt/aes-256-gcm"] {
        let error = wrong(Some(dataset), secret.as_bytes());
        assert!(matches!(error, UnlockError::Key { source: KeyError::Wrong, .. }), "{error}");
    }
    assert!(matches!(wrong(Some("crypt/hex"), b"12"), UnlockError::Key { source: KeyError::Form { .. }, .. }));
    assert!(matches!(wrong(Some("crypt"), b"12"), UnlockError::NotEncrypted { .. }));
    assert!(matches!(wrong(Some("crypt/none"), b"12"), UnlockError::NoDataset { .. }));
}

#[test]
fn names_need_a_key_and_the_report_says_so() {
    let Some(pool) = pool() else { return };
    let case = shared_cases().into_iter().find(|case| case.name == "encryption-scattered").unwrap();
    let media = damaged_media(&case);
    let locked = scrub(unlocked(&media, &[]).unwrap());
    let keys = ["key-raw", "key-hex", "key-pw"].map(|file| key(&pool, file));
    let opened = scrub(unlocked(&media, &keys).unwrap());
    let damaged = |outcome: &Outcome| -> Vec<_> {
        let is_damaged = |finding: &&Finding| finding.severity == Severity::Damaged;
        outcome.findings.iter().filter(is_damaged).map(|finding| (finding.kind, finding.pointer)).collect()
    };
    assert_eq!(damaged(&locked), damaged(&opened));
    assert!(!damaged(&locked).is_empty());
    let contents = |outcome: &Outcome| -> Vec<Place> {
        let places = outcome.findings.iter().map(|finding| finding.place.clone());
        places.filter(|place| place.object_type == Some(ObjectType::PLAIN_FILE)).collect()
    };
    let (locked, opened) = (contents(&locked), contents(&opened));
    assert_eq!(locked.len(), opened.len());
    for place in &locked {
        let because = place.no_path_because.as_deref().unwrap_or_default();
        assert!(place.path.is_none() && because.contains("encrypted and no key was given"), "{place:?}");
        assert!(place.dataset.is_some() && place.file_offset.is_some(), "{place:?}");
    }
    assert!(!opened.is_empty() && opened.iter().all(|place| place.path.is_some()), "{opened:?}");
}

/// Data keys of another dataset: what a pool looks like whose contents are not those of its keys.
#[test]
fn contents_that_their_key_did_not_write_are_found() {
    let Some(pool) = pool() else { return };
    let media = media_of(&pool);
    let mut assembly = unlocked(&media, &[]).unwrap();
    let bogus = DataKey::new(CipherMode::Gcm, 1, vec![7; 32].into(), &[7; 64]).unwrap();
    let (objset, _) = dataset(&assembly, "crypt/hex/dd");
    assembly.keys.insert(objset, Arc::new(bogus));
    let outcome = scrub(assembly);
    let wrong: Vec<_> = outcome.findings.iter().filter(|finding| finding.kind == Kind::MacWrong).collect();
    assert_eq!(outcome.findings.iter().filter(|finding| finding.severity > Severity::Note).count(), wrong.len());
    assert!(wrong.iter().all(|finding| finding.place.dataset.as_deref() == Some("crypt/hex/dd")));
    // The object set, dnodes, a ZAP in clear, contents; not indirect blocks, whose MACs have no key.
    let levels = |level: i8| wrong.iter().filter(|finding| finding.place.level == Some(level)).count();
    assert!(levels(-1) == 1 && levels(0) > 10, "{wrong:?}");
    assert_eq!(levels(-1) + levels(0), wrong.len());
    assert_eq!(outcome.summary.verdict, Verdict::Damaged);
}

fn dataset(assembly: &Assembly, name: &str) -> (u64, Blkptr) {
    let mut work = Work::default();
    let mut mos = Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut work).unwrap();
    let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
    let found = map.datasets.values().find(|found| found.full_name() == name).unwrap();
    (found.object, found.dsl.bp)
}

#[test]
fn macs_of_indirect_blocks_are_checked_without_a_key() {
    let Some(pool) = pool() else { return };
    let media = media_of(&pool);
    let assembly = unlocked(&media, &[]).unwrap();
    let (_, root) = dataset(&assembly, "crypt/hex");
    let mut work = Work::default();
    let mut objset = ObjsetReader::open(assembly.blocks(), &root, &mut work).unwrap();
    for level in 1..objset.objset.meta_dnode.nlevels {
        let bp = objset.meta_blkptr(level, 0, &mut work).unwrap().unwrap();
        assert!(bp.is_protected());
        let verification = assembly.blocks().verify(&bp, &mut work, &mut |_, _, _| {});
        assert_eq!(verification.mac, MacState::Right, "level {level}");
        // The checksum does not cover the MAC, so another MAC leaves it right.
        let mut words = *bp.words();
        words[14] ^= 1 << 40;
        let verification = assembly.blocks().verify(&Blkptr::from_words(words), &mut work, &mut |_, _, _| {});
        assert!(verification.plain.is_ok() && verification.copies.iter().all(|copy| copy.state.is_good()));
        assert_eq!(verification.mac, MacState::Wrong, "level {level}");
    }
}
