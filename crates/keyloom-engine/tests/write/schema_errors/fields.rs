//! Names, types, rules and defaults of fields.

use keyloom_engine::Mode;

use super::{check, check_all, collection};
use crate::support::{Database, code};

#[test]
fn what_the_table_below_adds_to_is_fine() {
    let database = Database::empty(Mode::Development);
    database.apply(&collection("")).unwrap();
}

#[test]
fn names_of_collections_and_fields() {
    let name = "a name is a letter, then letters, digits, `_`, `-`, at most 64";
    for bad in ["1a", "a.b", "", "ä", &"a".repeat(65)] {
        let schema = collection("").replace("[collections.c]", &format!("[collections.\"{bad}\"]"));
        check(&schema, &format!("{bad}: {name}"));
    }
    let name = "a field name is a letter or `_`, then letters, digits and `_`, at most 64";
    for bad in ["1a", "a-b", "", "@owner", &"a".repeat(65)] {
        let field = format!("fields.\"{bad}\" = {{ type = \"id\" }}");
        check(&collection(&field), &format!("c.fields.{bad}: {name}"));
    }
}

#[test]
fn types_of_fields() {
    check_all(&[
        (
            "fields.f = { type = \"string\" }",
            ".fields.f: unknown type `string`; there are ulid, uuid, name, id, text, millis, u64, \
             i64, bool, enum, number, json, and arrays such as text[]",
        ),
        (
            "fields.f = { type = \"json[]\" }",
            ".fields.f: unknown type `json`; there are ulid, uuid, name, id, text, millis, u64, \
             i64, bool, enum, number, json, and arrays such as text[]",
        ),
        ("fields.f = { type = \"enum\" }", ".fields.f: an enum needs `values`, a list of words"),
        (
            "fields.f = { type = \"enum\", values = [] }",
            ".fields.f: an enum needs `values`, a list of words",
        ),
        ("fields.f = { type = \"enum\", values = [1] }", ".fields.f: 1 is not a word"),
        (
            "fields.f = { type = \"enum\", values = [\"a b\"] }",
            ".fields.f: `a b`: a word has 1 to 64 of A-Z a-z 0-9 _ . -",
        ),
        (
            "fields.f = { type = \"enum\", values = [\"a\", \"a\"] }",
            ".fields.f: `a` stands twice in `values`",
        ),
    ]);
}

#[test]
fn rules_that_do_not_fit_their_field() {
    check_all(&[
        (
            "fields.f = { type = \"i64\", length = { max = 1 } }",
            ".fields.f: `length` counts characters: it fits text, id and name only",
        ),
        (
            "fields.f = { type = \"i64\", pattern = \"a\" }",
            ".fields.f: `pattern` fits text, id and name only",
        ),
        (
            "fields.f = { type = \"id\", elements = { max = 1 } }",
            ".fields.f: `elements` fits arrays only",
        ),
        (
            "fields.f = { type = \"id\", transitions = { a = [\"b\"] } }",
            ".fields.f: `transitions` fits an enum only",
        ),
        (
            "fields.f = { type = \"id\", length = { min = 2, max = 1 } }",
            ".fields.f: its least is above its most",
        ),
        (
            "fields.f = { type = \"id[]\", elements = { min = 2, max = 1 } }",
            ".fields.f: its least is above its most",
        ),
        (
            "fields.f = { type = \"number\", values = [1] }",
            ".fields.f: `values` does not fit number and json: use i64",
        ),
        (
            "fields.f = { type = \"i64\", values = [\"x\"] }",
            ".fields.f: \"x\" is not a whole number",
        ),
        (
            "fields.f = { type = \"id[]\", refers_to = \"c.id\" }",
            ".fields.f: an array is neither generated nor a reference",
        ),
        (
            "fields.f = { type = \"enum\", values = [\"a\"], transitions = { a = [\"b\"] } }",
            ".fields.f: transitions: \"b\" is not one of the words a",
        ),
        (
            "fields.f = { type = \"id\", differs_from = \"g\" }",
            ".fields.f.differs_from: there is no field `g`",
        ),
        (
            "fields.f = { type = \"id\", refers_to = \"users\" }",
            ".fields.f: `users`: refers_to takes `collection.unique`",
        ),
    ]);
}

