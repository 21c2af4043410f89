//! The crates of the workspace and everything they depend on, as cargo sees them.
//!
//! I1: A crate lies in a folder of its own name.
//! I2: Every crate of the workspace has the lints of the workspace.

use std::path::Path;

use serde::Deserialize;

use super::Finding;
use super::tree::File;
use crate::failure::Failure;
use crate::process;

/// What `cargo metadata` knows, as far as the rules need it. The names are cargo's.
#[derive(Debug, Deserialize)]
pub(super) struct Packages {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    workspace_root: String,
}

/// One crate, ours or not.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    id: String,
    /// The name in its manifest.
    pub(super) name: String,
    /// The version in its manifest.
    pub(super) version: String,
    /// An SPDX expression, if it states one.
    pub(super) license: Option<String>,
    /// What it asks for, before cargo decides on versions.
    pub(super) dependencies: Vec<Dependency>,
    manifest_path: String,
}

/// One line of a manifest that asks for another crate.
#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    /// The crate that is asked for.
    pub(super) name: String,
    /// `dev`, `build`, or nothing for an ordinary one.
    pub(super) kind: Option<String>,
}

impl Packages {
    /// Asks cargo. It asks for all platforms, so that the answer is the same on every machine.
    pub(super) fn read(root: &Path) -> Result<Self, Failure> {
        let arguments = ["metadata", "--format-version", "1"];
        Self::parse(&process::output(&mut process::cargo(root, &arguments))?)
    }

    fn parse(json: &str) -> Result<Self, Failure> {
        serde_json::from_str(json).map_err(|error| {
            Failure::Failed(format!("what `cargo metadata` printed is not understood: {error}"))
        })
    }

    /// The crates of the workspace.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.is_ours(package))
    }

    /// The crates of others.
    pub(super) fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| !self.is_ours(package))
    }

    /// The path of a manifest, relative to the root of the workspace.
    pub(super) fn manifest(&self, package: &Package) -> String {
        let path = package.manifest_path.replace('\\', "/");
        let root = self.workspace_root.replace('\\', "/");
        path.strip_prefix(&root).unwrap_or(&path).trim_start_matches('/').to_owned()
    }

    /// Checks folder (I1) and lints (I2) of every crate of the workspace.
    pub(super) fn check(&self, files: &[File]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for package in self.ours() {
            let path = self.manifest(package);
            let Some(manifest) = files.iter().find(|file| file.path == path) else {
                findings.push(Finding::new(
                    &path,
                    1,
                    "the manifest is not in the repository: add it",
                ));
                continue;
            };
            findings.extend(check_folder(manifest, &package.name));
            findings.extend(check_lints(manifest));
        }
        findings
    }

    fn is_ours(&self, package: &Package) -> bool {
        self.workspace_members.contains(&package.id)
    }
}

fn check_folder(manifest: &File, name: &str) -> Option<Finding> {
    let folder = manifest.path.rsplit('/').nth(1)?;
    let what = format!("the crate `{name}` lies in the folder `{folder}`: give both one name");
    (folder != name).then(|| manifest.at(manifest.line_of("name"), what))
}

fn check_lints(manifest: &File) -> Option<Finding> {
    let mut section = "";
    for line in manifest.text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let wanted = match section {
            "[lints]" => "workspace=true",
            "" => "lints.workspace=true",
            _ => continue,
        };
        if line.split_whitespace().collect::<String>() == wanted {
            return None;
        }
    }
    Some(manifest.at(1, "the lints of the workspace are off: add `[lints] workspace = true`"))
}

#[cfg(test)]
mod tests {
    use super::super::tree::file;
    use super::*;

    #[test]
    fn a_crate_in_a_folder_of_its_own_name_is_fine() {
        let manifest = file("crates/keyloom-key/Cargo.toml", "[package]\nname = \"keyloom-key\"\n");
        assert_eq!(check_folder(&manifest, "keyloom-key"), None);
    }

    #[test]
    fn a_crate_in_a_folder_of_another_name_is_found() {
        let manifest = file("crates/key/Cargo.toml", "[package]\nname = \"keyloom-key\"\n");
        let expected = "crates/key/Cargo.toml:2: the crate `keyloom-key` lies in the folder `key`: \
                        give both one name";
        assert_eq!(check_folder(&manifest, "keyloom-key").unwrap().to_string(), expected);
    }

    #[test]
    fn lints_of_the_workspace_are_seen_in_both_spellings() {
        assert_eq!(lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), None);
        assert_eq!(lints("lints.workspace = true\n\n[package]\nname = \"a\"\n"), None);
    }

    #[test]
    fn a_crate_without_the_lints_of_the_workspace_is_found() {
        for text in [
            "[package]\nname = \"a\"\n",
            "[lints]\nworkspace = false\n",
            "[lints]\n\n[dependencies]\nworkspace = true\n",
            "# [lints]\n# workspace = true\n",
        ] {
            let finding = lints(text).unwrap();
            assert!(finding.what.starts_with("the lints of the workspace are off"), "{text}");
        }
    }

    #[test]
    fn our_crates_are_told_from_those_of_others() {
        let json = r#"{
            "packages": [
                {"id": "1", "name": "ours", "version": "0.1.0", "license": null,
                 "dependencies": [{"name": "theirs", "kind": "dev"}],
                 "manifest_path": "/home/a/crates/ours/Cargo.toml"},
                {"id": "2", "name": "theirs", "version": "1.0.0", "license": "MIT",
                 "dependencies": [], "manifest_path": "/home/b/theirs/Cargo.toml"}
            ],
            "workspace_members": ["1"],
            "workspace_root": "/home/a"
        }"#;
        let packages = Packages::parse(json).unwrap();
        let ours: Vec<&Package> = packages.ours().collect();
        assert_eq!(ours.len(), 1);
        assert_eq!(packages.manifest(ours[0]), "crates/ours/Cargo.toml");
        let foreign: Vec<&str> = packages.foreign().map(|package| package.name.as_str()).collect();
        assert_eq!(foreign, ["theirs"]);
    }

    #[test]
    fn what_cargo_did_not_mean_is_a_failure() {
        let failure = Packages::parse("{}").unwrap_err();
        assert!(failure.to_string().contains("missing field"), "{failure}");
    }

    fn lints(text: &str) -> Option<Finding> {
        check_lints(&file("crates/a/Cargo.toml", text))
    }
}
