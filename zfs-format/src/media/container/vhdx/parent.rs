//! The parent of a differencing image: its names, and the GUID of the data that it had.
//!
//! A locator begins with the GUID of its kind, followed by the number of pairs (2 bytes at 18). Pairs, from 20 on, have 12
//! bytes: place of key and value in the locator (4 each), their lengths (2 each). Both are UTF-16.

use super::{Chain, Guid, ImageFile, Path, le_u16, le_u32, unusable};
use crate::media::container::open_or_raw;
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use std::sync::Arc;

const KIND: Guid = Guid::new(0xB04A_EFB7, 0xD19E, 0x4A81, 0xB789_25B8_E944_5913);
const PAIR_BYTES: usize = 12;
/// The names, the one relative to the image first.
const NAMES: [&str; 3] = ["relative_path", "absolute_win32_path", "volume_path"];
/// What images of snapshots are called.
const EXTENSIONS: [&str; 2] = ["vhdx", "avhdx"];

/// Opens the parent that `locator` of `file` names: one that has the data of then, by name or else among the images beside
/// it, or else the first one that has one of the names.
pub(super) fn open(
    file: &ImageFile,
    locator: &[u8],
    chain: &Chain<'_>,
    notes: &Notes,
) -> Result<Arc<dyn ReadAt>, MediaError> {
    if Guid::at(locator, 0) != KIND {
        return Err(unusable(&file.path, "it names its parent in an unknown way"));
    }
    let pairs = pairs(locator);
    let values = |key: &'static str| pairs.iter().filter(move |(found, _)| found == key).map(|(_, value)| value);
    let linkages: Vec<Guid> = ["parent_linkage", "parent_linkage2"]
        .into_iter()
        .flat_map(values)
        .filter_map(|text| Guid::parse(text))
        .collect();
    let is_wanted =
        |parent: &ImageFile| super::Header::data_guid_of(parent).is_some_and(|guid| linkages.contains(&guid));
    let (mut other, mut failure) = (None, None);
    for name in NAMES.into_iter().flat_map(values) {
        match chain.open_parent(&file.path, name) {
            Ok((parent, chain)) if is_wanted(&parent) => return open_or_raw(&parent, &chain),
            Ok(found) => {
                other.get_or_insert(found);
            }
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    let siblings = EXTENSIONS.iter().flat_map(|extension| chain.siblings(&file.path, extension));
    for sibling in siblings.filter(is_wanted) {
        if let Ok((parent, chain)) = chain.open_parent(&file.path, &file_name(&sibling.path)) {
            return open_or_raw(&parent, &chain);
        }
    }
    let Some((parent, chain)) = other else {
        return Err(failure.unwrap_or_else(|| unusable(&file.path, "it is a differencing image without a parent")));
    };
    let message = format!("its parent {} was written to after it was made, or is another image", parent.path.display());
    notes.add(NoteKind::ChainMismatch, &file.path, message);
    open_or_raw(&parent, &chain)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn pairs(locator: &[u8]) -> Vec<(String, String)> {
    let text = |start: u32, length: u16| {
        let start = usize::try_from(start).ok()?;
        let bytes = locator.get(start..start.checked_add(length.into())?)?;
        let units = bytes.chunks_exact(2).map(|pair| le_u16(pair, 0));
        Some(char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect::<String>())
    };
    let pair = |pair: &[u8]| Some((text(le_u32(pair, 0), le_u16(pair, 8))?, text(le_u32(pair, 4), le_u16(pair, 10))?));
    let stored = locator.get(20..).unwrap_or_default().chunks_exact(PAIR_BYTES).take(le_u16(locator, 18).into());
    stored.filter_map(pair).collect()
}
