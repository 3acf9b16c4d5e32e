//! Which drive a device is, in the JSON reports.

use serde::Serialize;
use zfs_format::media::Drive;

/// What the machine says of the device that was opened.
#[derive(Serialize)]
pub(in crate::report) struct IdentityView<'a> {
    kernel_name: &'a str,
    parent: Option<&'a str>,
    partition: Option<u64>,
    vendor: Option<&'a str>,
    model: Option<&'a str>,
    serial: Option<&'a str>,
    wwn: Option<&'a str>,
    rotational: Option<bool>,
    read_only: Option<bool>,
    size: Option<u64>,
    logical_sector: Option<u64>,
    physical_sector: Option<u64>,
    by_id: &'a [String],
    by_path: &'a [String],
    by_vdev: &'a [String],
    enclosure: Option<&'a str>,
    slot: Option<&'a str>,
    holders: &'a [String],
    below: &'a [String],
    backing_file: Option<&'a str>,
}

impl<'a> From<&'a Drive> for IdentityView<'a> {
    fn from(drive: &'a Drive) -> Self {
        Self {
            kernel_name: &drive.kernel_name,
            parent: drive.parent.as_deref(),
            partition: drive.partition,
            vendor: drive.vendor.as_deref(),
            model: drive.model.as_deref(),
            serial: drive.serial.as_deref(),
            wwn: drive.wwn.as_deref(),
            rotational: drive.rotational,
            read_only: drive.read_only,
            size: drive.size_bytes,
            logical_sector: drive.logical_sector_bytes,
            physical_sector: drive.physical_sector_bytes,
            by_id: &drive.by_id,
            by_path: &drive.by_path,
            by_vdev: &drive.by_vdev,
            enclosure: drive.enclosure.as_deref(),
            slot: drive.slot.as_deref(),
            holders: &drive.holders,
            below: &drive.below,
            backing_file: drive.backing_file.as_deref(),
        }
    }
}
