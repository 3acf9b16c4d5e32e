//! Checks beside the walk over all blocks.

pub(crate) mod activity;
pub(crate) mod devices;
pub(crate) mod drives;
pub(crate) mod exchange;
pub(crate) mod features;
pub(crate) mod images;
pub(crate) mod keys;
pub(crate) mod labels;
pub(crate) mod missing_logs;
pub(crate) mod notices;
pub(crate) mod states;
