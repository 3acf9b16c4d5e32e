//! The table of devices: `NAME STATE READ CKSUM DEVICE`, two columns of indentation a level.

use super::page::{Page, Paint, columns, name, padded};
use super::units::short_count;
use zfs_format::media::Drive;
use zfs_scrub::outcome::VdevFacts;

/// Columns before the table.
const INDENT: usize = 8;
/// Names longer than this stand on a line of their own.
const NAME_WIDTH_MAX: usize = 40;

/// One line of the table.
struct Row {
    name: String,
    depth: usize,
    state: String,
    counts: Vec<String>,
    device: String,
}

/// A leaf that was not among the given paths.
pub(super) fn is_missing(vdev: &VdevFacts) -> bool {
    vdev.children.is_empty() && vdev.device.is_none() && !is_ghost(vdev) && vdev.vdev_type != "dspare"
}

/// A vdev without a device: a hole in the list, or one whose content was moved away.
fn is_ghost(vdev: &VdevFacts) -> bool {
    matches!(vdev.vdev_type.as_str(), "hole" | "indirect")
}

/// What the table shows.
pub(super) struct Config<'a> {
    /// Name of the pool.
    pub(super) pool: &'a str,
    /// Top-level vdevs.
    pub(super) vdevs: &'a [VdevFacts],
    /// Hot spares.
    pub(super) spares: &'a [VdevFacts],
    /// Cache devices.
    pub(super) caches: &'a [VdevFacts],
    /// Blocks without a good copy; `None` leaves the counts out.
    pub(super) lost_blocks: Option<u64>,
    /// Show vdevs that have no device, too.
    pub(super) ghosts: bool,
}

/// Which columns of numbers there are.
#[derive(Clone, Copy)]
struct Columns {
    counts: bool,
    stale: bool,
}

impl Columns {
    fn texts(self, read: &str, checksum: &str, stale: &str) -> Vec<String> {
        let shown = [(self.counts, read), (self.counts, checksum), (self.stale, stale)];
        shown.into_iter().filter(|(shown, _)| *shown).map(|(_, text)| text.to_owned()).collect()
    }
}

/// Writes the table.
pub(super) fn write(page: &mut Page, config: &Config<'_>) {
    let vdevs: Vec<_> = config.vdevs.iter().filter(|vdev| config.ghosts || !is_ghost(vdev)).collect();
    if vdevs.is_empty() {
        return;
    }
    let counts = config.lost_blocks.is_some();
    let numbers = Columns { counts, stale: counts && vdevs.iter().any(|vdev| has_stale(vdev)) };
    let row = |name: &str, state: &str, counts| Row {
        name: name.to_owned(),
        depth: 0,
        state: state.to_owned(),
        counts,
        device: String::new(),
    };
    let lost = short_count(config.lost_blocks.unwrap_or_default());
    let mut rows = vec![
        Row { device: "DEVICE".to_owned(), ..row("NAME", "STATE", numbers.texts("READ", "CKSUM", "STALE")) },
        row(&name(config.pool), root_state(config.vdevs), numbers.texts("0", &lost, "0")),
    ];
    // The order of `zpool status`.
    for (class, title) in [("normal", ""), ("dedup", "dedup"), ("special", "special"), ("log", "logs")] {
        let mut of_class = vdevs.iter().filter(|vdev| vdev.class.as_deref().unwrap_or("normal") == class).peekable();
        if !title.is_empty() && of_class.peek().is_some() {
            rows.push(row(title, "", Vec::new()));
        }
        of_class.for_each(|vdev| add(&mut rows, vdev, numbers));
    }
    for (title, devices) in [("cache", config.caches), ("spares", config.spares)] {
        if !devices.is_empty() {
            rows.push(row(title, "", Vec::new()));
            rows.extend(devices.iter().map(auxiliary));
        }
    }
    page.line(0, "config:");
    page.blank();
    table(page, &rows);
}

fn has_stale(vdev: &VdevFacts) -> bool {
    vdev.stale_copies > 0 || vdev.children.iter().any(has_stale)
}

