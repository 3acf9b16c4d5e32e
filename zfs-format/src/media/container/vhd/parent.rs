//! The parent of a differencing image: it has several names, and a UUID.

use super::header::{Header, Locator, utf16};
use super::{Chain, ImageFile, Path, footer, unusable};
use crate::media::container::open_or_raw;
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use std::sync::Arc;

/// Names are paths; none is longer.
const NAME_BYTES_MAX: u64 = 64 << 10;
/// What images of snapshots are called.
const EXTENSIONS: [&str; 2] = ["vhd", "avhd"];

/// Opens the parent of `file`: the image of one of its names that has the right UUID, else one beside it that has, else
/// the first one that has one of the names.
pub(super) fn open(
    file: &ImageFile,
    header: &Header,
    chain: &Chain<'_>,
    notes: &Notes,
) -> Result<Arc<dyn ReadAt>, MediaError> {
    let (mut other, mut failure) = (None, None);
    for name in names(file, header) {
        match chain.open_parent(&file.path, &name) {
            Ok((parent, chain)) if is_wanted(&parent, header) => return open_or_raw(&parent, &chain),
            Ok(found) => {
                other.get_or_insert(found);
            }
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
    }
    let siblings = EXTENSIONS.iter().flat_map(|extension| chain.siblings(&file.path, extension));
    for sibling in siblings.filter(|sibling| is_wanted(sibling, header)) {
        if let Ok((parent, chain)) = chain.open_parent(&file.path, &file_name(&sibling.path)) {
            return open_or_raw(&parent, &chain);
        }
    }
    let Some((parent, chain)) = other else {
        return Err(failure.unwrap_or_else(|| unusable(&file.path, "it is a differencing image without a parent")));
    };
    let message = format!("its parent {} has another UUID than the one it was made for", parent.path.display());
    notes.add(NoteKind::ChainMismatch, &file.path, message);
    open_or_raw(&parent, &chain)
}

fn is_wanted(parent: &ImageFile, header: &Header) -> bool {
    let found = footer::at_end(&*parent.bytes).or_else(|| footer::at_front(&*parent.bytes));
    found.is_some_and(|footer| footer.uuid == header.parent_uuid)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What the image calls its parent, the name relative to itself first.
fn names(file: &ImageFile, header: &Header) -> Vec<String> {
    let of = |platform: &'static [u8; 4]| {
        let locators = header.locators.iter().filter(move |locator| locator.platform == *platform);
        locators.filter_map(|locator| text(file, locator))
    };
    let mut names: Vec<String> = [b"W2ru", b"W2ku", b"MacX", b"Wi2r", b"Wi2k"].into_iter().flat_map(of).collect();
    names.push(header.parent_name.clone());
    names.retain(|name| !name.is_empty());
    names
}

fn text(file: &ImageFile, locator: &Locator) -> Option<String> {
    let mut bytes = vec![0; usize::try_from(locator.length.min(NAME_BYTES_MAX)).ok()?];
    file.bytes.read_at(&mut bytes, locator.start).ok()?;
    let unit = |pair: &[u8]| pair.first_chunk().map_or(0, |pair| u16::from_le_bytes(*pair));
    Some(match &locator.platform {
        b"W2ru" | b"W2ku" => utf16(bytes.chunks_exact(2).map(unit)),
        b"MacX" => unescape(&bytes),
        _ => String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned(),
    })
}

/// The text of a URL: `%20` is a blank.
fn unescape(bytes: &[u8]) -> String {
    let mut plain = Vec::new();
    let mut rest = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let hex = after.get(..2).filter(|_| byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(escaped) => {
                plain.push(escaped);
                rest = after.get(2..).unwrap_or_default();
            }
            None => plain.push(byte),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_urls_become_bytes() {
        assert_eq!(unescape(b"file:///my%20vm/a%C3%A9%zz%2.vhd\0x"), "file:///my vm/aé%zz%2.vhd");
    }
}
