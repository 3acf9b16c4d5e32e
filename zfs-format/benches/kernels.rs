//! Speed of the codecs on one 128 KiB record, in bytes of decoded or summed data per second.
#![allow(missing_docs, reason = "criterion_group makes a public function")]
#![allow(clippy::unwrap_used, reason = "a bench may stop")]

use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, aes::Aes256};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use zfs_format::Endian;
use zfs_format::codec::checksum::{SALT_BYTES, Salt, compute, compute_plain, compute_several, fletcher4_kernel_name};
use zfs_format::codec::cipher::{Cipher, CipherMode, derive_key};
use zfs_format::codec::compress::Decompressor;
use zfs_format::codec::parity::{PARITY_MAX, generate_rows, kernel_name, reconstruct};
use zfs_format::ondisk::dmu::{ChecksumKind, CompressKind};

type Aes256Ccm = ccm::Ccm<Aes256, U16, U12>;

const RECORD_BYTES: usize = 128 << 10;

/// Text with about the redundancy of source code.
fn record() -> Vec<u8> {
    let words =
        ["vdev", "objset", "the", "of", "block", "pointer", "\n    let ", " = ", "();", "u64", "dnode", "&self"];
    let mut state = 1_u32;
    let mut text = Vec::with_capacity(RECORD_BYTES + 16);
    while text.len() < RECORD_BYTES {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(state >> 20) as usize % words.len()].as_bytes());
        if state >> 29 == 0 {
            text.extend_from_slice((state >> 8).to_string().as_bytes());
        }
        text.push(b' ');
    }
    text.truncate(RECORD_BYTES);
    text
}

fn framed(stream: &[u8], second_word: &[u8]) -> Vec<u8> {
    [&u32::try_from(stream.len()).unwrap().to_be_bytes(), second_word, stream].concat()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len() * 2);
    flate2::Compress::new(flate2::Compression::new(6), true)
        .compress_vec(plain, &mut out, flate2::FlushCompress::Finish)
        .unwrap();
    out
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    let level = structured_zstd::encoding::CompressionLevel::from_level(3);
    let stream = structured_zstd::encoding::compress_slice_to_vec(plain, level).split_off(4);
    framed(&stream, &[3, 0, 0x28, 0xa5])
}

fn checksums(c: &mut Criterion) {
    let bytes = record();
    let salt = Salt::new(&[7; SALT_BYTES]);
    let mut group = c.benchmark_group("checksum");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    let fast = format!("fletcher4/{}", fletcher4_kernel_name());
    for (name, kind) in [
        (fast.as_str(), ChecksumKind::FLETCHER4),
        ("fletcher2", ChecksumKind::FLETCHER2),
        ("sha256", ChecksumKind::SHA256),
        ("sha512", ChecksumKind::SHA512),
        ("skein", ChecksumKind::SKEIN),
        ("edonr", ChecksumKind::EDONR),
        ("blake3", ChecksumKind::BLAKE3),
    ] {
        group.bench_function(name, |b| b.iter(|| compute(kind, Endian::Little, black_box(&bytes), Some(&salt))));
    }
    group.bench_function("fletcher4/big endian", |b| {
        b.iter(|| compute(ChecksumKind::FLETCHER4, Endian::Big, black_box(&bytes), None));
    });
    group.bench_function("fletcher4/plain", |b| {
        b.iter(|| compute_plain(ChecksumKind::FLETCHER4, Endian::Little, black_box(&bytes), None));
    });
    for count in [2, 8] {
        group.throughput(Throughput::Bytes((count * bytes.len()) as u64));
        let blocks = vec![bytes.as_slice(); count];
        group.bench_function(format!("sha256/{count} side by side"), |b| {
            b.iter(|| compute_several(ChecksumKind::SHA256, black_box(&blocks)));
        });
    }
    group.finish();
}

