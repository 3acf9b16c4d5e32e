//! Bytes go one way: a room of `zfs-format` uses only rooms to its left.

use crate::tree::{files, report};

/// The rooms, from the devices to the names. `ondisk`, `codec` and the small files beside them are the tools of all.
const ROOMS: &[&str] = &["media", "vdev", "block", "object", "pool", "dataset"];
const TOOLS: &[&str] = &["ondisk", "codec", "endian", "error", "units"];

fn number(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// First words of all paths that begin with `crate::`, those in braces too.
fn roots(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, start) in text.match_indices("crate::") {
        let rest = &text[at + start.len()..];
        let Some(braces) = rest.strip_prefix('{') else {
            found.push((at, word(rest)));
            continue;
        };
        let mut depth = 0;
        let mut is_first = true;
        for (offset, c) in braces.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                c if is_first && !c.is_whitespace() => {
                    found.push((at, word(&braces[offset..])));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn paths_in_braces_are_seen() {
    let text = "use crate::{Endian, block::{Work, a::b}, pool};\nuse crate::vdev::Place;";
    let words: Vec<_> = roots(text).into_iter().map(|(_, word)| word).collect();
    assert_eq!(words, ["Endian", "block", "pool", "vdev"]);
}

#[test]
fn a_room_uses_only_rooms_to_its_left() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for source in files(".rs") {
        let Some(inside) = source.path.strip_prefix("zfs-format/src/") else { continue };
        let room = word(inside);
        let own = match (number(room), TOOLS.contains(&room)) {
            (Some(own), _) => Some(own),
            (None, true) => None,
            (None, false) if room == "lib" => continue,
            (None, false) => panic!("{} is in no room that STYLE and this test know", source.path),
        };
        seen += 1;
        let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
        for (at, used) in roots(&code) {
            let is_right = number(used).is_some_and(|used| own.is_none_or(|own| used > own));
            if is_right {
                let line = code[..at].rsplit('\n').next().unwrap_or_default().len();
                let text = code[at - line..].lines().next().unwrap_or_default().trim();
                broken.push(format!("{}: {room} uses {used}: {text}", source.path));
            }
        }
    }
    assert!(seen > 30, "only {seen} files were looked at");
    report("a room uses a room to its right", &broken);
}
