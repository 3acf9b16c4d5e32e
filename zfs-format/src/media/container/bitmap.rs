//! Bitmaps that say which sectors of a block an image holds, in VHD and VHDX.

use crate::media::{MediaError, ReadAt};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of bitmaps that are kept: those of 2 MiB blocks have 512 each.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// No block has a larger bitmap: that of a VHD with blocks of 2 GiB.
const BITMAP_BYTES_MAX: u64 = 512 << 10;

/// Which bit of a byte is the first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The most significant one (VHD).
    HighFirst,
    /// The least significant one (VHDX).
    LowFirst,
}

/// Bitmaps read lately, by where they are in the file.
#[derive(Debug, Default)]
pub(super) struct Bitmaps {
    kept: Mutex<VecDeque<(u64, Arc<[u8]>)>>,
}

impl Bitmaps {
    /// The bitmap of `length` bytes at `offset` of `file`.
    ///
    /// # Errors
    /// What reading it gives.
    pub(super) fn read(&self, file: &dyn ReadAt, offset: u64, length: u64) -> Result<Arc<[u8]>, MediaError> {
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, bits)) = kept.iter().rev().find(|(at, _)| *at == offset) {
                return Ok(Arc::clone(bits));
            }
        }
        let mut bits = vec![0; usize::try_from(length.min(BITMAP_BYTES_MAX)).unwrap_or(0)];
        file.read_at(&mut bits, offset)?;
        let bits: Arc<[u8]> = bits.into();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((offset, Arc::clone(&bits)));
        let mut total: usize = kept.iter().map(|(_, bits)| bits.len()).sum();
        while total > KEPT_BYTES_MAX && kept.len() > 1 {
            total -= kept.pop_front().map_or(0, |(_, bits)| bits.len());
        }
        Ok(bits)
    }
}

/// The bit number `first`, and how many from there on are like it, at most to the end. Bits beyond the end are 0.
pub(super) fn run(bits: &[u8], order: Order, first: u64) -> (bool, u64) {
    let bit = |index: u64| {
        let byte = usize::try_from(index / 8).ok().and_then(|at| bits.get(at)).copied().unwrap_or(0);
        let shift = match order {
            Order::HighFirst => 7 - index % 8,
            Order::LowFirst => index % 8,
        };
        byte >> shift & 1 == 1
    };
    let value = bit(first);
    let (whole, end) = (if value { u8::MAX } else { 0 }, bits.len() as u64 * 8);
    let mut next = first.saturating_add(1);
    while next < end {
        let byte = usize::try_from(next / 8).ok().and_then(|at| bits.get(at)).copied();
        if next.is_multiple_of(8) && byte == Some(whole) {
            next = next.saturating_add(8);
        } else if bit(next) == value {
            next = next.saturating_add(1);
        } else {
            break;
        }
    }
    (value, next.saturating_sub(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_those_that_single_bits_give() {
        let bits = [0xff_u8, 0xff, 0x0f, 0x00, 0x00, 0x80, 0x01, 0x55];
        for order in [Order::HighFirst, Order::LowFirst] {
            let plain: Vec<bool> = (0..64)
                .map(|at: usize| match order {
                    Order::HighFirst => format!("{:08b}", bits[at / 8]).as_bytes()[at % 8] == b'1',
                    Order::LowFirst => format!("{:08b}", bits[at / 8].reverse_bits()).as_bytes()[at % 8] == b'1',
                })
                .collect();
            for first in 0..64 {
                let length = plain[first..].iter().take_while(|&&bit| bit == plain[first]).count();
                assert_eq!(run(&bits, order, first as u64), (plain[first], length as u64), "{order:?} {first}");
            }
        }
    }
}
