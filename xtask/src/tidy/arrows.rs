//! Which crate may depend on which: the picture of the workspace as a table.
//!
//! I1: Arrows go one way. A crate may use what lies behind its arrows, near or far, and no other
//!     crate of the workspace.
//! I2: A crate without a row is found, so that whoever adds a crate decides where it stands.

use super::Finding;
use super::packages::{Dependency, Package, Packages};
use super::tree::File;

/// What one crate, or one family of crates, may use. A name that ends with `*` is a family.
struct Row {
    of: &'static str,
    uses: &'static [&'static str],
    /// What its tests may use besides.
    tests_use: &'static [&'static str],
}

const ROWS: &[Row] = &[
    // Pure: identities, templates and spellings know nothing else.
    Row { of: "keyloom-key", uses: &[], tests_use: &[] },
    // Bytes only: a store does not know what a key means.
    Row { of: "keyloom-store", uses: &[], tests_use: &[] },
    Row { of: "keyloom-store-*", uses: &["keyloom-store"], tests_use: &[] },
    // The engine runs on any store and names none; its tests run on all of them.
    Row {
        of: "keyloom-engine",
        uses: &["keyloom-key", "keyloom-store"],
        tests_use: &["keyloom-store-*"],
    },
    // Wire types convert at the wire, in the server; they do not know what they are converted to.
    Row { of: "keyloom-api", uses: &[], tests_use: &[] },
    // The server opens the store that the configuration names.
    Row {
        of: "keyloom-server",
        uses: &["keyloom-api", "keyloom-engine", "keyloom-key", "keyloom-store", "keyloom-store-*"],
        tests_use: &[],
    },
    // The command line can open an embedded store by itself.
    Row {
        of: "keyloom-cli",
        uses: &[
            "keyloom-api",
            "keyloom-engine",
            "keyloom-key",
            "keyloom-server",
            "keyloom-store",
            "keyloom-store-*",
        ],
        tests_use: &[],
    },
    // Benchmarks look at every layer; nothing looks at them.
    Row { of: "keyloom-bench", uses: &["keyloom-*"], tests_use: &[] },
    // The task runner works on any state of the workspace, so it uses no part of it.
    Row { of: "xtask", uses: &[], tests_use: &[] },
];

/// Checks every crate of the workspace against its row.
pub(super) fn check(packages: &Packages, files: &[File]) -> Vec<Finding> {
    let names: Vec<&str> = packages.ours().map(|package| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in packages.ours() {
        let path = packages.manifest(package);
        let manifest = files.iter().find(|file| file.path == path);
        for (word, what) in check_package(package, &names) {
            let line = manifest.map_or(1, |manifest| manifest.line_of(word));
            findings.push(Finding::new(&path, line, what));
        }
    }
    findings
}

/// What is wrong with one crate, each with the word that its line in the manifest begins with.
fn check_package<'a>(package: &'a Package, names: &[&str]) -> Vec<(&'a str, String)> {
    let name = package.name.as_str();
    let Some(row) = ROWS.iter().find(|row| is_in(row.of, name)) else {
        let what = format!("`{name}` has no place in the picture: add a row to {}", file!());
        return vec![("name", what)];
    };
    // A crate whose tests turn on a feature of its own depends on itself; that is no arrow.
    let others = package.dependencies.iter().filter(|to| to.name != name);
    let between_ours = others.filter(|to| names.contains(&to.name.as_str()));
    let against = between_ours.filter(|dependency| !is_drawn(row, dependency));
    against
        .map(|Dependency { name: to, .. }| {
            let what = format!(
                "no arrow leads from `{name}` to `{to}`: move the code, or decide anew in {}",
                file!()
            );
            (to.as_str(), what)
        })
        .collect()
}

fn is_drawn(row: &Row, dependency: &Dependency) -> bool {
    let besides = if dependency.kind.as_deref() == Some("dev") { row.tests_use } else { &[] };
    row.uses.iter().chain(besides).any(|pattern| is_in(pattern, &dependency.name))
}

