//! Encrypted datasets, with their keys, with wrong ones, and without any.

use crate::support::{damaged_media, media_of, options, shared_cases, shared_pool};
use fixtures::RealPool;
use std::sync::Arc;
use zfs_format::block::{DataKey, KeyRing, MacState, Work};
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
    // That a child is open and its root is not, is told as well.
    let (locked, others): (Vec<_>, Vec<_>) = outcome
        .findings
        .iter()
        .filter(|finding| finding.severity > Severity::Note)
        .partition(|finding| finding.kind == Kind::MosObjectInvalid);
    assert_eq!(others.len(), wrong.len());
    assert!(locked.len() == 1 && locked[0].message.contains("but not crypt/hex: its key object"), "{locked:?}");
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

/// A small pool that is kept with the tests: two roots, an AES-GCM one with a raw key and an AES-CCM one with a passphrase,
/// and a child below each.
fn kept() -> RealPool {
    RealPool::read(fixtures::images_dir().join("encrypted"))
}

#[test]
fn a_kept_pool_is_clean_without_keys_and_with_them() {
    let pool = kept();
    let media = media_of(&pool);
    let locked = scrub(unlocked(&media, &[]).unwrap());
    let one = scrub(unlocked(&media, &[key(&pool, "key-raw")]).unwrap());
    let both = scrub(unlocked(&media, &["key-raw", "key-pw"].map(|file| key(&pool, file))).unwrap());
    for outcome in [&locked, &one, &both] {
        let damage = outcome.findings.iter().filter(|finding| finding.severity > Severity::Note).count();
        assert_eq!((outcome.summary.verdict, damage), (Verdict::Clean, 0), "{:?}", outcome.findings);
    }
    let left = [&locked, &one, &both].map(without_key);
    assert!(left[0] > left[1] && left[1] > 0 && left[2] == 0, "{left:?}");
}

#[test]
fn a_wrong_key_for_a_kept_pool_is_said() {
    let pool = kept();
    let media = media_of(&pool);
    let given =
        |dataset: Option<&str>, file: &str| GivenKey { dataset: dataset.map(str::to_owned), ..key(&pool, file) };
    let wrong = |given: GivenKey| unlocked(&media, &[given]).err().unwrap().to_string();
    assert!(wrong(given(Some("crypt2/raw/small"), "key-pw")).contains("exactly 32 bytes are needed"));
    let other = GivenKey { dataset: None, secret: Secret::new(vec![7; 32]) };
    let error = wrong(other);
    assert!(error.contains("crypt2/pass (wrong key") && error.contains("crypt2/raw (wrong key"), "{error}");
}

/// The key object of a child, damaged while its root's is whole.
#[test]
fn a_child_that_its_roots_key_does_not_open_is_told() {
    let pool = kept();
    let media = media_of(&pool);
    let mut assembly = unlocked(&media, &[key(&pool, "key-raw")]).unwrap();
    // What unlocking leaves when the child's key object does not open: no key for the child, head and snapshot.
    let (child, _) = dataset(&assembly, "crypt2/raw/small");
    let (snapshot, _) = dataset(&assembly, "crypt2/raw/small@s");
    let names: Vec<u64> = ["crypt2/raw", "crypt2/raw@s"].map(|name| dataset(&assembly, name).0).to_vec();
    assembly.keys = without(assembly.keys, &[child, snapshot]);
    assert!(names.iter().all(|&objset| assembly.keys.get(objset).is_some()));
    let outcome = scrub(assembly);
    let told: Vec<_> = outcome.findings.iter().filter(|finding| finding.kind == Kind::MosObjectInvalid).collect();
    assert_eq!(told.len(), 1, "{:?}", outcome.findings);
    assert!(told[0].message.contains("crypt2/raw, but not crypt2/raw/small: its key object is damaged"), "{told:?}");
    assert_eq!(outcome.summary.verdict, Verdict::Damaged);
}

fn without(mut ring: KeyRing, objsets: &[u64]) -> KeyRing {
    for &objset in objsets {
        ring.remove(objset);
    }
    ring
}

#[test]
fn errata_of_encrypted_pools_are_notes() {
    for (folder, wanted) in [("public/cryptv0", &[3, 4][..]), ("public/missing_ivset", &[4])] {
        let Some(pool) = shared_pool(folder) else { return };
        let outcome = scrub(unlocked(&media_of(&pool), &[]).unwrap());
        let errata: Vec<_> = outcome.findings.iter().filter(|finding| finding.kind == Kind::PoolErratum).collect();
        assert_eq!(errata.len(), wanted.len(), "{errata:?}");
        for (finding, number) in errata.iter().zip(wanted) {
            assert!(finding.message.starts_with(&format!("erratum {number} (ZFS on Linux issue")), "{finding:?}");
            assert_eq!(finding.severity, Severity::Note);
        }
        assert_eq!(outcome.summary.exit_status, 0);
    }
}
