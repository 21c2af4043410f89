//! Rules for Markdown: relative links lead somewhere, and decisions are numbered and listed once.
//!
//! I1: A link is looked up among the files of the tree, so a link to something that is not in the
//!     repository is found also where it happens to exist on disk.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::Finding;
use super::tree::File;

/// `](target)` with an optional title, or `[name]: target` (but not a footnote).
static LINK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|^\s{0,3}\[[^\]^][^\]]*\]:\s+<?([^\s>]+)"#)
});

/// Text between backticks, which is not a link whatever it looks like.
static CODE: LazyLock<Regex> = LazyLock::new(|| pattern("`[^`]*`"));

/// `0007-short-name.md`
static DECISION: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{4})-[a-z0-9-]+\.md$"));

const DECISIONS: &str = "docs/decisions/";
const DECISIONS_INDEX: &str = "docs/decisions/README.md";

/// Checks the links of a Markdown file against the files of the tree (I1).
pub(super) fn check_links(file: &File, files: &[File]) -> Vec<Finding> {
    if !file.has_ending(".md") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, target) in links(file) {
        if is_absolute(&target) {
            continue;
        }
        let path = target.split(['#', '?']).next().unwrap_or_default();
        let leads_somewhere =
            resolve(&file.path, path).is_some_and(|path| path.is_empty() || exists(&path, files));
        if !leads_somewhere {
            findings.push(file.at(number, format!("the link `{target}` leads nowhere: mend it")));
        }
    }
    findings
}

/// Checks that every decision has a number of its own, and that the index, if there is one, lists
/// each of them once.
pub(super) fn check_decisions(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    let index = files.iter().find(|file| file.path == DECISIONS_INDEX);
    for file in files.iter().filter(|file| file.path.starts_with(DECISIONS)) {
        let name = file.name();
        if file.path == DECISIONS_INDEX {
            continue;
        }
        let Some(number) = DECISION.captures(name).and_then(|found| found.get(1)) else {
            findings.push(file.at(1, "not named like a decision: `0007-short-name.md`"));
            continue;
        };
        let number = number.as_str();
        if let Some(other) = taken.insert(number, name) {
            findings.push(file.at(1, format!("{number} is taken by {other}: use the next number")));
        }
        findings.extend(index.and_then(|index| check_listed(index, name)));
    }
    findings
}

fn check_listed(index: &File, name: &str) -> Option<Finding> {
    let mut places = links(index).filter(|(_, target)| target.trim_start_matches("./") == name);
    match (places.next(), places.next()) {
        (None, _) => Some(index.at(1, format!("{name} is not listed: add it"))),
        (Some(_), None) => None,
        (Some((first, _)), Some((second, _))) => {
            Some(index.at(second, format!("{name} is listed already in line {first}: keep one")))
        }
    }
}

/// The targets of all links outside of code, with their line numbers.
fn links(file: &File) -> impl Iterator<Item = (usize, String)> {
    let mut fence: Option<&str> = None;
    let prose = file.lines().filter(move |(_, line)| {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => return fence.is_none(),
        }
        false
    });
    prose.flat_map(|(number, line)| {
        let line = CODE.replace_all(line, "");
        let targets = LINK.captures_iter(&line);
        let targets = targets.filter_map(|found| found.get(1).or_else(|| found.get(2)));
        targets.map(|target| (number, target.as_str().to_owned())).collect::<Vec<_>>()
    })
}

