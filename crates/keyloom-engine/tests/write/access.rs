//! Who may do what: rules, subjects, values that only some may set, quotas, the feed.

use keyloom_engine::{Action, Actor, Document, Error, Position, Precondition, Written};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::support::{APPROVALS, Database, STICKERS, action, code, operation};

const RULES: [&str; 4] = ["public", "private", "managed", "admin"];

/// A collection with these rules.
fn notes(read: &str, write: &str) -> Database {
    Database::new(&format!(
        r#"
        [collections.notes]
        key = "note:{{id}}"
        access = {{ read = "{read}", write = "{write}" }}
        unique.code = "code:{{code}}"
        [collections.notes.fields]
        id   = {{ type = "id", required = true }}
        code = {{ type = "id" }}
        text = {{ type = "text" }}
        "#
    ))
}

fn user(name: &str) -> Actor {
    Actor::User(name.to_owned())
}

fn admin(name: &str) -> Actor {
    Actor::Admin(name.to_owned())
}

fn execute(database: &Database, actor: &Actor, action: Action) -> Result<Written, Error> {
    block_on(database.engine.execute(actor, "notes", action))
}

fn get(database: &Database, actor: &Actor, key: &str) -> Option<Document> {
    block_on(database.engine.get(actor, "notes", key)).unwrap()
}

/// What a caller may do, in a word per rule: what the table in `access.rs` says.
fn expected(rule: &str, caller: &str) -> bool {
    match rule {
        "public" => true,
        "private" => caller == "owner" || caller == "local",
        "managed" => ["owner", "admin", "local"].contains(&caller),
        _ => caller == "admin" || caller == "local",
    }
}

#[test]
fn j30_every_rule_holds_for_every_caller() {
    let callers = [
        ("owner", user("ann")),
        ("other", user("bob")),
        ("anonymous", Actor::Anonymous),
        ("admin", admin("root")),
        ("local", Actor::Local),
    ];
    for read in RULES {
        for write in RULES {
            for (name, actor) in &callers {
                let database = notes(read, write);
                let at = format!("read {read}, write {write}, {name}");
                let owned = json!({"id": "a", "code": "c"});
                // An administrator may create in her name, whatever the rules are for her.
                let owner = if write == "admin" { admin("ann") } else { user("ann") };
                execute(&database, &owner, action::create(&owned)).unwrap();
                let may_read = expected(read, name) || (read == "private" && *name == "owner");
                assert_eq!(get(&database, actor, "note:a").is_some(), may_read, "get: {at}");

                let patch = action::patch("note:a", Precondition::Any, &json!({"text": "new"}));
                let changed = execute(&database, actor, patch);
                let may_write = expected(write, name);
                let outcome = match (may_write, may_read) {
                    (true, true) => "ok",
                    (true, false) => "not_found",
                    // Whoever may write his own asks for what is not there.
                    (false, false) if write != "admin" && *name != "anonymous" => "not_found",
                    (false, _) if *name == "anonymous" => "unauthenticated",
                    (false, _) => "forbidden",
                };
                let found = changed.as_ref().map_or_else(|error| error.code(), |_| "ok");
                assert_eq!(found, outcome, "patch: {at}");

                let data = json!({"id": "mine"});
                let created = execute(&database, actor, action::create(&data));
                let may_create = match write {
                    "public" => true,
                    "admin" => expected(write, name),
                    _ => *name != "anonymous",
                };
                assert_eq!(created.is_ok(), may_create, "create: {at}");
                if let Ok(written) = created {
                    let owner = written.into_document().unwrap().owner;
                    assert_eq!(owner.as_deref(), actor.subject(), "owner: {at}");
                }
                database.assert_sound();
            }
        }
    }
}

#[test]
fn j31_what_one_may_not_read_is_as_if_it_did_not_exist() {
    let database = notes("private", "private");
    execute(&database, &user("ann"), action::create(&json!({"id": "a", "code": "c"}))).unwrap();
    let bob = user("bob");
    assert_eq!(get(&database, &bob, "note:a"), None);
    let many = block_on(database.engine.get_many(&bob, "notes", &["note:a", "note:b"])).unwrap();
    assert_eq!(many, [None, None]);
    let values = [Json::from("c")];
    assert_eq!(block_on(database.engine.lookup(&bob, "notes", "code", &values)).unwrap(), None);
    // The same answers as for a key that was never written.
    for key in ["note:a", "note:b"] {
        let patch = action::patch(key, Precondition::Any, &json!({"text": "x"}));
        let refused = execute(&database, &bob, patch).unwrap_err().to_string();
        assert_eq!(refused, format!("`{key}` does not exist in `notes`"));
        for precondition in [Precondition::Unsaid, Precondition::Version(7), Precondition::Any] {
            let deleted = execute(&database, &bob, action::delete(key, precondition)).unwrap();
            assert_eq!(deleted, Written::Absent { key: key.to_owned() });
        }
        let put = action::put(key, Precondition::Version(7), &json!({"id": "x"}));
        let refused = execute(&database, &bob, put).unwrap_err().to_string();
        assert!(refused.ends_with("expected version 7, stored none"), "{refused}");
    }
    assert!(get(&database, &user("ann"), "note:a").is_some());
}

