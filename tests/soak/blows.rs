//! What is done to devices, by chance.

use crate::overlay::Overlay;
use crate::subject::Subject;
use fixtures::LeafSpan;
use std::fmt::Write;

/// Labels and boot area at the start of a device, labels at its end.
const FRONT_BYTES: usize = 4 << 20;
const LABEL_BYTES: usize = 256 << 10;

/// Chance that can be had again: splitmix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, round: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.roll() % limit.max(1) as u64).unwrap()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.roll() as u8).collect()
    }
}

/// Damaged devices, and what was done to them.
pub(crate) struct Damage {
    pub(crate) devices: Vec<Overlay>,
    blows: Vec<String>,
}

impl Damage {
    /// What was done, for people.
    pub(crate) fn told(&self) -> String {
        let mut text = String::new();
        for blow in &self.blows {
            write!(text, "{}{blow}", if text.is_empty() { "" } else { "; " }).unwrap();
        }
        text
    }

    fn note(&mut self, what: &str, device: usize, at: usize, length: usize) {
        self.blows.push(format!("{what} at device {device} +{at:#x}, {length} bytes"));
    }

    fn write(&mut self, what: &str, device: usize, at: usize, bytes: Vec<u8>) {
        self.note(what, device, at, bytes.len());
        self.devices[device].write(at, bytes);
    }

    /// Changes a range in one of the ways in which storage lies.
    fn spoil(&mut self, device: usize, at: usize, length: usize, dice: &mut Dice) {
        let old = self.devices[device].read(at, length);
        let (what, new) = match dice.below(8) {
            0 | 1 => ("zeros", vec![0; old.len()]),
            2 => ("ones", vec![0xff; old.len()]),
            3 => {
                let mut new = old;
                if let Some(length) = std::num::NonZero::new(new.len()) {
                    let (byte, bit) = (dice.below(length.get()), dice.below(8));
                    new[byte] ^= 1 << bit;
                }
                ("one bit", new)
            }
            4 => ("a bit of each byte", old.iter().map(|byte| byte ^ 0x10).collect()),
            5 => {
                let words = b"Nov 30 03:12:07 host kernel: ata3.00: failed command: READ FPDMA QUEUED\n";
                ("text", words.iter().copied().cycle().take(old.len()).collect())
            }
            6 => {
                let from = dice.below(self.devices[device].size().saturating_sub(old.len()));
                let mut other = self.devices[device].read(from, old.len());
                other.resize(old.len(), 0);
                ("other content of the device", other)
            }
            _ => ("noise", dice.bytes(old.len())),
        };
        self.write(what, device, at, new);
    }

    /// From sixteen bytes to a MiB.
    fn length(dice: &mut Dice) -> usize {
        let most = 16_usize << dice.below(17);
        1 + dice.below(most)
    }

    fn one_span(&mut self, span: &LeafSpan, dice: &mut Dice) {
        let (at, length) = (usize::try_from(span.offset_bytes).unwrap(), usize::try_from(span.len_bytes).unwrap());
        let from = if dice.below(2) == 0 { 0 } else { dice.below(length) };
        let length = if dice.below(2) == 0 { length - from } else { 1 + dice.below(length - from) };
        self.spoil(span.device, at + from, length, dice);
    }

    fn blow(&mut self, pool: &Subject, dice: &mut Dice) {
        let device = dice.below(self.devices.len());
        let size = self.devices[device].size();
        match (dice.below(100), pool.blocks.as_deref()) {
            // One leaf of one copy.
            (0..40, Some(blocks)) => {
                let block = &blocks[dice.below(blocks.len())];
                let copy = &block.copies[dice.below(block.copies.len())];
                let span = copy.leaves[dice.below(copy.leaves.len())];
                self.one_span(&span, dice);
            }
            // All of a block.
            (40..48, Some(blocks)) => {
                let block = &blocks[dice.below(blocks.len())];
                for span in block.copies.iter().flat_map(|copy| &copy.leaves) {
                    self.one_span(span, dice);
                }
            }
            // One block written over another.
            (48..54, Some(blocks)) => {
                let [from, to] = [(); 2].map(|()| {
                    let copy = &blocks[dice.below(blocks.len())].copies[0];
                    copy.leaves[dice.below(copy.leaves.len())]
                });
                let length = usize::try_from(from.len_bytes.min(to.len_bytes)).unwrap();
                let bytes = self.devices[from.device].read(usize::try_from(from.offset_bytes).unwrap(), length);
                self.write("a misplaced block", to.device, usize::try_from(to.offset_bytes).unwrap(), bytes);
            }
            // The labels.
            (54..62, _) => {
                let label = dice.below(4);
                let start =
                    if label < 2 { label * LABEL_BYTES } else { size.saturating_sub((4 - label) * LABEL_BYTES) };
                let (at, length) = (dice.below(LABEL_BYTES), Self::length(dice).min(LABEL_BYTES));
                self.spoil(device, start + at, length, dice);
            }
            // A piece of each MiB.
            (62..70, _) => {
                let piece = 512_usize << dice.below(8);
                let (first, within) = (FRONT_BYTES + dice.below(size / 2), dice.below((1 << 20) - piece) / 512 * 512);
                for mib in (first >> 20..size >> 20).take(1 + dice.below(40)) {
                    self.write("zeros in each MiB", device, (mib << 20) + within, vec![0; piece]);
                }
            }
            // Everything from here moved on by a few sectors.
            (70..73, _) => {
                let at = FRONT_BYTES + dice.below(size / 4) / 512 * 512;
                let length = (1 << 16) + dice.below(4 << 20);
                let bytes = self.devices[device].read(at, length);
                self.write("shifted", device, at + (512 << dice.below(4)), bytes);
            }
            // The end is gone.
            (73..75, _) => {
                let end = FRONT_BYTES + dice.below(size - FRONT_BYTES);
                self.note("cut", device, end, size - end);
                self.devices[device].cut(end);
            }
            // A large range of zeros.
            (75..78, _) => {
                let (at, length) = (dice.below(size), dice.below(16 << 20));
                self.write("a range of zeros", device, at, vec![0; length]);
            }
            // The same place on all devices.
            (78..82, _) => {
                let (at, length) = (FRONT_BYTES + dice.below(size / 4), Self::length(dice));
                for device in 0..self.devices.len() {
                    self.spoil(device, at, length, dice);
                }
            }
            // Near the start of the data, where blocks are.
            (82..92, _) => {
                let (at, length) = (FRONT_BYTES + dice.below(8 << 20), Self::length(dice));
                self.spoil(device, at, length, dice);
            }
            _ => {
                let (at, length) = (dice.below(size), Self::length(dice));
                self.spoil(device, at, length, dice);
            }
        }
    }
}

/// Damages a pool.
pub(crate) fn strike(pool: &Subject, dice: &mut Dice) -> Damage {
    let devices = pool.devices.iter().map(|(_, base)| Overlay::new(base.clone())).collect();
    let mut damage = Damage { devices, blows: Vec::new() };
    let most = if dice.below(4) == 0 { 24 } else { 3 };
    let blows = 1 + dice.below(most);
    for _ in 0..blows {
        damage.blow(pool, dice);
    }
    damage
}

/// Where labels are, of a device that was so large: begin and length.
pub(crate) fn label_places(size: usize) -> [(usize, usize); 2] {
    let end = size / LABEL_BYTES * LABEL_BYTES;
    [(0, 2 * LABEL_BYTES), (end - 2 * LABEL_BYTES, size - end + 2 * LABEL_BYTES)]
}
