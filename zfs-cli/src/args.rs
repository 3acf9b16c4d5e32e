//! The command line: clap derive structs, and the parsers of single values. Nothing is opened here.

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;
use zfs_format::media::Opener;
use zfs_scrub::Options;
use zfs_scrub::scope::Share;

/// The exit statuses, for the help of the program and of `scrub`.
const EXIT_STATUS: &str = "Exit status, a sum of bits:
   0  checked completely, no damage
   1  damage, but every damaged block has a good copy or can be rebuilt
   4  something is lost
   8  something could not be checked, or was not asked for; or nothing could
  16  usage error
  32  cancelled";

/// Check ZFS pools offline, without importing them.
///
/// zcheck opens everything for reading only. It needs no kernel module and no root for what you may read.
#[derive(Debug, Parser)]
#[command(name = "zcheck", version, after_long_help = EXIT_STATUS)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to use colours. A non-empty `NO_COLOR` in the environment turns `auto` into `never`.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: When,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Walk every block of a pool, verify every copy and every parity column, and report what is damaged.
    Scrub(ScrubArgs),
    /// Tell what pool this is: name, state, host, txg, features, devices.
    Info(InfoArgs),
    /// Show the labels and the uberblocks of each device, each with its checksum verdict.
    Label(LabelArgs),
    /// List the states (txgs) whose uberblocks are left, and what of each can be read.
    Txgs(TxgsArgs),
    /// Say what a finding code means, what causes it, and what to do.
    Explain(ExplainArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the man pages: one for the program, one for each command.
    Man {
        /// Directory to write to; made if it does not exist.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

/// The inputs of every command that reads a pool.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputArgs {
    /// Disk images, block devices, or directories that hold them.
    ///
    /// Give all members of the pool, or the directory they lie in: it is looked through, but not what lies below it.
    /// What can be checked without a missing member is checked.
    #[arg(required = true, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Look in this directory, not below it, for members of the pool that the paths do not hold. May be given several
    /// times.
    ///
    /// Links are followed, so that /dev/disk/by-id will do; a device with several names counts once. What belongs to no
    /// pool among the paths is passed over.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) search: Vec<PathBuf>,
    /// Byte at which the member begins in each PATH, such as the start of a partition; takes K, M, G, T.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, conflicts_with = "find_labels")]
    pub(crate) offset: Option<u64>,
    /// Read only this partition of each PATH, numbered as Linux does; by default all are looked at.
    #[arg(long, value_name = "N", conflicts_with_all = ["offset", "find_labels"])]
    pub(crate) partition: Option<u32>,
    /// Look for ZFS labels on all of each PATH, whatever its partition table says. Reads it once from end to end.
    #[arg(long)]
    pub(crate) find_labels: bool,
    /// Map file of GNU ddrescue that says what of an image was rescued; the rest is not read. May be given several
    /// times.
    ///
    /// Blocks that lie in what was not rescued count as unread, not as damaged. PATH is one of the paths given, or a file in
    /// a directory given; without PATH= the map is that of the only one. It counts bytes from the start of PATH, whatever
    /// --offset says.
    #[arg(long, value_name = "[PATH=]FILE", value_hint = ValueHint::FilePath)]
    pub(crate) map: Vec<PathBuf>,
    /// Folder with room for a whole disk: images compressed with gzip or zstd are unpacked there, and gone at the end.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) spool: Option<PathBuf>,
    /// Follow names in disk images (backing files, extents) that lead out of the folder of the image.
    #[arg(long)]
    pub(crate) allow_external_paths: bool,
}

impl InputArgs {
    /// How the paths are opened.
    pub(crate) fn opener(&self) -> Opener {
        Opener { allow_external_paths: self.allow_external_paths, spool: self.spool.clone() }
    }
}

/// `zcheck scrub`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXIT_STATUS)]
pub(crate) struct ScrubArgs {
    /// What to read.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Which pool to check, if the paths hold several.
    #[arg(long, value_name = "NAME|GUID")]
    pub(crate) pool: Option<String>,
    /// Go to the state of this txg instead of the newest one. `zcheck txgs` lists what is left.
    #[arg(long, value_name = "TXG")]
    pub(crate) txg: Option<u64>,
    /// Print one JSON document instead of text.
    #[arg(long, short = 'j')]
    pub(crate) json: bool,
    /// Print only findings and verdict.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print every finding with every copy, and all counts.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// How to show progress on stderr.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) progress: ProgressMode,
    /// Worker threads [default: one per CPU].
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Memory for queues and buffers, at least 64M. Suffixes are K, M, G and T, in powers of 1024.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_memory)]
    pub(crate) memory: u64,
    /// Read at most so many bytes a second, over all devices; at least 64K.
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub(crate) rate_limit: Option<u64>,
    /// Give way to other programs: the lowest priority for the CPU and, on Linux, for reading.
    #[arg(long)]
    pub(crate) nice: bool,
    /// Verify checksums only; do not decompress the blocks.
    #[arg(long)]
    pub(crate) no_decode: bool,
    /// Key of encrypted datasets: a file with the raw key, the hex key or the passphrase. May be given several times.
    ///
    /// Without DATASET= it is tried on every encrypted dataset that does not inherit its key; with it, it must fit. The pool says
    /// what form the key has. With `-` as FILE the key is read from the standard input; on a terminal it is asked for,
    /// and not shown. Without keys the checksums of encrypted blocks are verified, but not what is in them.
    #[arg(long, visible_alias = "passphrase-file", value_name = "[DATASET=]FILE", value_parser = parse_key)]
    pub(crate) key_file: Vec<KeyArg>,
    /// Save here once a minute, and when the run ends early, how far it is; go on from there if the file exists.
    ///
    /// The pool must be as it was then, and the options the same. The file is removed when everything was checked.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "at_risk")]
    pub(crate) state: Option<PathBuf>,
    /// List the files that one more failure would hurt, though their vdevs promise more.
    #[arg(long)]
    pub(crate) at_risk: bool,
    /// What to check, when it is not everything. Last, as its heading is that of all that follows.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

