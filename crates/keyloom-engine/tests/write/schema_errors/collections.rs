//! Collections as a whole, and what they say of each other.

use super::{check, check_all, collection};

#[test]
fn capacities_and_sets() {
    let by = "`by` names the first fields of the key, but not all: [\"id\", \"b\"]";
    check_all(&[
        ("capacity = { max = 0, full = \"refuse\" }", ".capacity: `max` is at least 1"),
        (
            "capacity = { max = 1, full = \"refuse\", by = \"i\" }",
            ".capacity: `by` goes with full = \"evict\"",
        ),
        (
            "capacity = { max = 1, full = \"evict\" }",
            ".capacity: evict needs `by`: the index whose first document goes",
        ),
        (
            "capacity = { max = 1, full = \"evict\", by = \"i\" }",
            ".capacity: there is no index `i`",
        ),
    ]);
    for (set, expected) in [
        ("{ by = [], max = 1 }", by),
        ("{ by = [\"b\"], max = 1 }", by),
        ("{ by = [\"id\", \"b\"], max = 1 }", by),
        ("{ by = [\"id\", \"b\", \"id\"], max = 1 }", by),
        ("{ by = [\"id\"], max = 0 }", "`max` is 1 to 1000 and not below `min`"),
        ("{ by = [\"id\"], max = 1001 }", "`max` is 1 to 1000 and not below `min`"),
        ("{ by = [\"id\"], min = 3, max = 2 }", "`max` is 1 to 1000 and not below `min`"),
    ] {
        let lines = format!("fields.b = {{ type = \"id\", required = true }}\nsets.s = {set}");
        let schema = collection(&lines).replace("\"{id}\"", "\"{id}:{b}\"");
        check(&schema, &format!("c.sets.s: {expected}"));
    }
}

#[test]
fn references_to_other_collections() {
    let target = "[collections.t]\nkey = \"{a}:{b}\"\n\
                  fields.a = { type = \"id\", required = true }\n\
                  fields.b = { type = \"i64\", required = true }\n\
                  unique.b = \"{b}\"\nunique.both = \"both:{a}:{b}\"\n";
    for (reference, expected) in [
        ("x.b", "there is no collection `x`"),
        (
            "t.x",
            "`t` has no unique claim `x`: a reference names one, so add it under \
             [collections.t.unique]",
        ),
        ("t.b", "`t.b` is a i64"),
        ("t.both", "`t.both` has several fields: refer to one with one"),
    ] {
        let field = format!("fields.f = {{ type = \"id\", refers_to = \"{reference}\" }}");
        let schema = format!("{}{target}", collection(&field));
        check(&schema, &format!("c.fields.f.refers_to: {expected}"));
    }
}

#[test]
fn derived_collections() {
    let sums = |lines: &str| {
        format!(
            "[collections.s]\nkey = \"{{id}}\"\nfields.id = {{ type = \"id\", required = true }}\n\
             fields.n = {{ type = \"i64\" }}\nfields.t = {{ type = \"id\" }}\n{lines}\n"
        )
    };
    let from = "fields.v = { type = \"i64\", required = true }\nfields.o = { type = \"i64\" }\n\
                fields.t = { type = \"text\", required = true }";
    let group = "group = { id = \"id\" }";
    for (lines, expected) in [
        (format!("derive = {{ from = \"x\", {group} }}"), "there is no collection `x`"),
        ("derive = { from = \"c\", group = {} }".to_owned(), "`group` must fill `id` of the key"),
        ("derive = { from = \"c\", group = { id = \"x\" } }".to_owned(), "`c` has no field `x`"),
        (
            "derive = { from = \"c\", group = { id = \"o\" } }".to_owned(),
            "`o` must have the type of `id` and be required",
        ),
        (
            "derive = { from = \"c\", group = { id = \"id\", t = \"id\" } }".to_owned(),
            "`group` fills the fields of the key and no others",
        ),
        (
            format!(
                "fields.r = {{ type = \"id\", required = true }}\n\
                 derive = {{ from = \"c\", {group} }}"
            ),
            "`r` is required, but nothing fills it",
        ),
        (
            format!("derive = {{ from = \"c\", {group}, sum = {{ x = \"v\" }} }}"),
            "`x` must be a field of type i64 here",
        ),
        (
            format!("derive = {{ from = \"c\", {group}, sum = {{ t = \"v\" }} }}"),
            "`t` must be a field of type i64 here",
        ),
        (
            format!("derive = {{ from = \"c\", {group}, count = \"x\" }}"),
            "`x` must be a field of type i64 here",
        ),
        (
            format!("derive = {{ from = \"c\", {group}, sum = {{ n = \"o\" }} }}"),
            "only a required field of type i64 can be summed",
        ),
        (
            format!("derive = {{ from = \"c\", {group}, sum = {{ n = \"x\" }} }}"),
            "`c` has no field `x`",
        ),
        (
            format!(
                "capacity = {{ max = 1, full = \"refuse\" }}\nderive = {{ from = \"c\", {group} }}"
            ),
            "a derived collection has neither `capacity` nor `sets`",
        ),
    ] {
        let schema = format!("{}{}", collection(from), sums(&lines));
        check(&schema, &format!("s.derive: {expected}"));
    }
    let again = sums(&format!("derive = {{ from = \"c\", {group}, count = \"n\" }}"));
    let twice = sums(&format!("derive = {{ from = \"s\", {group} }}"))
        .replace("[collections.s]", "[collections.z]");
    check(
        &format!("{}{again}{twice}", collection(from)),
        "s.derive: a derived collection cannot be derived from again",
    );
}
