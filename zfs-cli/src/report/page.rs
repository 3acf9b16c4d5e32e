//! A page of text: wraps lines, paints words, and lets no control character of a pool reach the terminal.

use anstyle::{AnsiColor, Style};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Columns no line goes beyond, unless a single word is longer.
pub(crate) const WIDTH: usize = 100;

/// A space at which no line breaks. Printed as a plain space.
pub(crate) const GLUE: char = '\u{a0}';
/// Commands in backticks up to this many bytes are kept on one line.
const COMMAND_MAX: usize = 60;

/// How a word is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Not at all.
    Plain,
    /// A heading.
    Bold,
    /// All is well.
    Good,
    /// Redundancy is not complete, or something was not checked.
    Warn,
    /// Something is lost.
    Bad,
}

impl Paint {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Bold => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default().bold(),
            Self::Warn => AnsiColor::Yellow.on_default().bold(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Text in the making.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    color: bool,
}

impl Page {
    /// An empty page.
    pub(crate) fn new(color: bool) -> Self {
        Self { text: String::new(), color }
    }

    /// The finished text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// An empty line, never two in a row and never the first.
    pub(crate) fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// One line as it is.
    pub(crate) fn line(&mut self, indent: usize, text: &str) {
        let line = format!("{:indent$}{}", "", printable(text));
        let _ = writeln!(self.text, "{}", line.trim_end());
    }

