mod zstd_program;

use super::*;
use proptest::prelude::*;

/// `zstd -3 --no-check` of [`squares`] from a file: single segment, content size present. Magic cut off.
const SQUARES_ZSTD_3: &str = "603c0315080066522815a027850e60f6770a55157e93b6b7dcd23657ec1902250020002000dc54bb68bbdd1e77c4626fa84bc3d5c224\
    f470a6f592cbb7836030400810280038203020448cc9a392234a5e874281f890381586178777285fcb23ca47b24bd93570d3704f1bfb\
    30d849aa57875e2af40dd423687d9cc96d2717c9642a4e26d34cae21e4066fa8cc2591b94a9949262333ad38570c9c1b0512e788e1bc\
    287b43d82bc84e0141a851208224ccf70e204391590f1020e131fbb073008f14b4921d884a9c1d449b224d14f9dce05b3de215df6f5b\
    37569b0436d9261d6f03c7d2c0e3f042566fd1a6b42b5b60d0ae9425a41e13330a22326475ad7315c022d51323483955";
/// `zstd -19 --no-check` of [`squares`] from a pipe: window descriptor, no content size. Magic cut off.
const SQUARES_ZSTD_19: &str = "0068350700e6142d13b0271dd0283c010c25cb4d924c3249dd899c0e2900260025003b9da396b897b9fa707639969c88701c357fac5c\
    ecf35169a7573377e484300c8880a00038100c84049df19c8994cce8519dc7e8aa45d1bd78473d752fdc55693a8f76343b114bc717e7\
    cee06a140cbc479592f7297be5319e5fd4e3a02772f158aa99ed31ab4f317b7d462dcd4ef4acc6cc5c61e370d1fc19b4720bda87a751\
    658876966925636896a234ca491321a1515c9e658657d2c23b033ba8114818d4eebe01e0e562105ed607e3710234c888767db0c77433\
    68383eb1fd742527375e99d7cc0466ae04c82a";

fn squares() -> Vec<u8> {
    (0..60).flat_map(|i| format!("{i} squared is {}\n", i * i).into_bytes()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Puts the length (and for zstd the second word) before a stream, and zeros behind, up to a whole sector.
fn frame(stream: &[u8], second_word: &[u8]) -> Vec<u8> {
    let mut src = u32::try_from(stream.len()).unwrap().to_be_bytes().to_vec();
    src.extend_from_slice(second_word);
    src.extend_from_slice(stream);
    src.resize(src.len().next_multiple_of(512), 0);
    src
}

const ZSTD_MODERN: [u8; 4] = [3, 0x00, 0x28, 0xa5];

fn zstd_magicless(plain: &[u8], level: i32) -> Vec<u8> {
    let level = structured_zstd::encoding::CompressionLevel::from_level(level);
    structured_zstd::encoding::compress_slice_to_vec(plain, level).split_off(4)
}

fn zlib(plain: &[u8], level: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len() * 2 + 100);
    let status = flate2::Compress::new(flate2::Compression::new(level), true)
        .compress_vec(plain, &mut out, flate2::FlushCompress::Finish)
        .unwrap();
    assert_eq!(status, flate2::Status::StreamEnd);
    out
}

/// Greedy: the first match of 3 to 66 bytes within 1023, else a literal.
fn lzjb(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < plain.len() {
        let control = out.len();
        out.push(0);
        for bit in 0..8 {
            if at >= plain.len() {
                break;
            }
            let found = (1..=at.min(1023))
                .map(|distance| {
                    let length = (0..66.min(plain.len() - at))
                        .take_while(|&i| plain[at + i] == plain[at + i - distance])
                        .count();
                    (length, distance)
                })
                .find(|(length, _)| *length >= 3);
            if let Some((length, distance)) = found {
                out[control] |= 1 << bit;
                out.extend_from_slice(&u16::try_from((length - 3) << 10 | distance).unwrap().to_be_bytes());
                at += length;
            } else {
                out.push(plain[at]);
                at += 1;
            }
        }
    }
    out
}

fn zle(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = plain;
    while let Some(first) = rest.first() {
        let zero = *first == 0;
        let max = if zero { 192 } else { 64 };
        let length = rest.iter().take(max).take_while(|byte| (**byte == 0) == zero).count();
        let (run, tail) = rest.split_at(length);
        out.push(u8::try_from(if zero { length + 64 - 1 } else { length - 1 }).unwrap());
        if !zero {
            out.extend_from_slice(run);
        }
        rest = tail;
    }
    out
}

fn encode(kind: CompressKind, plain: &[u8]) -> Vec<u8> {
    match kind {
        CompressKind::LZJB => lzjb(plain),
        CompressKind::ZLE => zle(plain),
        CompressKind::LZ4 => frame(&lz4_flex::block::compress(plain), &[]),
        CompressKind::ZSTD => frame(&zstd_magicless(plain, 3), &ZSTD_MODERN),
        CompressKind(level @ 5..=13) => zlib(plain, u32::from(level) - 4),
        _ => plain.to_vec(),
    }
}

fn decode(kind: CompressKind, src: &[u8], lsize: usize) -> Result<Vec<u8>, FormatError> {
    let mut dst = vec![0xaa; lsize];
    Decompressor::new().decompress(kind, src, &mut dst).map(|()| dst)
}

fn is_bad(result: &Result<Vec<u8>, FormatError>, field_wanted: &str) -> bool {
    matches!(result, Err(FormatError::BadField { field, .. }) if *field == field_wanted)
}

fn any_kind() -> impl Strategy<Value = CompressKind> {
    prop::sample::select(vec![2, 3, 5, 9, 13, 14, 15, 16]).prop_map(CompressKind)
}

/// Bytes with runs and repeats, so that encoders have something to find.
fn compressible() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (any::<u8>(), 1..300_usize).prop_map(|(byte, count)| vec![byte; count]),
        (1..200_usize).prop_map(|count| vec![0; count]),
        prop::collection::vec(any::<u8>(), 1..80),
        Just(b"the same words again ".to_vec()),
    ];
    prop::collection::vec(piece, 1..30).prop_map(|pieces| pieces.concat())
}

