use super::*;
use crate::media::{MediaError, check_range};
use std::io::Write;
use std::process::{Command, Stdio};

#[derive(Debug)]
struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size_bytes())?;
        buffer.copy_from_slice(&self.0[offset as usize..offset as usize + buffer.len()]);
        Ok(())
    }
}

const MIB: u64 = 1 << 20;

/// Number, start and size in bytes, kind of table.
fn places(found: &Partitions) -> Vec<(u32, u64, u64, Table)> {
    found.list.iter().map(|p| (p.number, p.start_bytes, p.size_bytes, p.table)).collect()
}

fn read(bytes: &[u8]) -> Partitions {
    Partitions::read(&Bytes(bytes.to_vec()))
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

/// A disk that a program partitioned; `None`, said on stderr, where the program is not there.
fn partitioned(program: &str, args: &[&str], input: &str, size: u64) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(size).unwrap();
    let disk_name = disk.to_str().unwrap();
    let args: Vec<&str> = args.iter().map(|arg| if *arg == "DISK" { disk_name } else { arg }).collect();
    let dirs = ["", "/sbin/", "/usr/sbin/"];
    let spawn = |dir: &&str| {
        let mut command = Command::new(format!("{dir}{program}"));
        command.args(&args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    };
    let Some(mut child) = dirs.iter().find_map(spawn) else {
        let _ = writeln!(std::io::stderr(), "skipped: {program} is not there");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{program}");
    Some(std::fs::read(&disk).unwrap())
}

const GPT_SCRIPT: &str = "label: gpt
first-lba: 34
start=2048, size=20480, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=\"EFI System\"
start=24576, size=40960, type=6A898CC3-1DD2-11B2-99A6-080020736631, name=\"zfs-0123\"
";

/// The first 20 KiB and the last 17 KiB of a disk of 64 MiB that sfdisk 2.38.1 partitioned by `GPT_SCRIPT`.
fn gpt_disk() -> Vec<u8> {
    let (front, back) = include_bytes!("../../../../fixtures/containers/gpt-64m.bin").split_at(20 << 10);
    let mut disk = vec![0; 64 << 20];
    put(&mut disk, 0, front);
    let end = disk.len();
    put(&mut disk, end - back.len(), back);
    disk
}

fn assert_gpt(found: &Partitions) {
    let wanted = [(1, MIB, 10 * MIB, Table::Gpt), (2, 12 * MIB, 20 * MIB, Table::Gpt)];
    assert_eq!(places(found), wanted);
    assert_eq!((found.list[0].name.as_str(), found.list[0].kind.as_str()), ("EFI System", "EFI system"));
    assert_eq!((found.list[1].name.as_str(), found.list[1].kind.as_str()), ("zfs-0123", "ZFS (Solaris /usr)"));
}

fn assert_notes(found: &Partitions, parts: &[&str]) {
    assert_eq!(found.notes.len(), parts.len(), "{:?}", found.notes);
    for (note, part) in found.notes.iter().zip(parts) {
        assert!(note.contains(part), "{note}");
    }
}

#[test]
fn a_gpt_is_read_from_either_copy() {
    let whole = gpt_disk();
    assert_gpt(&read(&whole));
    assert_notes(&read(&whole), &[]);

    let mut front_lost = whole.clone();
    front_lost[512..17 << 10].fill(0);
    assert_gpt(&read(&front_lost));
    assert_notes(&read(&front_lost), &["the primary GPT is lost; its backup (at byte 67108352) is used"]);

    let mut back_lost = whole.clone();
    back_lost[(64 << 20) - (33 << 9)..].fill(0);
    assert_gpt(&read(&back_lost));
    assert_notes(&read(&back_lost), &["no backup GPT where it should be (at byte 67108352)"]);

    let mut grown = whole.clone();
    grown.resize(80 << 20, 0);
    assert_gpt(&read(&grown));
    assert_notes(&read(&grown), &["not at the end of the disk (83886080 bytes): the disk has grown since"]);

    // The protective MBR knows how large the disk was.
    let mut grown_and_lost = front_lost.clone();
    grown_and_lost.resize(80 << 20, 0);
    assert_gpt(&read(&grown_and_lost));

    let cut = &whole[..30 << 20];
    assert_gpt(&read(cut));
    assert_notes(
        &read(cut),
        &["beyond the end of the disk: it was cut short", "partition 2 ends 2097152 bytes beyond the end"],
    );

    // Something behind the last sector, and an MBR that does not tell where that was.
    let mut tail = front_lost.clone();
    put(&mut tail, 446 + 12, &[0xff; 4]);
    tail.extend([7; 3000]);
    assert_gpt(&read(&tail));
}

#[test]
fn a_gpt_whose_checksums_do_not_hold_is_used_when_there_is_no_better_one() {
    let whole = gpt_disk();
    let mut list = whole.clone();
    // The attributes of the second entry.
    list[1024 + 128 + 48] ^= 4;
    assert_gpt(&read(&list));
    assert_notes(
        &read(&list),
        &["the primary GPT (at byte 512): the checksum of its list of partitions does not hold"],
    );
    let cut = &list[..40 << 20];
    assert_gpt(&read(cut));
    assert_notes(&read(cut), &["it is used as it is", "beyond the end of the disk"]);
    let mut header = whole.clone();
    header[512 + 40] ^= 1;
    assert_gpt(&read(&header));
    assert_notes(&read(&header), &["the checksum of its header does not hold"]);
    // A number of entries that no one can read.
    let mut huge = whole;
    put(&mut huge, 512 + 80, &u32::MAX.to_le_bytes());
    assert_gpt(&read(&huge));
}

#[test]
fn another_table_at_the_end_is_told() {
    let mut disk = gpt_disk();
    let at = disk.len() - 512;
    disk[at + 56] ^= 1;
    let mut header = disk[at..at + 92].to_vec();
    header[16..20].fill(0);
    let mut crc = flate2::Crc::new();
    crc.update(&header);
    put(&mut disk, at + 16, &crc.sum().to_le_bytes());
    assert_gpt(&read(&disk));
    assert_notes(&read(&disk), &["differs from the primary one, and is that of another disk"]);
}

#[test]
fn tables_of_sfdisk_sgdisk_and_parted_are_read() {
    let wanted = [(1, MIB, 10 * MIB, Table::Gpt), (2, 12 * MIB, 20 * MIB, Table::Gpt)];
    if let Some(disk) = partitioned("sfdisk", &["-q", "DISK"], GPT_SCRIPT, 64 * MIB) {
        assert_gpt(&read(&disk));
        assert_notes(&read(&disk), &[]);
    }
    let args = ["-n", "1:2048:+10M", "-n", "2:24576:+20M", "-t", "2:bf01", "DISK"];
    if let Some(disk) = partitioned("sgdisk", &args, "", 64 * MIB) {
        assert_eq!(places(&read(&disk)), wanted);
        assert_eq!(read(&disk).list[1].kind, "ZFS (Solaris /usr)");
    }
    let args = ["-s", "DISK", "mklabel", "gpt", "mkpart", "a", "1MiB", "11MiB", "mkpart", "b", "12MiB", "32MiB"];
    if let Some(disk) = partitioned("parted", &args, "", 64 * MIB) {
        assert_eq!(places(&read(&disk)), wanted);
    }
}

/// The golden disk with sectors of 4096 bytes: every sector number is an eighth.
fn with_large_sectors() -> Vec<u8> {
    let small = gpt_disk();
    let mut disk = vec![0; 64 << 20];
    put(&mut disk, 0, &small[..512]);
    put(&mut disk, 446 + 12, &(64_u32 * 256 - 1).to_le_bytes());
    let mut list = small[1024..17 << 10].to_vec();
    for entry in list.chunks_exact_mut(128).take(2) {
        let (first, last) = (le64(entry, 32) / 8, (le64(entry, 40) + 1) / 8 - 1);
        put(entry, 32, &first.to_le_bytes());
        put(entry, 40, &last.to_le_bytes());
    }
    let crc = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let last = 64_u64 * 256 - 1;
    for (own, other, list_at) in [(1, last, 2), (last, 1, last - 4)] {
        let mut header = small[512..512 + 92].to_vec();
        put(&mut header, 16, &[0; 4]);
        put(&mut header, 24, &own.to_le_bytes());
        put(&mut header, 32, &other.to_le_bytes());
        put(&mut header, 72, &list_at.to_le_bytes());
        put(&mut header, 88, &crc(&list));
        let sum = crc(&header);
        put(&mut header, 16, &sum);
        put(&mut disk, own as usize * 4096, &header);
        put(&mut disk, list_at as usize * 4096, &list);
    }
    disk
}

#[test]
fn a_gpt_of_a_disk_with_large_sectors_is_read_from_either_copy() {
    let mut disk = with_large_sectors();
    assert_gpt(&read(&disk));
    assert_notes(&read(&disk), &[]);
    disk[4096..32 << 10].fill(0);
    assert_gpt(&read(&disk));
    disk.resize(70 << 20, 0);
    assert_gpt(&read(&disk));
}

#[test]
fn an_mbr_with_an_extended_partition_is_read_as_linux_numbers_it() {
    let script = "label: dos
start=2048, size=4096, type=83
start=8192, size=40960, type=5
start=51200, size=4096, type=bf
start=10240, size=4096, type=83
start=16384, size=8192, type=bf
start=28672, size=2048, type=82
";
    let Some(disk) = partitioned("sfdisk", &["-q", "DISK"], script, 64 * MIB) else { return };
    let found = read(&disk);
    let sector = |sectors: u64| sectors * 512;
    let wanted = [
        (1, sector(2048), sector(4096), Table::Mbr),
        (3, sector(51200), sector(4096), Table::Mbr),
        (5, sector(10240), sector(4096), Table::Mbr),
        (6, sector(16384), sector(8192), Table::Mbr),
        (7, sector(28672), sector(2048), Table::Mbr),
    ];
    let mut places = places(&found);
    places.sort_by_key(|place| place.0);
    assert_eq!(places, wanted);
    assert_notes(&found, &[]);
}

/// An entry of an MBR.
fn entry(kind: u8, first: u32, sectors: u32) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[4] = kind;
    put(&mut entry, 8, &first.to_le_bytes());
    put(&mut entry, 12, &sectors.to_le_bytes());
    entry
}

fn table(disk: &mut [u8], at: usize, entries: &[[u8; 16]]) {
    for (index, entry) in entries.iter().enumerate() {
        put(disk, at + 446 + 16 * index, entry);
    }
    put(disk, at + 510, b"\x55\xaa");
}

#[test]
fn a_chain_of_extended_partitions_that_loops_or_breaks_off_ends() {
    let mut disk = vec![0; 4 << 20];
    table(&mut disk, 0, &[entry(5, 64, 4000)]);
    table(&mut disk, 64 << 9, &[entry(0x83, 1, 9), entry(5, 100, 10)]);
    table(&mut disk, 164 << 9, &[entry(0x83, 1, 8), entry(5, 0, 10)]);
    let found = read(&disk);
    assert_eq!(places(&found), [(5, 65 << 9, 9 << 9, Table::Mbr), (6, 165 << 9, 8 << 9, Table::Mbr)]);
    assert_notes(&found, &["comes back to byte 32768"]);
    disk[(164 << 9) + 511] = 0;
    assert_notes(&read(&disk), &["breaks off: there is no table at byte 83968"]);
    // As many as fit.
    let mut long = vec![0; 4 << 20];
    table(&mut long, 0, &[entry(5, 1, 8000)]);
    for number in 0..4000 {
        table(&mut long, (1 + number) << 9, &[entry(0x83, 1, 1), entry(5, number as u32 + 1, 1)]);
    }
    assert_eq!(read(&long).list.len(), PARTITIONS_MAX);
}

#[test]
fn the_code_of_a_boot_sector_is_no_table() {
    let mut disk = vec![0; 1 << 20];
    disk[..512].fill(0x90);
    put(&mut disk, 510, b"\x55\xaa");
    assert_eq!(read(&disk), Partitions::default());
    assert_eq!(read(&[]), Partitions::default());
    assert_eq!(read(&[0x55; 511]), Partitions::default());
}

#[test]
fn an_mbr_wins_over_a_gpt_that_it_does_not_protect() {
    let mut disk = gpt_disk();
    disk[446..510].fill(0);
    table(&mut disk, 0, &[entry(0x83, 2048, 4096)]);
    let found = read(&disk);
    assert_eq!(places(&found), [(1, MIB, 2 * MIB, Table::Mbr)]);
    assert_eq!(found.unused.len(), 2);
    assert_notes(&found, &["there is a GPT with 2 partitions, too"]);
    // And one that protects nothing.
    let mut lost = gpt_disk();
    lost.truncate(20 << 20);
    lost[512..1024].fill(0);
    assert_notes(&read(&lost), &["the MBR says that there is a GPT, and none was found"]);
}

/// Sets the word at `at` so that the exclusive or of all is 0.
fn seal(bytes: &mut [u8], at: usize) {
    put(bytes, at, &[0, 0]);
    let sum = bytes.chunks_exact(2).fold(0, |sum, word| sum ^ le16(word, 0));
    put(bytes, at, &sum.to_le_bytes());
}

/// Source of the layout: illumos vtoc.h and dklabel.h, as a second reading of the header.
fn vtoc_sector() -> Vec<u8> {
    let mut sector = vec![0; 512];
    put(&mut sector, 12, &0x600d_deee_u32.to_le_bytes());
    put(&mut sector, 16, &1_u32.to_le_bytes());
    put(&mut sector, 28, &512_u16.to_le_bytes());
    put(&mut sector, 30, &16_u16.to_le_bytes());
    for (slice, tag, first, sectors) in [(0, 2_u16, 16065_u32, 40000_u32), (2, 5, 0, 60000), (8, 1, 0, 16065)] {
        put(&mut sector, 72 + 12 * slice, &tag.to_le_bytes());
        put(&mut sector, 76 + 12 * slice, &first.to_le_bytes());
        put(&mut sector, 80 + 12 * slice, &sectors.to_le_bytes());
    }
    put(&mut sector, 508, &0xdabe_u16.to_le_bytes());
    seal(&mut sector, 510);
    sector
}

#[test]
fn slices_of_solaris_follow_the_partitions_of_the_mbr() {
    let mut disk = vec![0; 64 << 20];
    table(&mut disk, 0, &[entry(0x83, 64, 1000), entry(0xbf, 2048, 100_000)]);
    put(&mut disk, 2049 << 9, &vtoc_sector());
    let found = read(&disk);
    let wanted = [
        (1, 64 << 9, 1000 << 9, Table::Mbr),
        (2, 2048 << 9, 100_000 << 9, Table::Mbr),
        (5, (2048 + 16065) << 9, 40_000 << 9, Table::Vtoc),
        (6, 2048 << 9, 60_000 << 9, Table::Vtoc),
        (7, 2048 << 9, 16065 << 9, Table::Vtoc),
    ];
    assert_eq!(places(&found), wanted);
    assert_eq!((found.list[2].name.as_str(), found.list[2].kind.as_str()), ("s0", "Solaris root"));
    assert_notes(&found, &[]);
    disk[(2049 << 9) + 81] ^= 1;
    assert_notes(&read(&disk), &["the Solaris VTOC (at byte 1049088): its checksum does not hold"]);
}

#[test]
fn slices_of_a_whole_disk_of_sparc_are_read() {
    // A golden table, made by `sfdisk` from a script with `label: sun`.
    let script = "label: sun\nstart=0, size=32130, type=2\nstart=32130, size=64260, type=4\n";
    if let Some(disk) = partitioned("sfdisk", &["-q", "DISK"], script, 64 * MIB) {
        let found = read(&disk);
        let wanted = [(1, 0, 32130 << 9, Table::Vtoc), (2, 32130 << 9, 64260 << 9, Table::Vtoc)];
        assert_eq!(places(&found)[..2], wanted);
        assert_eq!(found.list[0].kind, "Solaris root");
        assert_notes(&found, &[]);
    }
}

fn disklabel_sector(base: u32) -> Vec<u8> {
    let mut sector = vec![0; 512];
    put(&mut sector, 0, &0x8256_4557_u32.to_le_bytes());
    put(&mut sector, 132, &0x8256_4557_u32.to_le_bytes());
    put(&mut sector, 40, &512_u32.to_le_bytes());
    put(&mut sector, 138, &8_u16.to_le_bytes());
    for (index, sectors, first, kind) in [(0, 4000_u32, 16, 27), (1, 2000, 4016, 1), (2, 6016, 0, 0)] {
        put(&mut sector, 148 + 16 * index, &sectors.to_le_bytes());
        put(&mut sector, 152 + 16 * index, &(base + first).to_le_bytes());
        sector[160 + 16 * index] = kind;
    }
    let end = 148 + 8 * 16;
    seal(&mut sector[..end], 136);
    sector
}

#[test]
fn partitions_of_bsd_count_from_the_disk_or_from_the_slice() {
    for base in [0, 2048] {
        let mut disk = vec![0; 8 << 20];
        table(&mut disk, 0, &[entry(0xa5, 2048, 6016)]);
        put(&mut disk, 2049 << 9, &disklabel_sector(base));
        let found = read(&disk);
        let wanted = [
            (1, MIB, 6016 << 9, Table::Mbr),
            (5, (2048 + 16) << 9, 4000 << 9, Table::Disklabel),
            (6, (2048 + 4016) << 9, 2000 << 9, Table::Disklabel),
        ];
        assert_eq!(places(&found), wanted);
        assert_eq!((found.list[1].name.as_str(), found.list[1].kind.as_str()), ("a", "BSD ZFS"));
        assert_notes(&found, &[]);
    }
    let mut disk = vec![0; 8 << 20];
    put(&mut disk, 512, &disklabel_sector(0));
    assert_eq!(places(&read(&disk))[0], (1, 16 << 9, 4000 << 9, Table::Disklabel));
    disk[512 + 149] ^= 1;
    assert_notes(&read(&disk), &["the BSD disklabel (at byte 512): its checksum does not hold"]);
    // The usual table of a disk that is all BSD's: an MBR of the boot code whose only partition is the disk.
    table(&mut disk, 0, &[entry(0xa5, 0, 50_000)]);
    assert_eq!(places(&read(&disk))[1].3, Table::Disklabel);
}
