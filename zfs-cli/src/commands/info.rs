//! `zcheck info`: opens the pool, says what it is.

use super::label;
use crate::args::InfoArgs;
use crate::error::Failure;
use crate::report::history::History;
use crate::report::info::{DatasetFacts, EncryptionFacts, Info, render_json, render_text};
use crate::{key, open, output};
use zfs_format::block::{BlockReader, KeyRing, Work};
use zfs_format::dataset::{Dataset, DatasetMap, EncryptedDatasets, GivenKey, KeyFacts, KeyProblem};
use zfs_format::media::Host;
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::objset::OsType;
use zfs_format::pool::{Assembly, Mos};
use zfs_scrub::facts;
use zfs_scrub::remembered::remembered;

/// Says what pool this is. Of one that this version cannot read it shows the labels.
pub(super) fn run(args: &InfoArgs, color: bool) -> Result<u8, Failure> {
    let keys = key::read(&args.key_file)?;
    let mut assembly = match open::pool(&args.input, args.pool.as_deref(), None) {
        Err(failure) if failure.is_unsupported && !args.json => {
            output::report(&label::text(&open::candidates(&args.input, None)?, color))?;
            return Err(failure);
        }
        opened => opened?,
    };
    if let Some(txg) = args.txg {
        open::select_txg(&mut assembly, txg)?;
    }
    let mut info = gather(&mut assembly, &keys);
    info.history = args.history.then(|| history(&assembly)).flatten();
    let text = if args.json { render_json(&info) } else { Ok(render_text(&info, color)) };
    output::report(&text.map_err(|error| Failure::json(&error))?)?;
    Ok(0)
}

/// Gathers what `info` shows. Without a readable MOS that is what the labels know.
fn gather(assembly: &mut Assembly, given: &[GivenKey]) -> Info {
    let mut work = Work::default();
    let root = assembly.chosen.uberblock.rootbp;
    let config = Mos::open(BlockReader::new(&assembly.tree), &root, &mut work)
        .ok()
        .and_then(|mut mos| mos.config(&mut work).ok());
    if let Some(error) = config.and_then(|config| assembly.adopt_config(&config).err()) {
        output::warning(&format!("the devices are shown as the labels know them: {error}"));
    }
    assembly.load_salt(&mut work);
    for unread in assembly.read_roles(&mut work) {
        output::warning(&format!("what {} is for cannot be read: {}", unread.what, unread.error));
    }
    let (mut features, mut datasets) = (Vec::new(), Vec::new());
    let mut errata = Vec::new();
    let mut ring = KeyRing::default();
    let blocks = assembly.blocks();
    match Mos::open(blocks, &root, &mut work) {
        Ok(mut mos) => {
            features = mos.features(&mut work).unwrap_or_else(|error| {
                output::warning(&format!("the features cannot be read: {error}"));
                Vec::new()
            });
            let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
            for problem in &map.problems {
                output::warning(&format!("some datasets are not listed: {problem}"));
            }
            let encrypted = EncryptedDatasets::load(&mut mos, &map, &mut work);
            for KeyProblem { dataset, error } in &encrypted.problems {
                output::warning(&format!("the key object of {dataset} cannot be used: {error}"));
            }
            let (opened, unlock_errors) = encrypted.unlock_all(given);
            for (_, error) in &unlock_errors {
                output::warning(&format!("a given key is of no use: {error}"));
            }
            let wrong: Vec<&GivenKey> = unlock_errors.iter().filter_map(|(index, _)| given.get(*index)).collect();
            let users = map.datasets.values().filter(|dataset| dataset.is_users());
            datasets = users.map(|dataset| dataset_facts(dataset, blocks, &mut work)).collect();
            for dataset in &mut datasets {
                dataset.encryption = encrypted
                    .facts(dataset.objset)
                    .map(|facts| EncryptionFacts { key: key_status(&opened, &wrong, dataset.objset, &facts), facts });
            }
            errata = zfs_format::dataset::errata(&mut mos, &features, &assembly.name, &mut work).into_iter().collect();
            ring = opened;
        }
        Err(error) => output::warning(&format!("datasets and features cannot be read: {error}")),
    }
    assembly.keys = ring;
    datasets.sort_by(|a, b| a.name.cmp(&b.name));
    let host = Host::default();
    for (member, message) in facts::elsewhere(assembly, &host) {
        output::warning(&format!("{member} is not the drive that its label names: {message}"));
    }
    let (mut vdevs, mut spares, mut caches) =
        (facts::vdevs_uncounted(assembly), facts::spares(assembly), facts::caches(assembly));
    for devices in [&mut vdevs, &mut spares, &mut caches] {
        facts::identify(devices, assembly, &host);
    }
    Info {
        pool: facts::pool(assembly, &features),
        vdevs,
        spares,
        caches,
        datasets,
        errata,
        remembered: remembered(assembly),
        history: None,
    }
}

/// The history, as far as it can be read.
fn history(assembly: &Assembly) -> Option<History> {
    let mut work = Work::default();
    let mut history = History::default();
    let mos = Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut work);
    let read = mos.map_err(|error| error.to_string()).and_then(|mut mos| {
        mos.history(&mut work, &mut |piece| history.push(piece)).map_err(|error| error.to_string())
    });
    match read {
        Ok(header) => header.map(|header| history.closed(&header)),
        Err(error) => {
            output::warning(&format!("the history cannot be read: {error}"));
            None
        }
    }
}

fn dataset_facts(dataset: &Dataset, blocks: BlockReader<'_>, work: &mut Work) -> DatasetFacts {
    let os_type = ObjsetReader::open(blocks, &dataset.dsl.bp, work).map(|reader| reader.objset.os_type);
    DatasetFacts {
        name: dataset.full_name(),
        kind: match (&dataset.snapshot, os_type) {
            (Some(_), _) => "snapshot",
            (None, Ok(OsType::ZVOL)) => "volume",
            (None, Ok(_)) => "filesystem",
            (None, Err(_)) => "unreadable",
        },
        guid: dataset.dsl.guid.0,
        objset: dataset.object,
        referenced_bytes: dataset.dsl.referenced_bytes,
        encrypted: dataset.dsl.bp.is_protected(),
        encryption: None,
    }
}

/// Whether what was given opens a dataset. `wrong` are the keys that fit nothing; one without a dataset's name was tried
/// on all encryption roots.
fn key_status(ring: &KeyRing, wrong: &[&GivenKey], objset: u64, facts: &KeyFacts) -> &'static str {
    let is_for = |given: &&GivenKey| {
        let root = facts.root.as_str();
        let below = |name: &str| name == root || name.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        given.dataset.as_deref().is_none_or(below)
    };
    match ring.get(objset) {
        Some(_) => "available",
        None if wrong.iter().any(is_for) => "wrong",
        None => "not given",
    }
}
