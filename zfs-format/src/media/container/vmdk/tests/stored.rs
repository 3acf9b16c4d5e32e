//! Images that qemu-img made, kept in the repository: they are read where no qemu-img is.

use super::{Folder, kinds};
use std::io::Read;
use std::path::Path;

const SECTORS: usize = 2048;

/// The disk that all of them hold: five grains of sixteen, in each sector a number of its own.
fn expected(has_child: bool) -> Vec<u8> {
    let sector = |number: usize| match number / 128 {
        1 | 2 if has_child => 0x5a,
        0 | 3 | 7 | 8 | 15 => (number % 255 + 1) as u8,
        _ => 0,
    };
    (0..SECTORS).flat_map(|number| [sector(number); 512]).collect()
}

#[test]
fn every_stored_image_holds_its_disk() {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/containers/vmdk");
    let folder = Folder::new();
    let entries = std::fs::read_dir(stored).unwrap();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "zst") {
            continue;
        }
        let packed = std::fs::File::open(&path).unwrap();
        let mut bytes = Vec::new();
        structured_zstd::decoding::StreamingDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        folder.write(path.file_stem().unwrap().to_str().unwrap(), bytes);
    }
    for (name, has_child) in [("stream", false), ("split", false), ("flat", false), ("child", true)] {
        let disk = folder.open(&format!("{name}.vmdk"));
        let mut read = vec![0xee; SECTORS * 512];
        disk.read_at(&mut read, 0).unwrap();
        assert!(read == expected(has_child), "{name}");
        assert_eq!(kinds(&*disk), [], "{name}");
    }
    let old = folder.open("sparse.vmdk");
    let mut read = vec![0xee; SECTORS * 512];
    old.read_at(&mut read, 0).unwrap();
    assert!(read == expected(false));
    assert_eq!(kinds(&*old), [super::NoteKind::NewerImage]);
}
