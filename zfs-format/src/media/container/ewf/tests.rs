use super::super::qemu::{check_bytes, content};
use super::*;
use crate::media::{Content, NoteKind, Opener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CHUNK: usize = 4096;

fn disk(path: &Path) -> Result<Arc<dyn ReadAt>, String> {
    Opener::default().open(path).map(|mut media| media.remove(0).bytes).map_err(|error| error.to_string())
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/containers/ewf/disk-33k.E01")
}

/// Numbers that look random (Marsaglia's xorshift).
fn noise(bytes: usize, mut seed: u64) -> Vec<u8> {
    let mut made = Vec::new();
    while made.len() < bytes {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        made.extend(seed.to_le_bytes());
    }
    made.truncate(bytes);
    made
}

/// What the disk of the fixture holds.
fn fixture_content() -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    bytes.extend((0..2048_u32).flat_map(u32::to_le_bytes));
    bytes.extend(noise(8192, 1));
    bytes.extend(b"zcheck ".repeat(1170));
    bytes.extend(b"ab");
    bytes.extend(noise(1536, 2));
    bytes
}

#[test]
fn the_fixture_reads_as_what_it_was_made_of() {
    let disk = disk(&fixture()).unwrap();
    check_bytes(&*disk, &fixture_content(), "fixture");
    let kinds: Vec<(Content, u64)> = [0, 8192, 16384 + 5, 24576, 32768]
        .map(|at| disk.extent_at(at))
        .map(|extent| (extent.content, extent.length_bytes))
        .to_vec();
    let (packed, data) = (Content::Packed, Content::Data);
    let expected = [(packed.clone(), 8192), (packed.clone(), 8192), (data.clone(), 8187), (packed, 8192), (data, 1536)];
    assert_eq!(kinds, expected);
    // Where the extent says, the file holds the bytes of the disk.
    let extent = disk.extent_at(16384);
    let at = extent.file_offset_bytes.unwrap() as usize;
    assert_eq!(std::fs::read(extent.file.unwrap()).unwrap()[at..at + 8192], fixture_content()[16384..24576]);
    assert!(disk.notes().is_empty(), "{:?}", disk.notes());
}

/// libewf wrote the images, in all the dialects it knows, and with several segments.
#[test]
fn images_of_ewfacquirestream_read_as_what_they_were_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("raw");
    std::fs::write(&raw, content()).unwrap();
    let dialects =
        ["ftk", "encase2", "encase3", "encase4", "encase5", "encase6", "encase7", "linen5", "linen6", "ewfx"];
    let with = |format: &'static str, compression: &'static str, sectors: &'static str| (format, compression, sectors);
    let mut kinds: Vec<_> = dialects.map(|format| with(format, "fast", "64")).to_vec();
    kinds.extend([
        with("encase6", "none", "64"),
        with("encase6", "empty-block", "16"),
        with("encase6", "best", "1024"),
    ]);
    for (index, (format, compression, sectors)) in kinds.into_iter().enumerate() {
        let name = format!("image{index}");
        let mut run = Command::new("ewfacquirestream");
        run.args(["-q", "-t", &name, "-f", format, "-c", compression, "-b", sectors, "-S", "1MiB", "-l", "log"]);
        run.current_dir(dir.path())
            .stdin(std::fs::File::open(&raw).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match run.status() {
            Ok(status) => assert!(status.success(), "{format} {compression}"),
            Err(_) => return eprintln!("SKIPPED: ewfacquirestream (ewf-tools) is not installed"),
        }
        let letter = if format == "ewfx" { 'e' } else { 'E' };
        assert!(dir.path().join(format!("{name}.{letter}02")).exists(), "{format}: one segment only");
        let disk = disk(&dir.path().join(format!("{name}.{letter}01"))).unwrap();
        check_bytes(&*disk, &content(), &format!("{format} {compression} {sectors}"));
        assert!(disk.notes().is_empty(), "{format} {compression}: {:?}", disk.notes());
    }
    // The first segment of one of them is cut in half: every chunk is right or an error.
    change(&dir, "image5.E01", |bytes| bytes.truncate(bytes.len() / 2));
    let disk = disk(&dir.path().join("image5.E01")).unwrap();
    let (mut right, mut lost) = (0, 0);
    for (index, expected) in content().chunks(32 << 10).enumerate() {
        let mut chunk = vec![0; expected.len()];
        match disk.read_at(&mut chunk, (index as u64) << 15) {
            Ok(()) => {
                assert!(chunk == expected, "chunk {index}");
                right += 1;
            }
            Err(error) => {
                assert!(matches!(error, MediaError::Damaged { .. }), "{error}");
                lost += 1;
            }
        }
    }
    assert!(right > 30 && lost > 30, "{right} {lost}");
}

