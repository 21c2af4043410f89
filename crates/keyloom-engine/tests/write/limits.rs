//! Every limit at its edge and one above: what is too large is refused by name, nothing is written.

use keyloom_engine::limits::{
    ARRAY_ELEMENTS_MAX, BATCH_OPERATIONS_MAX, COLLECTIONS_MAX, DESCRIPTION_CHARS_MAX,
    DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, DOCUMENT_FIELDS_MAX, GET_MANY_KEYS_MAX, PATHS_MAX,
    SCHEMA_BYTES_MAX, SCHEMA_FIELDS_MAX, SET_DOCUMENTS_MAX,
};
use keyloom_engine::schema::Schema;
use keyloom_engine::{Action, Actor, Error, Mode, Operation, SetReplacement};
use pollster::block_on;
use serde_json::json;

use crate::support::{Database, action, code, operation};

const FREE: &str = r#"
[collections.free]
key = "{id}"
fields.id = { type = "id", required = true }
fields.more = { type = "json" }
fields.tags = { type = "id[]" }
indexes.tags = "{tags[]}:{id}"
"#;

fn create(database: &Database, data: &[u8]) -> String {
    code(block_on(database.engine.create(&Actor::Local, "free", data)))
}

fn too_large(what: &str, max: usize) -> String {
    format!("limit_exceeded: {what}: {}, at most {max} allowed", max + 1)
}

/// The edge is taken; one above it is refused as told and leaves nothing behind.
#[track_caller]
fn check(at: impl Fn(&Database, usize) -> String, max: usize, refused: &str) {
    let database = Database::new(FREE);
    assert_eq!(at(&database, max + 1), refused);
    assert_eq!(database.entries(), []);
    assert_eq!(at(&database, max), "ok");
    database.assert_sound();
}