#[test]
fn frames_of_the_zstd_program_decode_without_their_magic() {
    for stream in [SQUARES_ZSTD_3, SQUARES_ZSTD_19].map(hex) {
        let src = frame(&stream, &ZSTD_MODERN);
        assert_eq!(decode(CompressKind::ZSTD, &src, 1084), Ok(squares()));
        for wrong in [0, 1, 1083, 1085, 4096] {
            assert!(decode(CompressKind::ZSTD, &src, wrong).is_err(), "lsize {wrong}");
        }
    }
}

#[test]
fn zstd_header_is_read_in_both_orders_of_its_second_word() {
    let expected = ZstdHeader { frame_bytes: 0x1234, version: 10405, level: 3 };
    assert_eq!(ZstdHeader::parse(&[0, 0, 0x12, 0x34, 3, 0x00, 0x28, 0xa5]), Ok(expected));
    assert_eq!(ZstdHeader::parse(&[0, 0, 0x12, 0x34, 0x00, 0x28, 0xa5, 3]), Ok(expected));
    let fast = ZstdHeader { level: 122, ..expected };
    assert_eq!(ZstdHeader::parse(&[0, 0, 0x12, 0x34, 122, 0x00, 0x28, 0xa5]), Ok(fast));
    assert_eq!(ZstdHeader::parse(&[0, 0, 0x12, 0x34, 0x00, 0x28, 0xa5, 122]), Ok(fast));
    assert!(matches!(ZstdHeader::parse(&[0; 7]), Err(FormatError::Truncated { need: 8, have: 7, .. })));
}

#[test]
fn a_zstd_frame_cannot_make_the_decoder_allocate_what_it_declares() {
    let mut decoder = zstd::ZstdDecoder::default();
    // Content size 2^40 with a single segment; window of almost 2^42; both with one raw block of one byte.
    let huge_content = [0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 0x09, 0, 0, b'x'];
    let huge_window = [0x00, 0xff, 0x09, 0, 0, b'x'];
    // Declares 0 bytes (in 8) with a window of almost 2^42: the path that would reserve a window.
    let zero_content = [0xc0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x09, 0, 0, b'x'];
    for stream in [&huge_content[..], &huge_window, &zero_content] {
        let mut dst = [0; 512];
        assert!(decoder.decompress(&frame(stream, &ZSTD_MODERN), &mut dst).is_err());
        assert!(decoder.workspace_bytes() < 2 << 20, "{}", decoder.workspace_bytes());
    }
}

