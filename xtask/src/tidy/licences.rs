//! Everything that Keyloom is built from can be passed on under MIT OR Apache-2.0.
//!
//! I1: An expression is allowed if its licences can be chosen so that all of them are in the table:
//!     `OR` lets us choose, `AND` does not.
//! I2: What cannot be read is not allowed.

use super::Finding;
use super::packages::Packages;

/// The licences that we may build on, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("0BSD", "permissive, asks for nothing"),
    ("Apache-2.0", "one of our own"),
    ("Apache-2.0 WITH LLVM-exception", "one of our own, asking for less"),
    ("BSD-2-Clause", "permissive, asks for its notice"),
    ("BSD-3-Clause", "permissive, asks for its notice and not to use its name"),
    ("BSL-1.0", "permissive, asks for its notice in source only"),
    ("CC0-1.0", "public domain"),
    ("CDLA-Permissive-2.0", "permissive, for data: the list of root certificates"),
    ("ISC", "permissive, asks for its notice"),
    ("MIT", "one of our own"),
    ("MIT-0", "permissive, asks for nothing"),
    ("MPL-2.0", "copyleft for its own files only; lock files prove that we use them unmodified"),
    ("Unicode-3.0", "permissive, asks for its notice"),
    ("Unicode-DFS-2016", "permissive, the older Unicode licence"),
    ("Unlicense", "public domain"),
    ("Zlib", "permissive, asks not to misstate the origin"),
];

/// Checks the licence of every crate that is not ours.
pub(super) fn check(packages: &Packages) -> Vec<Finding> {
    let refused = packages.foreign().filter_map(|package| {
        let expression = package.license.as_deref().unwrap_or_default();
        (!is_allowed(expression)).then_some((&package.name, &package.version, expression))
    });
    refused
        .map(|(name, version, expression)| {
            let what = format!(
                "{name} {version} has the licence `{expression}`, which is not in the table of {}: \
                 use another crate, or decide there",
                file!()
            );
            Finding::new("Cargo.lock", 1, what)
        })
        .collect()
}

fn is_allowed(expression: &str) -> bool {
    // Old manifests write `/` where SPDX writes `OR`.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut reader = Reader { words: spaced.split_whitespace().peekable() };
    reader.any_of() == Some(true) && reader.words.next().is_none()
}

/// Reads an SPDX expression and says whether it is allowed (I1); nothing if it is malformed (I2).
struct Reader<'a, I: Iterator<Item = &'a str>> {
    words: std::iter::Peekable<I>,
}

impl<'a, I: Iterator<Item = &'a str>> Reader<'a, I> {
    fn any_of(&mut self) -> Option<bool> {
        let mut allowed = self.all_of()?;
        while self.words.next_if_eq(&"OR").is_some() {
            allowed |= self.all_of()?;
        }
        Some(allowed)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.words.next_if_eq(&"AND").is_some() {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        let word = self.words.next()?;
        if word == "(" {
            let allowed = self.any_of()?;
            return (self.words.next()? == ")").then_some(allowed);
        }
        if [")", "AND", "OR", "WITH"].contains(&word) {
            return None;
        }
        let mut licence = word.to_owned();
        if self.words.next_if_eq(&"WITH").is_some() {
            licence = format!("{word} WITH {}", self.words.next()?);
        }
        Some(ALLOWED.iter().any(|(allowed, _)| *allowed == licence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_of_the_table_are_allowed() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "Unlicense OR MIT",
            "MPL-2.0",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn one_allowed_choice_is_enough_and_one_forbidden_part_is_too_much() {
        assert!(is_allowed("GPL-3.0-only OR MIT"));
        assert!(is_allowed("EPL-2.0 OR Apache-2.0"));
        assert!(!is_allowed("GPL-3.0-only AND MIT"));
        assert!(!is_allowed("MIT AND (GPL-3.0-only OR LGPL-2.1-only)"));
        // AND binds tighter than OR.
        assert!(is_allowed("MIT OR ISC AND GPL-3.0-only"));
        assert!(!is_allowed("(MIT OR ISC) AND GPL-3.0-only"));
    }

    #[test]
    fn an_exception_makes_another_licence() {
        assert!(!is_allowed("GPL-2.0-only WITH Classpath-exception-2.0"));
        assert!(!is_allowed("MIT WITH LLVM-exception"));
    }

    #[test]
    fn what_cannot_be_read_is_not_allowed() {
        for expression in
            ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT MIT", "()", "MIT WITH", "AND", "mit"]
        {
            assert!(!is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn a_dependency_with_another_licence_or_none_is_found() {
        let json = serde_json::json!({
            "packages": [
                package("ours", None),
                package("copyleft", Some("AGPL-3.0-only")),
                package("silent", None),
                package("fine", Some("MIT")),
            ],
            "workspace_members": ["ours"],
            "workspace_root": "",
        });
        let packages: Packages = serde_json::from_value(json).unwrap();
        let found: Vec<String> = check(&packages).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2);
        let expected = "Cargo.lock:1: copyleft 1.0.0 has the licence `AGPL-3.0-only`, which is not";
        assert!(found[0].starts_with(expected), "{}", found[0]);
        assert!(found[1].starts_with("Cargo.lock:1: silent 1.0.0 has the licence ``"));
    }

    fn package(name: &str, license: Option<&str>) -> serde_json::Value {
        serde_json::json!({
            "id": name, "name": name, "version": "1.0.0", "license": license,
            "manifest_path": "", "dependencies": [],
        })
    }
}
