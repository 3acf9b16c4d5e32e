//! The JSON report, `zcheck.report/1`. `docs/report.schema.json` describes it.

mod identity;
mod notices;

pub(super) use self::identity::IdentityView;
use self::notices::IntentLogView;
use super::Report;
use super::remembered::RememberedView;
use super::states::StateView;
use serde::{Serialize, Serializer};
use zfs_scrub::Outcome;
use zfs_scrub::finding::{CopyEvidence, Finding, Place, StoredPart};
use zfs_scrub::outcome::{
    FeatureFacts, FileAtRisk, FileDamage, NotChecked, PoolFacts, RedundancyFacts, Summary, Totals, VdevFacts,
};

/// Name and version of the schema.
const SCHEMA: &str = "zcheck.report/1";

/// The largest number every JSON reader keeps exact, plus one: 2^53.
const EXACT_MAX: u64 = 1 << 53;

/// The JSON report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Json;

impl Report for Json {
    fn render(&self, outcome: &Outcome) -> Result<String, serde_json::Error> {
        print(&Document::from(outcome))
    }
}

/// One document with the newline at its end.
pub(super) fn print(document: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = escape_controls(&serde_json::to_string_pretty(document)?);
    text.push('\n');
    Ok(text)
}

/// Escapes what JSON allows in strings but a terminal obeys: U+007F to U+009F. Outside of strings there is none.
fn escape_controls(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && character.is_control() {
            text.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text
}

/// An identity that always is a string.
pub(super) struct Text(pub(super) u64);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An object, object set or block number: a string above 2^53.
pub(super) struct Identity(pub(super) u64);

impl Serialize for Identity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 > EXACT_MAX { serializer.collect_str(&self.0) } else { serializer.serialize_u64(self.0) }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool: ToolView,
    pool: PoolView<'a>,
    vdevs: Vec<VdevView<'a>>,
    spares: Vec<VdevView<'a>>,
    l2cache: Vec<VdevView<'a>>,
    totals: TotalsView,
    findings: Vec<FindingView<'a>>,
    patterns: &'a [String],
    not_checked: Vec<NotCheckedView<'a>>,
    intent_logs: Vec<IntentLogView<'a>>,
    files: Vec<FileView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_risk: Option<AtRiskList<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    states: Vec<StateView<'a>>,
    remembered: RememberedView<'a>,
    summary: SummaryView,
}

/// Files that one more failure would hurt, when that was asked for.
#[derive(Serialize)]
struct AtRiskList<'a> {
    files: Vec<AtRiskView<'a>>,
    /// There are more.
    cut: bool,
}

impl<'a> From<&'a Outcome> for Document<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        Self {
            schema: SCHEMA,
            tool: ToolView::default(),
            pool: (&outcome.pool).into(),
            vdevs: outcome.vdevs.iter().map(Into::into).collect(),
            spares: outcome.spares.iter().map(Into::into).collect(),
            l2cache: outcome.caches.iter().map(Into::into).collect(),
            totals: outcome.totals.into(),
            findings: outcome.findings.iter().map(Into::into).collect(),
            patterns: &outcome.patterns,
            not_checked: outcome.not_checked.iter().map(Into::into).collect(),
            intent_logs: outcome.intent_logs.iter().map(Into::into).collect(),
            files: outcome.files.iter().map(Into::into).collect(),
            at_risk: outcome
                .at_risk
                .as_ref()
                .map(|files| AtRiskList { files: files.iter().map(Into::into).collect(), cut: outcome.at_risk_is_cut }),
            states: outcome.states.iter().map(Into::into).collect(),
            remembered: (&outcome.remembered).into(),
            summary: SummaryView::new(&outcome.summary, outcome.findings_dropped),
        }
    }
}

#[derive(Serialize)]
pub(super) struct ToolView {
    name: &'static str,
    version: &'static str,
}

