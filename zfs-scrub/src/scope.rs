//! Which part of a pool a run is asked to check.

use std::fmt;
use std::time::Duration;
use zfs_format::ondisk::blkptr::Blkptr;

/// Everything, unless something is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only metadata: no data of files and volumes.
    pub metadata_only: bool,
    /// Only what was written after this txg.
    pub since_txg: Option<u64>,
    /// Only a share of the leaf blocks; what leads to them is always checked.
    pub share: Option<Share>,
    /// Only these datasets and snapshots, by their full names.
    pub datasets: Vec<String>,
    /// Only these files and directories with all below them, as `dataset:/path` or `dataset@snapshot:/path`.
    pub paths: Vec<String>,
    /// End the run after this time.
    pub time_max: Option<Duration>,
    /// End the run when the first damage was found.
    pub fail_fast: bool,
}

impl Scope {
    /// Whether something of the pool is not asked for.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let Self { metadata_only, since_txg, share, datasets, paths, time_max: _, fail_fast: _ } = self;
        *metadata_only || since_txg.is_some() || share.is_some() || !datasets.is_empty() || !paths.is_empty()
    }
}

/// A share of the leaf blocks, chosen by where they lie: the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Part `index` (1 to `count`) of `count` parts that make up the whole.
    Slice {
        /// Which part.
        index: u32,
        /// Of how many.
        count: u32,
    },
    /// About so many blocks in a million.
    Sample {
        /// Blocks in a million.
        per_million: u32,
    },
}

impl Share {
    /// Whether the block belongs to the share. Pointers to one block agree, wherever they are.
    #[must_use]
    pub fn holds(self, bp: &Blkptr) -> bool {
        let dva = bp.dva(0).unwrap_or_default();
        let number = scatter(dva.offset_bytes ^ u64::from(dva.vdev).rotate_right(8) ^ bp.physical_birth_txg().0 << 1);
        // The high bits as a fraction of one, which has no bias worth mentioning.
        let scaled = |parts: u32| (u128::from(number) * u128::from(parts)) >> 64;
        match self {
            Self::Slice { index, count } => scaled(count) == u128::from(index.saturating_sub(1)),
            Self::Sample { per_million } => scaled(1_000_000) < u128::from(per_million),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Slice { index, count } => write!(f, "slice {index}/{count}"),
            Self::Sample { per_million } => {
                let (percent, rest) = (per_million / 10_000, per_million % 10_000);
                if rest == 0 {
                    write!(f, "sample of {percent} %")
                } else {
                    write!(f, "sample of {percent}.{} %", format!("{rest:04}").trim_end_matches('0'))
                }
            }
        }
    }
}

/// Mixes all bits (the finalizer of splitmix64).
fn scatter(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The most blocks that may be bad among `total`, with 95 % confidence, when `bad` were found among `looked_at` that were
/// chosen by chance.
///
/// The upper limit of a Poisson rate: the largest rate under which so few would still be found in one of twenty samples.
#[must_use]
pub fn bad_at_most(total: u64, looked_at: u64, bad: u64) -> u64 {
    if looked_at == 0 {
        return total;
    }
    let limit = poisson_limit(bad);
    let share = limit / looked_at.max(1) as f64;
    let estimate = share * total as f64;
    if estimate >= total as f64 { total } else { estimate.ceil() as u64 }
}

/// The rate at which `count` or fewer events happen with a probability of 5 %.
fn poisson_limit(count: u64) -> f64 {
    // Beyond this the normal approximation is as good.
    if count > 500 {
        let count = count as f64;
        return count + 1.0 + 1.645 * (count + 1.0).sqrt();
    }
    let probability = |rate: f64| {
        // In logarithms, since e^-rate underflows.
        let mut term = -rate;
        let mut sum = term.exp();
        for event in 1..=count {
            term += rate.ln() - (event as f64).ln();
            sum += term.exp();
        }
        sum
    };
    let (mut low, mut high) = (0.0, count as f64 + 10.0 + 4.0 * (count as f64).sqrt());
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if probability(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(sector: u64) -> Blkptr {
        let mut words = [0; 16];
        (words[0], words[1], words[10]) = (8, sector, 100 + sector % 7);
        Blkptr::from_words(words)
    }

    #[test]
    fn slices_are_even_and_make_up_the_whole() {
        let blocks: Vec<Blkptr> = (0..7000).map(|n| pointer(n * 8)).collect();
        let mut sizes = [0_usize; 7];
        for bp in &blocks {
            let holding: Vec<u32> = (1..=7).filter(|&index| Share::Slice { index, count: 7 }.holds(bp)).collect();
            assert_eq!(holding.len(), 1, "each block is in one slice");
            sizes[holding[0] as usize - 1] += 1;
        }
        assert!(sizes.iter().all(|size| (850..1150).contains(size)), "{sizes:?}");
    }

    #[test]
    fn a_sample_is_as_large_as_asked_and_grows_by_adding() {
        let blocks: Vec<Blkptr> = (0..20_000).map(|n| pointer(n * 3)).collect();
        let count = |per_million| blocks.iter().filter(|bp| Share::Sample { per_million }.holds(bp)).count();
        assert_eq!((count(0), count(1_000_000)), (0, 20_000));
        assert!((900..1100).contains(&count(50_000)), "{}", count(50_000));
        let is_kept = |bp: &&Blkptr| Share::Sample { per_million: 50_000 }.holds(bp);
        assert!(blocks.iter().filter(is_kept).all(|bp| Share::Sample { per_million: 60_000 }.holds(bp)));
    }

    #[test]
    fn limits_are_those_of_the_tables() {
        // One-sided 95 % limits of the Poisson distribution, as printed in statistical tables.
        for (count, limit) in [(0, 2.996), (1, 4.744), (2, 6.296), (5, 10.513), (10, 16.962), (50, 63.287)] {
            assert!((poisson_limit(count) - limit).abs() < 0.001, "{count}: {}", poisson_limit(count));
        }
        assert_eq!(bad_at_most(1_000_000, 3000, 0), 999);
        assert_eq!(bad_at_most(1000, 0, 0), 1000);
        assert_eq!(bad_at_most(1000, 10, 10), 1000);
        assert!((bad_at_most(1_000_000, 1_000_000, 2000) as f64 / 2075.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn shares_have_names() {
        assert_eq!(Share::Slice { index: 2, count: 7 }.to_string(), "slice 2/7");
        assert_eq!(Share::Sample { per_million: 50_000 }.to_string(), "sample of 5 %");
        assert_eq!(Share::Sample { per_million: 2500 }.to_string(), "sample of 0.25 %");
    }
}