/// The part of a pool that `zcheck scrub` is to check. What is left out is listed in the report, and sets bit 8 of the
/// exit status.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Check only a part")]
pub(crate) struct ScopeArgs {
    /// Leave the data of files and volumes out.
    #[arg(long)]
    pub(crate) metadata_only: bool,
    /// Check only this dataset or snapshot, as it is now; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) dataset: Vec<String>,
    /// Check only this file, or this directory with all below it; may be given several times.
    #[arg(long, value_name = "DATASET[@SNAPSHOT]:/PATH")]
    pub(crate) path: Vec<String>,
    /// Check only what was written after this txg.
    #[arg(long, value_name = "TXG")]
    pub(crate) since_txg: Option<u64>,
    /// Check the N-th of T equal parts of the blocks, the same in every run. What leads to blocks is always checked.
    #[arg(long, value_name = "N/T", value_parser = parse_slice)]
    pub(crate) slice: Option<Share>,
    /// Check this share of the blocks, spread evenly; the report says how sure that makes one of the rest.
    #[arg(long, value_name = "PERCENT", value_parser = parse_sample, conflicts_with = "slice")]
    pub(crate) sample: Option<Share>,
    /// End with a partial report after this time: 90s, 30m, 2h, 1d.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) max_time: Option<Duration>,
    /// End with a partial report at the first block that is lost.
    #[arg(long)]
    pub(crate) fail_fast: bool,
}

/// `--key-file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyArg {
    /// The dataset it is for.
    pub(crate) dataset: Option<String>,
    /// The file, `-` for the standard input.
    pub(crate) file: PathBuf,
}

