//! Which rescue map belongs to which input.

use crate::error::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zfs_format::media::RescueMap;

/// Reads the maps that `--map` names, by the input that each is for.
pub(crate) fn maps_of(args: &[PathBuf], inputs: &[&Path]) -> Result<BTreeMap<PathBuf, RescueMap>, Failure> {
    let mut maps = BTreeMap::new();
    for arg in args {
        let (input, file) = assigned(arg, inputs)?;
        let map = RescueMap::open(&file).map_err(|error| Failure::operational(error.to_string()))?;
        if maps.insert(input.clone(), map).is_some() {
            return Err(Failure::usage(format!("--map: {} has two maps", input.display())));
        }
    }
    Ok(maps)
}

/// Input and file of `PATH=FILE`, or of `FILE` when there is one input only. Either name may have a `=` in it.
fn assigned(arg: &Path, inputs: &[&Path]) -> Result<(PathBuf, PathBuf), Failure> {
    let text = arg.to_str().unwrap_or_default();
    for (at, _) in text.match_indices('=') {
        let (path, file) = (Path::new(&text[..at]), &text[at + 1..]);
        if inputs.contains(&path) && !file.is_empty() {
            return Ok((path.to_path_buf(), PathBuf::from(file)));
        }
    }
    match inputs {
        [only] => Ok((only.to_path_buf(), arg.to_path_buf())),
        _ => Err(Failure::usage(format!(
            "--map {}: say which of the {} inputs it is for, as in --map {}=FILE",
            arg.display(),
            inputs.len(),
            inputs.first().map_or_else(|| "PATH".to_owned(), |path| path.display().to_string())
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(arg: &str, inputs: &[&str]) -> Option<(String, String)> {
        let inputs: Vec<&Path> = inputs.iter().map(Path::new).collect();
        let (input, file) = assigned(Path::new(arg), &inputs).ok()?;
        Some((input.display().to_string(), file.display().to_string()))
    }

    #[test]
    fn a_map_belongs_to_the_only_input_or_to_the_one_that_is_named() {
        let pair = |input: &str, file: &str| Some((input.to_owned(), file.to_owned()));
        assert_eq!(assign("a.map", &["a"]), pair("a", "a.map"));
        assert_eq!(assign("a=a.map", &["a"]), pair("a", "a.map"));
        assert_eq!(assign("b=a.map", &["a"]), pair("a", "b=a.map"));
        assert_eq!(assign("b=b=c.map", &["a", "b"]), pair("b", "b=c.map"));
        assert_eq!(assign("b=c=d", &["a", "b=c"]), pair("b=c", "d"));
        assert_eq!(assign("a.map", &["a", "b"]), None);
        assert_eq!(assign("c=a.map", &["a", "b"]), None);
        assert_eq!(assign("a=", &["a", "b"]), None);
    }
}
