//! The command line, and the small workspace that the tests of the tasks work on.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// The library of [`workspace`].
pub(crate) const LIB: &str = "crates/keyloom-key/src/lib.rs";
pub(crate) const LIB_TEXT: &str = "//! Keys.\n\n/// One.\npub fn one() -> u8 {\n    1\n}\n";

/// The tests of [`workspace`].
pub(crate) const LAWS: &str = "crates/keyloom-key/tests/laws.rs";
pub(crate) const LAWS_TEXT: &str =
    "//! Laws.\n\n#[test]\nfn one_is_one() {\n    assert_eq!(keyloom_key::one(), 1);\n}\n";

#[test]
fn an_unknown_task_is_refused_with_the_list_and_exit_code_2() {
    let failure = ask(Path::new("."), &["tidi"]).unwrap_err();
    assert_eq!(failure.exit_code(), 2);
    let message = failure.to_string();
    assert!(message.starts_with("there is no task `tidi`"), "{message}");
    for task in ["ci", "tidy", "golden", "bench", "fuzz", "help"] {
        assert!(message.contains(&format!("\n  {task} ")), "{task} is not listed in {message}");
    }
}

#[test]
fn arguments_that_a_task_does_not_know_are_refused() {
    for words in [["ci", "now"], ["tidy", "--fix"], ["golden", "--edit"], ["fuzz", "--for-ever"]] {
        let failure = ask(Path::new("."), &words).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains(words[1]), "{failure}");
    }
}

#[test]
fn a_task_that_cannot_be_done_fails_with_exit_code_1_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    for (words, reason) in [
        (["bench", "core"], "crates/keyloom-bench does not exist"),
        (["fuzz", "locate"], "no fuzz targets in fuzz/fuzz_targets"),
    ] {
        let failure = ask(root.path(), &words).unwrap_err();
        assert_eq!(failure.exit_code(), 1);
        assert!(failure.to_string().contains(reason), "{failure}");
    }
}

#[test]
fn help_is_no_failure() {
    for words in [&[][..], &["help"], &["--help"], &["-h"]] {
        ask(Path::new("."), words).unwrap();
    }
}

#[test]
fn the_root_is_the_folder_of_the_workspace() {
    assert!(root().join("xtask/src/main.rs").is_file());
}

/// A repository with one commit: two crates that keep every rule, without foreign dependencies, so
/// that cargo needs no network, and a golden file.
pub(crate) fn workspace() -> TempDir {
    let root = repository();
    let lints = "[workspace.lints.rust]\nmissing_docs = \"deny\"\n";
    let members = "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\
                   exclude = [\"theirs\"]\n";
    for (path, text) in [
        ("Cargo.toml", format!("{members}\n{lints}").as_str()),
        (".gitignore", "/Cargo.lock\n/target\n"),
        ("crates/keyloom-key/Cargo.toml", &manifest("keyloom-key")),
        (LIB, LIB_TEXT),
        (LAWS, LAWS_TEXT),
        ("crates/keyloom-store/Cargo.toml", &manifest("keyloom-store")),
        ("crates/keyloom-store/src/lib.rs", "//! Stores.\n"),
        ("tests/golden/keys.txt", "a\n"),
    ] {
        write(root.path(), path, text);
    }
    commit(root.path());
    root
}

/// The manifest of a crate of [`workspace`]; dependencies can be added at its end.
pub(crate) fn manifest(name: &str) -> String {
    let package = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
    format!("{package}\n[lints]\nworkspace = true\n\n[dependencies]\n")
}

/// An empty git repository.
pub(crate) fn repository() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    git(root.path(), &["init", "--quiet"]);
    git(root.path(), &["config", "user.name", "Test"]);
    git(root.path(), &["config", "user.email", "test@example.org"]);
    git(root.path(), &["config", "commit.gpgsign", "false"]);
    root
}

/// Commits everything.
pub(crate) fn commit(root: &Path) {
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message", "test: change"]);
}

/// Runs a command that builds [`workspace`], and keeps what it prints from the output of the tests.
/// Each workspace has its own build folder, also where one is set for all: their crates have the
/// same names.
pub(crate) fn build(root: &Path, mut command: Command) -> Result<String, Failure> {
    process::output(command.env("CARGO_TARGET_DIR", root.join("target")))
}

/// Runs git and expects it to succeed.
pub(crate) fn git(root: &Path, arguments: &[&str]) {
    process::output(&mut process::git(root, arguments)).unwrap();
}

/// Writes a file and the folders above it.
pub(crate) fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, text).unwrap();
}

fn ask(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let arguments: Vec<String> = words.iter().map(ToString::to_string).collect();
    run(root, &arguments)
}
