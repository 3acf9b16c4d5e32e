//! From labels to an open pool, in stages: labels, members, the chosen uberblock, the MOS.
//!
//! Each stage fills plain values that the lower floors hold; damage never stops a stage that can do without.

mod activity;
mod assembly;
mod auxiliary;
mod brt;
mod candidate;
mod checkpoint;
mod ddt;
mod duplicate;
mod history;
mod keys;
mod labels;
mod mos;
mod pending;
mod places;
mod remembered;
mod removed;
mod salt;
mod search;
mod states;
mod watch;

pub use activity::{Freeing, PartialReceive, Removal};
pub use assembly::{Assembly, AssemblyError, ChosenUberblock, Ignored, Member, PoolChoice, PoolState, Selector};
pub use auxiliary::{Auxiliary, UnreadRole};
pub use candidate::Candidate;
pub use ddt::{DdtTable, EachDdtEntry};
pub use duplicate::{Duplicate, Relation};
pub use history::{HistoryPiece, OnHistory};
pub use keys::{KeyError, Secret, unwrap_key};
pub use labels::{AreaState, ConfigState, DeviceLabels, Label, Slot, SlotState};
pub use mos::{Mos, MosError};
pub use places::{Look, LookError, members};
pub use remembered::Remembered;
pub use removed::{UnknownMapping, load_removed};
pub use states::RecordedState;
