//! Every kind of qcow2 image that `qemu-img` makes, against `qemu-img`.

use super::super::super::qemu::{Bench, check_bytes, write_content};
use crate::media::{NoteKind, Opener};

/// Overwrites, zeros of both kinds, and space given back, at the edges of clusters and inside.
const CHANGES: [&str; 7] = [
    "write -P 0x11 70000 3000",
    "write -P 0x22 1M 300k",
    "write -z 1500k 256k",
    "write -zu 4M 300k",
    "discard 5M 128k",
    "write -P 0x33 2200k 5k",
    "write -z 100k 1k",
];

/// Makes one image of each set of options, checks it, changes it, checks it again.
fn check_all(options: &[String]) {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "source.raw");
    for options in options {
        bench.img(&format!("convert -f raw -O qcow2 {options} source.raw a.qcow2"));
        bench.check("qcow2", "a.qcow2");
        bench.io("qcow2", "a.qcow2", &CHANGES);
        bench.check("qcow2", "a.qcow2");
    }
}

#[test]
fn both_versions_with_clusters_of_all_sizes() {
    let sizes = ["512", "1k", "4k", "16k", "64k", "512k", "2M"];
    let options =
        sizes.iter().flat_map(|size| ["0.10", "1.1"].map(|version| format!("-o compat={version},cluster_size={size}")));
    check_all(&options.collect::<Vec<_>>());
}

#[test]
fn compressed_clusters_of_both_kinds() {
    let options = ["512", "4k", "64k", "2M"].iter().flat_map(|size| {
        [
            format!("-c -o compat=0.10,cluster_size={size}"),
            format!("-c -o compat=1.1,cluster_size={size}"),
            format!("-c -o compression_type=zstd,cluster_size={size}"),
        ]
    });
    check_all(&options.collect::<Vec<_>>());
}

#[test]
fn subclusters() {
    let options = ["16k", "64k", "2M"].iter().flat_map(|size| {
        [
            format!("-o extended_l2=on,cluster_size={size}"),
            format!("-c -o extended_l2=on,cluster_size={size}"),
            format!("-c -o extended_l2=on,cluster_size={size},compression_type=zstd"),
        ]
    });
    check_all(&options.collect::<Vec<_>>());
}

#[test]
fn space_allocated_before_it_is_used() {
    let kinds = ["metadata", "falloc", "full"];
    let options = kinds.iter().flat_map(|kind| {
        [format!("-o preallocation={kind}"), format!("-o preallocation={kind},extended_l2=on,lazy_refcounts=on")]
    });
    check_all(&options.collect::<Vec<_>>());
}

#[test]
fn data_in_another_file() {
    for raw in ["on", "off"] {
        for more in ["", ",extended_l2=on", ",cluster_size=4k", ",preallocation=metadata"] {
            check_all(&[format!("-o data_file=data-{raw}.bin,data_file_raw={raw}{more}")]);
        }
    }
}

#[test]
fn chains_of_backing_files() {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "base.raw");
    for extended in ["off", "on"] {
        // The second image is larger than what lies below it, the third smaller.
        bench.img(&format!("create -f qcow2 -o extended_l2={extended} -b base.raw -F raw one.qcow2"));
        bench.io("qcow2", "one.qcow2", &CHANGES);
        bench.check("qcow2", "one.qcow2");
        bench.img("create -f qcow2 -o cluster_size=4k -b one.qcow2 -F qcow2 two.qcow2 9M");
        bench.io("qcow2", "two.qcow2", &["write -P 0x44 1M 100k", "write -z 80k 64k", "write -P 0x55 8M 50000"]);
        bench.check("qcow2", "two.qcow2");
        bench.img("create -f qcow2 -o compat=0.10 -b two.qcow2 -F qcow2 three.qcow2 5M");
        bench.io("qcow2", "three.qcow2", &["write -P 0x66 0 100k"]);
        bench.check("qcow2", "three.qcow2");
    }
    // A format that is not named is guessed, and that is said.
    bench.img("create -f qcow2 -b two.qcow2 -F qcow2 four.qcow2");
    let mut bytes = std::fs::read(bench.path("four.qcow2")).unwrap();
    let at = bytes.windows(4).position(|word| word == 0xe279_2aca_u32.to_be_bytes()).unwrap();
    bytes[at] = 0x77;
    std::fs::write(bench.path("four.qcow2"), &bytes).unwrap();
    let disk = bench.open("four.qcow2");
    let expected = bench.raw_of("-f qcow2", "four.qcow2");
    check_bytes(&*disk, &expected, "four.qcow2");
    assert_eq!(disk.notes().iter().map(|note| note.kind).collect::<Vec<_>>(), [NoteKind::FormatGuessed]);
    // What a raw base holds is never taken for an image.
    bench.img("create -f qcow2 -b one.qcow2 -F raw five.qcow2");
    bench.check("qcow2", "five.qcow2");
}

#[test]
fn snapshots_by_name_and_by_id() {
    let Some(bench) = Bench::new() else { return };
    write_content(&bench, "source.raw");
    for options in ["compat=1.1", "extended_l2=on", "cluster_size=512"] {
        bench.img(&format!("convert -f raw -O qcow2 -o {options} source.raw a.qcow2"));
        bench.img("snapshot -c first a.qcow2");
        bench.io("qcow2", "a.qcow2", &CHANGES);
        bench.img("snapshot -c second a.qcow2");
        bench.img("resize -f qcow2 a.qcow2 8M");
        bench.io("qcow2", "a.qcow2", &["write -P 0x99 0 3M", "write -P 0x9a 7M 1k"]);
        bench.check("qcow2", "a.qcow2");
        for (wanted, name) in [("first", "first"), ("second", "second"), ("1", "first"), ("2", "second")] {
            std::fs::copy(bench.path("a.qcow2"), bench.path("back.qcow2")).unwrap();
            bench.img(&format!("snapshot -a {name} back.qcow2"));
            let expected = bench.raw_of("-f qcow2", "back.qcow2");
            check_bytes(&*bench.open(&format!("a.qcow2#snapshot={wanted}")), &expected, wanted);
        }
        let error = Opener::default().open(&bench.path("a.qcow2#snapshot=third")).unwrap_err().to_string();
        assert!(error.contains("no snapshot third in it; it has first (id 1), second (id 2)"), "{error}");
    }
}
