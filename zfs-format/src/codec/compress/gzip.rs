//! gzip-1 to gzip-9: a zlib stream (two header bytes, deflate with a 32 KiB window, Adler-32).
//!
//! Source: OpenZFS module/zfs/gzip.c, `zfs_gzip_decompress_buf`; RFC 1950, RFC 1951.

use super::check_length;
use crate::FormatError;
use flate2::{Decompress, FlushDecompress, Status};

/// The inflate state, made when the first gzip block comes and reset for each.
#[derive(Default)]
pub(super) struct Inflater(Option<Decompress>);

impl Inflater {
    /// Decodes one stream; it must end, with a correct Adler-32, exactly when `dst` is full.
    pub(super) fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), FormatError> {
        let state = self.0.get_or_insert_with(|| Decompress::new(true));
        state.reset(true);
        let status = state.decompress(src, dst, FlushDecompress::Finish);
        let (consumed, produced) = (state.total_in(), usize::try_from(state.total_out()).unwrap_or(usize::MAX));
        match status {
            Ok(Status::StreamEnd) => check_length("gzip", produced, dst),
            Ok(Status::Ok | Status::BufError) => {
                Err(FormatError::bad_field("gzip", "stream end", consumed, "the end of the stream within both sizes"))
            }
            Err(_) => {
                Err(FormatError::bad_field("gzip", "stream", consumed, "a valid zlib stream with a correct Adler-32"))
            }
        }
    }
}