#[test]
fn the_bytes_of_a_document() {
    let of_size = |database: &Database, size: usize| {
        let frame = r#"{"id":"a","more":""}"#;
        let text = "x".repeat(size - frame.len());
        create(database, format!(r#"{{"id":"a","more":"{text}"}}"#).as_bytes())
    };
    check(of_size, DOCUMENT_BYTES_MAX, &too_large("bytes of data", DOCUMENT_BYTES_MAX));
}

#[test]
fn the_bytes_of_a_document_count_what_the_engine_adds() {
    let database = Database::new(&format!("{FREE}\nfields.n = {{ type = \"i64\", default = 7 }}"));
    let frame = r#"{"id":"a","more":""}"#;
    let text = "x".repeat(DOCUMENT_BYTES_MAX - frame.len());
    let refused = create(&database, format!(r#"{{"id":"a","more":"{text}"}}"#).as_bytes());
    assert!(refused.starts_with("limit_exceeded: bytes of data: 10485"), "{refused}");
}

#[test]
fn the_depth_of_a_document() {
    let of_depth = |database: &Database, depth: usize| {
        // The document itself is one level.
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        create(database, format!(r#"{{"id":"a","more":{open}1{close}}}"#).as_bytes())
    };
    check(of_depth, DOCUMENT_DEPTH_MAX, &too_large("nesting of data", DOCUMENT_DEPTH_MAX));
}

#[test]
fn the_members_of_a_document() {
    let fields: String =
        (0..127).map(|n| format!("fields.f{n} = {{ type = \"i64\" }}\n")).collect();
    let schema = format!("[collections.free]\nkey = \"{{f0}}\"\n{fields}").replace(
        "fields.f0 = { type = \"i64\" }",
        "fields.f0 = { type = \"i64\", required = true }",
    );
    let database = Database::new(&schema);
    // Unknown members are refused, too, but only once the document could be read.
    let with_members = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!("\"f{n}\":{n}")).collect();
        create(&database, format!("{{{}}}", members.join(",")).as_bytes())
    };
    let above = with_members(DOCUMENT_FIELDS_MAX + 1);
    assert!(above.starts_with("invalid_argument: data: more than 256 members"), "{above}");
    assert!(with_members(DOCUMENT_FIELDS_MAX).contains("free.f127: unknown"));
    assert_eq!(database.entries(), []);
    assert_eq!(with_members(127), "ok");
}

#[test]
fn the_characters_of_a_description() {
    let of_length = |database: &Database, count: usize| {
        let description = Some("é".repeat(count));
        let data = br#"{"id":"a"}"#.to_vec();
        code(database.execute("free", Action::Create { key: None, data, description }))
    };
    let refused = too_large("characters of the description", DESCRIPTION_CHARS_MAX);
    check(of_length, DESCRIPTION_CHARS_MAX, &refused);
}

#[test]
fn the_operations_of_a_batch() {
    let of_size = |database: &Database, count: usize| {
        let operations: Vec<Operation> = (0..count)
            .map(|n| operation("free", action::create(&json!({"id": n.to_string()}))))
            .collect();
        code(database.batch(&operations))
    };
    let refused = too_large("operations of a batch", BATCH_OPERATIONS_MAX);
    check(of_size, BATCH_OPERATIONS_MAX, &refused);
}

#[test]
fn the_bytes_of_a_commit() {
    let database = Database::new(FREE);
    let text = "x".repeat(DOCUMENT_BYTES_MAX - 100);
    let large =
        |n: usize| operation("free", action::create(&json!({"id": n.to_string(), "more": text})));
    let refused = code(database.batch(&(0..33).map(large).collect::<Vec<_>>()));
    assert!(refused.starts_with("limit_exceeded: the size of a commit: "), "{refused}");
    assert_eq!(database.entries(), []);
    assert_eq!(code(database.batch(&(0..31).map(large).collect::<Vec<_>>())), "ok");
}

#[test]
fn the_keys_of_a_get() {
    let database = Database::new(FREE);
    let get = |count: usize| {
        code(block_on(database.engine.get_many(&Actor::Local, "free", &vec!["a"; count])))
    };
    assert_eq!(get(GET_MANY_KEYS_MAX), "ok");
    assert_eq!(get(GET_MANY_KEYS_MAX + 1), too_large("keys of a get", GET_MANY_KEYS_MAX));
}

#[test]
fn the_elements_of_an_array() {
    let of_size = |database: &Database, count: usize| {
        let tags: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        code(database.create("free", &json!({"id": "a", "tags": tags})))
    };
    let refused = "rule_violation: free.tags: type: 257 elements, at most 256 allowed";
    check(of_size, ARRAY_ELEMENTS_MAX, refused);
}

#[test]
fn the_elements_of_an_array_of_numbers() {
    let database = Database::new(&format!("{FREE}\nfields.n = {{ type = \"number[]\" }}"));
    let create =
        |count: usize| code(database.create("free", &json!({"id": "a", "n": vec![1; count]})));
    let refused = "rule_violation: free.n: type: 257 elements, at most 256 allowed";
    assert_eq!(create(ARRAY_ELEMENTS_MAX + 1), refused);
    assert_eq!(create(ARRAY_ELEMENTS_MAX), "ok");
}

#[test]
fn the_documents_of_a_set() {
    let database = Database::new(&format!(
        "[collections.s]\nkey = \"{{a}}:{{b}}\"\nfields.a = {{ type = \"id\", required = true }}\n\
         fields.b = {{ type = \"id\", required = true }}\n\
         sets.all = {{ by = [\"a\"], max = {SET_DOCUMENTS_MAX} }}\n"
    ));
    let replace = |count: usize| -> Result<_, Error> {
        let documents: Vec<Vec<u8>> = (0..count)
            .map(|n| json!({"a": "x", "b": n.to_string()}).to_string().into_bytes())
            .collect();
        let leading = [json!("x")];
        let (collection, set) = ("s", "all");
        let replacement =
            SetReplacement { collection, set, leading: &leading, documents: &documents };
        block_on(database.engine.replace_set(&Actor::Local, &replacement))
    };
    assert!(code(replace(SET_DOCUMENTS_MAX + 1)).starts_with("limit_exceeded"));
    assert_eq!(database.entries(), []);
    assert_eq!(replace(SET_DOCUMENTS_MAX).unwrap().len(), SET_DOCUMENTS_MAX);
    assert_eq!(replace(0).unwrap().len(), SET_DOCUMENTS_MAX, "all of them go at once");
    replace(SET_DOCUMENTS_MAX).unwrap();
    // Documents that come one by one may make a set larger than can be replaced as one.
    database.create("s", &json!({"a": "x", "b": "more"})).unwrap();
    let refused = too_large("documents of a stored set", SET_DOCUMENTS_MAX);
    assert_eq!(code(replace(1)), refused);
    database.assert_sound();
}

#[test]
fn the_characters_of_a_generated_code() {
    let apply = |count: usize| {
        let schema = format!(
            "[collections.c]\nkey = \"{{id}}\"\n\
             fields.id = {{ type = \"id\", generate = \"code X{{{count}}}Y\" }}\n"
        );
        let database = Database::empty(Mode::Development);
        database.apply(&schema).map(|_| database.create("c", &json!({})).unwrap().key)
    };
    for count in [3, 33] {
        let refused = code(apply(count));
        assert!(
            refused.ends_with("a code has one group of 4 to 32 random characters"),
            "{refused}"
        );
    }
    for count in [4, 32] {
        let key = apply(count).unwrap();
        assert!(key.len() == count + 2 && key.starts_with('X') && key.ends_with('Y'), "{key}");
    }
}

#[test]
fn the_bytes_of_a_schema() {
    let of_size = |size: usize| Schema::from_toml(&"#".repeat(size));
    let refused = too_large("schema bytes", SCHEMA_BYTES_MAX);
    assert_eq!(code(of_size(SCHEMA_BYTES_MAX + 1)), refused);
    assert_eq!(code(of_size(SCHEMA_BYTES_MAX)), "ok");
    let json = |size: usize| Schema::from_json(&format!("{{}}{}", " ".repeat(size - 2)));
    assert_eq!(code(json(SCHEMA_BYTES_MAX + 1)), refused);
    assert_eq!(code(json(SCHEMA_BYTES_MAX)), "ok");
}

#[test]
fn the_fields_and_the_indexes_of_a_collection_and_the_collections_of_a_store() {
    let apply = |schema: &str| code(Database::empty(Mode::Development).apply(schema));
    let fields = |count: usize| -> String {
        let more = (1..count).map(|n| format!("fields.f{n} = {{ type = \"i64\" }}\n"));
        let first =
            "[collections.c]\nkey = \"{id}\"\nfields.id = { type = \"id\", required = true }\n";
        std::iter::once(first.to_owned()).chain(more).collect()
    };
    assert_eq!(apply(&fields(SCHEMA_FIELDS_MAX)), "ok");
    let refused = "invalid_argument: collections.c.fields: more than 128 fields";
    assert_eq!(apply(&fields(SCHEMA_FIELDS_MAX + 1)), refused);
    let paths = |count: usize| -> String {
        let indexes = (1..count).map(|n| format!("indexes.i{n} = \"i{n}:{{id}}\"\n"));
        let unique = "unique.u = \"u:{id}\"\n".to_owned();
        std::iter::once(fields(1)).chain([unique]).chain(indexes).collect()
    };
    assert_eq!(apply(&paths(PATHS_MAX)), "ok");
    let refused = "invalid_argument: collections.c: more than 32 indexes and unique claims";
    assert_eq!(apply(&paths(PATHS_MAX + 1)), refused);
    let collections = |count: usize| -> String {
        (0..count)
            .map(|n| fields(1).replace("[collections.c]", &format!("[collections.c{n}]")))
            .collect()
    };
    assert_eq!(apply(&collections(COLLECTIONS_MAX)), "ok");
    let refused = apply(&collections(COLLECTIONS_MAX + 1));
    assert!(refused.ends_with("there are 1000 collections and classes already"), "{refused}");
}
