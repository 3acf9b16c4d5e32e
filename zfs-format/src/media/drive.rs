//! Which drive a block device is: what one has to know to pull the right one.
//!
//! Reads `/sys/dev/block` and what it leads to, the links below `/dev/disk`, and the database of udev (Linux). Nothing
//! of it is needed to read a pool, so that what is not there is left out.
//!
//! Source: Documentation/ABI of the Linux kernel (sysfs-block, sysfs-class-enclosure), udev's rules
//! 60-persistent-storage; OpenZFS lib/libzutil/os/linux/zutil_device_path_os.c (`zfs_get_enclosure_sysfs_path`).

use super::file::FileId;
use super::host::{Host, names, read};
use std::path::{Path, PathBuf};

/// Devices below a mapped one that are named.
const BELOW_MAX: usize = 64;

/// What is known of a block device and the drive it is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drive {
    /// `sdb1`, `nvme0n1`, `dm-3`.
    pub kernel_name: String,
    /// The disk, when the device is a partition.
    pub parent: Option<String>,
    /// Number of the partition.
    pub partition: Option<u64>,
    /// Maker, where it is not a part of the model.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name.
    pub wwn: Option<String>,
    /// Whether it has rotating disks.
    pub rotational: Option<bool>,
    /// Whether it can only be read.
    pub read_only: Option<bool>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Logical sector size.
    pub logical_sector_bytes: Option<u64>,
    /// Physical sector size.
    pub physical_sector_bytes: Option<u64>,
    /// Names in `/dev/disk/by-id` that lead to the device.
    pub by_id: Vec<String>,
    /// Names in `/dev/disk/by-path`.
    pub by_path: Vec<String>,
    /// Names in `/dev/disk/by-vdev`.
    pub by_vdev: Vec<String>,
    /// The enclosure that the drive sits in.
    pub enclosure: Option<String>,
    /// Its slot there.
    pub slot: Option<String>,
    /// Devices made of this one: by LVM, LUKS, multipath, md.
    pub holders: Vec<String>,
    /// Devices that this one is made of.
    pub below: Vec<String>,
    /// The file of a loop device.
    pub backing_file: Option<String>,
    /// Other names by which a label may know the drive: those of its disk, and of the paths it is made of.
    pub also_known: Vec<String>,
}

/// The folder of a block device below `/sys`, and that of its disk.
struct Place {
    device: PathBuf,
    disk: PathBuf,
}

impl Host {
    /// The drive of a file that was opened; `None` when it is no block device, or nothing is known of it.
    #[must_use]
    pub fn drive(&self, file: FileId) -> Option<Drive> {
        let (major, minor) = file.device_number()?;
        let place = self.place(&self.path(&format!("sys/dev/block/{major}:{minor}")))?;
        let udev = |disk: &Path| {
            let number = read(&disk.join("dev"))?;
            self.read(&format!("run/udev/data/b{number}"))
        };
        let database = udev(&place.disk).or_else(|| udev(&place.device)).unwrap_or_default();
        let mut drive = self.describe(&place, &database)?;
        drive.by_id = self.links("by-id", &drive.kernel_name);
        drive.by_path = self.links("by-path", &drive.kernel_name);
        drive.by_vdev = self.links("by-vdev", &drive.kernel_name);
        let related: Vec<String> = drive.parent.iter().chain(&drive.below).cloned().collect();
        drive.also_known = related.iter().flat_map(|name| self.links("by-id", name)).collect();
        (drive.enclosure, drive.slot) = self.slot(&place.disk).unzip();
        // Of a drive with several paths any of them tells.
        for below in drive.below.clone() {
            let Some(other) = self.place(&self.path(&format!("sys/class/block/{below}"))) else { continue };
            let Some(path) = self.describe(&other, &udev(&other.disk).unwrap_or_default()) else { continue };
            let is_same = path.serial.is_some() && drive.below.len() > 1 && database.contains("mpath-");
            if drive.model.is_none() && (is_same || drive.below.len() == 1) {
                (drive.vendor, drive.model) = (path.vendor, path.model);
                drive.serial = drive.serial.or(path.serial);
                drive.wwn = drive.wwn.or(path.wwn);
            }
            if drive.slot.is_none() && (is_same || drive.below.len() == 1) {
                (drive.enclosure, drive.slot) = self.slot(&other.disk).unzip();
            }
        }
        Some(drive)
    }

