//! A schema that makes no sense is refused with where it is wrong and what would be right.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, Mode, Options};
use keyloom_store::memory::MemoryStore;
use keyloom_store::{
    Change, Commit, CommitOutcome, Feed, Limits, OrderedStore, Position, Snapshot, StoreError,
    Tally,
};
use pollster::block_on;

use crate::support::{APPROVALS, Database, code, schema};

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

#[test]
fn templates() {
    check_all(&[
        (
            "indexes.i = \"{nme}:{id}\"",
            ".indexes.i: invalid key template: there is no field \"nme\"\n  {nme}:{id}\n   ^ …",
        ),
        (
            "fields.n = { type = \"number\" }\nindexes.i = \"{n}:{id}\"",
            ".indexes.i: invalid key template: there is no field \"n\"\n  {n}:{id}\n   ^ …",
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
        ("t.x", "`t` has no unique claim `x`"),
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

/// A store in memory that takes less than others.
struct Tight {
    memory: MemoryStore,
    limits: Limits,
}

#[async_trait]
impl OrderedStore for Tight {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.memory.snapshot().await
    }

    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError> {
        self.memory.commit(commit).await
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.memory.changes(after, limit).await
    }

    async fn feed(&self) -> Result<Feed, StoreError> {
        self.memory.feed().await
    }

    async fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.memory.trim(through).await
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn tally(&self) -> Tally {
        self.memory.tally()
    }
}

#[test]
fn a_schema_is_checked_against_the_limits_of_its_store() {
    let apply = |change: &dyn Fn(&mut Limits), text: &str| {
        let memory = MemoryStore::new();
        let mut limits = memory.limits();
        change(&mut limits);
        let store = Arc::new(Tight { memory, limits });
        let engine = block_on(Engine::open(store, Options::default())).unwrap();
        code(block_on(engine.apply_schema(&schema(text), &mut |_| {})))
    };
    assert_eq!(apply(&|_| {}, APPROVALS), "ok");
    assert_eq!(
        apply(&|limits| limits.value_bytes_max = 1000, APPROVALS),
        "invalid_argument: collections.approvals: the store takes values of 1000 bytes only"
    );
    assert_eq!(
        apply(&|limits| limits.key_bytes_max = 100, APPROVALS),
        "invalid_argument: collections.approvals.code: its keys can take 135 bytes, the store \
         takes 100: bound the length of its texts, or use {field prefix N}"
    );
    let tags = collection("fields.a = { type = \"id[]\" }\nindexes.a = \"{a[]}:{id}\"");
    assert_eq!(
        apply(&|limits| limits.commit_operations_max = 128, &tags),
        "invalid_argument: collections.c.indexes: a write can touch 257 keys, the store takes 128 \
         operations: use fewer indexes or bound `elements`"
    );
    let few = tags.replace("\"id[]\"", "\"id[]\", elements = { max = 59 }");
    assert_eq!(apply(&|limits| limits.commit_operations_max = 128, &few), "ok");
}

#[test]
fn costs_and_lints_of_templates_are_shown_before_a_schema_is_applied() {
    let database = Database::empty(Mode::Development);
    let lines = "fields.tags = { type = \"id[]\", elements = { max = 5 } }\n\
                 fields.at = { type = \"millis\" }\nindexes.tags = \"{tags[]}:{id}\"\n\
                 indexes.at = \"{at}:{id}\"\nindexes.shard = \"{id shard 16}:{at}:{id}\"\n\
                 indexes.changed = \"{id}:{@updated_at}\"\nunique.u = \"u:{id}\"";
    let costs = block_on(database.engine.schema_costs(&schema(&collection(lines)))).unwrap();
    let shown: BTreeMap<&str, (usize, usize, usize)> = costs["c"]
        .iter()
        .map(|c| (c.path.as_str(), (c.key_bytes_max, c.keys_per_document, c.lints.len())))
        .collect();
    let expected = BTreeMap::from([
        ("key", (135, 1, 0)),
        ("unique:u", (135, 1, 0)),
        ("index:tags", (265, 5, 0)),
        ("index:at", (144, 1, 1)),
        ("index:shard", (153, 1, 0)),
        ("index:changed", (144, 1, 1)),
    ]);
    assert_eq!(shown, expected);
    assert_eq!(database.engine.collections(), Vec::<String>::new());
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    let refused = |text: &str| code(Schema::from_toml(text));
    for (text, place, part) in [
        ("[collections.c\nkey = 1", "line 1, column 15: ", ""),
        ("[collections.c]\nkey = 1", "line 2, column 7: ", "expected a string"),
        (
            "[collections.c]\nkey = \"\"\nfields.a = {}",
            "line 3, column 12: ",
            "missing field `type`",
        ),
        ("[collection.c]\nkey = \"\"", "line 1, column 2: ", "unknown field `collection`"),
        (
            "[collections.c]\nkey = \"\"\nfields.a = { type = \"id\", requird = true }",
            "line 3, column 27: ",
            "unknown field `requird`",
        ),
        (
            "[collections.c]\nkey = \"\"\none_per_owner = \"sometimes\"",
            "line 3, column 17: ",
            "unknown variant `sometimes`, expected `always` or `production`",
        ),
        (
            "[collections.c]\nkey = \"\"\nindexes.i = 1",
            "line 3, column 13: ",
            "an index is a template, or { key, when?, include? }",
        ),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(&format!("invalid_argument: {place}")), "{refused}");
        assert!(refused.contains(part), "{refused}");
    }
    let json = code(Schema::from_json("{\"collections\": {\"c\": {\"key\": 1}}}"));
    assert!(json.starts_with("invalid_argument: line 1, column 31: "), "{json}");
}
