//! The files of the repository as the rules see them: paths and texts.
//!
//! I1: A path is relative to the root and has forward slashes on every system.
//! I2: What git ignores is not part of the tree; without git, what builds leave behind is not.

use std::fs;
use std::path::Path;

use super::Finding;
use crate::failure::Failure;
use crate::process;

/// What builds and runs leave behind; only needed where git cannot tell (I2).
const LEFT_BEHIND: &[&str] =
    &[".git", "target", "node_modules", "dist", "corpus", "artifacts", "keyloom-data"];

/// All text files of the repository, sorted by path.
pub(super) struct Tree {
    /// The files.
    pub(super) files: Vec<File>,
    /// What a reader of the findings should know about how the files were found.
    pub(super) notes: Vec<String>,
}

impl Tree {
    /// Reads the tree below `root`. Files that are not text are left out.
    pub(super) fn read(root: &Path) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        let mut paths = match listed_by_git(root) {
            Ok(paths) => paths,
            Err(failure) => {
                notes.push(format!("git cannot list the files, so all are looked at: {failure}"));
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        paths.sort();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            let place = root.join(&path);
            // A file may be listed and deleted, and a link to a folder is listed like a file.
            if !place.is_file() {
                continue;
            }
            let bytes = fs::read(&place).map_err(|error| unreadable(&path, &error))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
        Ok(Tree { files, notes })
    }
}

/// One text file.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Where it is (I1).
    pub(super) path: String,
    /// What it holds.
    pub(super) text: String,
}

impl File {
    /// Whether the path ends like this, as `.rs`.
    pub(super) fn has_ending(&self, ending: &str) -> bool {
        self.path.ends_with(ending)
    }

    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The lines with their numbers.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The number of the first line that begins with this, or one if there is none.
    pub(super) fn line_of(&self, beginning: &str) -> usize {
        let found = self.lines().find(|(_, line)| line.starts_with(beginning));
        found.map_or(1, |(number, _)| number)
    }

    /// A finding in this file.
    pub(super) fn at(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding::new(&self.path, line, what)
    }
}

/// What is tracked, and what is new and not ignored.
fn listed_by_git(root: &Path) -> Result<Vec<String>, Failure> {
    // A copy without a repository of its own may lie inside another one, which knows nothing of it.
    if !root.join(".git").exists() {
        return Err(Failure::Failed("this is not a git repository".to_owned()));
    }
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = process::output(&mut process::git(root, &arguments))?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<(), Failure> {
    let entries = fs::read_dir(root.join(folder)).map_err(|error| unreadable(folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if LEFT_BEHIND.contains(&name.as_str()) {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        // The type of the entry itself: a link is not followed, so the walk ends.
        let kind = entry.file_type().map_err(|error| unreadable(&path, &error))?;
        if kind.is_dir() {
            walk(root, &path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

fn unreadable(path: &str, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{path}:1: cannot be read: {error}"))
}

/// A file for tests of rules.
#[cfg(test)]
pub(super) fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::tests::{commit, repository, write};

    #[test]
    fn with_git_the_tree_is_what_git_does_not_ignore() {
        let root = filled(repository());
        let tree = Tree::read(root.path()).unwrap();
        assert_eq!(paths(&tree), [".gitignore", "a/b.rs", "target/kept.txt"]);
        assert_eq!(tree.notes, Vec::<String>::new());
    }

    #[test]
    fn without_git_the_tree_is_all_but_what_builds_leave_behind() {
        let root = filled(tempfile::tempdir().unwrap());
        let tree = Tree::read(root.path()).unwrap();
        assert_eq!(paths(&tree), [".gitignore", "a/b.rs", "ignored.txt"]);
        assert!(tree.notes[0].starts_with("git cannot list the files"), "{:?}", tree.notes);
    }

    #[test]
    fn a_copy_inside_another_repository_does_not_ask_that_one() {
        let outer = repository();
        write(outer.path(), ".gitignore", "*\n");
        write(outer.path(), "copy/a.rs", "//! A.\n");
        assert_eq!(paths(&Tree::read(&outer.path().join("copy")).unwrap()), ["a.rs"]);
    }

    #[test]
    fn a_file_that_is_tracked_and_deleted_is_not_in_the_tree() {
        let root = filled(repository());
        commit(root.path());
        fs::remove_file(root.path().join("a/b.rs")).unwrap();
        assert_eq!(paths(&Tree::read(root.path()).unwrap()), [".gitignore", "target/kept.txt"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_is_not_followed_so_that_a_circle_ends() {
        for root in [repository(), tempfile::tempdir().unwrap()] {
            write(root.path(), "a/b.rs", "//! B.\n");
            std::os::unix::fs::symlink(root.path(), root.path().join("a/circle")).unwrap();
            assert_eq!(paths(&Tree::read(root.path()).unwrap()), ["a/b.rs"]);
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let file = file("a.txt", "x\ny\n");
        assert_eq!(file.lines().collect::<Vec<_>>(), [(1, "x"), (2, "y")]);
        assert_eq!((file.line_of("y"), file.line_of("z")), (2, 1));
    }

    fn filled(root: TempDir) -> TempDir {
        for path in ["a/b.rs", "target/kept.txt", "ignored.txt"] {
            write(root.path(), path, "//! Text.\n");
        }
        write(root.path(), ".gitignore", "/ignored.txt\n");
        fs::write(root.path().join("a/picture.png"), [0xff, 0x00]).unwrap();
        root
    }

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.files.iter().map(|file| file.path.as_str()).collect()
    }
}