    /// A line of painted cells.
    pub(crate) fn cells(&mut self, indent: usize, cells: &[(Paint, String)]) {
        let mut line = " ".repeat(indent);
        for (paint, cell) in cells {
            line.push_str(&self.painted(*paint, &printable(cell)));
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Text wrapped at [`WIDTH`], with `indent` columns before the first line and `hang` before the others.
    pub(crate) fn wrapped(&mut self, indent: usize, hang: usize, text: &str) {
        self.labelled(&" ".repeat(indent), hang, (Paint::Plain, ""), text);
    }

    /// Wrapped text behind a label, with `hang` columns before all lines but the first. The text begins with a painted
    /// word.
    pub(crate) fn labelled(&mut self, label: &str, hang: usize, (paint, word): (Paint, &str), text: &str) {
        let pieces: Vec<_> = text.split(GLUE).map(printable).collect();
        let whole = format!("{word}{}", glue_commands(&pieces.join(&GLUE.to_string())));
        let mut lines = wrap(&whole, WIDTH.saturating_sub(columns(label)), WIDTH.saturating_sub(hang)).into_iter();
        let first = lines.next().unwrap_or_default();
        let rest = first.strip_prefix(word).unwrap_or_default();
        let word = self.painted(paint, word);
        let _ = writeln!(self.text, "{}", format!("{label}{word}{rest}").trim_end());
        for line in lines {
            let _ = writeln!(self.text, "{:hang$}{line}", "");
        }
    }

    /// A field in the manner of `zpool status`: the label ends in column 6, the text begins in column 8.
    pub(crate) fn field(&mut self, label: &str, text: &str) {
        self.painted_field(label, Paint::Plain, "", text);
    }

    /// A field whose text starts with a painted word.
    pub(crate) fn painted_field(&mut self, label: &str, paint: Paint, word: &str, text: &str) {
        self.labelled(&format!("{label:>6}: "), 8, (paint, word), text);
    }

    fn painted(&self, paint: Paint, text: &str) -> String {
        if self.color && paint != Paint::Plain && !text.is_empty() {
            let style = paint.style();
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Breaks text at spaces. Words longer than a line stay whole, so that a path can be copied.
fn wrap(text: &str, first_width: usize, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut room = first_width;
    for word in text.split(' ') {
        if !line.trim_end().is_empty() && columns(&line) + 1 + columns(word) > room {
            lines.push(std::mem::take(&mut line).trim_end().replace(GLUE, " "));
            room = width;
            line.push_str(word);
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    if lines.is_empty() || !line.trim_end().is_empty() {
        lines.push(line.trim_end().replace(GLUE, " "));
    }
    lines
}

/// Ours or one of ZFS, and short: not any text between two backticks that names in a pool may hold.
fn is_command(text: &str) -> bool {
    text.len() <= COMMAND_MAX && (text.starts_with("zpool ") || text.starts_with("zcheck "))
}

/// Glues commands in backticks together, so that they can be copied.
fn glue_commands(text: &str) -> String {
    let mut glued = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        glued.push_str(before);
        glued.push('`');
        rest = after;
        if let Some((command, after)) = after.split_once('`').filter(|(command, _)| is_command(command)) {
            glued.push_str(&command.replace(' ', &GLUE.to_string()));
            glued.push('`');
            rest = after;
        }
    }
    glued + rest
}

/// Columns a text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Pads to a number of columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// A name that came from a pool, safe to print: control and invisible characters as `\x1b` or `\u{202e}`, the backslash
/// doubled, so that the name can be told from its escapes, and blanks at its ends as `\x20`.
pub(crate) fn name(text: &str) -> String {
    let middle = text.trim_matches(' ');
    let before = text.len() - text.trim_start_matches(' ').len();
    let after = if middle.is_empty() { 0 } else { text.len() - before - middle.len() };
    let blank = "\\x20";
    let middle = printable(&middle.replace('\\', "\\\\"));
    match format!("{}{middle}{}", blank.repeat(before), blank.repeat(after)) {
        name if name.is_empty() => "(no name)".to_owned(),
        name => name,
    }
}

/// Free text, safe to print: as [`name`], but the backslash stays.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' '..='~' => safe.push(character),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(safe, "\\x{:02x}", u32::from(character));
            }
            // Behind a letter, `escape_debug` leaves combining marks alone, as they occur in names from macOS.
            _ if format!("x{character}").escape_debug().count() == 2 => safe.push(character),
            _ => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_do_not_reach_the_terminal() {
        assert_eq!(name("a\x1b[2Jb\n\r\t\x7f"), "a\\x1b[2Jb\\x0a\\x0d\\x09\\x7f");
        assert_eq!(name("\u{9b}31m\u{202e}gpj.exe\u{200b}"), "\\u{9b}31m\\u{202e}gpj.exe\\u{200b}");
        assert_eq!(name("C:\\x1b"), "C:\\\\x1b");
        assert_eq!(name(" a b  "), "\\x20a b\\x20\\x20");
        assert_eq!((name("  "), name("")), ("\\x20\\x20".to_owned(), "(no name)".to_owned()));
        assert_eq!(name("Grüße/日本/e\u{301}"), "Grüße/日本/e\u{301}");
    }

    #[test]
    fn text_wraps_at_spaces() {
        let mut page = Page::new(false);
        page.field("status", &"word ".repeat(40));
        let text = page.into_text();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("status: word word"));
        assert!(lines[1].starts_with("        word word"));
        assert!(lines.iter().all(|line| columns(line) <= WIDTH && line.trim_end() == *line));
        assert_eq!(text.matches("word").count(), 40);
    }

    #[test]
    fn a_long_word_stays_whole() {
        let path = format!("/{}", "x".repeat(150));
        assert_eq!(wrap(&format!("see {path} there"), 90, 90), ["see", path.as_str(), "there"]);
    }

    #[test]
    fn commands_and_glued_words_stay_on_one_line() {
        let mut page = Page::new(false);
        page.wrapped(0, 0, &format!("{} `zpool scrub tank` {} exit{GLUE}status", "x".repeat(90), "y".repeat(76)));
        let text = page.into_text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], format!("`zpool scrub tank` {}", "y".repeat(76)));
        assert_eq!(lines[2], "exit status");
    }

    #[test]
    fn words_are_painted_only_with_colour() {
        for (color, expected) in [(false, " state: ONLINE\n"), (true, " state: \u{1b}[1m\u{1b}[32mONLINE\u{1b}[0m\n")] {
            let mut page = Page::new(color);
            page.painted_field("state", Paint::Good, "ONLINE", "");
            assert_eq!(page.into_text(), expected);
        }
    }
}
