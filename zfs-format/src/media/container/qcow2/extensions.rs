//! What follows the header: typed pieces, of which most only matter to programs that write.

use super::be_u32;
use crate::media::ReadAt;

const END: u32 = 0;
const BACKING_FORMAT: u32 = 0xe279_2aca;
const DATA_FILE: u32 = 0x4441_5441;
const FEATURE_NAMES: u32 = 0x6803_f857;

/// Longer ones are passed over; names of files have at most 1023 bytes, and there are 3 * 64 names of features.
const BYTES_MAX: u64 = 16 << 10;
/// There are six types; more pieces than this are no list.
const PIECES_MAX: usize = 64;
/// Type, bit and name of a feature.
const FEATURE_BYTES: usize = 48;

/// The extensions that matter here.
#[derive(Clone, Debug, Default)]
pub(super) struct Extensions {
    /// Format of the backing file, such as `raw`.
    pub(super) backing_format: Option<String>,
    /// Name of the file that holds the data, where that is another one.
    pub(super) data_file: Option<String>,
    feature_names: Vec<u8>,
}

impl Extensions {
    /// Reads the pieces between `start` and `end` of the image. What cannot be read is as if it were not there.
    pub(super) fn read(file: &dyn ReadAt, start: u64, end: u64) -> Self {
        let mut found = Self::default();
        let mut at = start;
        for _ in 0..PIECES_MAX {
            let mut head = [0; 8];
            if at.saturating_add(8) > end || file.read_at(&mut head, at).is_err() {
                break;
            }
            let (kind, length) = (be_u32(&head, 0), u64::from(be_u32(&head, 4)));
            at = at.saturating_add(8);
            if kind == END || at.saturating_add(length) > end {
                break;
            }
            if matches!(kind, BACKING_FORMAT | DATA_FILE | FEATURE_NAMES) && length <= BYTES_MAX {
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                if file.read_at(&mut bytes, at).is_err() {
                    break;
                }
                match kind {
                    BACKING_FORMAT => found.backing_format = String::from_utf8(bytes).ok(),
                    DATA_FILE => found.data_file = String::from_utf8(bytes).ok(),
                    _ => found.feature_names = bytes,
                }
            }
            at = at.saturating_add(length.next_multiple_of(8));
        }
        found
    }

    /// What the image calls the incompatible feature `bit`.
    pub(super) fn incompatible_name(&self, bit: u32) -> Option<String> {
        let is_it = |entry: &&[u8]| entry.first() == Some(&0) && entry.get(1).is_some_and(|&at| u32::from(at) == bit);
        let entry = self.feature_names.chunks_exact(FEATURE_BYTES).find(is_it)?;
        let name = entry.get(2..)?.split(|&byte| byte == 0).next()?;
        let name = String::from_utf8_lossy(name).replace(char::is_control, "?");
        (!name.is_empty()).then_some(name)
    }
}