#[test]
fn j31_that_a_key_or_a_unique_value_is_taken_cannot_be_hidden() {
    let database = notes("private", "private");
    execute(&database, &user("ann"), action::create(&json!({"id": "a", "code": "c"}))).unwrap();
    let bob = user("bob");
    let taken = action::create(&json!({"id": "a"}));
    assert_eq!(
        code(execute(&database, &bob, taken)),
        "unique_violation: key `note:a` is taken in `notes`"
    );
    let put = action::put("note:a", Precondition::Unsaid, &json!({"id": "a"}));
    assert_eq!(
        code(execute(&database, &bob, put)),
        "unique_violation: key `note:a` is taken in `notes`"
    );
    let claimed = action::create(&json!({"id": "b", "code": "c"}));
    assert_eq!(
        code(execute(&database, &bob, claimed)),
        "unique_violation: code `code:c` is taken in `notes`"
    );
    database.assert_sound();
}

#[test]
fn j11_forbidden_documents_are_absent_in_their_place() {
    let database = notes("managed", "managed");
    for (owner, id) in [("ann", "a"), ("bob", "b"), ("ann", "c")] {
        execute(&database, &user(owner), action::create(&json!({"id": id}))).unwrap();
    }
    let keys = ["note:c", "note:b", "note:x", "note:c", "note:a"];
    let seen = |actor: &Actor| -> Vec<bool> {
        let found = block_on(database.engine.get_many(actor, "notes", &keys)).unwrap();
        found.iter().map(Option::is_some).collect()
    };
    assert_eq!(seen(&user("ann")), [true, false, false, true, true]);
    assert_eq!(seen(&admin("root")), [true, true, false, true, true]);
    assert_eq!(seen(&Actor::Anonymous), [false; 5]);
}

#[test]
fn a_batch_with_one_forbidden_operation_applies_nothing() {
    let database = notes("public", "managed");
    execute(&database, &user("ann"), action::create(&json!({"id": "a"}))).unwrap();
    let operations = [
        operation("notes", action::create(&json!({"id": "b"}))),
        operation("notes", action::delete("note:a", Precondition::Any)),
    ];
    let refused = code(block_on(database.engine.batch(&user("bob"), &operations)));
    let expected =
        "forbidden: operation 1: `notes`: only its owner and administrators write a document";
    assert_eq!(refused, expected);
    assert!(database.get("notes", "note:a").is_some() && database.get("notes", "note:b").is_none());
}

#[test]
fn nobody_writes_in_the_name_of_another_where_a_field_says_whose_it_is() {
    let database = Database::new(STICKERS);
    let tag = |author: &str| json!({"author": author, "file": "f", "value": "v"});
    let create = |actor: &Actor, author: &str| {
        let data = tag(author).to_string();
        block_on(database.engine.create(actor, "sticker_tags", data.as_bytes()))
    };
    create(&user("ann"), "ann").unwrap();
    assert_eq!(
        code(create(&user("bob"), "ann")),
        "forbidden: `sticker_tags`: the document must be yours: author is somebody else"
    );
    create(&admin("root"), "bob").unwrap();
    // He may write what an administrator created in his name: the field says that it is his.
    let key = "bob#f#v";
    block_on(database.engine.delete(&user("bob"), "sticker_tags", key, Precondition::Any)).unwrap();
}

#[test]
fn a_set_is_replaced_only_by_who_may_write_all_of_it() {
    let database = Database::new(STICKERS);
    let replace = |actor: &Actor, value: &str| {
        let documents = [json!({"author": "ann", "file": "f", "value": value}).to_string().into()];
        let leading = [Json::from("ann"), Json::from("f")];
        let replacement = keyloom_engine::SetReplacement {
            collection: "sticker_tags",
            set: "values",
            leading: &leading,
            documents: &documents,
        };
        code(block_on(database.engine.replace_set(actor, &replacement)))
    };
    assert_eq!(replace(&user("ann"), "one"), "ok");
    assert!(replace(&user("bob"), "two").starts_with("forbidden: "));
    assert!(replace(&Actor::Anonymous, "two").starts_with("unauthenticated: "));
    assert!(database.get("sticker_tags", "ann#f#one").is_some());
    assert_eq!(replace(&admin("root"), "two"), "ok");
    assert_eq!(database.get("sticker_tags", "ann#f#one"), None);
}

