//! The salt of a pool, and what the salted checksums make of it before they see a block.
//!
//! Source: OpenZFS module/zfs/zio_checksum.c, `zio_checksum_template_init`.

use super::{edonr, skein};

/// Bytes of a salt (`zio_cksum_salt_t`).
pub const SALT_BYTES: usize = 32;

/// What `skein`, `edonr` and `blake3` start from: one for all blocks of a pool.
#[derive(Clone, Debug)]
pub struct Salt {
    pub(super) skein: skein::Template,
    pub(super) edonr: edonr::Template,
    /// The key of `blake3` is the salt itself.
    pub(super) blake3: [u8; SALT_BYTES],
}

impl Salt {
    /// From the 32 bytes that the pool keeps as `org.illumos:checksum_salt`.
    #[must_use]
    pub fn new(bytes: &[u8; SALT_BYTES]) -> Self {
        Self { skein: skein::Template::new(bytes, 256), edonr: edonr::Template::new(bytes), blake3: *bytes }
    }
}