fn section(bytes: &mut Vec<u8>, kind: &str, body: &[u8]) {
    let is_last = matches!(kind, "next" | "done");
    let next = bytes.len() + if is_last { 0 } else { 76 + body.len() };
    let mut head = kind.as_bytes().to_vec();
    head.resize(16, 0);
    head.extend((next as u64).to_le_bytes());
    head.extend((76 + body.len() as u64).to_le_bytes());
    head.resize(72, 0);
    head.extend(adler32(&head).to_le_bytes());
    bytes.extend(head);
    bytes.extend(body);
}

fn summed(mut body: Vec<u8>) -> Vec<u8> {
    body.extend(adler32(&body).to_le_bytes());
    body
}

/// A segment whose chunks are not compressed, each of one byte value, of an image with 12 chunks.
fn segment(number: u16, values: &[u8], is_last: bool) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.push(1);
    bytes.extend(number.to_le_bytes());
    bytes.extend([0, 0]);
    let mut volume = [1_u32, 12, 8, 512, 96, 0].map(u32::to_le_bytes).concat();
    volume.resize(1048, 0);
    section(&mut bytes, if number == 1 { "volume" } else { "data" }, &summed(volume));
    let base = bytes.len() as u64;
    let chunks: Vec<u8> = values.iter().flat_map(|&value| summed(vec![value; CHUNK])).collect();
    section(&mut bytes, "sectors", &chunks);
    let mut table = [values.len() as u32, 0].map(u32::to_le_bytes).concat();
    table.extend(base.to_le_bytes());
    table.extend([0; 4]);
    let mut table = summed(table);
    table.extend(summed((0..values.len()).flat_map(|index| (76 + 4100 * index as u32).to_le_bytes()).collect()));
    section(&mut bytes, "table", &table);
    section(&mut bytes, "table2", &table);
    section(&mut bytes, if is_last { "done" } else { "next" }, &[]);
    bytes
}

/// An image of three segments with chunks 1 to 12.
fn image() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    for (index, values) in [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]].iter().enumerate() {
        let bytes = segment(index as u16 + 1, values, index == 2);
        std::fs::write(dir.path().join(format!("a.E0{}", index + 1)), bytes).unwrap();
    }
    let path = dir.path().join("a.E01");
    (dir, path)
}

/// First byte of each chunk, 0 for those that cannot be had.
fn chunks(disk: &dyn ReadAt) -> Vec<u8> {
    let mut chunk = [0; CHUNK];
    let mut read = |index: u64| match disk.read_at(&mut chunk, index * CHUNK as u64) {
        Ok(()) => chunk[0],
        Err(MediaError::Damaged { offset, length, .. }) => {
            assert!(offset == index * CHUNK as u64 && length >= CHUNK as u64, "{offset} {length}");
            0
        }
        Err(error) => panic!("{error}"),
    };
    (0..12).map(&mut read).collect()
}

fn change(dir: &tempfile::TempDir, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = dir.path().join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
}

/// Where the content of the section of this kind begins.
fn start_of(bytes: &[u8], kind: &str) -> usize {
    bytes.windows(kind.len() + 1).position(|window| window == format!("{kind}\0").as_bytes()).unwrap() + 76
}