impl Default for ToolView {
    fn default() -> Self {
        Self { name: "zcheck", version: env!("CARGO_PKG_VERSION") }
    }
}

#[derive(Serialize)]
pub(super) struct PoolView<'a> {
    name: &'a str,
    guid: Text,
    version: u64,
    state: &'a str,
    txg: u64,
    timestamp: u64,
    hostname: Option<&'a str>,
    hostid: Option<u64>,
    endian: &'a str,
    fingerprint: &'a str,
    uberblock: UberblockView<'a>,
    features: Vec<FeatureView<'a>>,
}

impl<'a> From<&'a PoolFacts> for PoolView<'a> {
    fn from(pool: &'a PoolFacts) -> Self {
        let uberblock = &pool.uberblock;
        Self {
            name: &pool.name,
            guid: Text(pool.guid),
            version: pool.version,
            state: &pool.state,
            txg: pool.txg,
            timestamp: pool.timestamp,
            hostname: pool.hostname.as_deref(),
            hostid: pool.hostid,
            endian: pool.endian,
            fingerprint: &pool.fingerprint,
            uberblock: UberblockView { device: &uberblock.device, label: uberblock.label, slot: uberblock.slot },
            features: pool.features.iter().map(Into::into).collect(),
        }
    }
}

#[derive(Serialize)]
struct UberblockView<'a> {
    device: &'a str,
    label: usize,
    slot: usize,
}

#[derive(Serialize)]
struct FeatureView<'a> {
    guid: &'a str,
    read_only_compatible: bool,
    supported: bool,
    refcount: u64,
}

impl<'a> From<&'a FeatureFacts> for FeatureView<'a> {
    fn from(feature: &'a FeatureFacts) -> Self {
        Self {
            guid: &feature.guid,
            read_only_compatible: feature.read_only_compatible,
            supported: feature.supported,
            refcount: feature.refcount,
        }
    }
}

#[derive(Serialize)]
pub(super) struct VdevView<'a> {
    vdev_type: &'a str,
    id: u64,
    name: &'a str,
    guid: Text,
    class: Option<&'a str>,
    state: &'a str,
    parity: Option<u64>,
    ashift: Option<u64>,
    path: Option<&'a str>,
    devid: Option<&'a str>,
    phys_path: Option<&'a str>,
    vdev_enc_sysfs_path: Option<&'a str>,
    device: Option<&'a str>,
    read_errors: u64,
    checksum_errors: u64,
    stale_copies: u64,
    bytes_read: u64,
    unlocks_blocks: u64,
    redundancy: Option<RedundancyView>,
    identity: Option<IdentityView<'a>>,
    vdevs: Vec<VdevView<'a>>,
}

/// Only of top-level vdevs.
#[derive(Serialize)]
struct RedundancyView {
    failures_survived: u64,
    blocks: u64,
    full: u64,
    one_failure_from_loss: u64,
    lost: u64,
}

impl From<RedundancyFacts> for RedundancyView {
    fn from(facts: RedundancyFacts) -> Self {
        let RedundancyFacts { failures_survived, blocks, full, one_failure_from_loss, lost } = facts;
        Self { failures_survived, blocks, full, one_failure_from_loss, lost }
    }
}

/// A file that one more failure would hurt.
#[derive(Serialize)]
struct AtRiskView<'a> {
    path: &'a str,
    blocks: u64,
    also_in: &'a [String],
}

impl<'a> From<&'a FileAtRisk> for AtRiskView<'a> {
    fn from(file: &'a FileAtRisk) -> Self {
        Self { path: &file.path, blocks: file.blocks, also_in: &file.also_in }
    }
}

