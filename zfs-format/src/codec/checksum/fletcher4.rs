//! fletcher4: four running sums over 32-bit words. The checksum of almost every block.
//!
//! A word that has `n` words from itself to the end, itself included, enters the sums with the weights 1, n, n(n+1)/2
//! and n(n+1)(n+2)/6. So the words can be dealt to N independent lanes (word `i` to lane `i mod N`) and the lanes'
//! sums put together afterwards: in a lane of `m` words such a word has weight index p where n = N·p − j, j being the
//! lane, and the weights of n are integer combinations of the weights of p. [`join_lanes`] holds these combinations.
//! In the same way [`append`] joins the sums of two stretches of bytes.

use super::Checksum;
use crate::Endian;
use std::sync::OnceLock;

/// A way to compute the sums: takes whole words, ignores the incomplete word at the end.
pub(super) type Kernel = fn(Endian, &[u8]) -> Checksum;

/// The plain loop: one word at a time. The reference for every other form.
///
/// Source: OpenZFS module/zcommon/zfs_fletcher.c, `fletcher_4_scalar_native`, `fletcher_4_scalar_byteswap`.
pub(super) fn plain(endian: Endian, bytes: &[u8]) -> Checksum {
    match endian {
        Endian::Little => add([0; 4], bytes.as_chunks().0, u32::from_le_bytes),
        Endian::Big => add([0; 4], bytes.as_chunks().0, u32::from_be_bytes),
    }
}

/// The fastest form this CPU has, checked once against [`plain`].
pub(super) fn fast(endian: Endian, bytes: &[u8]) -> Checksum {
    (chosen().1)(endian, bytes)
}

/// Name of the fletcher4 form in use: `avx512`, `avx2` or `plain`.
#[must_use]
pub fn kernel_name() -> &'static str {
    chosen().0
}

/// Sums over `first` bytes and then `next`, when `sums` are those of `first` and `first` is whole words.
pub(super) fn append(endian: Endian, sums: Checksum, next: &[u8]) -> Checksum {
    let [a, b, c, d] = sums;
    let [na, nb, nc, nd] = fast(endian, next);
    let n = u128::try_from(next.len() / 4).unwrap_or(0);
    // Exact below 2^42 words, 16 TiB; a slice is never that long.
    let weight2 = n.wrapping_mul(n + 1) / 2;
    let weight3 = weight2.wrapping_mul(n + 2) / 3;
    let [n, weight2, weight3] = [n, weight2, weight3].map(low64);
    [
        na.wrapping_add(a),
        nb.wrapping_add(b).wrapping_add(n.wrapping_mul(a)),
        nc.wrapping_add(c).wrapping_add(n.wrapping_mul(b)).wrapping_add(weight2.wrapping_mul(a)),
        nd.wrapping_add(d)
            .wrapping_add(n.wrapping_mul(c))
            .wrapping_add(weight2.wrapping_mul(b))
            .wrapping_add(weight3.wrapping_mul(a)),
    ]
}

/// The sums are modulo 2^64, so the low half of a weight is enough.
fn low64(value: u128) -> u64 {
    value as u64
}

#[inline(always)]
fn add(sums: Checksum, words: &[[u8; 4]], load: impl Fn([u8; 4]) -> u32) -> Checksum {
    let [mut a, mut b, mut c, mut d] = sums;
    for &word in words {
        a = a.wrapping_add(u64::from(load(word)));
        b = b.wrapping_add(a);
        c = c.wrapping_add(b);
        d = d.wrapping_add(c);
    }
    [a, b, c, d]
}

/// N lanes, for the compiler to turn into vector code of whatever instruction set the caller enables. N is even.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "other targets use the plain loop so far"))]
#[inline(always)]
pub(super) fn lanes<const N: usize>(endian: Endian, bytes: &[u8]) -> Checksum {
    match endian {
        Endian::Little => add_lanes::<N>(bytes, u32::from_le_bytes),
        Endian::Big => add_lanes::<N>(bytes, u32::from_be_bytes),
    }
}

#[inline(always)]
fn add_lanes<const N: usize>(bytes: &[u8], load: impl Fn([u8; 4]) -> u32) -> Checksum {
    let (words, _) = bytes.as_chunks::<4>();
    let (rows, rest) = words.as_chunks::<N>();
    let [mut a, mut b, mut c, mut d] = [[0_u64; N]; 4];
    for row in rows {
        for j in 0..N {
            a[j] = a[j].wrapping_add(u64::from(load(row[j])));
            b[j] = b[j].wrapping_add(a[j]);
            c[j] = c[j].wrapping_add(b[j]);
            d[j] = d[j].wrapping_add(c[j]);
        }
    }
    add(join_lanes(&a, &b, &c, &d), rest, load)
}

/// Puts the sums of N lanes together; see the head of this file.
#[inline(always)]
fn join_lanes<const N: usize>(a: &[u64; N], b: &[u64; N], c: &[u64; N], d: &[u64; N]) -> Checksum {
    let mut sums = [0_u64; 4];
    let n = N as i64;
    let times = |value: u64, weight: i64| value.wrapping_mul(weight.cast_unsigned());
    for lane in 0..N {
        let j = lane as i64;
        let (a, b, c, d) = (a[lane], b[lane], c[lane], d[lane]);
        let terms = [
            a,
            times(b, n).wrapping_add(times(a, -j)),
            times(c, n * n).wrapping_add(times(b, -n * (n + 2 * j - 1) / 2)).wrapping_add(times(a, j * (j - 1) / 2)),
            times(d, n * n * n)
                .wrapping_add(times(c, -n * n * (n + j - 1)))
                .wrapping_add(times(b, n * (n * n + 3 * n * (j - 1) + 3 * j * j - 6 * j + 2) / 6))
                .wrapping_add(times(a, -j * (j - 1) * (j - 2) / 6)),
        ];
        for (sum, term) in sums.iter_mut().zip(terms) {
            *sum = sum.wrapping_add(term);
        }
    }
    sums
}

/// The forms this CPU can run, fastest first. [`plain`] is not among them.
pub(super) fn candidates() -> Vec<(&'static str, Kernel)> {
    #[cfg(target_arch = "x86_64")]
    {
        super::fletcher4_x86::kernels()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Vec::new()
    }
}

fn chosen() -> (&'static str, Kernel) {
    static CHOSEN: OnceLock<(&'static str, Kernel)> = OnceLock::new();
    *CHOSEN.get_or_init(|| candidates().into_iter().find(|(_, kernel)| agrees(*kernel)).unwrap_or(("plain", plain)))
}

/// Compares a form with [`plain`] on fixed bytes with the top bits of words set, in both orders and ragged lengths.
///
/// Virtual machines have been seen to compute wrong vector sums, and a scrub must not blame the pool for that.
fn agrees(kernel: Kernel) -> bool {
    let bytes: Vec<u8> = (0..4099_u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8 | 0x80).collect();
    [Endian::Little, Endian::Big].into_iter().all(|endian| {
        [4099, 4096, 4092, 60, 4, 0]
            .into_iter()
            .filter_map(|len| bytes.get(..len))
            .all(|part| kernel(endian, part) == plain(endian, part))
    })
}
