//! Names in the error log: each is a bookmark in hexadecimal.
//!
//! The older form is one ZAP of `objset:object:level:block`. With the feature `head_errlog` it is a ZAP of ZAPs: the outer
//! names are datasets, heads, the inner ones `object:level:block:birth`.
//!
//! Source: OpenZFS module/zfs/spa_errlog.c, `bookmark_to_name`, `errphys_to_name`.

/// A block that OpenZFS found damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoggedError {
    /// The object set: in the newer form the head of the dataset, though the block may be held by a snapshot only.
    pub objset: u64,
    /// The object.
    pub object: u64,
    /// The level; -1 is the object set itself.
    pub level: i64,
    /// The block on that level.
    pub block: u64,
    /// When the block was born, in the newer form.
    pub birth_txg: Option<u64>,
}

/// A name in the outer ZAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLogName {
    /// The older form: the error itself.
    Error(LoggedError),
    /// The newer form: the dataset whose errors are in the ZAP that the entry's value names.
    Dataset(u64),
}

impl ErrorLogName {
    /// Reads a name of the outer ZAP; `None` for what is of neither form.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        if let Some([objset, object, level, block]) = numbers(name) {
            let level = level.cast_signed();
            return Some(Self::Error(LoggedError { objset, object, level, block, birth_txg: None }));
        }
        hex(name).map(Self::Dataset)
    }
}

impl LoggedError {
    /// Reads a name of the inner ZAP of a dataset.
    #[must_use]
    pub fn parse(objset: u64, name: &[u8]) -> Option<Self> {
        let [object, level, block, birth] = numbers(name)?;
        Some(Self { objset, object, level: level.cast_signed(), block, birth_txg: Some(birth) })
    }
}

/// Four numbers between colons.
fn numbers(name: &[u8]) -> Option<[u64; 4]> {
    let mut parts = name.split(|&byte| byte == b':');
    let mut next = || parts.next().and_then(hex);
    let numbers = [next()?, next()?, next()?, next()?];
    parts.next().is_none().then_some(numbers)
}

fn hex(digits: &[u8]) -> Option<u64> {
    if digits.first().is_none_or(|first| !first.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_are_read() {
        let older = LoggedError { objset: 0x36, object: 2, level: 0, block: 0x1f, birth_txg: None };
        assert_eq!(ErrorLogName::parse(b"36:2:0:1f"), Some(ErrorLogName::Error(older)));
        assert_eq!(ErrorLogName::parse(b"36"), Some(ErrorLogName::Dataset(0x36)));
        let newer = LoggedError { birth_txg: Some(0x17), ..older };
        assert_eq!(LoggedError::parse(0x36, b"2:0:1f:17"), Some(newer));
        let root = ErrorLogName::parse(b"36:0:ffffffffffffffff:0");
        assert!(matches!(root, Some(ErrorLogName::Error(LoggedError { level: -1, .. }))));
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["", ":", "1:2:3", "1:2:3:4:5", "1:2:3:g", "+1", "1:2:3:+4", "10000000000000000", "1 "] {
            assert_eq!(ErrorLogName::parse(name.as_bytes()), None, "{name}");
        }
        assert_eq!(LoggedError::parse(1, b"2:3:4"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(objset: u64, object: u64, level: i64, block: u64) {
            let name = format!("{objset:x}:{object:x}:{level:x}:{block:x}");
            let error = LoggedError { objset, object, level, block, birth_txg: None };
            prop_assert_eq!(ErrorLogName::parse(name.as_bytes()), Some(ErrorLogName::Error(error)));
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (ErrorLogName::parse(&bytes), LoggedError::parse(1, &bytes));
        }
    }
}
