//! The encoders here write what the parsers read; they were written from the description of the format, not from the
//! parsers, and the first test reads bytes that ZFS wrote.

use super::*;
use byteorder::{ByteOrder, WriteBytesExt};
use proptest::prelude::*;

/// The used part of the nvlist in label 0 of a pool on one file, made by OpenZFS 2.4.
const LABEL: &[u8] = include_bytes!("single-label.xdr");

#[test]
fn the_label_of_a_real_pool_reads_as_zdb_prints_it() {
    let list = NvList::parse(LABEL).unwrap();
    let names: Vec<_> = list.iter().map(|(name, _)| name).collect();
    assert_eq!(names[..5], ["version", "name", "state", "txg", "pool_guid"]);
    assert_eq!(list.u64("version"), Some(5000));
    assert_eq!(list.str("name"), Some("single"));
    assert_eq!(list.u64("txg"), Some(42));
    assert_eq!(list.u64("pool_guid"), Some(13_999_964_849_654_513_101));
    let tree = list.list("vdev_tree").unwrap();
    assert_eq!(tree.str("type"), Some("file"));
    assert_eq!(tree.u64("asize"), Some(62_390_272));
    let features = list.list("features_for_read").unwrap();
    assert!(features.has("com.delphix:hole_birth") && features.has("com.delphix:embedded_data"));
    assert_eq!(features.len(), 3);
    assert!(!list.has("name") && !list.has("no such name") && list.u64("name").is_none());
}

#[test]
fn a_label_cut_anywhere_is_truncated() {
    for length in 0..LABEL.len() {
        assert!(
            matches!(NvList::parse(&LABEL[..length]), Err(FormatError::Truncated { what: "nvlist", .. })),
            "length {length}"
        );
    }
}

fn xdr_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn xdr_string(out: &mut Vec<u8>, text: &str) {
    out.write_u32::<BigEndian>(text.len() as u32).unwrap();
    xdr_bytes(out, text.as_bytes());
}

fn xdr_cells<T: Copy>(out: &mut Vec<u8>, cells: &[T], mut put: impl FnMut(&mut Vec<u8>, T)) {
    out.write_u32::<BigEndian>(cells.len() as u32).unwrap();
    cells.iter().for_each(|&cell| put(out, cell));
}

/// Type number, element count, and the XDR form of a value.
fn xdr_value(value: &NvValue) -> (u32, usize, Vec<u8>) {
    type E = BigEndian;
    let mut o = Vec::new();
    let (number, count) = match value {
        NvValue::Boolean => (1, 0),
        NvValue::Byte(v) | NvValue::Uint8(v) => {
            o.write_u32::<E>((*v).into()).unwrap();
            (if matches!(value, NvValue::Byte(_)) { 2 } else { 23 }, 1)
        }
        NvValue::Int8(v) => (o.write_i32::<E>((*v).into()).map(|()| 22).unwrap(), 1),
        NvValue::Int16(v) => (o.write_i32::<E>((*v).into()).map(|()| 3).unwrap(), 1),
        NvValue::Uint16(v) => (o.write_u32::<E>((*v).into()).map(|()| 4).unwrap(), 1),
        NvValue::Int32(v) => (o.write_i32::<E>(*v).map(|()| 5).unwrap(), 1),
        NvValue::Uint32(v) => (o.write_u32::<E>(*v).map(|()| 6).unwrap(), 1),
        NvValue::Int64(v) => (o.write_i64::<E>(*v).map(|()| 7).unwrap(), 1),
        NvValue::Uint64(v) => (o.write_u64::<E>(*v).map(|()| 8).unwrap(), 1),
        NvValue::Hrtime(v) => (o.write_i64::<E>(*v).map(|()| 18).unwrap(), 1),
        NvValue::Double(v) => (o.write_f64::<E>(*v).map(|()| 27).unwrap(), 1),
        NvValue::BooleanValue(v) => (o.write_u32::<E>((*v).into()).map(|()| 21).unwrap(), 1),
        NvValue::String(v) => {
            xdr_string(&mut o, v);
            (9, 1)
        }
        NvValue::List(v) => {
            xdr_list(&mut o, v);
            (19, 1)
        }
        NvValue::ListArray(v) => {
            v.iter().for_each(|list| xdr_list(&mut o, list));
            (20, v.len())
        }
        NvValue::StringArray(v) => {
            v.iter().for_each(|text| xdr_string(&mut o, text));
            (17, v.len())
        }
        NvValue::ByteArray(v) => {
            xdr_bytes(&mut o, v);
            (10, v.len())
        }
        NvValue::BooleanArray(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_u32::<E>(cell.into()).unwrap());
            (24, v.len())
        }
        NvValue::Int8Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_i32::<E>(cell.into()).unwrap());
            (25, v.len())
        }
        NvValue::Uint8Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_u32::<E>(cell.into()).unwrap());
            (26, v.len())
        }
        NvValue::Int16Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_i32::<E>(cell.into()).unwrap());
            (11, v.len())
        }
        NvValue::Uint16Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_u32::<E>(cell.into()).unwrap());
            (12, v.len())
        }
        NvValue::Int32Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_i32::<E>(cell).unwrap());
            (13, v.len())
        }
        NvValue::Uint32Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_u32::<E>(cell).unwrap());
            (14, v.len())
        }
        NvValue::Int64Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_i64::<E>(cell).unwrap());
            (15, v.len())
        }
        NvValue::Uint64Array(v) => {
            xdr_cells(&mut o, v, |o, cell| o.write_u64::<E>(cell).unwrap());
            (16, v.len())
        }
        NvValue::Unknown { type_number, bytes } => {
            o.extend_from_slice(bytes);
            (*type_number, 1)
        }
    };
    (number, count, o)
}

