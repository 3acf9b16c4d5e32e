//! Key objects of encrypted datasets: those that make no sense, and those that do not open with the key that opens the others.

use crate::finding::{Finding, Kind, Place, Sink};
use zfs_format::block::Work;
use zfs_format::dataset::{DatasetMap, EncryptedDatasets};
use zfs_format::object::ObjectError;
use zfs_format::pool::{Assembly, Mos};

/// Says which datasets stay locked, whatever key is given.
pub(crate) fn check(assembly: &Assembly, features: &[(String, bool, u64)], sink: &Sink) {
    if !features.iter().any(|(guid, _, count)| guid == "com.datto:encryption" && *count > 0) {
        return;
    }
    let mut work = Work::default();
    let Ok(mut mos) = Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut work) else { return };
    let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
    let encrypted = EncryptedDatasets::load(&mut mos, &map, &mut work);
    for problem in &encrypted.problems {
        // Blocks that cannot be read are found by the walk.
        let (ObjectError::Format { object, .. } | ObjectError::NoObject { object }) = &problem.error else { continue };
        let place = Place { objset: Some(0), object: Some(*object), ..Place::default() };
        let message = format!("the key object of {}: {}; no key opens the dataset", problem.dataset, problem.error);
        sink.push(Finding::new(Kind::MosObjectInvalid, place, message));
    }
    for (dataset, root) in encrypted.locked(&assembly.keys) {
        let place = Place { objset: Some(0), ..Place::default() };
        let message = format!(
            "the given key opens datasets that inherit from {root}, but not {dataset}: its key object is damaged, and it \
             stays locked"
        );
        sink.push(Finding::new(Kind::MosObjectInvalid, place, message));
    }
}
