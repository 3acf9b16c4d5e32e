//! The states of a pool that its uberblock rings still hold.
//!
//! Each txg overwrites the oldest slot of every ring, so that the last 32 to 256 states have their uberblocks kept. What
//! they lead to is kept only for as long as its space is not used again, which ZFS avoids for a few txgs.

use super::assembly::{Assembly, AssemblyError, ChosenUberblock, tree_from_labels};
use super::duplicate::pool_labels;
use crate::Txg;
use crate::ondisk::blkptr::Dva;
use crate::ondisk::uberblock::Uberblock;
use std::collections::BTreeMap;

/// A state of the pool: all uberblocks of one txg that have one root.
#[derive(Clone, Debug)]
pub struct RecordedState {
    /// The best of its uberblocks, and where that was found first.
    pub chosen: ChosenUberblock,
    /// Slots that hold it, in all labels of all devices.
    pub slots: usize,
    /// Devices that hold it.
    pub devices: usize,
    /// Another state has the same txg: two systems wrote the pool.
    pub has_twin: bool,
}

/// What tells states apart: an uberblock that is written again as a sign of life (MMP) has the same root.
type Key = (Txg, [u64; 4], Option<Dva>);

fn key(uberblock: &Uberblock) -> Key {
    (uberblock.txg, uberblock.rootbp.checksum(), uberblock.rootbp.dva(0))
}

impl Assembly {
    /// The states that the rings of all devices hold, the newest first.
    #[must_use]
    pub fn states(&self) -> Vec<RecordedState> {
        let mut found: BTreeMap<Key, (RecordedState, usize)> = BTreeMap::new();
        for (index, member) in self.members.iter().enumerate() {
            for label in pool_labels(member, self.guid) {
                for (slot, uberblock) in label.uberblocks() {
                    let here = ChosenUberblock { uberblock: *uberblock, member: index, label: label.index, slot };
                    let new = RecordedState { chosen: here.clone(), slots: 0, devices: 0, has_twin: false };
                    let (state, last) = found.entry(key(uberblock)).or_insert((new, usize::MAX));
                    state.slots += 1;
                    if *last != index {
                        (*last, state.devices) = (index, state.devices + 1);
                    }
                    if uberblock.cmp_best(&state.chosen.uberblock).is_gt() {
                        state.chosen = here;
                    }
                }
            }
        }
        let mut of_txg: BTreeMap<Txg, usize> = BTreeMap::new();
        for (txg, ..) in found.keys() {
            *of_txg.entry(*txg).or_default() += 1;
        }
        let mut states: Vec<RecordedState> = found.into_values().map(|(state, _)| state).collect();
        for state in &mut states {
            state.has_twin = of_txg.get(&state.chosen.uberblock.txg).is_some_and(|&count| count > 1);
        }
        // Of equal ones the order of the map stays, which is that of their checksums.
        states.sort_by(|a, b| b.chosen.uberblock.cmp_best(&a.chosen.uberblock));
        states
    }

    /// Goes to another state: the pool is then what it was at that uberblock. What was read of the MOS is forgotten.
    ///
    /// # Errors
    /// [`AssemblyError::Config`] when no label describes the devices of that time.
    pub fn select(&mut self, state: &RecordedState) -> Result<(), AssemblyError> {
        let txg = state.chosen.uberblock.txg;
        let mut tree = tree_from_labels(&self.members, self.guid, txg)
            .map_err(|source| AssemblyError::Config { name: self.name.clone(), source })?;
        tree.set_reflow(&state.chosen.uberblock);
        self.tree = tree;
        self.chosen = state.chosen.clone();
        self.salt = None;
        Ok(())
    }
}