/// `zcheck info`.
#[derive(Args, Clone, Debug)]
pub(crate) struct InfoArgs {
    /// What to read.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Which pool to show, if the paths hold several.
    #[arg(long, value_name = "NAME|GUID")]
    pub(crate) pool: Option<String>,
    /// Go to the state of this txg instead of the newest one. `zcheck txgs` lists what is left.
    #[arg(long, value_name = "TXG")]
    pub(crate) txg: Option<u64>,
    /// Print one JSON document instead of text.
    #[arg(long, short = 'j')]
    pub(crate) json: bool,
    /// Key of encrypted datasets, as for `zcheck scrub`: whether it fits is shown, and files get their names.
    #[arg(long, visible_alias = "passphrase-file", value_name = "[DATASET=]FILE", value_parser = parse_key)]
    pub(crate) key_file: Vec<KeyArg>,
    /// Show the history of the pool, too: the commands given, and what the pool did, with times, txgs and hosts.
    #[arg(long)]
    pub(crate) history: bool,
}

/// `zcheck label`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LabelArgs {
    /// What to read.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Print one JSON document instead of text.
    #[arg(long, short = 'j')]
    pub(crate) json: bool,
}

/// `zcheck txgs`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TxgsArgs {
    /// What to read.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Which pool to look at, if the paths hold several.
    #[arg(long, value_name = "NAME|GUID")]
    pub(crate) pool: Option<String>,
    /// Print one JSON document instead of text.
    #[arg(long, short = 'j')]
    pub(crate) json: bool,
    /// Give each state a line of its own.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// How far to look into the newest states that can be opened, until one is found whole; eight at most.
    #[arg(long, value_enum, default_value_t, value_name = "DEPTH")]
    pub(crate) depth: DepthArg,
}

/// How far `zcheck txgs` looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DepthArg {
    /// The root, the MOS, and the first block of each dataset: quick.
    Roots,
    /// All metadata.
    #[default]
    Metadata,
    /// Everything, as a scrub of each.
    Data,
}

/// `zcheck explain`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExplainArgs {
    /// A code as reports show it, such as ZC0301. Without one, all codes are listed.
    pub(crate) code: Option<String>,
    /// List all codes.
    #[arg(long, conflicts_with = "code")]
    pub(crate) list: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Also in files and pipes.
    Always,
    /// Never.
    Never,
}

/// How to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar if stderr is a terminal, unless --quiet is given.
    #[default]
    Auto,
    /// A bar if stderr is a terminal.
    Bar,
    /// One JSON line a second.
    Json,
    /// Nothing.
    None,
}

/// Parses a number of bytes with an optional binary suffix: `65536`, `64K`, `1MiB`, `2G`, `1T`.
fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "expected bytes, such as 1048576 or 1M".to_owned())?;
    let shift = match suffix.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        _ => return Err("expected one of the suffixes K, M, G, T".to_owned()),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "does not fit 64 bits".to_owned())
}

/// Parses a memory budget.
fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < Options::MEMORY_BYTES_MIN { Err("at least 64M is needed".to_owned()) } else { Ok(bytes) }
}

/// Parses a number of bytes a second. With less a single request would take minutes.
fn parse_rate(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < 64 << 10 { Err("at least 64K a second is needed".to_owned()) } else { Ok(bytes) }
}

/// Parses `FILE` or `DATASET=FILE`. No name of a dataset has a `=` in it, or begins like a path.
fn parse_key(text: &str) -> Result<KeyArg, String> {
    let (dataset, file) = match text.split_once('=') {
        Some((dataset, file)) if !dataset.starts_with(['/', '.']) => (Some(dataset), file),
        _ => (None, text),
    };
    if file.is_empty() || dataset == Some("") {
        return Err("expected FILE or DATASET=FILE".to_owned());
    }
    Ok(KeyArg { dataset: dataset.map(str::to_owned), file: file.into() })
}

/// Parses `N/T`.
fn parse_slice(text: &str) -> Result<Share, String> {
    let numbers = text.split_once('/').and_then(|(n, t)| Some((n.parse().ok()?, t.parse().ok()?)));
    match numbers {
        Some((index, count)) if 1 <= index && index <= count => Ok(Share::Slice { index, count }),
        _ => Err("expected N/T with N from 1 to T, such as 1/7".to_owned()),
    }
}

