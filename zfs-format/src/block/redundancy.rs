//! How many failures a block survives.

use crate::vdev::{Layout, TopVdev, VdevTree};

/// One address of a block, or of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strength {
    /// The top-level vdev of the address.
    pub vdev: u32,
    /// Devices that have to fail before the copy is lost; 0 when it is.
    pub failures_to_lose: u32,
    /// All copies and columns that the vdev should hold are good.
    pub is_full: bool,
}

impl Strength {
    /// Of an address of which `good` whole copies are good, on the top-level vdev `vdev`.
    #[must_use]
    pub fn of_copies(tree: &VdevTree, vdev: usize, good: usize) -> Self {
        let wanted = tree.tops.get(vdev).and_then(Option::as_ref).map_or(1, |top| top.copies);
        Self {
            vdev: u32::try_from(vdev).unwrap_or(u32::MAX),
            failures_to_lose: u32::try_from(good).unwrap_or(u32::MAX),
            is_full: good >= wanted,
        }
    }
}

/// What redundancy a block has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redundancy {
    addresses: [Option<Strength>; 3],
    failures_to_lose: u32,
}

impl Redundancy {
    /// Of a block with these addresses.
    #[must_use]
    pub fn new(addresses: &[Strength]) -> Self {
        let mut of = Self::default();
        for (slot, &address) in of.addresses.iter_mut().zip(addresses) {
            *slot = Some(address);
        }
        // Copies on one vdev may lie on the same devices, so only the strongest of them counts.
        of.failures_to_lose = of
            .vdevs()
            .filter_map(|(vdev, _)| of.on(vdev).map(|address| address.failures_to_lose).max())
            .fold(0, u32::saturating_add);
        of
    }

    /// Devices that have to fail before the block is lost; 0 when it is.
    #[must_use]
    pub fn failures_to_lose(&self) -> u32 {
        self.failures_to_lose
    }

    /// Each top-level vdev that holds the block, and whether all it should hold of it is good.
    pub fn vdevs(&self) -> impl Iterator<Item = (u32, bool)> {
        let addresses = self.addresses.iter().flatten();
        addresses.enumerate().filter_map(|(index, address)| {
            let is_first = !self.addresses.iter().flatten().take(index).any(|other| other.vdev == address.vdev);
            is_first.then(|| (address.vdev, self.on(address.vdev).all(|address| address.is_full)))
        })
    }

    fn on(&self, vdev: u32) -> impl Iterator<Item = &Strength> {
        self.addresses.iter().flatten().filter(move |address| address.vdev == vdev)
    }

    /// Adds a part without which the block is lost: a piece of a gang.
    pub(super) fn join(&mut self, part: &Self) {
        self.failures_to_lose = self.failures_to_lose.min(part.failures_to_lose);
        let is_full = part.addresses.iter().flatten().all(|address| address.is_full);
        for address in self.addresses.iter_mut().flatten() {
            address.is_full &= is_full;
        }
    }
}

impl TopVdev {
    /// Failures of devices that every block on the vdev should survive.
    #[must_use]
    pub fn failures_survived(&self) -> u64 {
        let mut survived = 0;
        let mut pending = vec![&self.layout];
        let mut sides = 0;
        while let Some(layout) = pending.pop() {
            match layout {
                Layout::Striped(vdev) => survived += vdev.parity() + 1,
                Layout::Mirror(children) => pending.extend(children),
                _ => sides = self.copies as u64,
            }
        }
        (survived + sides).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(vdev: u32, failures_to_lose: u32) -> Strength {
        Strength { vdev, failures_to_lose, is_full: failures_to_lose == 2 }
    }

    #[test]
    fn copies_on_different_vdevs_add_up() {
        assert_eq!(Redundancy::new(&[address(0, 2), address(1, 1)]).failures_to_lose(), 3);
        assert_eq!(Redundancy::new(&[address(0, 2), address(0, 1)]).failures_to_lose(), 2);
        assert_eq!(Redundancy::new(&[address(0, 0), address(1, 0)]).failures_to_lose(), 0);
        let vdevs: Vec<_> = Redundancy::new(&[address(3, 2), address(1, 2), address(3, 1)]).vdevs().collect();
        assert_eq!(vdevs, [(3, false), (1, true)]);
    }

    #[test]
    fn a_gang_is_as_weak_as_its_weakest_piece() {
        let mut gang = Redundancy::new(&[address(0, 2), address(1, 2)]);
        gang.join(&Redundancy::new(&[address(1, 1)]));
        assert_eq!(gang.failures_to_lose(), 1);
        assert_eq!(gang.vdevs().collect::<Vec<_>>(), [(0, false), (1, false)]);
    }
}
