//! What a top-level vdev is for.

/// The allocation class of a top-level vdev. It steers where ZFS allocates; block pointers say nothing of it, and any
/// block may lie in any class where its own was full.
///
/// Which part of a normal vdev is set aside for intent logs (the embedded log) is not recorded at all: ZFS chooses a
/// metaslab when it imports the pool.
///
/// Source: OpenZFS include/sys/vdev_impl.h, `vdev_alloc_bias_t`; module/zfs/vdev.c, `vdev_alloc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationClass {
    /// Everything that has no class of its own.
    #[default]
    Normal,
    /// Dedup tables.
    Dedup,
    /// Metadata and small blocks.
    Special,
    /// Intent logs.
    Log,
}

impl AllocationClass {
    /// The class with this name in the ZAP of a top-level vdev (`org.zfsonlinux:allocation_bias`).
    #[must_use]
    pub fn from_bias(name: &[u8]) -> Option<Self> {
        match name.strip_suffix(b"\0").unwrap_or(name) {
            b"log" => Some(Self::Log),
            b"special" => Some(Self::Special),
            b"dedup" => Some(Self::Dedup),
            _ => None,
        }
    }

    /// The word of `zpool status -j`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Dedup => "dedup",
            Self::Special => "special",
            Self::Log => "log",
        }
    }
}
