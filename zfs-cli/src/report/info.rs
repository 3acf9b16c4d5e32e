//! The report of `zcheck info`: what pool this is.

use super::config::{self, Config};
use super::history::{self, History, HistoryView};
use super::json::{self, PoolView, Text, ToolView, VdevView};
use super::page::{Page, Paint, WIDTH, columns, name, padded};
use super::remembered::{self, RememberedView};
use super::units::{count, size, thousands};
use super::{Detail, text};
use serde::Serialize;
use zfs_format::dataset::KeyFacts;
use zfs_format::ondisk::errata::Erratum;
use zfs_scrub::outcome::{FeatureFacts, PoolFacts, VdevFacts};
use zfs_scrub::remembered::RememberedFacts;

/// Everything `zcheck info` knows about a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Info {
    /// What pool this is.
    pub(crate) pool: PoolFacts,
    /// Top-level vdevs; their counts are not used.
    pub(crate) vdevs: Vec<VdevFacts>,
    /// Hot spares.
    pub(crate) spares: Vec<VdevFacts>,
    /// Cache devices.
    pub(crate) caches: Vec<VdevFacts>,
    /// Datasets and snapshots, by name.
    pub(crate) datasets: Vec<DatasetFacts>,
    /// Known faults of older releases.
    pub(crate) errata: Vec<Erratum>,
    /// What the pool remembers of its health.
    pub(crate) remembered: RememberedFacts,
    /// What was done to the pool, when that was asked for and the pool has it.
    pub(crate) history: Option<History>,
}

/// One dataset or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatasetFacts {
    /// Full name: `tank/home`, `tank/home@monday`.
    pub(crate) name: String,
    /// `filesystem`, `volume` or `snapshot`.
    pub(crate) kind: &'static str,
    /// Its guid.
    pub(crate) guid: u64,
    /// Object set number.
    pub(crate) objset: u64,
    /// Bytes it can reach.
    pub(crate) referenced_bytes: u64,
    /// It can be read only with a key.
    pub(crate) encrypted: bool,
    /// What is known of that key.
    pub(crate) encryption: Option<EncryptionFacts>,
}

/// How a dataset is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncryptionFacts {
    /// `available`, `wrong` or `not given`.
    pub(crate) key: &'static str,
    /// What the key object says.
    pub(crate) facts: KeyFacts,
}

/// The text form.
pub(crate) fn render_text(info: &Info, color: bool) -> String {
    let mut page = Page::new(color);
    page.field("pool", &text::pool(&info.pool));
    let state = config::root_state(&info.vdevs);
    page.painted_field("state", config::state_paint(state), state, "");
    features(&mut page, &info.pool);
    for erratum in &info.errata {
        page.field("note", &format!("{erratum}: {}; {}", erratum.meaning(), erratum.advice()));
    }
    let Info { vdevs, spares, caches, .. } = info;
    config::write(&mut page, &Config { pool: &info.pool.name, vdevs, spares, caches, lost_blocks: None, ghosts: true });
    page.blank();
    page.line(0, &format!("datasets: {}", thousands(info.datasets.len() as u64)));
    page.blank();
    let names: Vec<_> = info.datasets.iter().map(|dataset| name(&dataset.name)).collect();
    let width = names.iter().map(|name| columns(name)).filter(|width| *width < WIDTH / 2).max().unwrap_or(0);
    for (dataset, name) in info.datasets.iter().zip(&names) {
        let key = encryption(dataset);
        let size = size(dataset.referenced_bytes);
        page.line(8, &format!("{}  {:<10}  {size:>8}{key}", padded(name, width), dataset.kind));
    }
    remembered::write(&mut page, &info.remembered, Detail::Normal);
    if let Some(history) = &info.history {
        history::write(&mut page, history);
    }
    page.into_text()
}

/// `  encrypted (aes-256-gcm, passphrase, 350,000 iterations, key of tank/a: not given)`
fn encryption(dataset: &DatasetFacts) -> String {
    let Some(EncryptionFacts { key, facts }) = &dataset.encryption else {
        return if dataset.encrypted { "  encrypted".to_owned() } else { String::new() };
    };
    let iterations = facts.iterations.map_or_else(String::new, |count| format!(", {} iterations", thousands(count)));
    let of = if facts.root == dataset.name { String::new() } else { format!(" of {}", name(&facts.root)) };
    format!("  encrypted ({}, {}{iterations}, key{of} {key})", facts.suite, facts.format)
}

/// `12 features enabled, 9 in use; this version does not know org.example:new`
fn features(page: &mut Page, pool: &PoolFacts) {
    let features = &pool.features;
    if features.is_empty() && pool.version < 5000 {
        page.labelled(" flags: ", 8, (Paint::Plain, ""), &format!("none: the pool is of version {}", pool.version));
        return;
    }
    let active = features.iter().filter(|feature| feature.refcount > 0).count() as u64;
    let unsupported: Vec<_> = features.iter().filter(|feature| !feature.supported).map(unknown).collect();
    let mut text = format!("{} enabled, {} in use", count(features.len() as u64, "feature"), thousands(active));
    if !unsupported.is_empty() {
        text.push_str(&format!("; this version does not know {}", unsupported.join(", ")));
    }
    page.labelled(" flags: ", 8, (Paint::Plain, ""), &text);
}

