//! Rules for one Rust file (and, for reminders, one TypeScript file).
//!
//! I1: Code is looked at without its comments, and comments without the code before them. Text in
//!     string literals counts as code.

use std::sync::LazyLock;

use regex::Regex;

use super::Finding;
use super::share;
use super::tree::File;

/// The longest line, in characters; the width that rustfmt breaks code at, but it leaves comments
/// and strings alone.
const COLUMNS_MAX: usize = 100;

/// The longest file without its tests; a longer one is probably two things in one file.
const LINES_MAX: usize = 500;

/// Code that does not stay, and what to do instead.
static BANNED: LazyLock<[(Regex, &str); 3]> = LazyLock::new(|| {
    [
        (
            pattern(r"#!?\[(cfg_attr\(.*)?\ballow\("),
            "a lint is switched off: mend the code, or use `expect` with a reason",
        ),
        (
            pattern(r"#\[(cfg_attr\(.*)?\bignore\b"),
            "a test is switched off: make it pass, or delete it",
        ),
        (
            pattern(r"\b(todo|unimplemented|dbg)!\s*[(\[{]"),
            "a placeholder or a probe is left in the code: finish it, or take it out",
        ),
    ]
});

/// A reminder in a comment, with the issue it belongs to.
static REMINDER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^|[^`\w])(TODO|FIXME|XXX|HACK)\b(\(?#\d+)?"));

/// Checks a Rust or TypeScript file; any other file has no findings.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let is_rust = file.has_ending(".rs");
    if !is_rust && !file.has_ending(".ts") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if is_rust {
        findings.extend(check_opening(file));
        findings.extend(check_length(file));
    }
    for (number, line) in file.lines() {
        let (code, comment) = split_comment(line);
        if is_rust {
            findings.extend(width(line).map(|what| file.at(number, what)));
            findings.extend(banned(code).map(|what| file.at(number, what)));
        }
        findings.extend(reminder(comment).map(|what| file.at(number, what)));
    }
    findings
}

fn check_opening(file: &File) -> Option<Finding> {
    let what = "open the file with `//!`: its purpose, then its invariants, numbered";
    (!file.text.starts_with("//!")).then(|| file.at(1, what))
}

fn check_length(file: &File) -> Option<Finding> {
    let lines = share::lines_without_tests(file);
    let what = format!("{lines} lines without tests, at most {LINES_MAX}: split the file");
    (lines > LINES_MAX).then(|| file.at(LINES_MAX + 1, what))
}

fn width(line: &str) -> Option<String> {
    let columns = line.chars().count();
    (columns > COLUMNS_MAX)
        .then(|| format!("{columns} columns, at most {COLUMNS_MAX}: break the line"))
}

fn banned(code: &str) -> impl Iterator<Item = &'static str> {
    BANNED.iter().filter(|(pattern, _)| pattern.is_match(code)).map(|(_, advice)| *advice)
}

fn reminder(comment: &str) -> Option<String> {
    let found = REMINDER.captures(comment)?;
    let word = found.get(1)?.as_str();
    let has_issue = found.get(2).is_some();
    (word != "TODO" || !has_issue)
        .then(|| format!("a reminder without an issue (`{word}`): write `TODO(#12)`, or do it"))
}

/// The code of a line and its comment, either of which may be empty (I1). `//` behind an odd number
/// of quotes is inside a string.
fn split_comment(line: &str) -> (&str, &str) {
    let splits = line.match_indices("//").filter_map(|(at, _)| line.split_at_checked(at));
    let comment = splits.into_iter().find(|(code, _)| {
        let escaped = code.matches("\\\"").count() + code.matches("'\"'").count();
        (code.matches('"').count() - escaped).is_multiple_of(2)
    });
    comment.unwrap_or((line, ""))
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant that the tests below use")
}

#[cfg(test)]
mod tests {
    use super::super::tree::file;
    use super::*;

    #[test]
    fn a_file_that_keeps_the_rules_has_no_findings() {
        assert_eq!(findings("//! A.\n\n// TODO(#12): later. TODO #3 too.\nfn a() {}\n"), "");
    }