fn xdr_list(out: &mut Vec<u8>, list: &NvList) {
    out.extend_from_slice(&[0; 4]);
    out.write_u32::<BigEndian>(list.flags).unwrap();
    for (name, value) in list.iter() {
        let (number, count, encoded) = xdr_value(value);
        let mut pair = Vec::new();
        xdr_string(&mut pair, name);
        pair.write_u32::<BigEndian>(number).unwrap();
        pair.write_u32::<BigEndian>(count as u32).unwrap();
        pair.extend_from_slice(&encoded);
        out.write_u32::<BigEndian>(pair.len() as u32 + 8).unwrap();
        out.write_u32::<BigEndian>(64).unwrap();
        out.extend_from_slice(&pair);
    }
    out.extend_from_slice(&[0; 8]);
}

fn xdr(list: &NvList) -> Vec<u8> {
    let mut out = vec![1, 1, 0, 0];
    xdr_list(&mut out, list);
    out
}

/// Type number, element count, the image in the pair, and the lists whose pairs follow it.
fn native_value<O: ByteOrder>(value: &NvValue) -> (u32, usize, Vec<u8>, Vec<&NvList>) {
    fn cells<T: Copy>(cells: &[T], mut put: impl FnMut(&mut Vec<u8>, T)) -> (usize, Vec<u8>, Vec<&'static NvList>) {
        let mut out = Vec::new();
        cells.iter().for_each(|&cell| put(&mut out, cell));
        (cells.len(), out, Vec::new())
    }
    fn image<O: ByteOrder>(out: &mut Vec<u8>, list: &NvList) {
        out.extend_from_slice(&[0; 4]);
        out.write_u32::<O>(list.flags).unwrap();
        out.extend_from_slice(&[0xaa; 16]);
    }
    let number = xdr_value(value).0;
    let (count, bytes, lists) = match value {
        NvValue::Boolean => (0, Vec::new(), Vec::new()),
        NvValue::Byte(v) | NvValue::Uint8(v) => cells(&[*v], |o, v| o.push(v)),
        NvValue::Int8(v) => cells(&[*v], |o, v| o.write_i8(v).unwrap()),
        NvValue::Int16(v) => cells(&[*v], |o, v| o.write_i16::<O>(v).unwrap()),
        NvValue::Uint16(v) => cells(&[*v], |o, v| o.write_u16::<O>(v).unwrap()),
        NvValue::Int32(v) => cells(&[*v], |o, v| o.write_i32::<O>(v).unwrap()),
        NvValue::Uint32(v) => cells(&[*v], |o, v| o.write_u32::<O>(v).unwrap()),
        NvValue::Int64(v) | NvValue::Hrtime(v) => cells(&[*v], |o, v| o.write_i64::<O>(v).unwrap()),
        NvValue::Uint64(v) => cells(&[*v], |o, v| o.write_u64::<O>(v).unwrap()),
        NvValue::Double(v) => cells(&[*v], |o, v| o.write_f64::<O>(v).unwrap()),
        NvValue::BooleanValue(v) => cells(&[*v], |o, v| o.write_u32::<O>(v.into()).unwrap()),
        NvValue::String(v) => (1, [v.as_bytes(), &[0]].concat(), Vec::new()),
        NvValue::ByteArray(v) | NvValue::Uint8Array(v) => (v.len(), v.clone(), Vec::new()),
        NvValue::BooleanArray(v) => cells(v, |o, v| o.write_u32::<O>(v.into()).unwrap()),
        NvValue::Int8Array(v) => cells(v, |o, v| o.write_i8(v).unwrap()),
        NvValue::Int16Array(v) => cells(v, |o, v| o.write_i16::<O>(v).unwrap()),
        NvValue::Uint16Array(v) => cells(v, |o, v| o.write_u16::<O>(v).unwrap()),
        NvValue::Int32Array(v) => cells(v, |o, v| o.write_i32::<O>(v).unwrap()),
        NvValue::Uint32Array(v) => cells(v, |o, v| o.write_u32::<O>(v).unwrap()),
        NvValue::Int64Array(v) => cells(v, |o, v| o.write_i64::<O>(v).unwrap()),
        NvValue::Uint64Array(v) => cells(v, |o, v| o.write_u64::<O>(v).unwrap()),
        NvValue::Unknown { bytes, .. } => (1, bytes.clone(), Vec::new()),
        NvValue::StringArray(v) => {
            let mut out = vec![0; 8 * v.len()];
            v.iter().for_each(|text| out.extend_from_slice(&[text.as_bytes(), &[0]].concat()));
            (v.len(), out, Vec::new())
        }
        NvValue::List(v) => {
            let mut out = Vec::new();
            image::<O>(&mut out, v);
            (1, out, vec![v])
        }
        NvValue::ListArray(v) => {
            let mut out = vec![0; 8 * v.len()];
            v.iter().for_each(|list| image::<O>(&mut out, list));
            (v.len(), out, v.iter().collect())
        }
    };
    (number, count, bytes, lists)
}

