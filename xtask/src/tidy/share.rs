//! Which Rust lines are tests, and how large their share is.
//!
//! I1: A line is a test line if its file is a test file (in a `tests` folder, named `tests.rs`, or
//!     part of the conformance suite, which is a library only so that every store can run it) or
//!     if it belongs to an item behind `#[cfg(test)]`.
//!
//! Where an item ends is read from the layout that rustfmt gives it, not from a parser: its last
//! line is the next one at the item's own depth that begins with `}` or ends with `;` or `,`.

use std::fmt;

use super::Finding;
use super::tree::File;

/// The least share of test lines, in percent of all Rust lines.
const TESTS_PERCENT_MIN: usize = 40;

/// How many of all Rust lines are test lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    tests: usize,
    all: usize,
}

impl Share {
    /// Counts the lines of all Rust files.
    pub(super) fn of(files: &[File]) -> Self {
        let mut share = Share { tests: 0, all: 0 };
        for file in files.iter().filter(|file| file.has_ending(".rs")) {
            let all = file.text.lines().count();
            share.all += all;
            share.tests += all - lines_without_tests(file);
        }
        share
    }

    /// Whether there are enough tests.
    pub(super) fn check(self) -> Option<Finding> {
        let enough = self.tests * 100 >= self.all * TESTS_PERCENT_MIN;
        let what = format!("{self}; at least {TESTS_PERCENT_MIN} % is the bar: write tests");
        (!enough).then(|| Finding::new("Cargo.toml", 1, what))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Share { tests, all } = *self;
        // In tenths of a percent; cut off, so that a share below the bar never reads like the bar.
        let tenths = (tests * 1000).checked_div(all).unwrap_or(0);
        write!(f, "tests are {}.{} % of {all} Rust lines", tenths / 10, tenths % 10)
    }
}

/// How many lines of a Rust file are not tests (I1).
pub(super) fn lines_without_tests(file: &File) -> usize {
    if is_test_file(file) {
        return 0;
    }
    let mut lines = file.text.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let item = line.trim_start();
        if item.starts_with("#[cfg(test)]") || item.starts_with("#[cfg(all(test,") {
            let depth = line.len() - item.len();
            // Takes the lines of the item out of the walk, up to and with its last one.
            lines.by_ref().find(|line| ends_item(line, depth));
        } else {
            count += 1;
        }
    }
    count
}

fn is_test_file(file: &File) -> bool {
    let is_test_folder = |part: &str| part == "tests" || part == "conformance";
    file.name() == "tests.rs" || file.path.split('/').any(is_test_folder)
}

fn ends_item(line: &str, depth: usize) -> bool {
    let item = line.trim_start();
    let same_depth = line.len() - item.len() == depth;
    let is_comment = item.starts_with("//");
    same_depth && !is_comment && (item.starts_with('}') || item.ends_with([';', ',', '}']))
}

#[cfg(test)]
mod tests {
    use super::super::tree::file;
    use super::*;

    #[test]
    fn the_conformance_suite_counts_as_tests() {
        let suite = file("crates/keyloom-store/src/conformance/reads.rs", "fn law() {}\n");
        assert_eq!(lines_without_tests(&suite), 0);
    }

    #[test]
    fn a_test_module_is_tests_up_to_its_closing_brace() {
        let text =
            "//! A.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n";
        check("src/a.rs", text, 4);
    }

    #[test]
    fn a_declaration_behind_cfg_test_is_two_lines_of_tests() {
        check("src/a.rs", "//! A.\n#[cfg(test)]\nmod tests;\nfn a() {}\n", 2);
        check("src/a.rs", "//! A.\n#[cfg(all(test, unix))]\nuse a::b;\nfn a() {}\n", 2);
    }

    #[test]
    fn a_single_line_item_behind_cfg_test_does_not_swallow_what_follows() {
        check("src/a.rs", "//! A.\n#[cfg(test)]\nfn b() {}\nfn a() {}\n", 2);
    }

    #[test]
    fn a_method_behind_cfg_test_ends_at_its_own_depth() {
        let method = "    #[cfg(test)]\n    fn b() {\n        c();\n    }\n";
        let text = format!("//! A.\nimpl A {{\n{method}\n    fn d() {{}}\n}}\n");
        check("src/a.rs", &text, 5);
    }

    #[test]
    fn attributes_and_docs_between_cfg_test_and_the_item_belong_to_it() {
        let attribute = "#[expect(\n    lint,\n    reason = \"why\"\n)]\n";
        let text = format!("//! A.\n#[cfg(test)]\n{attribute}/// One; two,\nmod tests {{\n}}\n");
        check("src/a.rs", &text, 1);
    }

    #[test]
    fn what_is_also_built_for_others_is_no_test() {
        check("src/a.rs", "#[cfg(any(test, feature = \"x\"))]\nmod conformance;\n", 2);
    }

    #[test]
    fn files_in_a_tests_folder_and_files_named_tests_are_tests() {
        check("crates/a/tests/rows.rs", "fn a() {}\n", 0);
        check("crates/a/src/b/tests.rs", "fn a() {}\n", 0);
        check("crates/a/src/contests.rs", "fn a() {}\n", 1);
    }

    #[test]
    fn the_share_is_over_all_rust_lines_and_nothing_else() {
        let files = [
            file("src/a.rs", "//! A.\n//!\n//!\n"),
            file("tests/a.rs", "//! T.\n//!\n"),
            file("README.md", "many\nmore\nlines\n"),
        ];
        let share = Share::of(&files);
        assert_eq!(share, Share { tests: 2, all: 5 });
        assert_eq!(share.to_string(), "tests are 40.0 % of 5 Rust lines");
        assert_eq!(share.check(), None);
    }

    #[test]
    fn a_share_just_below_the_bar_is_found_and_shown_as_below() {
        let finding = Share { tests: 3999, all: 10_000 }.check().unwrap();
        assert!(finding.what.starts_with("tests are 39.9 % of 10000"), "{finding}");
    }

    #[test]
    fn a_tree_without_rust_has_no_finding() {
        assert_eq!(Share::of(&[]).check(), None);
        assert_eq!(Share::of(&[]).to_string(), "tests are 0.0 % of 0 Rust lines");
    }

    fn check(path: &str, text: &str, without_tests: usize) {
        assert_eq!(lines_without_tests(&file(path, text)), without_tests, "{path}\n{text}");
    }
}
