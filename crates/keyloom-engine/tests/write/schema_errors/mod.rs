//! A schema that makes no sense is refused with where it is wrong and what would be right.

mod collections;
mod fields;
mod files;
mod keys;

use keyloom_engine::Mode;

use crate::support::{Database, code};

/// A collection `c` whose key is `{id}`, with more lines.
fn collection(lines: &str) -> String {
    format!(
        "[collections.c]\nkey = \"{{id}}\"\n\
         fields.id = {{ type = \"id\", required = true }}\n{lines}\n"
    )
}

/// The schema is refused with this text behind `invalid_argument: collections.`, and nothing is
/// stored. The text may go on where `expected` ends with an ellipsis.
#[track_caller]
fn check(schema: &str, expected: &str) {
    let database = Database::empty(Mode::Development);
    let refused = code(database.apply(schema));
    let refused = refused.strip_prefix("invalid_argument: collections.").unwrap_or(&refused);
    match expected.strip_suffix('…') {
        Some(expected) => assert!(refused.starts_with(expected), "{refused}"),
        None => assert_eq!(refused, expected),
    }
    assert_eq!(database.engine.collections(), Vec::<String>::new());
}

#[track_caller]
fn check_all(cases: &[(&str, &str)]) {
    for (lines, expected) in cases {
        check(&collection(lines), &format!("c{expected}"));
    }
}