/// Whether a target has a scheme (`https:`, `mailto:`) and so is not ours to look up.
fn is_absolute(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// The path that `target` means in the file at `from`, relative to the root; nothing if it leaves
/// the repository. An empty target is the file itself.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let base = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Whether the tree has this file, or a folder of this name.
fn exists(path: &str, files: &[File]) -> bool {
    files.iter().any(|file| {
        file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant that the tests below use")
}

#[cfg(test)]
mod tests {
    use super::super::tree::file;
    use super::*;

    #[test]
    fn links_to_files_folders_and_headings_lead_somewhere() {
        for line in [
            "[a](FORMAT.md)",
            "[a](./FORMAT.md#keys)",
            "[a](../README.md)",
            "[a](decisions)",
            "[a](decisions/)",
            "[a](/docs/FORMAT.md)",
            "[a](#below)",
            "[a](..)",
            "[`code`](FORMAT.md \"title\") and [b](<../README.md>)",
            "[a]: FORMAT.md",
            "[a](https://example.org/none.md) <mailto:a@example.org> [b](mailto:a@example.org)",
            "[^1]: a footnote",
        ] {
            assert_eq!(found_in(line), [], "{line}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for line in [
            "[a](MISSING.md)",
            "[a](../FORMAT.md)",
            "[a](../../README.md)",
            "[a](FORMAT)",
            "text ![picture](picture.png) text",
            "[a](FORMAT.md) and [b](MISSING.md#part)",
            "[a]: MISSING.md",
        ] {
            let found = found_in(line);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!((found[0].path.as_str(), found[0].line), ("docs/a.md", 3), "{line}");
            assert!(found[0].what.ends_with("leads nowhere: mend it"), "{line}");
        }
    }

    #[test]
    fn what_looks_like_a_link_in_code_is_none() {
        assert_eq!(found_in("`[a](MISSING.md)`"), []);
        assert_eq!(found_in("```\n[a](MISSING.md)\n~~~\n[a](MISSING.md)\n```"), []);
        assert_eq!(found_in("```\ncode\n```\n[a](MISSING.md)").len(), 1);
    }

    #[test]
    fn a_target_is_resolved_where_its_file_is_and_never_outside_of_the_repository() {
        for (from, target, expected) in [
            ("README.md", "docs/FORMAT.md", Some("docs/FORMAT.md")),
            ("docs/a/b.md", "../c.md", Some("docs/c.md")),
            ("docs/a/b.md", "../../README.md", Some("README.md")),
            ("docs/a/b.md", "./x//y.md", Some("docs/a/x/y.md")),
            ("docs/a/b.md", "/README.md", Some("README.md")),
            ("docs/b.md", "", Some("docs/b.md")),
            ("docs/b.md", "..", Some("")),
            ("README.md", "../other/README.md", None),
            ("docs/a.md", "../../docs/a.md", None),
        ] {
            assert_eq!(resolve(from, target).as_deref(), expected, "{target} in {from}");
        }
    }

    #[test]
    fn only_markdown_has_links() {
        assert_eq!(check_links(&file("a.rs", "[a](MISSING.md)"), &[]), []);
    }

    #[test]
    fn decisions_with_numbers_of_their_own_that_are_listed_once_are_fine() {
        let files = [
            file("docs/decisions/0001-redb.md", ""),
            file("docs/decisions/0002-fjall.md", ""),
            file(DECISIONS_INDEX, "- [1](0001-redb.md)\n- [2](./0002-fjall.md)\n"),
            file("README.md", "[1](docs/decisions/0001-redb.md) [1](docs/decisions/0001-redb.md)"),
        ];
        assert_eq!(check_decisions(&files), []);
        assert_eq!(check_decisions(&files[..2]), [], "an index is not needed");
    }

    #[test]
    fn a_number_that_is_taken_is_found() {
        let files =
            [file("docs/decisions/0001-fjall.md", ""), file("docs/decisions/0001-redb.md", "")];
        let expected =
            "docs/decisions/0001-redb.md:1: 0001 is taken by 0001-fjall.md: use the next number";
        assert_eq!(shown(&files), [expected]);
    }

    #[test]
    fn a_decision_without_a_number_is_found() {
        for name in ["redb.md", "1-redb.md", "0001_redb.md", "0001-redb.txt"] {
            let path = format!("docs/decisions/{name}");
            let expected = format!("{path}:1: not named like a decision: `0007-short-name.md`");
            assert_eq!(shown(&[file(&path, "")]), [expected]);
        }
    }

    #[test]
    fn a_decision_that_is_listed_twice_or_not_at_all_is_found() {
        let decision = file("docs/decisions/0001-redb.md", "");
        let twice = file(DECISIONS_INDEX, "[a](0001-redb.md)\n\n[a](0001-redb.md)\n");
        let expected =
            "docs/decisions/README.md:3: 0001-redb.md is listed already in line 1: keep one";
        assert_eq!(shown(&[decision.clone(), twice]), [expected]);
        let never = file(DECISIONS_INDEX, "# Decisions\n");
        let expected = "docs/decisions/README.md:1: 0001-redb.md is not listed: add it";
        assert_eq!(shown(&[decision, never]), [expected]);
    }

    fn found_in(line: &str) -> Vec<Finding> {
        let document = file("docs/a.md", &format!("# A\n\n{line}\n"));
        let others = ["docs/FORMAT.md", "docs/decisions/0001-redb.md", "README.md"];
        let mut files = others.map(|path| file(path, "")).to_vec();
        files.push(document.clone());
        check_links(&document, &files)
    }

    fn shown(files: &[File]) -> Vec<String> {
        check_decisions(files).iter().map(ToString::to_string).collect()
    }
}
