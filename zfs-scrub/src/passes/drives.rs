//! Whether each member lies on the drive that its label names.
//!
//! Checks: the `devid` that the pool's configuration records of each device against the names, the serial number and
//! the WWN of the device that was opened. Only Linux says these; elsewhere, and for images, there is nothing to check.

use crate::facts;
use crate::finding::{Finding, Kind, Place};
use zfs_format::media::Host;
use zfs_format::pool::Assembly;

/// A note for each member that is elsewhere.
pub(crate) fn check(assembly: &Assembly, host: &Host) -> Vec<Finding> {
    let note = |(name, message)| {
        let place = Place { device: Some(name), ..Place::default() };
        Finding::new(Kind::MemberElsewhere, place, message)
    };
    facts::elsewhere(assembly, host).into_iter().map(note).collect()
}
