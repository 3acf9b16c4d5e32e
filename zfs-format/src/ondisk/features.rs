//! Feature flags: which the format defines, and what each means for a reader.
//!
//! MOS ZAPs map a feature's guid to the number of its uses; the label lists the active ones that are needed to read it.

/// One feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name on disk, such as `org.illumos:lz4_compress`.
    pub guid: &'static str,
    /// A reader that does not know it may go on.
    pub is_read_only_compatible: bool,
    /// When active it is listed in the label, since it is needed to read the MOS.
    pub is_in_label: bool,
    /// Each dataset that uses it says so in its own ZAP.
    pub is_per_dataset: bool,
    /// Bytes must be read differently when it is active.
    pub changes_reading: bool,
}

impl Feature {
    /// The name after the colon, as `zpool get feature@` shows it for nearly all.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        self.guid.split_once(':').map_or(self.guid, |(_, name)| name)
    }
}

/// The feature with this guid, `None` when this library does not know it.
#[must_use]
pub fn lookup(guid: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.guid == guid)
}

/// Whose feature it is, told by the domain its guid begins with: for those that this library does not know.
#[must_use]
pub fn origin(guid: &str) -> Option<&'static str> {
    let domain = guid.split_once(':').map_or(guid, |(domain, _)| domain);
    ORIGINS.iter().find(|(known, _)| *known == domain).map(|(_, origin)| *origin)
}

/// Domains of those who made features, and the systems they made them for.
const ORIGINS: [(&str, &str); 16] = [
    ("com.datto", "Datto, for ZFS on Linux"),
    ("com.delphix", "Delphix, for illumos"),
    ("com.fudosecurity", "Fudo Security, for FreeBSD"),
    ("com.intel", "Intel, for Linux"),
    ("com.ixsystems", "iXsystems, for TrueNAS"),
    ("com.joyent", "Joyent, for illumos (SmartOS)"),
    ("com.klarasystems", "Klara Systems"),
    ("com.nexenta", "Nexenta, for illumos (NexentaStor)"),
    ("com.seagate", "Seagate"),
    ("com.truenas", "TrueNAS"),
    ("org.freebsd", "FreeBSD"),
    ("org.illumos", "illumos"),
    ("org.open-zfs", "OpenZFS"),
    ("org.openzfs", "OpenZFS"),
    ("org.openzfsonosx", "OpenZFS on OS X, for macOS"),
    ("org.zfsonlinux", "ZFS on Linux"),
];

/// All features known, in the order of OpenZFS.
///
/// Source: OpenZFS module/zcommon/zfeature_common.c, `zpool_feature_init`.
#[must_use]
pub fn all() -> &'static [Feature] {
    &FEATURES
}

const fn feature(
    guid: &'static str,
    is_read_only_compatible: bool,
    is_in_label: bool,
    is_per_dataset: bool,
    changes_reading: bool,
) -> Feature {
    Feature { guid, is_read_only_compatible, is_in_label, is_per_dataset, changes_reading }
}

/// guid, read-only compatible, in the label, per dataset, changes reading.
const FEATURES: [Feature; 48] = [
    feature("com.delphix:async_destroy", true, false, false, false),
    feature("com.delphix:empty_bpobj", true, false, false, false),
    feature("org.illumos:lz4_compress", false, false, false, true),
    feature("com.joyent:multi_vdev_crash_dump", false, false, false, true),
    feature("com.delphix:spacemap_histogram", true, false, false, false),
    feature("com.delphix:enabled_txg", true, false, false, false),
    feature("com.delphix:hole_birth", false, true, false, true),
    feature("com.delphix:zpool_checkpoint", true, false, false, false),
    feature("com.delphix:spacemap_v2", true, false, false, false),
    feature("com.delphix:extensible_dataset", false, false, false, true),
    feature("com.delphix:bookmarks", true, false, false, false),
    feature("com.joyent:filesystem_limits", true, false, false, false),
    feature("com.delphix:embedded_data", false, true, false, true),
    feature("com.delphix:livelist", true, false, false, false),
    feature("com.delphix:log_spacemap", true, false, false, false),
    feature("org.open-zfs:large_blocks", false, false, true, true),
    feature("org.zfsonlinux:large_dnode", false, false, true, true),
    feature("org.illumos:sha512", false, false, true, true),
    feature("org.illumos:skein", false, false, true, true),
    feature("org.illumos:edonr", false, false, true, true),
    feature("com.delphix:redaction_bookmarks", false, false, false, true),
    feature("com.delphix:redacted_datasets", false, false, true, true),
    feature("com.delphix:bookmark_written", false, false, false, true),
    feature("com.delphix:device_removal", false, true, false, true),
    feature("com.delphix:obsolete_counts", true, false, false, false),
    feature("org.zfsonlinux:userobj_accounting", true, false, true, false),
    feature("com.datto:bookmark_v2", false, false, false, true),
    feature("com.datto:encryption", false, false, true, true),
    feature("org.zfsonlinux:project_quota", true, false, true, false),
    feature("org.zfsonlinux:allocation_classes", true, false, false, false),
    feature("com.datto:resilver_defer", true, false, false, false),
    feature("org.openzfs:device_rebuild", true, false, false, false),
    feature("org.freebsd:zstd_compress", false, false, true, true),
    feature("org.openzfs:draid", false, true, false, true),
    feature("com.seagate:draid_failure_domains", false, true, false, true),
    feature("org.openzfs:zilsaxattr", true, false, true, false),
    feature("com.delphix:head_errlog", false, false, false, true),
    feature("org.openzfs:blake3", false, false, true, true),
    feature("com.fudosecurity:block_cloning", true, false, false, false),
    feature("com.truenas:block_cloning_endian", true, false, false, false),
    feature("com.klarasystems:vdev_zaps_v2", false, true, false, true),
    feature("com.delphix:redaction_list_spill", false, false, false, true),
    feature("org.openzfs:raidz_expansion", false, true, false, true),
    feature("com.klarasystems:fast_dedup", true, false, false, false),
    feature("org.zfsonlinux:longname", false, false, true, true),
    feature("com.klarasystems:large_microzap", true, false, true, false),
    feature("com.klarasystems:dynamic_gang_header", false, true, false, true),
    feature("com.truenas:physical_rewrite", true, false, true, false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_found_by_guid() {
        let lz4 = lookup("org.illumos:lz4_compress").unwrap();
        assert_eq!((lz4.short_name(), lz4.is_read_only_compatible, lz4.changes_reading), ("lz4_compress", false, true));
        let log = lookup("com.delphix:log_spacemap").unwrap();
        assert!(log.is_read_only_compatible && !log.changes_reading);
        assert!(lookup("org.openzfs:draid").unwrap().is_in_label);
        assert!(lookup("com.datto:encryption").unwrap().is_per_dataset);
        assert_eq!(lookup("org.example:none"), None);
        assert_eq!(origin("com.nexenta:class_of_storage"), Some("Nexenta, for illumos (NexentaStor)"));
        assert_eq!((origin("org.example:none"), origin("com.nexenta2:x")), (None, None));
        assert!(all().iter().all(|feature| origin(feature.guid).is_some()));
    }

    #[test]
    fn guids_are_unique() {
        let guids: std::collections::BTreeSet<_> = all().iter().map(|feature| feature.guid).collect();
        assert_eq!(guids.len(), all().len());
    }

    #[test]
    fn what_the_label_lists_is_needed_to_read() {
        assert!(all().iter().all(|feature| !(feature.is_in_label && feature.is_read_only_compatible)));
        assert!(all().iter().all(|feature| !(feature.changes_reading && feature.is_read_only_compatible)));
    }
}