#[test]
fn segments_in_the_middle_cost_their_own_chunks_only() {
    let (dir, path) = image();
    assert_eq!(chunks(&*disk(&path).unwrap()), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    // Numbered on without the gap, chunks of the third segment would be given for those of the second.
    change(&dir, "a.E02", |bytes| bytes.truncate(4000));
    let found = disk(&path).unwrap();
    assert_eq!(chunks(&*found), [1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 11, 12]);
    assert!(found.notes().iter().any(|note| note.kind == NoteKind::ImageTruncated && note.file.ends_with("a.E02")));
    std::fs::remove_file(dir.path().join("a.E02")).unwrap();
    let found = disk(&path).unwrap();
    assert_eq!(chunks(&*found), [1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 11, 12]);
    let messages: Vec<String> = found.notes().into_iter().map(|note| note.message).collect();
    assert_eq!(messages, ["4 of 12 chunks are in no table that can be used; segment 2 is missing or unusable"]);
    assert_eq!(found.extent_at(5 * CHUNK as u64).length_bytes, 3 * CHUNK as u64);
    std::fs::remove_file(dir.path().join("a.E03")).unwrap();
    assert_eq!(chunks(&*disk(&path).unwrap()), [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_damaged_table_has_a_copy() {
    let (dir, path) = image();
    // An entry, then the head of the table.
    for at in [24 + 4, 3] {
        change(&dir, "a.E02", |bytes| {
            let start = start_of(bytes, "table");
            bytes[start + at] ^= 4;
        });
        let found = disk(&path).unwrap();
        assert_eq!(chunks(&*found), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], "{at}");
        assert!(found.notes().iter().all(|note| note.kind == NoteKind::ImageDamaged), "{:?}", found.notes());
        assert_eq!(found.notes().len(), 1);
    }
}

#[test]
fn entries_of_two_damaged_tables_are_used_where_they_fit() {
    let (dir, path) = image();
    for kind in ["table", "table2"] {
        change(&dir, "a.E02", |bytes| {
            let start = start_of(bytes, kind);
            bytes[start + 24 + 4] ^= 4;
        });
    }
    // The second entry is wrong: that is the end of the first one, too.
    assert_eq!(chunks(&*disk(&path).unwrap()), [1, 2, 3, 4, 0, 0, 7, 8, 9, 10, 11, 12]);
}

#[test]
fn the_size_of_the_disk_is_in_other_segments_too() {
    let (dir, path) = image();
    change(&dir, "a.E01", |bytes| {
        let start = start_of(bytes, "volume");
        bytes[start + 8] ^= 1;
    });
    let found = disk(&path).unwrap();
    assert_eq!(chunks(&*found), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(found.notes().len(), 1);
}

#[test]
fn what_is_no_disk_or_no_beginning_is_refused_by_name() {
    let (dir, path) = image();
    let error = disk(&dir.path().join("a.E02")).unwrap_err();
    assert!(error.contains("segment 2 of an E01 image: give the first one"), "{error}");
    for (signature, what) in OTHERS {
        change(&dir, "a.E01", |bytes| bytes[..8].copy_from_slice(signature));
        let error = disk(&path).unwrap_err();
        assert!(error.ends_with(what), "{error}");
    }
}

/// The section was put into a copy of the fixture by hand in the same way, and `ewfinfo` told the same sectors.
#[test]
fn what_could_not_be_read_for_the_image_is_an_error() {
    let mut bytes = std::fs::read(fixture()).unwrap();
    let done = bytes.windows(5).rposition(|window| window == b"done\0").unwrap();
    bytes.truncate(done);
    let mut header = 2_u32.to_le_bytes().to_vec();
    header.resize(516, 0);
    let mut body = summed(header);
    body.extend(summed([20_u32, 3, 66, 1].map(u32::to_le_bytes).concat()));
    section(&mut bytes, "error2", &body);
    section(&mut bytes, "done", &[]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.E01");
    std::fs::write(&path, bytes).unwrap();
    let found = disk(&path).unwrap();
    let mut sector = [0; 512];
    let lost: Vec<u64> = (0..67).filter(|sector_at| found.read_at(&mut sector, sector_at * 512).is_err()).collect();
    assert_eq!(lost, [20, 21, 22, 66]);
    found.read_at(&mut sector, 23 * 512).unwrap();
    assert_eq!(sector[..], fixture_content()[23 * 512..24 * 512]);
    // Sectors 16 to 31 are one compressed chunk.
    let extents = [16, 20, 23].map(|sector| found.extent_at(sector * 512)).map(|extent| extent.length_bytes / 512);
    assert_eq!(extents, [4, 3, 9]);
    assert!(found.notes().is_empty(), "{:?}", found.notes());
}

#[test]
fn segments_are_named_as_by_encase() {
    let names = |first: &str, numbers: &[u16]| -> Vec<String> {
        numbers.iter().filter_map(|&number| segments::name(Path::new(first), number)).collect()
    };
    let expected = ["d.E02", "d.E99", "d.EAA", "d.EAZ", "d.EBA", "d.EZZ", "d.FAA", "d.ZZZ"];
    assert_eq!(names("dir/d.E01", &[2, 99, 100, 125, 126, 775, 776, 14_971, 14_972]), expected);
    assert_eq!(names("d.e01", &[3, 100]), ["d.e03", "d.eaa"]);
    assert_eq!(names("d.img", &[2]), Vec::<String>::new());
}

/// Damage anywhere gives errors or other bytes, never a panic, and never a long search.
#[test]
fn damaged_images_end_in_errors() {
    let whole = std::fs::read(fixture()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.E01");
    let mut random =
        noise(8 * 3000, 7).chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect::<Vec<_>>();
    for case in 0..500 {
        let mut bytes = whole.clone();
        let mut next = |bound: usize| (random.pop().unwrap_or(1) % bound as u64) as usize;
        if case % 4 == 0 {
            bytes.truncate(next(whole.len()));
        } else {
            for _ in 0..next(4) + 1 {
                let at = if case % 4 == 1 { whole.len() - 1 - next(2000) } else { next(whole.len()) };
                bytes[at] ^= 1 << next(8);
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let Ok(disk) = disk(&path) else { continue };
        let mut chunk = vec![0; 8192];
        let mut at = 0;
        while at < disk.size_bytes().min(1 << 20) {
            let length = (disk.size_bytes() - at).min(8192) as usize;
            let _ = disk.read_at(&mut chunk[..length], at);
            assert!(disk.extent_at(at).length_bytes > 0);
            at += length as u64;
        }
    }
}