fn request(database: &Database) -> Document {
    let data = br#"{"requester": "ann", "approver": "bob"}"#;
    block_on(database.engine.create(&user("ann"), "approvals", data)).unwrap()
}

fn set_status(database: &Database, actor: &Actor, key: &str, status: &str) -> String {
    let patch = action::patch(key, Precondition::Any, &json!({"status": status}));
    code(block_on(database.engine.execute(actor, "approvals", patch)))
}

#[test]
fn p11_only_the_approver_decides_and_only_the_requester_cancels() {
    for (status, right, wrong, holder) in [
        ("approved", "bob", "ann", "approver"),
        ("denied", "bob", "ann", "approver"),
        ("canceled", "ann", "bob", "requester"),
    ] {
        let database = Database::new(APPROVALS);
        let approval = request(&database);
        let refused = set_status(&database, &user(wrong), &approval.key, status);
        let expected =
            format!("forbidden: `approvals`: only its `{holder}` sets `status` to `{status}`");
        assert_eq!(refused, expected);
        // For a third person there is no such request, and an administrator is not the approver.
        let stranger = set_status(&database, &user("eve"), &approval.key, status);
        assert!(stranger.starts_with("not_found: "), "{stranger}");
        assert_eq!(set_status(&database, &admin("root"), &approval.key, status), expected);
        assert_eq!(database.get("approvals", &approval.key), Some(approval.clone()));
        assert_eq!(set_status(&database, &user(right), &approval.key, status), "ok");
        database.assert_sound();
    }
}

#[test]
fn p11_nobody_creates_a_request_that_is_decided_already() {
    let database = Database::new(APPROVALS);
    let data = br#"{"requester": "ann", "approver": "bob", "status": "approved"}"#;
    let created = code(block_on(database.engine.create(&user("ann"), "approvals", data)));
    assert_eq!(created, "forbidden: `approvals`: only its `approver` sets `status` to `approved`");
    let forged = br#"{"requester": "ann", "approver": "bob"}"#;
    let created = code(block_on(database.engine.create(&user("eve"), "approvals", forged)));
    assert!(created.contains("requester or approver is somebody else"), "{created}");
}

#[test]
fn p11_the_local_administrator_is_not_bound() {
    let database = Database::new(APPROVALS);
    let approval = request(&database);
    assert_eq!(set_status(&database, &Actor::Local, &approval.key, "approved"), "ok");
}

const BOUNDED: &str = r#"
[collections.notes]
key = "note:{id}"
access = { read = "public", write = "public" }
changes_max = 5
fields.id = { type = "id", required = true }
"#;

#[test]
fn j33_the_sixth_change_of_a_user_is_refused_and_that_of_an_admin_allowed() {
    let database = Database::new(BOUNDED);
    let create = |actor: &Actor, id: &str| {
        code(execute(&database, actor, action::create(&json!({"id": id}))))
    };
    for number in 0..4 {
        assert_eq!(create(&user("ann"), &format!("a{number}")), "ok");
    }
    // Refused and empty writes do not count; a delete does.
    assert!(create(&user("ann"), "a0").starts_with("unique_violation"));
    let absent = action::delete("note:none", Precondition::Any);
    execute(&database, &user("ann"), absent).unwrap();
    execute(&database, &user("ann"), action::delete("note:a0", Precondition::Any)).unwrap();
    let expected = "rule_violation: notes.*: changes_max: \
                    5 changes are the most that a caller may make here";
    assert_eq!(create(&user("ann"), "a5"), expected);
    assert_eq!(create(&user("bob"), "b0"), "ok");
    for number in 0..7 {
        assert_eq!(create(&admin("ann"), &format!("admin{number}")), "ok");
        assert_eq!(create(&Actor::Local, &format!("local{number}")), "ok");
    }
    assert_eq!(create(&user("ann"), "a5"), expected);
}

