//! The backing file: the disk below, of which an image stores only what changed.

use super::super::{open as open_image, open_or_raw};
use super::{Chain, Header, ImageFile, MediaError, NoteKind, Notes, ReadAt, unusable};
use std::sync::Arc;

/// Opens the backing file `name` of the image `file`.
///
/// A raw one is never looked at: what a guest wrote to the start of its disk must not be taken for an image. Only where
/// the image does not name the format, its content has to tell, as with QEMU.
pub(super) fn open(
    file: &ImageFile,
    name: &str,
    header: &Header,
    chain: &Chain<'_>,
    notes: &Notes,
) -> Result<Arc<dyn ReadAt>, MediaError> {
    let (parent, chain) = chain.open_parent(&file.path, local(file, name, "backing file")?)?;
    match header.extensions.backing_format.as_deref() {
        Some("raw" | "file" | "host_device") => Ok(parent.bytes),
        Some(format) => open_image(&parent, &chain)?.ok_or_else(|| {
            unusable(&file.path, format!("its backing file {name} should be of the format {format}, and is not"))
        }),
        None => {
            let message = format!("it does not say of which format its backing file {name} is; the content told");
            notes.add(NoteKind::FormatGuessed, &file.path, message);
            open_or_raw(&parent, &chain)
        }
    }
}

/// The name of a file, out of a name that QEMU would understand; others are refused.
pub(super) fn local<'a>(file: &ImageFile, name: &'a str, what: &str) -> Result<&'a str, MediaError> {
    let name = name.strip_prefix("file:").filter(|rest| !rest.starts_with("//")).unwrap_or(name);
    let protocol = name.split_once(':').map(|(protocol, _)| protocol);
    // One letter is a drive of Windows.
    let is_protocol = |word: &str| word.len() > 1 && word != "file" && !word.contains(['/', '\\']);
    match protocol.filter(|word| is_protocol(word)) {
        None => Ok(name),
        Some("json") => Err(unusable(
            &file.path,
            format!(
                "its {what} is described in JSON ({name}): give a copy a plain name (qemu-img rebase -u -b FILE -F FORMAT)"
            ),
        )),
        Some(protocol) => Err(unusable(
            &file.path,
            format!(
                "its {what} is {name}: only files are read, not {protocol}; copy it beside the image, and \
                     name it there (qemu-img rebase -u -b FILE -F FORMAT)"
            ),
        )),
    }
}
