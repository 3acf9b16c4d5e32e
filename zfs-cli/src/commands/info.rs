//! `zcheck info`: opens the pool, says what it is.

use crate::args::InfoArgs;
use crate::error::Failure;
use crate::report::info::{DatasetFacts, Info, render_json, render_text};
use crate::{open, output};
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::{Dataset, DatasetMap};
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::objset::OsType;
use zfs_format::pool::{Assembly, Mos};
use zfs_scrub::facts;

/// Says what pool this is.
pub(super) fn run(args: &InfoArgs, color: bool) -> Result<u8, Failure> {
    let mut assembly = open::pool(&args.input, args.pool.as_deref())?;
    let info = gather(&mut assembly);
    let text = if args.json { render_json(&info) } else { Ok(render_text(&info, color)) };
    output::report(&text.map_err(|error| Failure::json(&error))?)?;
    Ok(0)
}

/// Gathers what `info` shows. Without a readable MOS that is what the labels know.
fn gather(assembly: &mut Assembly) -> Info {
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
    let blocks = assembly.blocks();
    let (mut features, mut datasets) = (Vec::new(), Vec::new());
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
            let users = map.datasets.values().filter(|dataset| dataset.is_users());
            datasets = users.map(|dataset| dataset_facts(dataset, blocks, &mut work)).collect();
        }
        Err(error) => output::warning(&format!("datasets and features cannot be read: {error}")),
    }
    datasets.sort_by(|a, b| a.name.cmp(&b.name));
    Info {
        pool: facts::pool(assembly, &features),
        vdevs: facts::vdevs_uncounted(assembly),
        spares: facts::spares(assembly),
        caches: facts::caches(assembly),
        datasets,
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
    }
}