    fn place(&self, link: &Path) -> Option<Place> {
        let device = link.canonicalize().ok()?;
        let is_partition = device.join("partition").exists();
        let disk = if is_partition { device.parent()?.to_path_buf() } else { device.clone() };
        Some(Place { device, disk })
    }

    /// What sysfs and udev say of a device, without names and slots.
    fn describe(&self, place: &Place, udev: &str) -> Option<Drive> {
        let Place { device, disk } = place;
        let last = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let of_disk = |file: &str| read(&disk.join(file));
        let property = |key: &str| {
            let line = udev.lines().find_map(|line| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='));
            line.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let number = |file: &str| of_disk(file).and_then(|text| text.parse::<u64>().ok());
        let kernel_name = last(device)?;
        // ATA disks have `ATA` for a vendor, virtio ones a number.
        let vendor = of_disk("device/vendor").filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"));
        let page = std::fs::read(disk.join("device/vpd_pg80")).ok();
        let uuid = of_disk("dm/uuid");
        let multipath = uuid.as_deref().and_then(|uuid| uuid.strip_prefix("mpath-")).map(str::to_owned);
        Some(Drive {
            parent: (device != disk).then(|| last(disk)).flatten(),
            partition: read(&device.join("partition")).and_then(|text| text.parse().ok()),
            vendor,
            model: property("ID_MODEL_ENC")
                .map(|text| unescaped(&text))
                .or_else(|| of_disk("device/model"))
                .or_else(|| property("ID_MODEL")),
            serial: property("ID_SERIAL_SHORT")
                .or_else(|| property("ID_SCSI_SERIAL"))
                .or_else(|| of_disk("device/serial"))
                .or_else(|| of_disk("serial"))
                .or_else(|| page.as_deref().and_then(serial_page)),
            wwn: property("ID_WWN").or_else(|| of_disk("device/wwid")).or_else(|| of_disk("wwid")).or(multipath),
            rotational: number("queue/rotational").map(|value| value != 0),
            read_only: read(&device.join("ro")).map(|text| text != "0"),
            size_bytes: read(&device.join("size"))
                .and_then(|text| text.parse::<u64>().ok())
                .and_then(|sectors| sectors.checked_mul(512)),
            logical_sector_bytes: number("queue/logical_block_size"),
            physical_sector_bytes: number("queue/physical_block_size"),
            holders: names(&device.join("holders")),
            below: names(&device.join("slaves")).into_iter().take(BELOW_MAX).collect(),
            backing_file: of_disk("loop/backing_file"),
            kernel_name,
            ..Drive::default()
        })
    }

    /// The names below `/dev/disk/KIND` that lead to a device.
    fn links(&self, kind: &str, kernel_name: &str) -> Vec<String> {
        let folder = self.path(&format!("dev/disk/{kind}"));
        let leads = |name: &String| {
            let target = std::fs::read_link(folder.join(name)).ok();
            target.is_some_and(|target| target.file_name().is_some_and(|last| last == kernel_name))
        };
        names(&folder).into_iter().filter(leads).collect()
    }

    /// Enclosure and slot of a disk.
    fn slot(&self, disk: &Path) -> Option<(String, String)> {
        let device = disk.join("device");
        let entry = names(&device).into_iter().find(|name| name.starts_with("enclosure_device:"));
        if let Some(entry) = entry {
            let slot = device.join(&entry).canonicalize().ok()?;
            let named = entry.strip_prefix("enclosure_device:").unwrap_or_default();
            let enclosure = slot.parent()?.file_name()?.to_str()?.to_owned();
            let number = read(&slot.join("slot")).unwrap_or_else(|| named.trim().to_owned());
            return Some((enclosure, number));
        }
        // NVMe drives sit in slots of PCI, which are named by the address without the function.
        let real = disk.canonicalize().ok()?;
        let parts: Vec<&str> = real.iter().filter_map(|part| part.to_str()).collect();
        let slots = self.path("sys/bus/pci/slots");
        let is_own = |slot: &String| {
            let Some(address) = read(&slots.join(slot).join("address")) else { return false };
            parts.iter().any(|part| part.strip_prefix(address.as_str()).is_some_and(|rest| rest.starts_with('.')))
        };
        names(&slots).into_iter().find(is_own).map(|slot| ("PCI".to_owned(), slot))
    }
}

/// The serial number in page 0x80 of a SCSI device: four bytes of header, the last two of them its length.
fn serial_page(page: &[u8]) -> Option<String> {
    let (header, rest) = page.split_first_chunk::<4>()?;
    let [_, code, high, low] = *header;
    let text = rest.get(..usize::from(u16::from_be_bytes([high, low])))?;
    let text = String::from_utf8_lossy(text).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned();
    (code == 0x80 && !text.is_empty()).then_some(text)
}

/// The text of a property in which udev wrote bytes as `\x20`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(part.bytes().skip(2));
            }
            None => bytes.extend(part.bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

impl Drive {
    /// Why this is not the drive that a label calls `devid`, when both have names that can be compared.
    ///
    /// On Linux a devid is a name of `/dev/disk/by-id`. Only what contradicts counts: a device that has no such name,
    /// like a loop device, proves nothing.
    #[must_use]
    pub fn contradicts(&self, devid: &str) -> Option<String> {
        const KNOWN: [&str; 8] = ["ata-", "scsi-", "nvme-", "wwn-", "usb-", "virtio-", "dm-uuid-", "mmc-"];
        let bare = without_partition(devid);
        if !KNOWN.iter().any(|prefix| bare.starts_with(prefix)) {
            return None;
        }
        let own = self.by_id.iter().chain(&self.also_known);
        let is_named = own.clone().any(|name| without_partition(name) == bare);
        // What the names are made of: a newer udev may build them in another way.
        let made_of = |part: &String| {
            let part =
                part.strip_prefix("0x").or(part.strip_prefix("naa.")).or(part.strip_prefix("eui.")).unwrap_or(part);
            part.len() >= 6 && bare.contains(part.replace(' ', "_").as_str())
        };
        if is_named || self.serial.as_ref().is_some_and(made_of) || self.wwn.as_ref().is_some_and(made_of) {
            return None;
        }
        let best = own.filter(|name| KNOWN.iter().any(|prefix| name.starts_with(prefix)));
        let best = best.min_by_key(|name| KNOWN.iter().position(|prefix| name.starts_with(prefix)))?;
        Some(format!("the label says {bare}, this device is {}", without_partition(best)))
    }

    /// `WDC WD40EFRX serial WD-WCC4E0000000, slot 3`; empty when nothing is known that helps to find it.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut words: Vec<String> = self.vendor.iter().chain(&self.model).cloned().collect();
        words.extend(self.serial.as_ref().map(|serial| format!("serial {serial}")));
        let mut parts: Vec<String> = Vec::new();
        if !words.is_empty() {
            parts.push(words.join(" "));
        }
        parts.extend(self.slot.as_ref().map(|slot| format!("slot {slot}")));
        if let Some(file) = &self.backing_file {
            parts.push(format!("over {file}"));
        } else if !self.below.is_empty() {
            parts.push(format!("on {}", self.below.join(" and ")));
        }
        parts.join(", ")
    }
}

/// A name without `-part1`.
fn without_partition(name: &str) -> &str {
    match name.rsplit_once("-part") {
        Some((disk, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => disk,
        _ => name,
    }
}

#[cfg(all(test, unix))]
mod tests;
