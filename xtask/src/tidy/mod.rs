//! The house rules that rustc, rustfmt and clippy do not know: `cargo xtask tidy`.
//!
//! I1: All findings are reported, not only the first; each says where, what is wrong and what to
//!     do.
//! I2: A rule is a plain function of paths and texts; only [`check`] reads files and starts
//!     programs.
//!
//! What others check already stays with them: docs on public items (rustc), the length of functions
//! (clippy), layout (rustfmt).

mod arrows;
mod documents;
mod golden;
mod licences;
mod packages;
mod share;
mod source;
mod tree;
mod words;

use std::fmt;
use std::path::Path;

use crate::failure::Failure;
use packages::Packages;
use share::Share;
use tree::Tree;

/// Checks the repository and prints what was found.
pub(super) fn run(root: &Path) -> Result<(), Failure> {
    let Report { files, share, notes, findings } = check(root)?;
    for note in &notes {
        println!("tidy: {note}");
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {files} files, {share}");
    match findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Failed("tidy: 1 finding".to_owned())),
        count => Err(Failure::Failed(format!("tidy: {count} findings"))),
    }
}

/// One thing to mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Relative to the root of the repository.
    path: String,
    /// Counted from one.
    line: usize,
    /// What is wrong and what to do.
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Finding { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, what } = self;
        write!(f, "{path}:{line}: {what}")
    }
}

/// Everything that one run of tidy has to say.
struct Report {
    files: usize,
    share: Share,
    /// What could not be checked here, and why.
    notes: Vec<String>,
    findings: Vec<Finding>,
}

fn check(root: &Path) -> Result<Report, Failure> {
    let Tree { files, mut notes } = Tree::read(root)?;
    let packages = Packages::read(root)?;
    let share = Share::of(&files);

    let mut findings = Vec::new();
    for file in &files {
        findings.extend(source::check(file));
        findings.extend(words::check(file));
        findings.extend(documents::check_links(file, &files));
    }
    findings.extend(documents::check_decisions(&files));
    findings.extend(share.check());
    findings.extend(arrows::check(&packages, &files));
    findings.extend(packages.check(&files));
    findings.extend(licences::check(&packages));
    for base in golden::bases(root) {
        match base {
            Ok(before) => findings.extend(golden::check(&before, &files)),
            Err(note) => notes.push(note),
        }
    }
    findings.sort();
    // A golden line can be lost against more than one base.
    findings.dedup();
    Ok(Report { files: files.len(), share, notes, findings })
}

#[cfg(test)]
mod tests;
