//! Whether somebody writes to the pool while it is read: its uberblocks, looked at again.

use super::assembly::{Assembly, Member};
use super::labels::{DeviceLabels, Label};
use crate::Guid;
use crate::ondisk::uberblock::Uberblock;

impl Assembly {
    /// The newest uberblock when the labels were first read.
    #[must_use]
    pub fn newest_uberblock(&self) -> Option<Uberblock> {
        newest(self.guid, self.members.iter().map(|member| &member.labels))
    }

    /// The newest uberblock now: reads the rings of all members again. What cannot be read is passed over.
    #[must_use]
    pub fn newest_uberblock_now(&self) -> Option<Uberblock> {
        let now = |member: &Member| member.labels.with_rings_now(&*member.medium);
        let read: Vec<DeviceLabels> = self.members.iter().map(now).collect();
        newest(self.guid, &read)
    }
}

fn newest<'a>(pool: Guid, devices: impl IntoIterator<Item = &'a DeviceLabels>) -> Option<Uberblock> {
    let labels = devices.into_iter().flat_map(|device| &device.labels);
    let uberblocks = labels.filter(|label| label.pool_guid() == Some(pool)).flat_map(Label::uberblocks);
    uberblocks.map(|(_, uberblock)| uberblock).max_by(|a, b| a.cmp_best(b)).copied()
}
