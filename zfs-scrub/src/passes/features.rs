//! Features that are not known here, and errata: what the reader of a report should know of the pool.

use crate::finding::{Finding, Kind, Place, Sink};
use zfs_format::block::Work;
use zfs_format::dataset::errata;
use zfs_format::ondisk::features;
use zfs_format::pool::{Assembly, Mos};

/// A feature of the MOS: guid, read-only compatible, reference count.
type Feature = (String, bool, u64);

/// Features in use, and needed for reading, that are not known: with whose they are, and what the pool says of them.
pub(crate) fn unreadable(assembly: &Assembly, features: &[Feature]) -> Vec<String> {
    described(assembly, features, false)
}

/// Notes of features that may be ignored, and of errata.
pub(crate) fn check(assembly: &Assembly, features: &[Feature], sink: &Sink) {
    for feature in described(assembly, features, true) {
        let message =
            format!("the pool uses {feature}, which this version does not know; it may be ignored when reading");
        sink.push(Finding::new(Kind::FeatureUnknown, Place::default(), message));
    }
    let mut work = Work::default();
    let Ok(mut mos) = Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut work) else { return };
    for erratum in errata(&mut mos, features, &assembly.name, &mut work) {
        let message = format!("{erratum}: {}; {}", erratum.meaning(), erratum.advice());
        sink.push(Finding::new(Kind::PoolErratum, Place::default(), message));
    }
}

fn described(assembly: &Assembly, features: &[Feature], read_only_compatible: bool) -> Vec<String> {
    let is_unknown = |(guid, compatible, count): &&Feature| {
        *compatible == read_only_compatible && *count > 0 && features::lookup(guid).is_none()
    };
    let unknown: Vec<&Feature> = features.iter().filter(is_unknown).collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut work = Work::default();
    let mut mos = Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut work).ok();
    let mut describe = |(guid, ..): &Feature| {
        let origin = features::origin(guid).map(|origin| format!("of {origin}"));
        let said = mos.as_mut().and_then(|mos| mos.feature_description(guid, &mut work));
        let facts: Vec<String> = origin.into_iter().chain(said.map(|said| format!("\"{said}\""))).collect();
        if facts.is_empty() { guid.clone() } else { format!("{guid} ({})", facts.join(": ")) }
    };
    unknown.into_iter().map(&mut describe).collect()
}