    #[test]
    fn a_file_without_a_purpose_is_found() {
        let expected = "src/a.rs:1: open the file with `//!`: its purpose, then its invariants, \
                        numbered\n";
        assert_eq!(findings("fn a() {}\n"), expected);
        assert_eq!(findings(""), expected);
        assert_eq!(findings("// A.\n"), expected);
    }

    #[test]
    fn a_file_of_501_lines_is_found_and_one_of_500_is_not() {
        let text = "//! A.\n".repeat(500);
        assert_eq!(findings(&text), "");
        let expected = "src/a.rs:501: 501 lines without tests, at most 500: split the file\n";
        assert_eq!(findings(&format!("{text}\n")), expected);
        let with_tests = format!("{text}#[cfg(test)]\nmod tests {{\n    // Test.\n}}\n");
        assert_eq!(findings(&with_tests), "");
    }

    #[test]
    fn a_line_of_101_columns_is_found_and_one_of_100_characters_is_not() {
        let line = format!("// {}", "é".repeat(97));
        assert_eq!(findings(&format!("//! A.\n{line}\n")), "");
        let expected = "src/a.rs:2: 101 columns, at most 100: break the line\n";
        assert_eq!(findings(&format!("//! A.\n{line}é\n")), expected);
    }

    #[test]
    fn a_lint_that_is_switched_off_is_found_in_every_spelling() {
        // The words are put together here, so that this file is not found itself.
        let allow = ["al", "low(dead_code)"].concat();
        for attribute in [
            format!("#[{allow}]"),
            format!("#![{allow}]"),
            format!("    #[{allow}] fn a() {{}}"),
            format!("#[cfg_attr(test, {allow})]"),
        ] {
            let found = findings(&format!("//! A.\n{attribute}\n"));
            assert!(found.starts_with("src/a.rs:2: a lint is switched off"), "{attribute}");
        }
        assert_eq!(findings("//! A.\n#[expect(dead_code, reason = \"why\")]\n"), "");
        assert_eq!(findings(&format!("//! A.\n// Never #[{allow}].\n")), "");
    }

    #[test]
    fn a_test_that_is_switched_off_is_found() {
        let off = ["ign", "ore"].concat();
        for attribute in
            [format!("#[{off}]"), format!("#[{off} = \"x\"]"), format!("#[cfg_attr(a, {off})]")]
        {
            let found = findings(&format!("//! A.\n{attribute}\n"));
            assert!(found.starts_with("src/a.rs:2: a test is switched off"), "{attribute}");
        }
    }

    #[test]
    fn placeholders_and_probes_are_found() {
        for name in ["todo", "unimplemented", "dbg"] {
            let found = findings(&format!("//! A.\n    {name}!(1)\n"));
            assert!(found.starts_with("src/a.rs:2: a placeholder or a probe"), "{name}");
        }
        assert_eq!(findings("//! A.\nlet todo = a.todo();\n"), "");
    }

    #[test]
    fn a_reminder_without_an_issue_is_found() {
        for comment in ["// TODO: later", "a(); // FIXME", "/// HACK(#1): x", "// XXX"] {
            let found = findings(&format!("//! A.\n{comment}\n"));
            assert!(found.starts_with("src/a.rs:2: a reminder without an issue"), "{comment}");
        }
        assert_eq!(findings("//! A.\n// A `TODO` needs an issue.\nlet TODO = 1;\n"), "");
    }

    #[test]
    fn a_reminder_in_typescript_is_found_and_nothing_else_there() {
        let text = format!("// TODO: later\n{}\n", "a".repeat(200));
        let found = check(&file("clients/typescript/src/a.ts", &text));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 1);
        assert_eq!(check(&file("README.md", "// TODO: later")), []);
    }

    #[test]
    fn a_comment_does_not_begin_inside_a_string() {
        for (code, comment) in [
            ("a(\"https://b\"); ", "// c"),
            ("a(\"\\\"// b\"); ", "// c"),
            ("a('\"'); ", "// \"c\" // d"),
            ("a()", ""),
            ("", "//! a"),
        ] {
            assert_eq!(split_comment(&format!("{code}{comment}")), (code, comment));
        }
    }

    fn findings(text: &str) -> String {
        check(&file("src/a.rs", text)).iter().map(|finding| format!("{finding}\n")).collect()
    }
}
