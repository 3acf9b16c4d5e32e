//! Every kind of VMDK that `qemu-img` writes or reads, against `qemu-img`.

use super::super::super::qemu::{Bench, check_bytes, write_content};
use super::made::{Grain, cowd, descriptor, se_sparse};
use crate::media::Content;
use std::sync::Arc;

const SUBFORMATS: [&str; 5] =
    ["monolithicSparse", "monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat", "streamOptimized"];

#[test]
fn all_subformats() {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "source.raw");
    for subformat in SUBFORMATS {
        let image = format!("{subformat}.vmdk");
        bench.img(&format!("convert -f raw -O vmdk -o subformat={subformat} source.raw {image}"));
        bench.check("vmdk", &image);
        if subformat != "streamOptimized" {
            bench.io("vmdk", &image, &["write -P 0x11 70000 3000", "write -P 0x22 1M 300k"]);
            bench.check("vmdk", &image);
        }
    }
}

#[test]
fn grains_of_zeros_by_the_word_of_the_table() {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "source.raw");
    bench.img("convert -f raw -O vmdk -o subformat=monolithicSparse,zeroed_grain=on source.raw a.vmdk");
    bench.io("vmdk", "a.vmdk", &["write -z 0 192k"]);
    bench.check("vmdk", "a.vmdk");
    assert_eq!(bench.open("a.vmdk").extent_at(64 << 10).content, Content::Zero);
}

#[test]
fn extents_of_two_gibibytes() {
    let Some(bench) = Bench::new() else { return };
    for subformat in ["twoGbMaxExtentSparse", "twoGbMaxExtentFlat"] {
        bench.img(&format!("create -f vmdk -o subformat={subformat} a.vmdk 5000M"));
        let writes =
            ["write -P 1 0 64k", "write -P 2 2147450880 96k", "write -P 3 4293918720 2M", "write -P 4 5242814464 64k"];
        bench.io("vmdk", "a.vmdk", &writes);
        let disk = bench.open("a.vmdk");
        let mut across = vec![0; 4 << 20];
        for (start, length, value) in [(0, 65_536, 1), (2_147_450_880, 98_304, 2), (4_293_918_720, 2 << 20, 3)] {
            disk.read_at(&mut across[..length], start).unwrap();
            assert!(across[..length].iter().all(|&byte| byte == value), "{subformat}: {start}");
        }
        disk.read_at(&mut across[..65_536], 5_242_814_464).unwrap();
        assert_eq!((disk.size_bytes(), across[65_535]), (5000 << 20, 4));
        assert!(disk.notes().is_empty());
    }
}

#[test]
fn chains_of_snapshots() {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "source.raw");
    for base in SUBFORMATS {
        bench.img(&format!("convert -f raw -O vmdk -o subformat={base} source.raw base.vmdk"));
        bench.img("create -q -f vmdk -F vmdk -b base.vmdk one.vmdk");
        bench.io("vmdk", "one.vmdk", &["write -P 0x31 300k 200k", "write -P 0x32 5M 64k"]);
        bench.img("create -q -f vmdk -F vmdk -b one.vmdk two.vmdk");
        bench.io("vmdk", "two.vmdk", &["write -P 0x41 400k 10k", "write -P 0x42 6M 1k"]);
        bench.check("vmdk", "two.vmdk");
        let layers: Vec<u32> = [400 << 10, 320 << 10, 0].map(|at| bench.open("two.vmdk").extent_at(at).layer).to_vec();
        assert_eq!(layers, [0, 1, 2], "{base}");
    }
}

/// What a child of `base` with these grains holds.
fn applied(base: &[u8], grains: &[Grain], bytes: usize) -> Vec<u8> {
    let mut disk = base.to_vec();
    disk.resize(grains.len() * bytes, 0);
    for (index, grain) in grains.iter().enumerate() {
        let place = index * bytes..(index + 1) * bytes;
        match grain {
            Grain::Nothing => {}
            Grain::Zero | Grain::Unmapped => disk[place].fill(0),
            Grain::Full(value) => disk[place].fill(*value),
        }
    }
    disk
}

/// Grains of all kinds in runs of several lengths.
fn pattern(count: usize, has_zeros: bool) -> Vec<Grain> {
    let kind = |index: usize| match (index / 7 + index / 100) % 6 {
        0 | 3 => Grain::Nothing,
        1 if has_zeros => Grain::Zero,
        4 if has_zeros => Grain::Unmapped,
        _ => Grain::Full((index % 251) as u8 + 1),
    };
    (0..count).map(kind).collect()
}

/// A base of ESXi, raw in `base-flat.vmdk`, of `sectors`.
fn write_base(bench: &Bench, bytes: &[u8]) {
    std::fs::write(bench.path("base-flat.vmdk"), bytes).unwrap();
    let extent = format!("RW {} VMFS \"base-flat.vmdk\"", bytes.len() / 512);
    std::fs::write(bench.path("base.vmdk"), descriptor("vmfs", 0xaa, None, &[extent])).unwrap();
}

#[test]
fn snapshots_of_esxi_with_made_extents() {
    let Some(bench) = Bench::new() else { return };
    let base: Vec<u8> = (0..24 << 20).map(|at: usize| (at / 4096 % 250) as u8).collect();
    write_base(&bench, &base);
    bench.check("vmdk", "base.vmdk");
    let cases = [
        ("VMFSSPARSE", "vmfsSparse", 512, pattern(base.len() / 512, false)),
        ("VMFSSPARSE", "vmfsSparse", 4096, pattern(base.len() / 4096, false)),
        ("SESPARSE", "seSparse", 4096, pattern(base.len() / 4096, true)),
    ];
    for (word, kind, bytes, grains) in cases {
        let extent = match word {
            "SESPARSE" => se_sparse(&grains),
            _ => cowd(bytes as u32 / 512, &grains),
        };
        std::fs::write(bench.path("one-delta.vmdk"), extent).unwrap();
        let line = format!("RW {} {word} \"one-delta.vmdk\"", base.len() / 512);
        let text = descriptor(kind, 0xbb, Some((0xaa, "base.vmdk")), &[line]);
        std::fs::write(bench.path("one.vmdk"), text).unwrap();
        bench.check("vmdk", "one.vmdk");
        check_bytes(&*bench.open("one.vmdk"), &applied(&base, &grains, bytes), kind);
    }
}

#[test]
fn many_threads_read_one_image() {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "source.raw");
    let expected = std::fs::read(bench.path("source.raw")).unwrap();
    for subformat in ["monolithicSparse", "streamOptimized"] {
        bench.img(&format!("convert -f raw -O vmdk -o subformat={subformat} source.raw a.vmdk"));
        let disk = bench.open("a.vmdk");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (disk, expected) = (Arc::clone(&disk), &expected);
                scope.spawn(move || check_bytes(&*disk, expected, subformat));
            }
        });
    }
}
