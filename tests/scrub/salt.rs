//! Checksums that need the pool's salt: verified with it; never called wrong without it.

use crate::support::{Bytes, image, options, scrub};
use fixtures::unpack;
use std::path::PathBuf;
use std::sync::Arc;
use zfs_format::block::Work;
use zfs_format::media::Medium;
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::label::VDEV_LABEL_START_BYTES;
use zfs_format::pool::{Assembly, Selector};
use zfs_scrub::Outcome;
use zfs_scrub::outcome::{NotCheckedReason, exit};

const POOL: &str = "salted";
/// The object directory of the MOS, where the salt is.
const DIRECTORY_OBJECT: u64 = 1;

fn device() -> Vec<u8> {
    let pool = image(POOL);
    let (name, path) = pool.devices().into_iter().next().unwrap();
    unpack(&path, pool.expected.devices[&name])
}

fn medium(bytes: Vec<u8>) -> Vec<Medium> {
    vec![Medium::new(PathBuf::from("disk0"), Arc::new(Bytes(bytes)))]
}

fn scrubbed(bytes: Vec<u8>) -> Outcome {
    scrub(&medium(bytes), POOL, &options()).unwrap()
}

/// Offset on the device and length of each copy of the directory's blocks.
fn directory_blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let assembly = Assembly::new(&medium(bytes.to_vec()), Some(&Selector::Name(POOL.into()))).unwrap();
    let mut work = Work::default();
    let root = assembly.chosen.uberblock.rootbp;
    let mut objset = ObjsetReader::open(assembly.blocks(), &root, &mut work).unwrap();
    let mut object = objset.object(DIRECTORY_OBJECT, &mut work).unwrap();
    let mut found = Vec::new();
    for blkid in 0..=object.dnode.dnode.max_blkid {
        let Some(bp) = object.blkptr(0, blkid, &mut work).unwrap() else { continue };
        for (_, dva) in bp.dvas() {
            let offset = usize::try_from(dva.offset_bytes + VDEV_LABEL_START_BYTES).unwrap();
            found.push((offset, usize::try_from(bp.psize_bytes()).unwrap()));
        }
    }
    found
}

#[test]
fn a_flipped_bit_in_a_block_with_a_salted_checksum_is_found() {
    let whole = device();
    let clean = scrubbed(whole.clone());
    assert_eq!(clean.summary.exit_status, 0, "{:?}", clean.findings);
    let mut assembly = Assembly::new(&medium(whole.clone()), Some(&Selector::Name(POOL.into()))).unwrap();
    let mut work = Work::default();
    assembly.load_salt(&mut work);
    let mut seen = Vec::new();
    for dataset in ["sha512", "skein", "edonr", "blake3"] {
        let mut mos =
            zfs_format::pool::Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut work).unwrap();
        let map = zfs_format::dataset::DatasetMap::load(&mut mos, POOL, &mut work);
        let name = format!("{POOL}/{dataset}");
        let found = map.datasets.values().find(|found| found.full_name() == name).unwrap();
        let mut objset = ObjsetReader::open(assembly.blocks(), &found.dsl.bp, &mut work).unwrap();
        // The file of random bytes: its records are stored as they are.
        let file = (0..objset.objects_end()).find_map(|object| {
            let mut object = objset.object(object, &mut work).ok()?;
            let bp = object.blkptr(0, 0, &mut work).ok()??;
            (bp.checksum_kind().to_string() == dataset && bp.psize_bytes() == 4096).then_some(bp)
        });
        let dva = file.unwrap().dva(0).unwrap();
        let mut bytes = whole.clone();
        bytes[usize::try_from(dva.offset_bytes + VDEV_LABEL_START_BYTES).unwrap() + 4000] ^= 4;
        let outcome = scrubbed(bytes);
        assert_eq!(outcome.summary.lost_blocks, 1, "{dataset}: {:?}", outcome.findings);
        seen.push(outcome.findings[0].place.dataset.clone());
    }
    assert_eq!(seen, ["sha512", "skein", "edonr", "blake3"].map(|dataset| Some(format!("{POOL}/{dataset}"))));
}

#[test]
fn without_a_readable_salt_its_blocks_are_not_checked_and_not_called_damaged() {
    let mut bytes = device();
    for (offset, length) in directory_blocks(&bytes) {
        bytes[offset..offset + length].fill(0);
    }
    let outcome = scrubbed(bytes);
    // All that is wrong is the directory.
    for finding in &outcome.findings {
        let place = &finding.place;
        assert_eq!((place.objset, place.object), (Some(0), Some(DIRECTORY_OBJECT)), "{finding:?}");
    }
    assert_ne!(outcome.summary.exit_status & exit::INCOMPLETE, 0);
    let left = outcome.not_checked.iter().find(|left| left.what.contains("the pool's checksum salt"));
    let left = left.unwrap_or_else(|| panic!("{:?}", outcome.not_checked));
    assert_eq!(left.reason, NotCheckedReason::Unsupported);
    assert!(left.blocks.is_some_and(|blocks| blocks >= 3), "{left:?}");
}
