//! Templates of keys, and what stands beside them.

use keyloom_engine::Mode;

use super::{check, check_all, collection};
use crate::support::{Database, code};

#[test]
fn templates() {
    check_all(&[
        (
            "indexes.i = \"{nme}:{id}\"",
            ".indexes.i: invalid key template: there is no field \"nme\" that can be in a key\n  \
             {nme}:{id}\n   ^ …",
        ),
        (
            "fields.n = { type = \"number\" }\nindexes.i = \"{n}:{id}\"",
            ".indexes.i: invalid key template: there is no field \"n\" that can be in a key\n  \
             {n}:{id}\n   ^ …",
        ),
        (
            "indexes.i = \"{id\"",
            ".indexes.i: invalid key template: the component that begins here…",
        ),
        (
            "fields.n = { type = \"id\" }\nindexes.i = \"{n}{id}\"",
            ".indexes.i: invalid key template: {id} follows {n} (id), whose end cannot be told…",
        ),
        ("unique.u = \"u\"", ".unique.u: invalid key template: it has no component…"),
        (
            "fields.a = { type = \"id[]\" }\nindexes.i = \"{a}:{id}\"",
            ".indexes.i: `a` is an array: write {a[]}",
        ),
        (
            "fields.a = { type = \"id\" }\nindexes.i = \"{a[]}:{id}\"",
            ".indexes.i: `a` is no array: write {a}",
        ),
        (
            "fields.a = { type = \"id\" }\nindexes.i = \"i:{a}\"",
            ".indexes.i: an index key names its document, so it holds all fields of the document \
             key: add {id} to `i:{a}`",
        ),
        (
            "indexes.i = \"i:{id prefix 3}\"",
            ".indexes.i: an index key names its document, so it holds all fields of the document \
             key: add {id} to `i:{id prefix 3}`",
        ),
        ("unique.u = \"{id prefix 3}\"", ".unique.u: `id` must stand whole in a unique claim"),
        (
            "fields.a = { type = \"id[]\" }\nunique.u = \"{a[]}\"",
            ".unique.u: `a` must stand whole in a unique claim",
        ),
        (
            "fields.a = { type = \"id[]\" }\nindexes.i = \"{a[]}:{a[]}:{id}\"",
            ".indexes.i: invalid key template: a second [] would multiply the keys of a document…",
        ),
        (
            "unique.one_per_owner = \"{id}\"\none_per_owner = \"always\"",
            ".unique.one_per_owner: this name belongs to the rule: choose another one",
        ),
    ]);
}

#[test]
fn document_keys() {
    let keyed =
        |key: &str, lines: &str| collection(lines).replace("\"{id}\"", &format!("\"{key}\""));
    for (key, lines, expected) in [
        ("c", "", "c.key: invalid key template: it has no component…"),
        ("{id prefix 3}", "", "c.key: `id` must stand whole: the key names the document"),
        ("{id shard 4}", "", "c.key: `id` must stand whole: the key names the document"),
        (
            "{a[]}",
            "fields.a = { type = \"id[]\", required = true }",
            "c.key: `a` must stand whole: the key names the document",
        ),
        ("{id}:{@owner}", "", "c.key: a document key is made of its data only"),
        ("{id}:{@created_at}", "", "c.key: a document key is made of its data only"),
        (
            "{a}",
            "fields.a = { type = \"id\" }",
            "c.key: `a` is part of the key: make it required or generated",
        ),
    ] {
        check(&keyed(key, lines), expected);
    }
}

#[test]
fn conditions_and_included_fields() {
    let fields = "fields.a = { type = \"i64\" }\nfields.j = { type = \"json\" }\n\
                  fields.l = { type = \"id[]\" }\n";
    let cases = [
        ("when = { x = \"1\" }", ".when: there is no field `x`"),
        ("when = { j = \"1\" }", ".when: `j` has a type that no condition can compare"),
        ("when = { l = \"1\" }", ".when: `l` has a type that no condition can compare"),
        ("when = { a = \"x\" }", ".when: `a`: \"x\" is not a number of kind i64…"),
        ("when = { a = [] }", ".when: `a` lists no value"),
        ("include = [\"x\"]", ".include: there is no field `x`"),
    ];
    for (part, expected) in cases {
        let index = format!("{fields}indexes.i = {{ key = \"{{id}}\", {part} }}");
        check(&collection(&index), &format!("c.indexes.i{expected}"));
    }
    check_all(&[
        ("freeze = { when = {} }", ".freeze.when: name at least one field"),
        ("freeze = { when = { x = \"1\" } }", ".freeze.when: there is no field `x`"),
        (
            "freeze = { when = { id = \"1\" }, except = [\"x\"] }",
            ".freeze.except: there is no field `x`",
        ),
    ]);
}

#[test]
fn keys_that_could_become_too_long() {
    check_all(&[
        (
            "fields.t = { type = \"text\" }\nindexes.i = \"{t}:{id}\"",
            ".i: `t` is text without a bound: give it length = { max = N }, or write {t prefix N}",
        ),
        (
            "fields.t = { type = \"text\", length = { max = 300 } }\nindexes.i = \"{t}:{id}\"",
            ".i: its keys can take 1337 bytes, the store takes 1024: bound the length of its \
             texts, or use {field prefix N}",
        ),
    ]);
    let apply = |lines: &str| code(Database::empty(Mode::Development).apply(&collection(lines)));
    assert_eq!(apply("fields.t = { type = \"text\" }\nindexes.i = \"{t prefix 9}:{id}\""), "ok");
    let longest =
        "fields.t = { type = \"text\", length = { max = 221 } }\nindexes.i = \"{t}:{id}\"";
    assert_eq!(apply(longest), "ok");
}
