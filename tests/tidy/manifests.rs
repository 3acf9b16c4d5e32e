//! Rules about the crates and what they depend on.

use crate::tree::{Source, files, report, top};
use std::process::Command;

/// Our crates, and which of ours each may depend on.
const OURS: &[(&str, &[&str])] = &[
    ("zfs-format", &[]),
    ("zfs-scrub", &["zfs-format"]),
    ("zfs-cli", &["zfs-format", "zfs-scrub"]),
    ("fixtures", &[]),
    ("fuzz", &["zfs-format", "zfs-scrub", "fixtures"]),
];

fn manifest(sources: &[Source], name: &str) -> String {
    let path = format!("{name}/Cargo.toml");
    sources.iter().find(|source| source.path == path).unwrap_or_else(|| panic!("no {path}")).text.clone()
}

/// Lines of a section, without its head.
fn section<'a>(manifest: &'a str, head: &str) -> Vec<&'a str> {
    let after = manifest.lines().skip_while(|line| line.trim() != head).skip(1);
    after.take_while(|line| !line.starts_with('[')).collect()
}

#[test]
fn crates_depend_one_way() {
    let sources = files("Cargo.toml");
    let mut broken = Vec::new();
    for (name, allowed) in OURS {
        for line in section(&manifest(&sources, name), "[dependencies]") {
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if OURS.iter().any(|(ours, _)| *ours == used) && !allowed.contains(&used) {
                broken.push(format!("{name} depends on {used}"));
            }
        }
    }
    report("a crate that another rests on rests on that one", &broken);
}

#[test]
fn every_crate_takes_licence_edition_version_and_lints_from_the_workspace() {
    let sources = files("Cargo.toml");
    let mut broken = Vec::new();
    for (name, _) in OURS {
        let manifest = manifest(&sources, name);
        for key in ["license", "edition", "rust-version", "version"] {
            let line = format!("{key}.workspace = true");
            if !section(&manifest, "[package]").contains(&line.as_str()) {
                broken.push(format!("{name}: no `{line}`"));
            }
        }
        if !section(&manifest, "[lints]").contains(&"workspace = true") {
            broken.push(format!("{name}: no lints of the workspace"));
        }
        for head in ["[dependencies]", "[dev-dependencies]", "[build-dependencies]"] {
            for line in section(&manifest, head).iter().filter(|line| line.contains('=')) {
                if !line.contains("workspace = true") {
                    broken.push(format!("{name}: `{line}` is not a version of the workspace"));
                }
            }
        }
    }
    report("what is said once in the workspace", &broken);
}

#[test]
fn every_crate_is_known_here() {
    let members = std::fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let line = members.lines().find(|line| line.starts_with("members")).unwrap();
    let named: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
    let known: Vec<&str> = OURS.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, known);
}

fn version(text: &str) -> Vec<u64> {
    text.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// What `cargo metadata` says of all packages for this machine, without the net.
fn metadata() -> Result<serde_json::Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let verbose = Command::new(&cargo).arg("-vV").output().map_err(|error| error.to_string())?;
    let verbose = String::from_utf8_lossy(&verbose.stdout).into_owned();
    let host = verbose.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("cargo does not name the host")?;
    let mut command = Command::new(cargo);
    command.current_dir(top()).args(["metadata", "--offline", "--format-version", "1", "--filter-platform", host]);
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

#[test]
fn no_dependency_needs_a_newer_compiler_than_we_promise() {
    let workspace = std::fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let ours = workspace.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    let ours = version(ours.trim_matches('"'));
    let metadata = match metadata() {
        Ok(metadata) => metadata,
        Err(error) => {
            println!("SKIPPED: cargo metadata --offline failed: {error}");
            return;
        }
    };
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20, "{} packages", packages.len());
    let mut broken = Vec::new();
    for package in packages {
        let wanted = package["rust_version"].as_str().unwrap_or("1.0");
        if version(wanted) > ours {
            broken.push(format!("{} {} needs Rust {wanted}", package["name"], package["version"]));
        }
    }
    report("newer than the workspace's rust-version", &broken);
}
