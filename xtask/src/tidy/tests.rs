//! Tidy on whole trees: a small workspace that keeps every rule, and the same one broken in each.

use std::fs;

use super::*;
use crate::tests::{LIB, git, manifest, workspace, write};

#[test]
fn a_tree_that_keeps_the_rules_has_no_findings() {
    let root = workspace();
    let report = check(root.path()).unwrap();
    assert_eq!(shown(&report), Vec::<String>::new());
    assert_eq!(report.notes, Vec::<String>::new());
    assert_eq!(report.share.to_string(), "tests are 46.1 % of 13 Rust lines");
    run(root.path()).unwrap();
}

#[test]
fn all_findings_are_reported_and_sorted() {
    let root = workspace();
    // The golden line is now lost against two bases, and reported once.
    git(root.path(), &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let key = manifest("keyloom-key").replace("[lints]\nworkspace = true\n", "");
    let key = format!("{key}keyloom-store = {{ path = \"../keyloom-store\" }}\n");
    let store = manifest("keyloom-store") + "theirs = { path = \"../../theirs\" }\n";
    for (path, text) in [
        ("README.md", "[a](MISSING.md)\n"),
        ("crates/keyloom-key/Cargo.toml", &key),
        (LIB, "fn a() {} // TODO: b\n"),
        ("crates/keyloom-store/Cargo.toml", &store),
        ("docs/decisions/redb.md", ""),
        ("notes.txt", &["/wo", "rk/main\n"].concat()),
        ("tests/golden/keys.txt", "other\n"),
        ("theirs/Cargo.toml", "[package]\nname = \"theirs\"\nlicense = \"GPL-3.0-only\"\n"),
        ("theirs/src/lib.rs", "//! Theirs.\n"),
    ] {
        write(root.path(), path, text);
    }
    let expected = [
        "Cargo.lock:1: theirs 0.0.0 has the licence `GPL-3.0-only`",
        "README.md:1: the link `MISSING.md` leads nowhere",
        "crates/keyloom-key/Cargo.toml:1: the lints of the workspace are off",
        "crates/keyloom-key/Cargo.toml:7: no arrow leads from `keyloom-key` to `keyloom-store`",
        "crates/keyloom-key/src/lib.rs:1: a reminder without an issue",
        "crates/keyloom-key/src/lib.rs:1: open the file with `//!`",
        "docs/decisions/redb.md:1: not named like a decision",
        "notes.txt:1: `/wo",
        "tests/golden/keys.txt:1: the golden line \"a\" is gone or moved",
    ];
    let found = shown(&check(root.path()).unwrap());
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\nis not\n{expected}");
    }
    let failure = run(root.path()).unwrap_err();
    assert_eq!((failure.to_string().as_str(), failure.exit_code()), ("tidy: 9 findings", 1));
}

#[test]
fn too_few_tests_are_a_finding_of_the_whole_tree() {
    let root = workspace();
    write(root.path(), "crates/keyloom-key/src/more.rs", &"//! More.\n".repeat(11));
    let found = shown(&check(root.path()).unwrap());
    let expected =
        "Cargo.toml:1: tests are 25.0 % of 24 Rust lines; at least 40 % is the bar: write tests";
    assert_eq!(found, [expected]);
    assert_eq!(run(root.path()).unwrap_err().to_string(), "tidy: 1 finding");
}

#[test]
fn a_crate_in_a_folder_of_another_name_is_found() {
    let root = workspace();
    let (from, to) = ("crates/keyloom-store", "crates/store");
    fs::rename(root.path().join(from), root.path().join(to)).unwrap();
    let found = shown(&check(root.path()).unwrap());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("crates/store/Cargo.toml:2: the crate `keyloom-store`"));
}

#[test]
fn without_git_everything_else_is_checked_and_a_note_says_what_is_not() {
    let root = workspace();
    fs::remove_dir_all(root.path().join(".git")).unwrap();
    write(root.path(), "README.md", "[a](MISSING.md)\n");
    let report = check(root.path()).unwrap();
    assert_eq!(shown(&report), ["README.md:1: the link `MISSING.md` leads nowhere: mend it"]);
    let expected = "golden files are not compared: this is not a git repository";
    assert!(report.notes.iter().any(|note| note == expected), "{:?}", report.notes);
}

#[test]
fn a_tree_without_a_workspace_is_a_failure_and_not_a_clean_report() {
    let root = tempfile::tempdir().unwrap();
    let failure = run(root.path()).unwrap_err();
    assert!(failure.to_string().starts_with("`cargo metadata"), "{failure}");
}

fn shown(report: &Report) -> Vec<String> {
    report.findings.iter().map(ToString::to_string).collect()
}
