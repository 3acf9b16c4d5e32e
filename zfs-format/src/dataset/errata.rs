//! Which errata a pool has: what its configuration says, and what OpenZFS concludes when it opens the pool.

use super::{DatasetMap, EncryptedDatasets};
use crate::block::Work;
use crate::ondisk::errata::Erratum;
use crate::pool::Mos;
use std::collections::BTreeSet;

const ENCRYPTION: &str = "com.datto:encryption";
const BOOKMARK_V2: &str = "com.datto:bookmark_v2";
const ASYNC_DESTROY: &str = "com.delphix:async_destroy";

/// The errata of a pool. `features` are those of [`Mos::features`]. What cannot be read shows no errata.
///
/// Source: OpenZFS module/zfs/spa.c, `spa_ld_get_props`, `spa_ld_check_features`; module/zfs/dsl_scan.c, `dsl_scan_init`;
/// module/zfs/dsl_crypt.c, `dsl_crypto_key_open`.
#[must_use]
pub fn errata(
    mos: &mut Mos<'_>,
    features: &[(String, bool, u64)],
    pool_name: &str,
    work: &mut Work,
) -> BTreeSet<Erratum> {
    let uses = |guid: &str| features.iter().find(|(known, ..)| known == guid).map(|(_, _, count)| *count);
    let mut found = BTreeSet::new();
    let recorded = mos.config(work).ok().and_then(|config| config.u64("errata"));
    found.extend(recorded.filter(|&number| number != 0).map(Erratum));
    let is_destroying = uses(ASYNC_DESTROY).is_some_and(|count| count > 0);
    let scan = mos.remembered_scan(work).and_then(|scan| scan.erratum(is_destroying));
    found.extend(scan.map(Erratum));
    if uses(ENCRYPTION).is_some() && uses(BOOKMARK_V2).is_none() {
        found.insert(Erratum::ZOL_8308_ENCRYPTION);
    }
    if uses(ENCRYPTION).is_some_and(|count| count > 0) {
        let map = DatasetMap::load(mos, pool_name, work);
        if EncryptedDatasets::load(mos, &map, work).has_early_keys() {
            found.insert(Erratum::ZOL_6845_ENCRYPTION);
        }
    }
    found
}