fn decompression(c: &mut Criterion) {
    let plain = record();
    let mut dst = vec![0; plain.len()];
    let mut decompressor = Decompressor::new();
    let mut group = c.benchmark_group("decompress");
    group.throughput(Throughput::Bytes(plain.len() as u64));
    for (name, kind, src) in [
        ("lz4", CompressKind::LZ4, framed(&lz4_flex::block::compress(&plain), &[])),
        ("zstd-3", CompressKind::ZSTD, zstd(&plain)),
        ("gzip-6", CompressKind(10), zlib(&plain)),
    ] {
        group.bench_function(name, |b| b.iter(|| decompressor.decompress(kind, black_box(&src), &mut dst).unwrap()));
    }
    group.finish();
}

/// A record over eight data columns; speed is in bytes of the record.
fn parity(c: &mut Criterion) {
    let bytes = record();
    let columns: Vec<&[u8]> = bytes.chunks(RECORD_BYTES / 8).collect();
    let mut rows = vec![vec![0; RECORD_BYTES / 8]; PARITY_MAX];
    let mut group = c.benchmark_group(format!("parity/{}", kernel_name()));
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    for (count, name) in [(1, "P"), (2, "P+Q"), (3, "P+Q+R")] {
        let mut slices: Vec<&mut [u8]> = rows.iter_mut().take(count).map(Vec::as_mut_slice).collect();
        group.bench_function(name, |b| b.iter(|| generate_rows(black_box(&columns), &mut slices)));
    }
    let rows: Vec<(usize, &[u8])> = rows.iter().map(Vec::as_slice).enumerate().collect();
    let mut damaged = bytes.clone();
    for (lost, trusted, name) in [
        (&[3_usize][..], &rows[..1], "1 lost, by P"),
        (&[3], &rows[1..2], "1 lost, by Q"),
        (&[2, 5], &rows[..2], "2 lost, by P and Q"),
        (&[0, 3, 6], &rows[..], "3 lost"),
    ] {
        let mut slices: Vec<&mut [u8]> = damaged.chunks_mut(RECORD_BYTES / 8).collect();
        group.bench_function(name, |b| b.iter(|| reconstruct(black_box(&mut slices), lost, trusted)));
    }
    assert!(damaged == bytes);
    group.finish();
}

/// Decryption of a record, and of a small block, for which making the block's key counts.
fn decryption(c: &mut Criterion) {
    let (key, iv) = ([7; 32], [9; 12]);
    for size in [RECORD_BYTES, 4 << 10] {
        let mut group = c.benchmark_group(format!("decrypt/{} KiB", size >> 10));
        group.throughput(Throughput::Bytes(size as u64));
        let mut gcm = record()[..size].to_vec();
        let gcm_mac = Aes256Gcm::new(&key.into()).encrypt_inout_detached(&iv.into(), &[], gcm.as_mut_slice().into());
        let mut ccm = record()[..size].to_vec();
        let ccm_mac = Aes256Ccm::new(&key.into()).encrypt_inout_detached(&iv.into(), &[], ccm.as_mut_slice().into());
        for (name, mode, text, mac) in [
            ("aes-256-gcm", CipherMode::Gcm, gcm, gcm_mac.unwrap()),
            ("aes-256-ccm", CipherMode::Ccm, ccm, ccm_mac.unwrap()),
        ] {
            let cipher = Cipher::new(mode, &key).unwrap();
            let mac: [u8; 16] = mac.into();
            let mut data = text.clone();
            group.bench_function(name, |b| {
                b.iter(|| {
                    data.copy_from_slice(&text);
                    cipher.decrypt(&iv, &[], black_box(&mac), &mut data).unwrap();
                });
            });
        }
        group.finish();
    }
    c.bench_function("decrypt/key of a salt", |b| {
        b.iter(|| Cipher::new(CipherMode::Gcm, &derive_key(black_box(&key), &[1; 8])).unwrap());
    });
}

criterion_group!(kernels, checksums, parity, decompression, decryption);
criterion_main!(kernels);
