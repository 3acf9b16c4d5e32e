//! Keyed BLAKE3 as the checksum `blake3`, over the `blake3` crate: the key is the pool's salt.
//!
//! Source: OpenZFS module/zfs/blake3_zfs.c, `abd_checksum_blake3_native`.

use ::blake3::Hasher;
use std::sync::OnceLock;

/// The fastest form this CPU has, many chunks of 1 KiB side by side, if it agrees with the plain one.
pub(super) fn fast(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    static RIGHT: OnceLock<bool> = OnceLock::new();
    if *RIGHT.get_or_init(is_right) { side_by_side(key, message) } else { plain(key, message) }
}

fn side_by_side(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    *::blake3::keyed_hash(key, message).as_bytes()
}

/// Compares the two forms on fixed bytes, up to all vector widths.
fn is_right() -> bool {
    let key = [0x5a; 32];
    let bytes: Vec<u8> = (0..40_963_u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let mut parts = [40_963, 32_768, 16_384, 4096, 1025, 64, 0].into_iter().filter_map(|length| bytes.get(..length));
    parts.all(|part| side_by_side(&key, part) == plain(&key, part))
}

/// One block of 64 bytes after the other, so that no two chunks are computed side by side.
pub(super) fn plain(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let mut hasher = Hasher::new_keyed(key);
    for block in message.chunks(64) {
        hasher.update(block);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counting, hex};
    use super::*;

    #[test]
    fn both_forms_give_the_official_keyed_vectors() {
        // test_vectors.json of the BLAKE3 repository, around one chunk, and beyond all vector widths.
        let key = b"whats the Elvish word for friend";
        for (length, answer) in [
            (0, "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"),
            (1, "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b"),
            (1024, "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4"),
            (1025, "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69"),
            (2049, "9f29700902f7c86e514ddc4df1e3049f258b2472b6dd5267f61bf13983b78dd5"),
            (8192, "dc9637c8845a770b4cbf76b8daec0eebf7dc2eac11498517f08d44c8fc00d58a"),
            (31744, "efa53b389ab67c593dba624d898d0f7353ab99e4ac9d42302ee64cbf9939a419"),
            (102_400, "1c35d1a5811083fd7119f5d5d1ba027b4d01c0c6c49fb6ff2cf75393ea5db4a7"),
        ] {
            let bytes = counting(length);
            assert_eq!(hex(&fast(key, &bytes)), answer, "{length} bytes");
            assert_eq!(hex(&plain(key, &bytes)), answer, "{length} bytes");
        }
    }
}
