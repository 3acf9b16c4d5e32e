//! The report of `zcheck info`: what pool this is.

use super::config::{self, Config};
use super::json::{self, PoolView, Text, ToolView, VdevView};
use super::page::{Page, Paint, WIDTH, columns, name, padded};
use super::text;
use super::units::{count, size, thousands};
use serde::Serialize;
use zfs_scrub::outcome::{FeatureFacts, PoolFacts, VdevFacts};

/// Everything `zcheck info` knows about a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

/// The text form.
pub(crate) fn render_text(info: &Info, color: bool) -> String {
    let mut page = Page::new(color);
    page.field("pool", &text::pool(&info.pool));
    let state = config::root_state(&info.vdevs);
    page.painted_field("state", config::state_paint(state), state, "");
    features(&mut page, &info.pool.features);
    let Info { vdevs, spares, caches, .. } = info;
    config::write(&mut page, &Config { pool: &info.pool.name, vdevs, spares, caches, lost_blocks: None, ghosts: true });
    page.blank();
    page.line(0, &format!("datasets: {}", thousands(info.datasets.len() as u64)));
    page.blank();
    let names: Vec<_> = info.datasets.iter().map(|dataset| name(&dataset.name)).collect();
    let width = names.iter().map(|name| columns(name)).filter(|width| *width < WIDTH / 2).max().unwrap_or(0);
    for (dataset, name) in info.datasets.iter().zip(&names) {
        let key = if dataset.encrypted { "  encrypted" } else { "" };
        let size = size(dataset.referenced_bytes);
        page.line(8, &format!("{}  {:<10}  {size:>8}{key}", padded(name, width), dataset.kind));
    }
    page.into_text()
}

/// `features: 12 in use; not supported: org.example:new`
fn features(page: &mut Page, features: &[FeatureFacts]) {
    let active = features.iter().filter(|feature| feature.refcount > 0).count() as u64;
    let unsupported: Vec<_> = features.iter().filter(|feature| !feature.supported).map(|f| name(&f.guid)).collect();
    let mut text = format!("{} enabled, {} in use", count(features.len() as u64, "feature"), thousands(active));
    if !unsupported.is_empty() {
        text.push_str(&format!("; this version does not know {}", unsupported.join(", ")));
    }
    page.labelled(" flags: ", 8, (Paint::Plain, ""), &text);
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
}

#[derive(Serialize)]
struct DatasetView<'a> {
    name: &'a str,
    kind: &'static str,
    guid: Text,
    objset: u64,
    referenced_bytes: u64,
    encrypted: bool,
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
    });
    json::print(&Document {
        schema: "zcheck.info/1",
        tool: ToolView::default(),
        pool: (&info.pool).into(),
        vdevs: info.vdevs.iter().map(Into::into).collect(),
        spares: info.spares.iter().map(Into::into).collect(),
        l2cache: info.caches.iter().map(Into::into).collect(),
        datasets: datasets.collect(),
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