fn is_in(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrows_of_the_picture_are_drawn() {
        for (from, to) in [
            ("keyloom-cli", "keyloom-server"),
            ("keyloom-cli", "keyloom-api"),
            ("keyloom-server", "keyloom-engine"),
            ("keyloom-server", "keyloom-api"),
            ("keyloom-server", "keyloom-store-postgres"),
            ("keyloom-engine", "keyloom-key"),
            ("keyloom-engine", "keyloom-store"),
            ("keyloom-store-redb", "keyloom-store"),
            ("keyloom-bench", "keyloom-store-fjall"),
        ] {
            assert_eq!(problems(from, to, None), Vec::<String>::new(), "{from} to {to}");
        }
    }

    #[test]
    fn no_arrow_leads_back_up_or_across() {
        for (from, to) in [
            ("keyloom-key", "keyloom-store"),
            ("keyloom-store", "keyloom-key"),
            ("keyloom-store", "keyloom-store-redb"),
            ("keyloom-store-redb", "keyloom-store-fjall"),
            ("keyloom-store-redb", "keyloom-key"),
            ("keyloom-engine", "keyloom-server"),
            ("keyloom-engine", "keyloom-api"),
            ("keyloom-engine", "keyloom-store-redb"),
            ("keyloom-api", "keyloom-engine"),
            ("keyloom-server", "keyloom-cli"),
            ("keyloom-cli", "keyloom-bench"),
            ("keyloom-key", "xtask"),
            ("xtask", "keyloom-key"),
        ] {
            let found = problems(from, to, None);
            assert_eq!(found.len(), 1, "{from} to {to}");
            let expected = format!("{to}: no arrow leads from `{from}` to `{to}`");
            assert!(found[0].starts_with(&expected), "{found:?}");
        }
    }

    #[test]
    fn tests_of_the_engine_run_on_any_store_and_the_engine_on_none() {
        assert_eq!(problems("keyloom-engine", "keyloom-store-redb", Some("dev")).len(), 0);
        assert_eq!(problems("keyloom-engine", "keyloom-store-redb", Some("build")).len(), 1);
        assert_eq!(problems("keyloom-engine", "keyloom-server", Some("dev")).len(), 1);
    }

    #[test]
    fn tests_may_turn_on_a_feature_of_their_own_crate() {
        assert_eq!(problems("keyloom-store", "keyloom-store", Some("dev")), Vec::<String>::new());
    }

    #[test]
    fn crates_of_others_are_not_in_the_picture() {
        assert!(check_package(&package("keyloom-key", "regex", None), &["keyloom-key"]).is_empty());
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let found = problems("keyloom-extra", "keyloom-key", None);
        assert_eq!(found.len(), 1);
        let expected = "name: `keyloom-extra` has no place in the picture: add a row to ";
        assert!(found[0].starts_with(expected), "{found:?}");
    }

    #[test]
    fn the_picture_has_no_circle() {
        // Every row may only use rows that stand above it, or the families they belong to.
        for (at, row) in ROWS.iter().enumerate() {
            for uses in row.uses.iter().filter(|_| row.of != "keyloom-bench") {
                let above = ROWS[..at].iter().any(|above| above.of == *uses);
                assert!(above, "{} uses {uses}, which stands below it", row.of);
            }
        }
    }

    fn problems(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let package = package(from, to, kind);
        let found = check_package(&package, &[from, to]).into_iter();
        found.map(|(word, what)| format!("{word}: {what}")).collect()
    }

    fn package(name: &str, to: &str, kind: Option<&str>) -> Package {
        let json = serde_json::json!({
            "id": name, "name": name, "version": "0.1.0", "license": null, "manifest_path": "",
            "dependencies": [{ "name": to, "kind": kind }],
        });
        serde_json::from_value(json).unwrap()
    }
}
