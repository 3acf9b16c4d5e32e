//! A small mutator for runs on stable Rust: no feedback, but the structure of good seeds.

/// Random numbers by a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.roll() % (limit.max(1) as u64)) as usize
    }
}

/// Changes bytes in a few places.
pub fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(6) {
        mutate_once(bytes, dice);
    }
}

fn mutate_once(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len());
    let length = dice.below(bytes.len() - at).min(1 << dice.below(12));
    match dice.below(10) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, dice.roll() as u8),
        2 => {
            let piece = bytes[at..at + length].to_vec();
            let to = dice.below(bytes.len());
            bytes.splice(to..to, piece);
            bytes.truncate(1 << 17);
        }
        3 => drop(bytes.drain(at..at + length)),
        4 => bytes[at..at + length].fill(if dice.roll() & 1 == 0 { 0 } else { 0xff }),
        5 | 6 => {
            let word = [0, 1, 0xff, 0x7f, 0x80, 1 << 31, 1 << 63, u64::MAX, dice.roll(), dice.roll() % 300];
            let word = word[dice.below(word.len())];
            let word = if dice.roll() & 1 == 0 { word.to_le_bytes() } else { word.to_be_bytes() };
            let size = 1 << dice.below(4);
            let end = (at + size).min(bytes.len());
            bytes[at..end].copy_from_slice(&word[..end - at]);
        }
        7 => bytes.extend((0..dice.below(64)).map(|_| dice.roll() as u8)),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
    }
}