/// `org.illumos:new (of illumos, may be ignored when reading)`
fn unknown(feature: &FeatureFacts) -> String {
    let origin = zfs_format::ondisk::features::origin(&feature.guid).map(|origin| format!("of {origin}, "));
    let use_ = match (feature.refcount, feature.read_only_compatible) {
        (0, _) => "not in use",
        (_, true) => "may be ignored when reading",
        (_, false) => "needed for reading",
    };
    format!("{} ({}{use_})", name(&feature.guid), origin.unwrap_or_default())
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool: ToolView,
    pool: PoolView<'a>,
    vdevs: Vec<VdevView<'a>>,
    spares: Vec<VdevView<'a>>,
    l2cache: Vec<VdevView<'a>>,
    datasets: Vec<DatasetView<'a>>,
    errata: Vec<ErratumView>,
    remembered: RememberedView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<HistoryView<'a>>,
}

#[derive(Serialize)]
struct DatasetView<'a> {
    name: &'a str,
    kind: &'static str,
    guid: Text,
    objset: u64,
    referenced_bytes: u64,
    encrypted: bool,
    encryption: Option<EncryptionView<'a>>,
}

#[derive(Serialize)]
struct EncryptionView<'a> {
    suite: String,
    root: &'a str,
    key_format: String,
    iterations: Option<u64>,
    key: &'static str,
}

#[derive(Serialize)]
struct ErratumView {
    number: u64,
    meaning: &'static str,
    advice: &'static str,
}

/// The JSON form, `zcheck.info/1`.
pub(crate) fn render_json(info: &Info) -> Result<String, serde_json::Error> {
    let datasets = info.datasets.iter().map(|dataset| DatasetView {
        name: &dataset.name,
        kind: dataset.kind,
        guid: Text(dataset.guid),
        objset: dataset.objset,
        referenced_bytes: dataset.referenced_bytes,
        encrypted: dataset.encrypted,
        encryption: dataset.encryption.as_ref().map(|EncryptionFacts { key, facts }| EncryptionView {
            suite: facts.suite.to_string(),
            root: &facts.root,
            key_format: facts.format.to_string(),
            iterations: facts.iterations,
            key,
        }),
    });
    json::print(&Document {
        schema: "zcheck.info/1",
        tool: ToolView::default(),
        pool: (&info.pool).into(),
        vdevs: info.vdevs.iter().map(Into::into).collect(),
        spares: info.spares.iter().map(Into::into).collect(),
        l2cache: info.caches.iter().map(Into::into).collect(),
        datasets: datasets.collect(),
        errata: info
            .errata
            .iter()
            .map(|erratum| ErratumView { number: erratum.0, meaning: erratum.meaning(), advice: erratum.advice() })
            .collect(),
        remembered: (&info.remembered).into(),
        history: info.history.as_ref().map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn info() -> Info {
        let outcome = samples::missing();
        let dataset = |name: &str, kind| DatasetFacts {
            name: name.to_owned(),
            kind,
            guid: u64::MAX,
            objset: 54,
            referenced_bytes: 3 << 29,
            encrypted: kind == "volume",
            encryption: None,
        };
        let datasets = [("tank", "filesystem"), ("tank/home@monday", "snapshot"), ("tank/\x1bvol", "volume")]
            .map(|d| dataset(d.0, d.1));
        Info { pool: outcome.pool, vdevs: outcome.vdevs, datasets: datasets.to_vec(), ..Info::default() }
    }

    #[test]
    fn the_text_names_pool_members_and_datasets() {
        let expected =
            "  pool: tank  (guid 13004285341876207161, exported by host lab, txg 4711 of 2026-11-30 14:27:35 UTC)
 state: DEGRADED
 flags: 1 feature enabled, 1 in use
config:

        NAME        STATE     DEVICE
        tank        DEGRADED
          mirror-0  DEGRADED
            m.0     UNAVAIL   not given, was /dev/disk/by-id/m.0
            m.1     ONLINE    /dev/sdc1

datasets: 3

        tank              filesystem  1.50 GiB
        tank/home@monday  snapshot    1.50 GiB
        tank/\\x1bvol      volume      1.50 GiB  encrypted

what the pool remembers:

        last scrub: none
        known errors: none
";
        let text = render_text(&info(), false);
        assert!(text == expected, "{text}");
    }

    #[test]
    fn the_json_form_has_guids_as_strings() {
        let value: serde_json::Value = serde_json::from_str(&render_json(&info()).unwrap()).unwrap();
        assert_eq!(value["schema"], "zcheck.info/1");
        assert_eq!(value["datasets"][0]["guid"], u64::MAX.to_string());
        assert_eq!(value["vdevs"][0]["vdevs"][0]["device"], serde_json::Value::Null);
    }
}
