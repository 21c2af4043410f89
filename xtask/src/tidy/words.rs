//! The repository speaks of Keyloom only: no path of one machine, no private package host, nothing
//! about the tools it was written with.
//!
//! I1: No pattern stands here in one piece, so that this file is not found itself.
//! I2: Lock files are read for where packages come from, and not for words: their checksums may
//!     spell anything.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::Finding;
use super::tree::File;

static FOREIGN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = [
        [r"/(wo", "rk|fa", "rm)/"].concat(),
        ["/tm", "p/w/"].concat(),
        ["arti", "factory"].concat(),
        [r"\b(cla", "ude|anth", "ropic|chat", "gpt|l", "lm|sub", "agent)", r"\b"].concat(),
        [r"\ba", r"i-gener", r"ated\b"].concat(),
        [r"\bas an a", r"i\b"].concat(),
    ]
    .join("|");
    RegexBuilder::new(&pattern)
        .case_insensitive(true)
        .build()
        .expect("the pattern is a constant that the tests below use")
});

/// Lock files, how a line that names a source begins, and the one source that everybody can reach.
const LOCKS: &[(&str, &str, &str)] = &[
    ("Cargo.lock", "source = \"", "registry+https://github.com/rust-lang/crates.io-index\""),
    ("package-lock.json", "\"resolved\": \"", "https://registry.npmjs.org/"),
];

/// Checks any text file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    match LOCKS.iter().find(|(name, _, _)| file.name() == *name) {
        Some((_, key, public)) => check_lock(file, key, public),
        None => check_words(file),
    }
}

fn check_lock(file: &File, key: &str, public: &str) -> Vec<Finding> {
    let sources =
        file.lines().filter_map(|(number, line)| Some((number, line.trim().strip_prefix(key)?)));
    sources
        .filter(|(_, source)| !source.starts_with(public))
        .map(|(number, _)| {
            let public = public.trim_end_matches('"');
            file.at(number, format!("a package that does not come from {public}: lock it again"))
        })
        .collect()
}

fn check_words(file: &File) -> Vec<Finding> {
    let found = file.lines().filter_map(|(number, line)| Some((number, FOREIGN.find(line)?)));
    found
        .map(|(number, word)| {
            let word = word.as_str();
            file.at(
                number,
                format!("`{word}` has no place here: the repository speaks of Keyloom only"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::file;
    use super::*;

    #[test]
    fn paths_hosts_and_tools_are_found_in_any_case() {
        for parts in [
            ["/wo", "rk/main"],
            ["/fa", "rm/x"],
            ["/tm", "p/w/key"],
            ["https://Arti", "factory.example"],
            ["with Cla", "ude"],
            ["by an L", "LM."],
            ["a sub", "agent"],
            ["A", "I-generated"],
            ["as an A", "I, I"],
        ] {
            let line = parts.concat();
            let found = check(&file("docs/a.md", &format!("fine\n{line}\n")));
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(found[0].line, 2);
            assert!(found[0].what.ends_with("the repository speaks of Keyloom only"));
        }
    }

    #[test]
    fn words_that_only_look_alike_are_fine() {
        let text = "homework/done\nllms\n/tmp/work\nthe farm\nframework/\nas an a";
        assert_eq!(check(&file("a.toml", &[text, "id\n"].concat())), []);
    }

    #[test]
    fn a_lock_file_may_spell_anything_in_its_checksums() {
        let text = format!("checksum = \"{}\"\n", ["l", "lm"].concat());
        assert_eq!(check(&file("Cargo.lock", &text)), []);
    }

    #[test]
    fn a_crate_from_anywhere_but_crates_io_is_found() {
        let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        assert_eq!(check(&file("fuzz/Cargo.lock", public)), []);
        for source in ["git+https://github.com/a/b#1", "registry+https://mirror.example/index"] {
            let found = check(&file("Cargo.lock", &format!("{public}source = \"{source}\"\n")));
            assert_eq!(found.len(), 1, "{source}");
            assert_eq!(found[0].line, 2);
        }
    }

    #[test]
    fn a_node_package_from_anywhere_but_npm_is_found() {
        let path = "clients/typescript/package-lock.json";
        let public = "  \"resolved\": \"https://registry.npmjs.org/a/-/a-1.0.0.tgz\",\n";
        assert_eq!(check(&file(path, public)), []);
        let private = public.replace("registry.npmjs.org", "npm.example");
        assert_eq!(check(&file(path, &private)).len(), 1);
    }
}