#[test]
fn patterns_are_regular_expressions_of_their_own() {
    for pattern in ["(", "a)(b", "[a-", "(?z)"] {
        let schema =
            collection(&format!("fields.f = {{ type = \"text\", pattern = \"{pattern}\" }}"));
        let refused = code(Database::empty(Mode::Development).apply(&schema));
        assert!(
            refused.starts_with("invalid_argument: collections.c.fields.f: pattern: "),
            "{refused}"
        );
    }
}

#[test]
fn values_that_the_engine_makes() {
    check_all(&[
        (
            "fields.f = { type = \"id\", generate = \"uuid\" }",
            ".fields.f: `uuid`: generate takes `ulid`, `now` or `code A-{6}`",
        ),
        (
            "fields.f = { type = \"id\", generate = \"code A\" }",
            ".fields.f: `code A`: generate takes `ulid`, `now` or `code A-{6}`",
        ),
        (
            "fields.f = { type = \"id\", generate = \"code {6\" }",
            ".fields.f: `code {6`: generate takes `ulid`, `now` or `code A-{6}`",
        ),
        (
            "fields.f = { type = \"id\", generate = \"code {x}\" }",
            ".fields.f: `code {x}`: generate takes `ulid`, `now` or `code A-{6}`",
        ),
        (
            "fields.f = { type = \"id\", generate = \"code {6}{6}\" }",
            ".fields.f: `code {6}{6}`: a code has one group of 4 to 32 random characters",
        ),
        (
            "fields.f = { type = \"id\", generate = \"now\" }",
            ".fields.f: `generate = \"now\"` does not fit the type",
        ),
        (
            "fields.f = { type = \"i64\", generate = \"ulid\" }",
            ".fields.f: `generate = \"ulid\"` does not fit the type",
        ),
        (
            "fields.f = { type = \"ulid\", generate = \"code {6}\" }",
            ".fields.f: `generate = \"code {6}\"` does not fit the type",
        ),
        (
            "fields.f = { type = \"ulid[]\", generate = \"ulid\" }",
            ".fields.f: an array is neither generated nor a reference",
        ),
    ]);
}

#[test]
fn defaults_obey_the_rules_of_their_field() {
    check_all(&[
        (
            "fields.f = { type = \"i64\", default = \"x\" }",
            ".fields.f: default: type: \"x\" is not a whole number of 64 bits",
        ),
        ("fields.f = { type = \"text\", default = 1 }", ".fields.f: default: type: 1 is not text"),
        (
            "fields.f = { type = \"number\", default = \"1\" }",
            ".fields.f: default: type: \"1\" is not a number",
        ),
        (
            "fields.f = { type = \"id[]\", default = \"x\" }",
            ".fields.f: default: type: \"x\" is not an array",
        ),
        (
            "fields.f = { type = \"enum\", values = [\"a\"], default = \"b\" }",
            ".fields.f: default: type: \"b\" is not one of the words a",
        ),
        (
            "fields.f = { type = \"i64\", values = [1], default = 2 }",
            ".fields.f: default: values: 2 is not one of 1",
        ),
        (
            "fields.f = { type = \"text\", length = { max = 1 }, default = \"ab\" }",
            ".fields.f: default: length: 2 characters, at most 1 allowed",
        ),
        (
            "fields.f = { type = \"text\", pattern = \"a\", default = \"b\" }",
            ".fields.f: default: pattern: it does not match a",
        ),
        (
            "fields.f = { type = \"id[]\", elements = { min = 1 }, default = [] }",
            ".fields.f: default: elements: 0 elements, at least 1 needed",
        ),
    ]);
}