impl<'a> From<&'a VdevFacts> for VdevView<'a> {
    fn from(vdev: &'a VdevFacts) -> Self {
        Self {
            vdev_type: &vdev.vdev_type,
            id: vdev.id,
            name: &vdev.name,
            guid: Text(vdev.guid),
            class: vdev.class.as_deref(),
            state: &vdev.state,
            parity: vdev.parity,
            ashift: vdev.ashift,
            path: vdev.path.as_deref(),
            devid: vdev.devid.as_deref(),
            phys_path: vdev.phys_path.as_deref(),
            vdev_enc_sysfs_path: vdev.enclosure_path.as_deref(),
            device: vdev.device.as_deref(),
            read_errors: vdev.read_errors,
            checksum_errors: vdev.checksum_errors,
            stale_copies: vdev.stale_copies,
            bytes_read: vdev.bytes_read,
            unlocks_blocks: vdev.unlocks_blocks,
            redundancy: vdev.redundancy.map(Into::into),
            identity: vdev.drive.as_ref().map(Into::into),
            vdevs: vdev.children.iter().map(Into::into).collect(),
        }
    }
}

#[derive(Serialize)]
struct TotalsView {
    blocks: u64,
    gang_blocks: u64,
    embedded_blocks: u64,
    logical_bytes: u64,
    physical_bytes: u64,
    allocated_bytes: u64,
    dedup_saved_bytes: u64,
    cloned_bytes: u64,
    copies_verified: u64,
    parity_verified: u64,
    decoded_blocks: u64,
    bytes_read: u64,
    read_requests: u64,
    mean_request_bytes: u64,
    skipped_bytes: u64,
}

impl From<Totals> for TotalsView {
    fn from(totals: Totals) -> Self {
        Self {
            blocks: totals.blocks,
            gang_blocks: totals.gang_blocks,
            embedded_blocks: totals.embedded_blocks,
            logical_bytes: totals.logical_bytes,
            physical_bytes: totals.physical_bytes,
            allocated_bytes: totals.allocated_bytes,
            dedup_saved_bytes: totals.dedup_saved_bytes,
            cloned_bytes: totals.cloned_bytes,
            copies_verified: totals.copies_verified,
            parity_verified: totals.parity_verified,
            decoded_blocks: totals.decoded_blocks,
            bytes_read: totals.bytes_read,
            read_requests: totals.reading.requests,
            mean_request_bytes: totals.reading.mean_bytes(),
            skipped_bytes: totals.reading.skipped_bytes,
        }
    }
}

#[derive(Serialize)]
struct FindingView<'a> {
    code: &'static str,
    severity: &'static str,
    title: &'static str,
    place: PlaceView<'a>,
    copies: Vec<CopyView<'a>>,
    recoverable: bool,
    hidden_blocks: u64,
    hidden_paths: &'a [String],
    references: Vec<PlaceView<'a>>,
    message: &'a str,
}

impl<'a> From<&'a Finding> for FindingView<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            code: finding.kind.entry().code,
            severity: finding.severity.word(),
            title: finding.kind.entry().title,
            place: (&finding.place).into(),
            copies: finding.copies.iter().map(Into::into).collect(),
            recoverable: finding.recoverable,
            hidden_blocks: finding.hidden_blocks,
            hidden_paths: &finding.hidden_paths,
            references: finding.references.iter().map(Into::into).collect(),
            message: &finding.message,
        }
    }
}

#[derive(Serialize)]
struct PlaceView<'a> {
    dataset: Option<&'a str>,
    snapshot: Option<&'a str>,
    checkpoint_txg: Option<u64>,
    objset: Option<Identity>,
    object: Option<Identity>,
    object_type: Option<String>,
    level: Option<i8>,
    block: Option<Identity>,
    path: Option<&'a str>,
    no_path_because: Option<&'a str>,
    file_offset: Option<u64>,
    file_length: Option<u64>,
    also_in: &'a [String],
    device: Option<&'a str>,
}