fn native_pairs<O: ByteOrder>(out: &mut Vec<u8>, list: &NvList) {
    for (name, value) in list.iter() {
        let (number, count, bytes, lists) = native_value::<O>(value);
        let value_offset = (16 + name.len() + 1).next_multiple_of(8);
        let size = (value_offset + bytes.len()).next_multiple_of(8);
        let end = out.len() + size;
        out.write_i32::<O>(size as i32).unwrap();
        out.write_i16::<O>(name.len() as i16 + 1).unwrap();
        out.write_i16::<O>(0).unwrap();
        out.write_u32::<O>(count as u32).unwrap();
        out.write_u32::<O>(number).unwrap();
        out.extend_from_slice(name.as_bytes());
        out.resize(end - size + value_offset, 0);
        out.extend_from_slice(&bytes);
        out.resize(end, 0);
        lists.into_iter().for_each(|list| native_pairs::<O>(out, list));
    }
    out.extend_from_slice(&[0; 4]);
}

fn native<O: ByteOrder>(endian: u8, list: &NvList) -> Vec<u8> {
    let mut out = vec![0, endian, 0, 0];
    out.write_u32::<O>(0).unwrap();
    out.write_u32::<O>(list.flags).unwrap();
    native_pairs::<O>(&mut out, list);
    out
}

fn leaf_value() -> impl Strategy<Value = NvValue> {
    use proptest::collection::vec;
    prop_oneof![
        Just(NvValue::Boolean),
        any::<bool>().prop_map(NvValue::BooleanValue),
        any::<u8>().prop_map(NvValue::Byte),
        any::<i8>().prop_map(NvValue::Int8),
        any::<u8>().prop_map(NvValue::Uint8),
        any::<i16>().prop_map(NvValue::Int16),
        any::<u16>().prop_map(NvValue::Uint16),
        any::<i32>().prop_map(NvValue::Int32),
        any::<u32>().prop_map(NvValue::Uint32),
        any::<i64>().prop_map(NvValue::Int64),
        any::<u64>().prop_map(NvValue::Uint64),
        (-1e9..1e9_f64).prop_map(NvValue::Double),
        any::<i64>().prop_map(NvValue::Hrtime),
        "[a-z:._]{0,12}".prop_map(NvValue::String),
        prop_oneof![
            vec(any::<u8>(), 0..9).prop_map(NvValue::ByteArray),
            vec(any::<bool>(), 0..5).prop_map(NvValue::BooleanArray),
            vec(any::<i8>(), 0..9).prop_map(NvValue::Int8Array),
            vec(any::<u8>(), 0..9).prop_map(NvValue::Uint8Array),
            vec(any::<i16>(), 0..5).prop_map(NvValue::Int16Array),
            vec(any::<u16>(), 0..5).prop_map(NvValue::Uint16Array),
            vec(any::<i32>(), 0..5).prop_map(NvValue::Int32Array),
            vec(any::<u32>(), 0..5).prop_map(NvValue::Uint32Array),
            vec(any::<i64>(), 0..5).prop_map(NvValue::Int64Array),
            vec(any::<u64>(), 0..5).prop_map(NvValue::Uint64Array),
            vec("[a-z]{0,9}", 0..4).prop_map(NvValue::StringArray),
        ],
        vec(any::<u64>(), 1..3).prop_map(|words| NvValue::Unknown {
            type_number: 99,
            bytes: words.into_iter().flat_map(u64::to_be_bytes).collect()
        }),
    ]
}

