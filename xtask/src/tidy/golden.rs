//! Golden files are added to, never edited: stored bytes are a contract.
//!
//! I1: Every line that a golden file had at a base is still there, in the same order. Lines may be
//!     added anywhere.
//! I2: The bases are the last commit (what is being edited now), the one before it (what the last
//!     commit or merge edited), where this branch left `origin/main`, and the last release.

use std::path::Path;

use super::Finding;
use super::tree::File;
use crate::failure::Failure;
use crate::process;

const GOLDEN: &str = "tests/golden/";

/// The golden files as each base has them (I2), or a note that says why they cannot be read. A base
/// that does not exist (no commit, no such branch, no release yet) is left out.
pub(super) fn bases(root: &Path) -> Vec<Result<Vec<File>, String>> {
    if !root.join(".git").exists() {
        return vec![Err("golden files are not compared: this is not a git repository".to_owned())];
    }
    // Works in every repository; if it does not, git itself is missing or refuses.
    if let Err(failure) = process::output(&mut process::git(root, &["rev-parse", "--git-dir"])) {
        return vec![Err(format!("golden files are not compared: {failure}"))];
    }
    let wanted: [&[&str]; 4] = [
        &["rev-parse", "--verify", "--quiet", "HEAD"],
        &["rev-parse", "--verify", "--quiet", "HEAD~1"],
        &["merge-base", "HEAD", "origin/main"],
        &["describe", "--tags", "--abbrev=0", "--match", "v*"],
    ];
    let revisions = wanted.iter().filter_map(|arguments| {
        process::output(&mut process::git(root, arguments)).ok().map(|name| name.trim().to_owned())
    });
    let bases = revisions.map(|revision| read(root, &revision));
    bases
        .map(|base| base.map_err(|failure| format!("golden files are not compared: {failure}")))
        .collect()
}

/// Compares the golden files of the tree with what they were `before`.
pub(super) fn check(before: &[File], files: &[File]) -> Vec<Finding> {
    let lost = before.iter().filter_map(|before| {
        let after = files.iter().find(|file| file.path == before.path);
        let (line, text) = first_lost(&before.text, after.map_or("", |file| &file.text))?;
        let what = format!("the golden line {text:?} is gone or moved: put it back, add instead");
        Some(before.at(line, what))
    });
    lost.collect()
}

fn read(root: &Path, revision: &str) -> Result<Vec<File>, Failure> {
    let arguments = ["ls-tree", "-r", "-z", "--name-only", revision, "--", GOLDEN];
    let listed = process::output(&mut process::git(root, &arguments))?;
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    let files = paths.map(|path| {
        let object = format!("{revision}:{path}");
        let text = process::output(&mut process::git(root, &["show", &object]))?;
        Ok(File { path: path.to_owned(), text })
    });
    files.collect()
}

/// The first line of `before`, with its number, that `after` does not have behind the lines before
/// it (I1). Taking the first match each time is enough: a later one leaves less room.
fn first_lost<'a>(before: &'a str, after: &str) -> Option<(usize, &'a str)> {
    let mut rest = after.lines();
    (1..).zip(before.lines()).find(|(_, line)| !rest.by_ref().any(|candidate| candidate == *line))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tree::file;
    use super::*;
    use crate::tests::{commit, git, repository, write};

    const KEYS: &str = "tests/golden/keys.txt";

    #[test]
    fn lines_may_be_added_anywhere() {
        assert_eq!(first_lost("a\nb\n", "0\na\n1\nb\n2\n"), None);
        assert_eq!(first_lost("", "a\n"), None);
        assert_eq!(first_lost("a\na\n", "a\nb\na\n"), None);
    }

    #[test]
    fn a_line_that_is_edited_deleted_or_moved_is_lost() {
        assert_eq!(first_lost("a\nb\nc\n", "a\nB\nc\n"), Some((2, "b")));
        assert_eq!(first_lost("a\nb\n", "a\n"), Some((2, "b")));
        assert_eq!(first_lost("a\nb\n", "b\na\n"), Some((2, "b")));
        assert_eq!(first_lost("a\na\n", "a\n"), Some((2, "a")));
        assert_eq!(first_lost("a\n", ""), Some((1, "a")));
    }

    #[test]
    fn a_golden_file_that_is_gone_is_found() {
        let found = check(&[file(KEYS, "x\n")], &[file("tests/golden/other.txt", "x\n")]);
        let expected = "tests/golden/keys.txt:1: the golden line \"x\" is gone or moved: put it \
                        back, add instead";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn edits_are_seen_before_the_commit_and_after_it() {
        let root = repository();
        write(root.path(), KEYS, "a\nb\n");
        commit(root.path());
        assert_eq!(found(root.path()), 0);
        write(root.path(), KEYS, "a\nB\n");
        assert_eq!(found(root.path()), 1, "against the last commit");
        commit(root.path());
        assert_eq!(found(root.path()), 1, "against the commit before the last");
        write(root.path(), KEYS, "a\nb\nB\n");
        assert_eq!(found(root.path()), 0, "mended");
    }

    #[test]
    fn what_was_released_is_never_edited() {
        let root = repository();
        write(root.path(), KEYS, "a\n");
        commit(root.path());
        git(root.path(), &["tag", "v0.1.0"]);
        edit_long_ago(root.path());
        assert_eq!(found(root.path()), 1);
    }

    #[test]
    fn what_a_branch_edited_is_seen_however_many_commits_ago() {
        let root = repository();
        write(root.path(), KEYS, "a\n");
        commit(root.path());
        git(root.path(), &["update-ref", "refs/remotes/origin/main", "HEAD"]);
        edit_long_ago(root.path());
        assert_eq!(found(root.path()), 1);
    }

    #[test]
    fn without_git_there_is_a_note() {
        let root = tempfile::tempdir().unwrap();
        let note = bases(root.path()).remove(0).unwrap_err();
        assert_eq!(note, "golden files are not compared: this is not a git repository");
        write(root.path(), ".git/HEAD", "damaged");
        let note = bases(root.path()).remove(0).unwrap_err();
        assert!(note.starts_with("golden files are not compared: `git rev-parse"), "{note}");
    }

    #[test]
    fn a_repository_without_commits_has_nothing_to_compare_with() {
        assert!(bases(repository().path()).is_empty());
    }

    /// How many findings the golden file has against all bases.
    fn found(root: &Path) -> usize {
        let files = [file(KEYS, &fs::read_to_string(root.join(KEYS)).unwrap())];
        bases(root).into_iter().map(|base| check(&base.unwrap(), &files).len()).sum()
    }

    /// An edit, and so many additions behind it that the last two commits do not show it.
    fn edit_long_ago(root: &Path) {
        for text in ["b\n", "b\nc\n", "b\nc\nd\n"] {
            write(root, KEYS, text);
            commit(root);
        }
    }
}
