//! Reads dedup tables: the ZAPs with their entries, and the logs that override them.

use super::Mos;
use crate::FormatError;
use crate::block::Work;
use crate::codec::compress::Decompressor;
use crate::endian::OnDisk;
use crate::object::{ObjectError, ZapEntry, ZapReader};
use crate::ondisk::ddt::{
    DDT_FLAT_BYTES, DDT_LEGACY_BYTES, DdtEncoding, DdtKey, DdtLogHeader, DdtVariant, log_records, parse_variants,
};
use crate::ondisk::dmu::CompressKind;
use std::ops::ControlFlow;

/// More than a log ever has: its entries are held in memory by OpenZFS too.
const LOG_BYTES_MAX: u64 = 64 << 30;

/// One table: all entries of one checksum algorithm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DdtTable {
    /// A flat table (`fast_dedup`): one variant an entry, and logs.
    pub is_flat: bool,
    /// ZAPs of entries with several references, or copies.
    pub shared_zaps: Vec<u64>,
    /// The ZAP of entries with one reference.
    pub unique_zap: Option<u64>,
    /// Logs.
    pub logs: Vec<u64>,
}

impl DdtTable {
    /// Takes the object of a name like `DDT-sha256-zap-duplicate`.
    fn add(&mut self, name: &str, object: u64) {
        if name.starts_with("DDT-log-") {
            self.logs.push(object);
        } else if name.ends_with("-zap-unique") {
            self.unique_zap = Some(object);
        } else if name.ends_with("-zap-duplicate") || name.ends_with("-zap-ditto") {
            self.shared_zaps.push(object);
        }
    }
}

/// Takes an entry: its key and variants, until it breaks.
pub type EachDdtEntry<'e> = &'e mut dyn FnMut(&DdtKey, &[DdtVariant]) -> ControlFlow<()>;

impl Mos<'_> {
    /// The dedup tables of the pool. A flat table has a directory of its own; one that cannot be read is a problem.
    ///
    /// Source: OpenZFS module/zfs/ddt.c, `ddt_load`, `ddt_table_alloc`, `ddt_object_name`.
    pub fn ddt_tables(&mut self, work: &mut Work, problems: &mut Vec<ObjectError>) -> Vec<DdtTable> {
        let named: Vec<(String, u64)> =
            self.directory.iter().filter(|(name, _)| name.starts_with("DDT-")).map(|(n, &o)| (n.clone(), o)).collect();
        let mut legacy = DdtTable::default();
        let mut tables = Vec::new();
        for (name, object) in named {
            if name.matches('-').count() > 1 {
                legacy.add(&name, object);
            } else if name != "DDT-statistics" {
                let directory = match self.zap_u64(object, work) {
                    Ok(directory) => directory,
                    Err(problem) => {
                        problems.push(problem);
                        continue;
                    }
                };
                let is_flat = directory.get("flags").is_some_and(|flags| flags & 1 == 1);
                let mut table = DdtTable { is_flat, ..DdtTable::default() };
                directory.iter().for_each(|(name, &object)| table.add(name, object));
                tables.push(table);
            }
        }
        if legacy != DdtTable::default() {
            tables.push(legacy);
        }
        tables
    }

    /// Hands the entries of a ZAP of a table to `each`.
    ///
    /// # Errors
    /// [`ObjectError`] when the ZAP cannot be read or an entry makes no sense; what was read before was handed over.
    ///
    /// Source: OpenZFS module/zfs/ddt_zap.c, `ddt_zap_walk`, `ddt_zap_decompress`.
    pub fn ddt_zap(
        &mut self,
        table: &DdtTable,
        object: u64,
        work: &mut Work,
        each: EachDdtEntry<'_>,
    ) -> Result<(), ObjectError> {
        let size = if table.is_flat { DDT_FLAT_BYTES } else { DDT_LEGACY_BYTES };
        let mut payload = vec![0; size];
        let mut decompressor = Decompressor::new();
        let mut broken = None;
        let mut zap = ZapReader::new(self.objset.object(object, work)?);
        zap.for_each(work, &mut |entry| match parse_entry(&entry, &mut payload, &mut decompressor) {
            Ok((key, variants)) => each(&key, &variants),
            Err(source) => {
                broken = Some(ObjectError::Format { object, source });
                ControlFlow::Break(())
            }
        })?;
        broken.map_or(Ok(()), Err)
    }

    /// The header of a log.
    ///
    /// # Errors
    /// [`ObjectError`] when the object cannot be read or is no log.
    pub fn ddt_log_header(&mut self, object: u64, work: &mut Work) -> Result<DdtLogHeader, ObjectError> {
        let dnode = self.objset.dnode(object, work)?.ok_or(ObjectError::NoObject { object })?;
        DdtLogHeader::parse(&dnode.bonus, dnode.endian).map_err(|source| ObjectError::Format { object, source })
    }

    /// Hands the records of a log to `each`, the oldest first: of one key the last counts. Records that were flushed to
    /// the ZAP already are left out.
    ///
    /// # Errors
    /// As [`Mos::ddt_zap`].
    ///
    /// Source: OpenZFS module/zfs/ddt_log.c, `ddt_log_load_one`.
    pub fn ddt_log(&mut self, object: u64, work: &mut Work, each: EachDdtEntry<'_>) -> Result<(), ObjectError> {
        let format = |source| ObjectError::Format { object, source };
        let header = self.ddt_log_header(object, work)?;
        if header.length_bytes > LOG_BYTES_MAX {
            return Err(format(FormatError::bad_field("ddt log", "length", header.length_bytes, "at most 64 GiB")));
        }
        let mut reader = self.objset.object(object, work)?;
        let blocks = header.length_bytes.div_ceil(reader.block_bytes().max(1));
        for blkid in 0..blocks {
            let Some(endian) = reader.read_block(blkid, work)? else {
                let expected = "as many bytes as the object holds";
                return Err(format(FormatError::bad_field("ddt log", "length", header.length_bytes, expected)));
            };
            for record in log_records(work.plain(), endian) {
                let record = record.map_err(format)?;
                let is_flushed = header.is_flushing && header.flushed_to.is_some_and(|to| record.key <= to);
                if !is_flushed && each(&record.key, &record.variants).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn parse_entry(
    entry: &ZapEntry,
    payload: &mut [u8],
    decompressor: &mut Decompressor,
) -> Result<(DdtKey, Vec<DdtVariant>), FormatError> {
    let key = DdtKey::parse(&entry.name, crate::Endian::Big)?;
    let (&first, stored) = entry.value.split_first().ok_or_else(|| no_payload(0))?;
    let encoding = DdtEncoding::from_byte(first);
    match CompressKind(encoding.compress) {
        CompressKind::OFF => {
            let plain = stored.get(..payload.len()).ok_or_else(|| no_payload(stored.len()))?;
            payload.copy_from_slice(plain);
        }
        kind => decompressor.decompress(kind, stored, payload)?,
    }
    Ok((key, parse_variants(payload, encoding.endian)?))
}

fn no_payload(have: usize) -> FormatError {
    FormatError::Truncated { what: "ddt entry", need: DDT_FLAT_BYTES, have }
}