impl<'a> From<&'a Place> for PlaceView<'a> {
    fn from(place: &'a Place) -> Self {
        Self {
            dataset: place.dataset.as_deref(),
            snapshot: place.snapshot.as_deref(),
            checkpoint_txg: place.checkpoint_txg,
            objset: place.objset.map(Identity),
            object: place.object.map(Identity),
            object_type: place.object_type.map(|object_type| object_type.to_string()),
            level: place.level,
            block: place.block.map(Identity),
            path: place.path.as_deref(),
            no_path_because: place.no_path_because.as_deref(),
            file_offset: place.file_offset,
            file_length: place.file_length,
            also_in: &place.also_in,
            device: place.device.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct CopyView<'a> {
    copy: usize,
    vdev: u32,
    offset: u64,
    size: u64,
    device: Option<&'a str>,
    device_offset: Option<u64>,
    length: u64,
    result: &'static str,
    observed: Option<&'static str>,
    stored: Vec<StoredView<'a>>,
}

#[derive(Serialize)]
struct StoredView<'a> {
    device_offset: u64,
    length: u64,
    state: &'static str,
    file: &'a str,
    file_offset: Option<u64>,
    layer: u32,
}

impl<'a> From<&'a StoredPart> for StoredView<'a> {
    fn from(part: &'a StoredPart) -> Self {
        Self {
            device_offset: part.device_offset_bytes,
            length: part.length_bytes,
            state: part.state.word(),
            file: &part.file,
            file_offset: part.file_offset_bytes,
            layer: part.layer,
        }
    }
}

impl<'a> From<&'a CopyEvidence> for CopyView<'a> {
    fn from(copy: &'a CopyEvidence) -> Self {
        Self {
            copy: copy.copy,
            vdev: copy.vdev,
            offset: copy.offset_bytes,
            size: copy.size_bytes,
            device: copy.device.as_deref(),
            device_offset: copy.device_offset_bytes,
            length: copy.length_bytes,
            result: copy.result.word(),
            observed: copy.observed.map(|observed| observed.word()),
            stored: copy.stored.iter().map(StoredView::from).collect(),
        }
    }
}

#[derive(Serialize)]
struct NotCheckedView<'a> {
    reason: &'static str,
    what: &'a str,
    blocks: Option<u64>,
    bytes: Option<u64>,
}

impl<'a> From<&'a NotChecked> for NotCheckedView<'a> {
    fn from(item: &'a NotChecked) -> Self {
        Self { reason: item.reason.word(), what: &item.what, blocks: item.blocks, bytes: item.bytes }
    }
}

#[derive(Serialize)]
struct FileView<'a> {
    path: &'a str,
    no_path_because: Option<&'a str>,
    state: &'static str,
    whole: bool,
    ranges: &'a [(u64, u64)],
    lost_bytes: u64,
    also_in: &'a [String],
}

impl<'a> From<&'a FileDamage> for FileView<'a> {
    fn from(file: &'a FileDamage) -> Self {
        Self {
            path: &file.path,
            no_path_because: file.no_path_because.as_deref(),
            state: file.severity.word(),
            whole: file.is_whole,
            ranges: &file.ranges,
            lost_bytes: file.lost_bytes,
            also_in: &file.also_in,
        }
    }
}

#[derive(Serialize)]
struct SummaryView {
    verdict: &'static str,
    exit_status: u8,
    degraded_blocks: u64,
    lost_blocks: u64,
    degraded_files: u64,
    damaged_files: u64,
    findings_dropped: u64,
    duration_s: f64,
    bytes_per_second: u64,
}

impl SummaryView {
    fn new(summary: &Summary, findings_dropped: u64) -> Self {
        Self {
            verdict: summary.verdict.word(),
            exit_status: summary.exit_status,
            degraded_blocks: summary.degraded_blocks,
            lost_blocks: summary.lost_blocks,
            degraded_files: summary.degraded_files,
            damaged_files: summary.damaged_files,
            findings_dropped,
            duration_s: (summary.duration.as_secs_f64() * 1000.0).round() / 1000.0,
            bytes_per_second: summary.bytes_per_second,
        }
    }
}

#[cfg(test)]
mod tests;