#[test]
fn j33_a_batch_counts_each_of_its_operations() {
    let database = Database::new(BOUNDED);
    let creates = |range: std::ops::Range<u32>| -> Vec<_> {
        range.map(|id| operation("notes", action::create(&json!({"id": id.to_string()})))).collect()
    };
    let refused = block_on(database.engine.batch(&user("ann"), &creates(0..6)));
    assert!(code(refused).starts_with("rule_violation: operation 5: notes.*: changes_max"));
    assert_eq!(database.entries(), []);
    block_on(database.engine.batch(&user("ann"), &creates(0..5))).unwrap();
    assert!(block_on(database.engine.batch(&user("ann"), &creates(7..8))).is_err());
}

#[test]
fn j33_writers_at_once_never_make_more_changes_than_allowed() {
    let database = Database::new(BOUNDED);
    let done: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let database = &database;
                scope.spawn(move || {
                    let create = |id: u32| {
                        let data = json!({"id": format!("{writer}-{id}")});
                        execute(database, &user("ann"), action::create(&data))
                    };
                    (0..5).filter(|id| create(*id).is_ok()).count()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(done, 5);
    assert_eq!(database.count("notes"), 5);
}

#[test]
fn the_feed_shows_changes_to_those_who_may_read_the_document_also_when_it_is_gone() {
    let database = Database::new(APPROVALS);
    let approval = request(&database);
    block_on(database.engine.create(
        &user("eve"),
        "approvals",
        br#"{"requester": "eve", "approver": "bob"}"#,
    ))
    .unwrap();
    database.delete("approvals", &approval.key).unwrap();
    let changes = block_on(database.engine.changes(Position(0), 10)).unwrap();
    let seen = |actor: &Actor| -> Vec<usize> {
        let shown = changes.iter().enumerate().filter(|(_, c)| database.engine.shows(actor, c));
        shown.map(|(place, _)| place).collect()
    };
    assert_eq!(seen(&user("ann")), [0, 2]);
    assert_eq!(seen(&user("bob")), [0, 1, 2]);
    assert_eq!(seen(&user("eve")), [1]);
    assert_eq!(seen(&user("zoe")), [0usize; 0]);
    assert_eq!(seen(&Actor::Anonymous), [0usize; 0]);
    assert_eq!(seen(&admin("root")), [0, 1, 2]);
    assert_eq!(seen(&Actor::Local), [0, 1, 2]);
}

#[test]
fn changes_that_do_not_say_whose_they_are_are_for_administrators_once_a_rule_is_tightened() {
    let open = r#"
        [collections.notes]
        key = "note:{id}"
        fields.id = { type = "id", required = true }
        "#;
    let database = Database::new(&format!("{open}access = {{ read = \"public\" }}\n"));
    block_on(database.engine.create(&user("ann"), "notes", br#"{"id": "a"}"#)).unwrap();
    let changes = block_on(database.engine.changes(Position(0), 10)).unwrap();
    assert!(database.engine.shows(&Actor::Anonymous, &changes[0]));
    let step = database.apply(open).unwrap();
    assert_eq!(step.steps.len(), 1, "a change of access is told");
    assert!(!database.engine.shows(&user("ann"), &changes[0]));
    assert!(database.engine.shows(&admin("root"), &changes[0]));
}

#[test]
fn a_rule_that_names_nobody_is_refused_with_its_place() {
    let refused = |extra: &str| {
        let text = format!("[collections.a]\nkey = \"{{id}}\"\n{extra}\n");
        code(Database::empty(keyloom_engine::Mode::Development).apply(&text))
    };
    let fields = "fields.id = { type = \"id\", required = true }\n";
    let check = |extra: &str, expected: &str| {
        let found = refused(&format!("{fields}{extra}"));
        assert_eq!(found, format!("invalid_argument: {expected}"));
    };
    check("access.subjects = [\"who\"]", "collections.a.access.subjects: there is no field `who`");
    check(
        "fields.b = { type = \"bool\" }\naccess.subjects = [\"b\"]",
        "collections.a.access.subjects: `b` has a type that holds no subject",
    );
    check(
        "fields.s = { type = \"text\", by = { x = \"id\" } }",
        "collections.a.fields.s: `by` fits an enum only",
    );
    let status = "fields.s = { type = \"enum\", values = [\"x\"], by = ";
    check(
        &format!("{status}{{ x = \"who\" }} }}"),
        "collections.a.fields.s.by: there is no field `who`",
    );
    let wrong = refused(&format!("{fields}{status}{{ y = \"id\" }} }}"));
    assert!(wrong.starts_with("invalid_argument: collections.a.fields.s.by: "), "{wrong}");
    let text = "[collections.a]\nkey = \"{id}\"\naccess = { read = \"all\" }\n";
    let error = keyloom_engine::schema::Schema::from_toml(text).unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("`public`"), "{error}");
}