/// Parses a percentage, with or without its sign, with up to four decimals.
fn parse_sample(text: &str) -> Result<Share, String> {
    let fail = || "expected a percentage above 0 and up to 100, such as 5% or 0.5%".to_owned();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if decimals.is_empty() || decimals.len() > 4 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fail());
    }
    let whole: u32 = whole.parse().map_err(|_| fail())?;
    let decimals: u32 = format!("{decimals:0<4}").parse().map_err(|_| fail())?;
    match whole.checked_mul(10_000).and_then(|whole| whole.checked_add(decimals)) {
        Some(per_million @ 1..=1_000_000) => Ok(Share::Sample { per_million }),
        _ => Err(fail()),
    }
}

/// Parses a time: a number with `s`, `m`, `h` or `d`; without, seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let seconds = match suffix {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 0,
    };
    let number: u64 = number.parse().unwrap_or(0);
    match number.checked_mul(seconds) {
        Some(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => Err("expected a time such as 90s, 30m, 2h or 1d".to_owned()),
    }
}

/// Parses a number of threads.
fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=1024) => Ok(threads),
        _ => Err("expected a number from 1 to 1024".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_take_binary_suffixes() {
        assert_eq!(parse_size("65536"), Ok(65536));
        assert_eq!(parse_size("64k"), Ok(65536));
        assert_eq!(parse_size("256MiB"), Ok(256 << 20));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert!(parse_size("").is_err());
        assert!(parse_size("M").is_err());
        assert!(parse_size("1X").is_err());
        assert!(parse_size("-1").is_err());
        assert!(parse_size("99999999999T").is_err());
        assert!(parse_memory("63M").is_err());
        assert_eq!(parse_memory("64M"), Ok(64 << 20));
        assert!(parse_rate("65535").is_err());
        assert_eq!(parse_rate("64K"), Ok(64 << 10));
    }

    #[test]
    fn keys_may_name_a_dataset() {
        let key =
            |dataset: Option<&str>, file: &str| Ok(KeyArg { dataset: dataset.map(str::to_owned), file: file.into() });
        assert_eq!(parse_key("file"), key(None, "file"));
        assert_eq!(parse_key("pool/a=-"), key(Some("pool/a"), "-"));
        assert_eq!(parse_key("pool/a=b=c"), key(Some("pool/a"), "b=c"));
        assert_eq!(parse_key("./b=c"), key(None, "./b=c"));
        assert_eq!(parse_key("/b=c"), key(None, "/b=c"));
        assert!(parse_key("pool=").is_err() && parse_key("=file").is_err() && parse_key("").is_err());
    }

    #[test]
    fn parts_of_a_pool_are_asked_for_in_usual_forms() {
        assert_eq!(parse_slice("2/7"), Ok(Share::Slice { index: 2, count: 7 }));
        for text in ["0/7", "8/7", "7", "a/b", "1/", "-1/3"] {
            assert!(parse_slice(text).is_err(), "{text}");
        }
        for (text, per_million) in [("5%", 50_000), ("5", 50_000), ("0.25%", 2500), ("100%", 1_000_000)] {
            assert_eq!(parse_sample(text), Ok(Share::Sample { per_million }), "{text}");
        }
        for text in ["0", "0%", "101%", "1e3", "0.00001", "", "%", "-1", "1."] {
            assert!(parse_sample(text).is_err(), "{text}");
        }
        for (text, seconds) in [("90s", 90), ("90", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "0s", "1w", "1.5h", "99999999999999999999d"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn scrub_takes_the_options_of_the_contract() {
        let args = ["zcheck", "scrub", "a", "b", "-j", "--threads", "3", "--memory", "1G", "--no-decode"];
        let Command::Scrub(scrub) = Cli::try_parse_from(args).unwrap().command else { panic!("not a scrub") };
        assert_eq!(scrub.input.paths.len(), 2);
        assert!(scrub.json && scrub.no_decode && !scrub.quiet);
        assert_eq!((scrub.threads, scrub.memory), (Some(3), 1 << 30));
    }
}