/// The state of the root: not the verdict, but what the devices add up to.
pub(super) fn root_state(vdevs: &[VdevFacts]) -> &'static str {
    let states = || vdevs.iter().filter(|vdev| !is_ghost(vdev)).map(|vdev| vdev.state.as_str());
    // A pool can be imported without its log devices.
    let needed = || vdevs.iter().filter(|vdev| !is_ghost(vdev) && vdev.class.as_deref() != Some("log"));
    if needed().map(|vdev| vdev.state.as_str()).any(|state| matches!(state, "UNAVAIL" | "FAULTED" | "REMOVED")) {
        "UNAVAIL"
    } else if states().all(|state| state == "ONLINE") {
        "ONLINE"
    } else {
        "DEGRADED"
    }
}

/// Adds a top-level vdev and all below it.
fn add(rows: &mut Vec<Row>, top: &VdevFacts, numbers: Columns) {
    let mut rest = vec![(1, top)];
    while let Some((depth, vdev)) = rest.pop() {
        let [read, checksum, stale] = [vdev.read_errors, vdev.checksum_errors, vdev.stale_copies].map(short_count);
        let counts = numbers.texts(&read, &checksum, &stale);
        let (name, state) = (name(&vdev.name), name(&vdev.state));
        rows.push(Row { name, depth, state, counts, device: device(vdev) });
        rest.extend(vdev.children.iter().rev().map(|child| (depth + 1, child)));
    }
}

/// A spare or a cache: there is nothing to count on it, and it is not missed when it was not given.
fn auxiliary(vdev: &VdevFacts) -> Row {
    let (device, state) = match (&vdev.device, &vdev.path) {
        (Some(device), _) => (name(device), vdev.state.clone()),
        (None, Some(path)) => (format!("not given, was {}; holds no pool data", name(path)), "-".to_owned()),
        (None, None) => ("not given; holds no pool data".to_owned(), "-".to_owned()),
    };
    Row { name: name(&vdev.name), depth: 1, state, counts: Vec::new(), device }
}

fn device(vdev: &VdevFacts) -> String {
    match (&vdev.device, &vdev.path) {
        (Some(device), _) => match vdev.drive.as_ref().map(Drive::summary).filter(|summary| !summary.is_empty()) {
            Some(summary) => format!("{}  {}", name(device), name(&summary)),
            None => name(device),
        },
        (None, Some(path)) if is_missing(vdev) => {
            // `/sys/class/enclosure/0:0:9:0/Slot 03`
            let slot = vdev.enclosure_path.as_deref().and_then(|path| path.rsplit_once('/'));
            let slot = slot.map_or_else(String::new, |(_, slot)| format!(", {}", name(slot)));
            format!("not given, was {}{slot}", name(path))
        }
        (None, _) if vdev.vdev_type == "dspare" => "spare space of all members".to_owned(),
        (None, None) if is_missing(vdev) => format!("not given, guid {}", vdev.guid),
        _ => String::new(),
    }
}

fn table(page: &mut Page, rows: &[Row]) {
    let name_width = |row: &Row| row.depth * 2 + columns(&row.name);
    let names = rows.iter().map(name_width).filter(|width| *width <= NAME_WIDTH_MAX).max().unwrap_or(0).max(10);
    let counts = rows.iter().flat_map(|row| &row.counts).map(|count| columns(count)).max().unwrap_or(0).max(5);
    for row in rows {
        let indent = INDENT + row.depth * 2;
        let mut name = row.name.clone();
        if name_width(row) > names {
            page.line(indent, &name);
            name.clear();
        }
        let mut cells = vec![(Paint::Plain, padded(&name, names - row.depth * 2) + "  ")];
        cells.push((state_paint(&row.state), row.state.clone()));
        cells.push((Paint::Plain, " ".repeat(8_usize.saturating_sub(columns(&row.state)))));
        cells.extend(row.counts.iter().map(|count| (Paint::Plain, format!(" {count:>counts$}"))));
        let used = indent + cells.iter().map(|(_, cell)| columns(cell)).sum::<usize>();
        if used + 2 + columns(&row.device) <= super::page::WIDTH {
            cells.push((Paint::Plain, format!("  {}", row.device)));
            page.cells(indent, &cells);
        } else {
            page.cells(indent, &cells);
            page.wrapped(indent + 2, indent + 4, &row.device);
        }
    }
}

/// The colour of a state word.
pub(super) fn state_paint(state: &str) -> Paint {
    match state {
        "ONLINE" | "AVAIL" => Paint::Good,
        "DEGRADED" | "OFFLINE" => Paint::Warn,
        "STATE" | "INUSE" | "-" | "" => Paint::Plain,
        _ => Paint::Bad,
    }
}