#[test]
fn lengths_beyond_the_physical_size_are_refused() {
    for (kind, header) in [(CompressKind::LZ4, 4), (CompressKind::ZSTD, 8)] {
        let mut src = vec![0; 512];
        src[..4].copy_from_slice(&u32::try_from(512 - header + 1).unwrap().to_be_bytes());
        assert!(is_bad(&decode(kind, &src, 1024), "stream length"), "{kind}");
        src[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(is_bad(&decode(kind, &src, 1024), "stream length"), "{kind}");
        for short in 0..header {
            assert!(matches!(decode(kind, &src[..short], 1024), Err(FormatError::Truncated { .. })), "{kind}");
        }
    }
}

#[test]
fn gzip_verifies_adler() {
    let plain = squares();
    let mut src = zlib(&plain, 6);
    let last = src.len() - 1;
    src[last] ^= 1;
    assert!(is_bad(&decode(CompressKind(10), &src, plain.len()), "stream"));
    src[last] ^= 1;
    src.resize(1024, 0);
    assert_eq!(decode(CompressKind(10), &src, plain.len()), Ok(plain.clone()));
    assert!(is_bad(&decode(CompressKind(10), &src, plain.len() + 1), "decoded length"));
    assert!(is_bad(&decode(CompressKind(10), &src, plain.len() - 1), "stream end"));
    assert!(is_bad(&decode(CompressKind(10), &src[..40], plain.len()), "stream end"));
}

#[test]
fn lz4_must_fill_the_logical_size() {
    let plain = squares();
    let src = encode(CompressKind::LZ4, &plain);
    assert!(is_bad(&decode(CompressKind::LZ4, &src, plain.len() + 1), "decoded length"));
    assert!(is_bad(&decode(CompressKind::LZ4, &src, plain.len() - 1), "stream"));
    // One literal, then a match that starts 2 bytes before the output.
    assert!(is_bad(&decode(CompressKind::LZ4, &frame(&[0x10, b'a', 3, 0, 0x10, b'b'], &[]), 6), "stream"));
}

#[test]
fn lzjb_decodes_literals_overlapping_and_cut_matches() {
    // a b, then 3 + 3 bytes from 2 back, then c.
    let src = [0b0000_0100, b'a', b'b', 3 << 2, 2, b'c'];
    assert_eq!(decode(CompressKind::LZJB, &src, 9).unwrap(), b"abababab\x63");
    assert_eq!(decode(CompressKind::LZJB, &src, 5).unwrap(), b"ababa");
    assert!(matches!(decode(CompressKind::LZJB, &src, 10), Err(FormatError::Truncated { .. })));
    assert!(is_bad(&decode(CompressKind::LZJB, &[0b10, b'a', 0, 2], 9), "distance"));
    assert!(is_bad(&decode(CompressKind::LZJB, &[0b10, b'a', 0, 0], 9), "distance"));
}

#[test]
fn zle_decodes_literals_and_zeros_and_refuses_runs_past_the_end() {
    let src = [1, b'a', b'b', 66, 0, b'c'];
    assert_eq!(decode(CompressKind::ZLE, &src, 6).unwrap(), b"ab\0\0\0c");
    assert!(is_bad(&decode(CompressKind::ZLE, &src, 4), "run"));
    assert!(is_bad(&decode(CompressKind::ZLE, &src, 1), "run"));
    assert!(matches!(decode(CompressKind::ZLE, &src, 7), Err(FormatError::Truncated { .. })));
    assert!(matches!(decode(CompressKind::ZLE, &[63, 1, 2], 64), Err(FormatError::Truncated { .. })));
}

#[test]
fn off_copies_and_kinds_that_store_nothing_are_refused() {
    assert_eq!(decode(CompressKind::OFF, b"abcd", 3).unwrap(), b"abc");
    assert!(matches!(decode(CompressKind::OFF, b"ab", 3), Err(FormatError::Truncated { need: 3, have: 2, .. })));
    for kind in [0, 1, 4].map(CompressKind) {
        assert!(is_bad(&decode(kind, &[0; 512], 512), "compression"), "{kind}");
    }
    for kind in [17, 127, 255].map(CompressKind) {
        assert!(matches!(decode(kind, &[0; 512], 512), Err(FormatError::Unsupported { .. })), "{kind}");
    }
}

proptest! {
    #[test]
    fn what_was_compressed_comes_back(kind in any_kind(), plain in compressible(), padding in 0..700_usize) {
        let mut src = encode(kind, &plain);
        src.resize(src.len() + padding, 0);
        prop_assert_eq!(decode(kind, &src, plain.len()), Ok(plain));
    }

    #[test]
    fn any_bytes_do_not_panic(
        kind in any::<u8>().prop_map(|kind| CompressKind(kind % 20)), lsize in 0..5000_usize,
        src in prop::collection::vec(any::<u8>(), 0..600), declared in 0..600_u32
    ) {
        let _ = decode(kind, &src, lsize);
        let mut framed = declared.to_be_bytes().to_vec();
        framed.extend_from_slice(&src);
        let _ = decode(kind, &framed, lsize);
    }

    #[test]
    fn damaged_streams_do_not_panic_and_leave_no_trace(
        kind in any_kind(), plain in compressible(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(), is_cut in any::<bool>(), grow in 0..100_usize
    ) {
        let good = encode(kind, &plain);
        let mut bad = good.clone();
        for (at, value) in hits {
            let at = at.index(bad.len());
            bad[at] ^= value;
        }
        if is_cut {
            bad.truncate(cut.index(bad.len() + 1));
        }
        let mut decompressor = Decompressor::new();
        let _ = decompressor.decompress(kind, &bad, &mut vec![0; plain.len() + grow]);
        let mut dst = vec![0xaa; plain.len()];
        prop_assert_eq!(decompressor.decompress(kind, &good, &mut dst), Ok(()));
        prop_assert_eq!(dst, plain);
    }
}
