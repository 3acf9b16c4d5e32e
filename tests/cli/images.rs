//! Pools in disk images: where in the image a bad copy lies, and whether anything is allocated there.

use crate::{status, stdout, zcheck};
use fixtures::{RealPool, images_dir, unpack};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const PIECE_BYTES: usize = 64 << 10;

/// A sparse copy of `source` that begins at `start`, with holes for zeros and for `hole`, a range of `source`.
fn sparse_copy(source: &Path, target: &Path, start: u64, hole: std::ops::Range<u64>) {
    let (mut source, mut copy) = (File::open(source).unwrap(), File::create(target).unwrap());
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let length = source.read(&mut piece).unwrap();
        if length == 0 {
            break;
        }
        let end = at + length as u64;
        if piece[..length].iter().any(|&byte| byte != 0) && (end <= hole.start || at >= hole.end) {
            copy.seek(SeekFrom::Start(start + at)).unwrap();
            copy.write_all(&piece[..length]).unwrap();
        }
        at = end;
    }
    copy.set_len(start + at).unwrap();
}

fn json(args: &[&str], image: &Path) -> serde_json::Value {
    let output = zcheck(args, &[image]);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn first_bad(report: &serde_json::Value) -> &serde_json::Value {
    let copies =
        report["findings"].as_array().unwrap().iter().flat_map(|finding| finding["copies"].as_array().unwrap());
    copies.into_iter().find(|copy| copy["result"] == "checksum").unwrap()
}

/// Where the first bad copy of a fixture with zeroed stripes lies.
fn image_with_stripes(dir: &Path) -> (PathBuf, u64) {
    let image = dir.join("stripes.img");
    let sound = RealPool::read(images_dir().join("single"));
    let damaged = images_dir().join("single-vmotion-stripes/disk0.zst");
    std::fs::write(&image, unpack(&damaged, sound.expected.devices["disk0"])).unwrap();
    let report = json(&["scrub", "--json"], &image);
    let at = first_bad(&report)["device_offset"].as_u64().unwrap();
    (image, at)
}

#[test]
fn a_hole_of_a_sparse_file_is_told_apart_from_zeros_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (image, at) = image_with_stripes(dir.path());
    // As unpacked, all zeros are holes already; written out they are data.
    let full = dir.path().join("full.img");
    std::fs::write(&full, std::fs::read(&image).unwrap()).unwrap();
    let start = at / PIECE_BYTES as u64 * PIECE_BYTES as u64;
    let holed = dir.path().join("holed.img");
    sparse_copy(&image, &holed, 0, start..start + PIECE_BYTES as u64);
    let stored = |image: &Path| {
        let report = json(&["scrub", "--json"], image);
        let part = first_bad(&report)["stored"][0].clone();
        assert_eq!(part["file"], image.display().to_string());
        assert_eq!((&part["device_offset"], &part["layer"]), (&at.into(), &0.into()));
        part["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(stored(&full), "data");
    if stored(&holed) == "data" {
        eprintln!("skipped: the file system of the temporary folder does not tell holes");
        return;
    }
    assert_eq!(stored(&holed), "hole");
    let text = stdout(&zcheck(&["scrub"], &[&holed])).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("where nothing is allocated in holed.img"), "{text}");
    assert!(text.contains("(not allocated in holed.img)"), "{text}");
    assert!(!stdout(&zcheck(&["scrub"], &[&full])).contains("allocated in"));
}

/// Formats of qemu-img, with options; whether a format leaves zeros out, and whether it compresses.
const FORMATS: &[(&str, &[&str], Kind)] = &[
    ("qcow2", &["-f", "qcow2"], Kind::Sparse),
    ("qcow2", &["-f", "qcow2", "-o", "compat=0.10,cluster_size=4k"], Kind::Sparse),
    ("qcow2", &["-f", "qcow2", "-c"], Kind::Packed),
    ("qcow2", &["-f", "qcow2", "-c", "-o", "compression_type=zstd"], Kind::Packed),
    ("qcow2", &["-f", "qcow2", "-o", "extended_l2=on,cluster_size=128k"], Kind::Sparse),
    ("vmdk", &["-f", "vmdk", "-o", "subformat=monolithicSparse"], Kind::Sparse),
    ("vmdk", &["-f", "vmdk", "-o", "subformat=monolithicFlat"], Kind::Flat),
    ("vmdk", &["-f", "vmdk", "-o", "subformat=twoGbMaxExtentSparse"], Kind::Sparse),
    ("vmdk", &["-f", "vmdk", "-o", "subformat=twoGbMaxExtentFlat"], Kind::Flat),
    ("vmdk", &["-f", "vmdk", "-o", "subformat=streamOptimized"], Kind::Packed),
    ("vpc", &["-f", "vpc", "-o", "subformat=dynamic,force_size=on"], Kind::Sparse),
    ("vpc", &["-f", "vpc", "-o", "subformat=fixed,force_size=on"], Kind::Flat),
    ("vhdx", &["-f", "vhdx", "-o", "subformat=dynamic,block_size=1M"], Kind::Sparse),
    ("vhdx", &["-f", "vhdx", "-o", "subformat=fixed,block_size=1M"], Kind::Flat),
    ("vdi", &["-f", "vdi"], Kind::Sparse),
    ("vdi", &["-f", "vdi", "-o", "static=on"], Kind::Flat),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sparse,
    Packed,
    Flat,
}

/// A report without what names the image and tells the time.
fn about_the_pool(mut report: serde_json::Value, image: &Path) -> String {
    for finding in report["findings"].as_array_mut().unwrap() {
        for copy in finding["copies"].as_array_mut().unwrap() {
            copy["stored"] = serde_json::Value::Null;
        }
    }
    // These say where in the image, too.
    report["patterns"] = serde_json::Value::Null;
    for key in ["duration_s", "bytes_per_second"] {
        report["summary"][key] = 0.into();
    }
    report.to_string().replace(&image.display().to_string(), "IMAGE")
}

#[test]
fn a_pool_gives_the_same_report_through_every_format_of_qemu_img() {
    if std::process::Command::new("qemu-img").arg("--version").output().is_err() {
        eprintln!("skipped: qemu-img is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (raw, _) = image_with_stripes(dir.path());
    let wanted = about_the_pool(json(&["scrub", "--json"], &raw), &raw);
    for (number, (extension, options, kind)) in FORMATS.iter().enumerate() {
        let folder = dir.path().join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        let image = folder.join(format!("vm.{extension}"));
        let options: Vec<&str> = options.iter().map(|option| if *option == "-f" { "-O" } else { option }).collect();
        let mut command = std::process::Command::new("qemu-img");
        command.args(["convert", "-f", "raw"]).args(&options).args([&raw, &image]);
        let made = command.output().unwrap();
        assert!(made.status.success(), "{options:?}: {}", String::from_utf8_lossy(&made.stderr));
        let report = json(&["scrub", "--json"], &image);
        let part = &first_bad(&report)["stored"][0];
        let state = part["state"].as_str().unwrap();
        // The stripes are zeros: formats that leave zeros out hold nothing there, which is what a scrub is to tell.
        // A cluster that also holds other data is stored, though.
        match kind {
            Kind::Flat => assert!(matches!(state, "data" | "hole"), "{options:?}: {part}"),
            Kind::Sparse => assert!(matches!(state, "data" | "zero" | "hole"), "{options:?}: {part}"),
            Kind::Packed => assert!(matches!(state, "compressed" | "zero" | "hole"), "{options:?}: {part}"),
        }
        assert!(part["file"].as_str().unwrap().starts_with(&folder.display().to_string()), "{part}");
        assert_eq!(about_the_pool(report, &image), wanted, "{options:?}");
    }
}

#[test]
fn places_behind_an_offset_are_given_on_the_disk_too() {
    let dir = tempfile::tempdir().unwrap();
    let (image, at) = image_with_stripes(dir.path());
    let disk = dir.path().join("disk.img");
    sparse_copy(&image, &disk, 3 << 20, 0..0);
    let report = json(&["scrub", "--json", "--offset", "3M"], &disk);
    let copy = first_bad(&report);
    assert_eq!(copy["device_offset"], at);
    assert_eq!(copy["stored"][0]["file_offset"], at + (3 << 20));
    assert_eq!(status(&zcheck(&["scrub", "--offset", "3M"], &[&disk])), 4);
}