fn any_list() -> impl Strategy<Value = NvList> {
    let named = |value: BoxedStrategy<NvValue>| {
        (0..3_u32, proptest::collection::vec(("[a-z_]{1,9}", value), 0..5))
            .prop_map(|(flags, pairs)| NvList { flags, pairs })
    };
    named(leaf_value().boxed())
        .prop_recursive(3, 30, 4, move |list| {
            let nested = prop_oneof![
                leaf_value(),
                list.clone().prop_map(NvValue::List),
                proptest::collection::vec(list, 0..3).prop_map(NvValue::ListArray),
            ];
            named(nested.boxed())
        })
        .boxed()
}

/// `depth` lists, each inside the one before.
fn nested(depth: usize) -> NvList {
    let mut list = NvList::default();
    for _ in 1..depth {
        list = NvList { flags: 1, pairs: vec![("in".to_owned(), NvValue::List(list))] };
    }
    list
}

#[test]
fn lists_nest_up_to_the_limit_and_no_deeper() {
    let encoders: [fn(&NvList) -> Vec<u8>; 3] =
        [xdr, |list| native::<LittleEndian>(1, list), |list| native::<BigEndian>(0, list)];
    for encode in encoders {
        assert!(NvList::parse(&encode(&nested(NVLIST_DEPTH_MAX))).is_ok());
        let deep = NvList::parse(&encode(&nested(NVLIST_DEPTH_MAX + 1)));
        assert_eq!(deep, Err(FormatError::bad_field("nvlist", "depth", 32, "below 32")));
    }
}

#[test]
fn each_bad_field_is_named() {
    let one = NvList { flags: 1, pairs: vec![("n".to_owned(), NvValue::Uint64(7))] };
    let broken = |at: usize, byte: u8, mut bytes: Vec<u8>| {
        bytes[at] = byte;
        match NvList::parse(&bytes) {
            Err(FormatError::BadField { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(broken(0, 2, xdr(&one)), "encoding");
    assert_eq!(broken(7, 1, xdr(&one)), "version");
    assert_eq!(broken(12, 0xff, xdr(&one)), "encoded size");
    assert_eq!(broken(16, 0xff, xdr(&one)), "decoded size");
    assert_eq!(broken(20, 0xff, xdr(&one)), "string length");
    assert_eq!(broken(31, 0, xdr(&one)), "data type");
    assert_eq!(broken(32, 0xff, xdr(&one)), "element count");
    let array = NvList { flags: 1, pairs: vec![("n".to_owned(), NvValue::Uint64Array(vec![7]))] };
    assert_eq!(broken(36, 0xff, xdr(&array)), "array count");
    let image = || native::<BigEndian>(0, &one);
    assert_eq!(broken(1, 2, image()), "endian");
    assert_eq!(broken(7, 1, image()), "version");
    assert_eq!(broken(12, 0xff, image()), "pair size");
    assert_eq!(broken(16, 0xff, image()), "name size");
    assert_eq!(broken(20, 0xff, image()), "element count");
    assert_eq!(broken(27, 0, image()), "data type");
}

#[test]
fn a_count_larger_than_the_bytes_left_allocates_nothing() {
    for value in [NvValue::Uint64Array(vec![1]), NvValue::ListArray(vec![]), NvValue::StringArray(vec![])] {
        let list = NvList { flags: 1, pairs: vec![("n".to_owned(), value)] };
        let mut bytes = xdr(&list);
        bytes[32..36].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        if bytes.len() > 50 {
            bytes[36..40].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        }
        assert!(matches!(NvList::parse(&bytes), Err(FormatError::Truncated { .. })));
        let mut bytes = native::<BigEndian>(0, &list);
        bytes[20..24].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        assert!(matches!(NvList::parse(&bytes), Err(FormatError::Truncated { .. })));
    }
}

proptest! {
    #[test]
    fn both_encodings_and_both_byte_orders_agree(list in any_list()) {
        prop_assert_eq!(NvList::parse(&xdr(&list)), Ok(list.clone()));
        prop_assert_eq!(NvList::parse(&native::<LittleEndian>(1, &list)), Ok(list.clone()));
        prop_assert_eq!(NvList::parse(&native::<BigEndian>(0, &list)), Ok(list));
    }

    #[test]
    fn any_bytes_do_not_panic(
        encoding in 0..3_u8,
        endian in 0..3_u8,
        tail in proptest::collection::vec(prop_oneof![Just(0_u8), 0..32_u8, any::<u8>()], 0..200),
    ) {
        let _ = NvList::parse(&[vec![encoding, endian, 0, 0, 0, 0, 0, 0], tail].concat());
    }

    #[test]
    fn a_list_with_one_bad_byte_does_not_panic(list in any_list(), at: prop::sample::Index, byte: u8) {
        for mut bytes in [xdr(&list), native::<LittleEndian>(1, &list)] {
            let index = at.index(bytes.len());
            bytes[index] = byte;
            let _ = NvList::parse(&bytes);
        }
    }
}
