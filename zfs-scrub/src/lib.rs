//! zfs-scrub
