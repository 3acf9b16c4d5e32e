//! Errata: known faults that older releases left on disk.

use std::fmt;

/// One of them, by the number that `zpool status` shows.
///
/// Source: OpenZFS include/sys/fs/zfs.h, `zpool_errata_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Erratum(pub u64);

#[allow(missing_docs, reason = "the names are those of zpool_errata_t")]
impl Erratum {
    pub const ZOL_2094_SCRUB: Self = Self(1);
    pub const ZOL_2094_ASYNC_DESTROY: Self = Self(2);
    pub const ZOL_6845_ENCRYPTION: Self = Self(3);
    pub const ZOL_8308_ENCRYPTION: Self = Self(4);

    /// What is wrong, in a sentence without its stop.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::ZOL_2094_SCRUB => "a pre-release of ZFS on Linux 0.6.3 wrote the state of the scrub in another size",
            Self::ZOL_2094_ASYNC_DESTROY => {
                "a pre-release of ZFS on Linux 0.6.3 wrote the state of the scrub in another size, and a dataset that it was \
                 destroying is not freed yet"
            }
            Self::ZOL_6845_ENCRYPTION => {
                "encrypted datasets were made by a release candidate of ZFS on Linux 0.8, whose keys and MACs are older than \
                 the final format"
            }
            Self::ZOL_8308_ENCRYPTION => {
                "encrypted snapshots and bookmarks may lack what raw sends need to be safe: the feature bookmark_v2 is not \
                 enabled"
            }
            _ => "this version does not know what it stands for",
        }
    }

    /// What to do about it, in a sentence without its stop.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::ZOL_2094_SCRUB => "import the pool and run `zpool scrub`",
            Self::ZOL_2094_ASYNC_DESTROY => {
                "import it with the release that wrote it, let it finish freeing, then upgrade and run `zpool scrub`"
            }
            Self::ZOL_6845_ENCRYPTION => {
                "mount the datasets read-only, copy their files to new encrypted datasets, and destroy the old ones"
            }
            Self::ZOL_8308_ENCRYPTION => {
                "enable bookmark_v2; replace encrypted snapshots and bookmarks by way of sends that are not raw, or destroy them"
            }
            _ => "ask `zpool status` of a newer release",
        }
    }
}

impl fmt::Display for Erratum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issue = match *self {
            Self::ZOL_2094_SCRUB | Self::ZOL_2094_ASYNC_DESTROY => " (ZFS on Linux issue 2094)",
            Self::ZOL_6845_ENCRYPTION => " (ZFS on Linux issue 6845)",
            Self::ZOL_8308_ENCRYPTION => " (ZFS on Linux issue 8308)",
            _ => "",
        };
        write!(f, "erratum {}{issue}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_erratum_is_named_and_has_advice() {
        let all: Vec<_> = (1..=4).map(Erratum).collect();
        for (index, erratum) in all.iter().enumerate() {
            assert!(erratum.to_string().contains("issue"), "{erratum}");
            let others = all.iter().skip(index + 1);
            assert!(others.into_iter().all(|other| other.meaning() != erratum.meaning()));
            assert!(!erratum.meaning().ends_with('.') && !erratum.advice().ends_with('.'));
        }
        assert_eq!(Erratum(9).to_string(), "erratum 9");
        assert!(Erratum(9).meaning().contains("does not know"));
    }
}
