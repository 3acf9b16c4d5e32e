//! `zcheck explain`: the catalogue of findings for people.

use super::page::{Page, Paint};
use zfs_scrub::Kind;

/// All codes, one a line.
pub(crate) fn list(color: bool) -> String {
    let mut page = Page::new(color);
    for kind in Kind::ALL {
        let entry = kind.entry();
        page.cells(
            0,
            &[
                (Paint::Bold, entry.code.to_owned()),
                (Paint::Plain, format!("  {:<8}  {}", entry.severity.word(), entry.title)),
            ],
        );
    }
    page.into_text()
}

/// What one code means, what causes it and what to do.
pub(crate) fn one(kind: Kind, color: bool) -> String {
    let entry = kind.entry();
    let mut page = Page::new(color);
    page.labelled("", 8, (Paint::Bold, entry.code), &format!("  {} ({})", entry.title, entry.severity));
    for (label, text) in [("meaning: ", entry.meaning), (" causes: ", entry.causes), ("     do: ", entry.advice)] {
        page.blank();
        page.labelled(label, 9, (Paint::Plain, ""), text);
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::super::page::{WIDTH, columns};
    use super::*;

    #[test]
    fn every_code_is_listed_and_explained_in_100_columns() {
        let list = list(false);
        for kind in Kind::ALL {
            let text = one(*kind, false);
            assert!(list.contains(kind.entry().code) && text.starts_with(kind.entry().code));
            assert!(text.contains("meaning: ") && text.contains(" causes: ") && text.contains("     do: "));
            assert!(text.lines().chain(list.lines()).all(|line| columns(line) <= WIDTH));
        }
    }
}
