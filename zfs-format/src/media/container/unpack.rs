//! Compressed clusters of disk images.

use flate2::{Decompress, FlushDecompress, Status};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use structured_zstd::decoding::{FrameDecoder, StreamingDecoder};

/// Clusters have at most 2 MiB.
const WINDOW_BYTES_MAX: u64 = 8 << 20;

/// How a cluster is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// Deflate with a zlib header (VMDK streamOptimized).
    Zlib,
    /// Deflate alone (qcow2).
    Deflate,
    /// A zstd frame (qcow2).
    Zstd,
}

/// Unpacks `packed`, which may have bytes behind its end, into the whole of `cluster`.
///
/// # Errors
/// What is wrong, in a few words: it is damaged, or gives fewer bytes than a cluster has.
pub(super) fn unpack(codec: Codec, packed: &[u8], cluster: &mut [u8]) -> Result<(), &'static str> {
    match codec {
        Codec::Zlib => inflate(Decompress::new(true), packed, cluster),
        Codec::Deflate => inflate(Decompress::new(false), packed, cluster),
        Codec::Zstd => unpack_zstd(packed, cluster),
    }
}

fn inflate(mut stream: Decompress, packed: &[u8], cluster: &mut [u8]) -> Result<(), &'static str> {
    let status = stream.decompress(packed, cluster, FlushDecompress::Finish);
    let is_full = stream.total_out() == cluster.len() as u64;
    match status {
        Ok(Status::StreamEnd) if is_full => Ok(()),
        // The cluster is full; what is left of the stream is its end mark at most, or it is longer than a cluster.
        Ok(Status::Ok | Status::BufError) if is_full => Ok(()),
        Ok(_) => Err("it ends too early"),
        Err(_) => Err("it is no deflate stream"),
    }
}

fn unpack_zstd(packed: &[u8], cluster: &mut [u8]) -> Result<(), &'static str> {
    let decode = || {
        let mut decoder = FrameDecoder::new();
        // Within the limits of the crate (1 KiB to 2 GiB), so this does not fail.
        let _ = decoder.set_max_window_size(WINDOW_BYTES_MAX);
        // What follows the frame is padding, so the frame is read as a stream, up to the cluster's end.
        let mut stream = StreamingDecoder::new_with_decoder(packed, decoder);
        stream.read_exact(cluster).map_err(|_| "it is damaged or ends too early")
    };
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or(Err("the decoder gave up"))
}
