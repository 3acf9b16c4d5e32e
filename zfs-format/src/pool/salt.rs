//! The pool's checksum salt: one entry of the MOS directory, 32 integers of one byte.
//!
//! The MOS does not need it itself, its blocks have fletcher4. A pool whose salt cannot be read is opened without; what
//! needs the salt is then said to be unsupported, by [`BlockReader`](crate::block::BlockReader).
//!
//! Source: OpenZFS module/zfs/spa.c, `spa_ld_get_props`; include/sys/dmu.h, `DMU_POOL_CHECKSUM_SALT`.

use super::Assembly;
use super::mos::DIRECTORY_OBJECT;
use crate::block::{BlockReader, Work};
use crate::codec::checksum::{SALT_BYTES, Salt};
use crate::object::{ObjsetReader, ZapEntry, ZapReader};
use crate::ondisk::blkptr::Blkptr;
use std::ops::ControlFlow;

const SALT_KEY: &[u8] = b"org.illumos:checksum_salt";

impl Assembly {
    /// Reads the salt, for [`Assembly::blocks`]. Call it once the devices are known. Without a readable salt there is
    /// none afterwards, which is no error: pools from before salted checksums have none.
    pub fn load_salt(&mut self, work: &mut Work) {
        self.salt = read_salt(BlockReader::new(&self.tree), &self.chosen.uberblock.rootbp, work);
    }

    /// A reader of the pool's blocks, with the salt if it was loaded and the keys that were given.
    #[must_use]
    pub fn blocks(&self) -> BlockReader<'_> {
        BlockReader::new(&self.tree).with_salt(self.salt.as_ref()).with_keys(Some(&self.keys))
    }
}

fn read_salt(blocks: BlockReader<'_>, root: &Blkptr, work: &mut Work) -> Option<Salt> {
    let mut objset = ObjsetReader::open(blocks, root, work).ok()?;
    let mut directory = ZapReader::new(objset.object(DIRECTORY_OBJECT, work).ok()?);
    let mut found = None;
    // Damage to the directory that comes before the entry hides it; the walk of the MOS reports it.
    let _ = directory.for_each(work, &mut |entry| {
        if entry.name != SALT_KEY {
            return ControlFlow::Continue(());
        }
        found = parse(&entry);
        ControlFlow::Break(())
    });
    found
}

fn parse(entry: &ZapEntry) -> Option<Salt> {
    let bytes: &[u8; SALT_BYTES] = entry.value.as_slice().try_into().ok()?;
    (entry.integer_bytes == 1).then(|| Salt::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_salt_is_32_integers_of_one_byte() {
        let entry = |integer_bytes, bytes| ZapEntry { name: SALT_KEY.into(), integer_bytes, value: vec![7; bytes] };
        assert!(parse(&entry(1, 32)).is_some());
        for (integer_bytes, bytes) in [(1, 31), (1, 33), (8, 32), (1, 0)] {
            assert!(parse(&entry(integer_bytes, bytes)).is_none(), "{bytes} bytes in integers of {integer_bytes}");
        }
    }
}
