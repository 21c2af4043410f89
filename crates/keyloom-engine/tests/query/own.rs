//! Lists of callers who see their own documents only.

use keyloom_engine::limits::OWN_KEYS_MAX;
use keyloom_engine::{Actor, Error, List, NoIndex, Page};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::database::{Database, read_query, value_of};

/// Notes of whom they belong to; `{owned}` is an index that leads with the owner, or none.
fn notes(owned: &str) -> Database {
    Database::open(&format!(
        r#"
        [collections.notes]
        key = "note:{{id}}"
        access = {{ read = "managed", write = "managed" }}
        [collections.notes.fields]
        id   = {{ type = "u64", required = true }}
        kind = {{ type = "id", required = true }}
        [collections.notes.indexes]
        kind = "kind:{{kind}}:{{id}}"
        {owned}
        "#
    ))
}

fn user(name: &str) -> Actor {
    Actor::User(name.to_owned())
}

fn fill(database: &Database, owner: &str, ids: std::ops::Range<u64>) {
    for id in ids {
        database.put_as(&user(owner), "notes", &json!({"id": id, "kind": "k"}), None);
    }
}

fn query(database: &Database, actor: &Actor, query: &Json) -> Result<Page, Error> {
    database.store.reset();
    let page = block_on(database.engine.query(actor, "notes", &read_query(query)))?;
    assert_eq!(database.store.counts().keys_read, page.cost.keys_read + page.cost.documents_read);
    assert!(page.cost.keys_read <= page.plan.keys_read_max, "{}", page.plan);
    Ok(page)
}

fn ids(page: &Page) -> Vec<u64> {
    page.items.iter().map(|item| value_of(item, "id").as_u64().unwrap()).collect()
}

fn no_index<T: std::fmt::Debug>(refused: Result<T, Error>) -> NoIndex {
    match refused {
        Err(Error::NoIndex(refused)) => *refused,
        other => panic!("it should be refused: {other:?}"),
    }
}

#[test]
fn j31_an_index_that_leads_with_the_owner_answers_with_the_cost_of_the_result() {
    let database = notes("owned = \"own:{@owner}:{kind}:{id}\"");
    fill(&database, "bob", 0..500);
    fill(&database, "ann", 500..510);
    let page = query(&database, &user("ann"), &json!({"where": {"kind": "k"}})).unwrap();
    assert_eq!(ids(&page), (500..510).collect::<Vec<_>>());
    assert_eq!(page.plan.path(), "index:owned");
    assert_eq!((page.cost.keys_read, page.next()), (10, None));
    let counted = block_on(database.engine.count(&user("ann"), "notes", &read_query(&json!({}))));
    let counted = counted.unwrap();
    assert_eq!((counted.count, counted.cost.keys_read), (10, 10));
    let asked = read_query(&json!({"where": {"kind": "k"}}));
    assert!(block_on(database.engine.exists(&user("ann"), "notes", &asked)).unwrap().exists);
    assert!(!block_on(database.engine.exists(&user("eve"), "notes", &asked)).unwrap().exists);
}

#[test]
fn j31_without_such_an_index_pages_are_short_within_a_budget_and_lose_nothing() {
    let database = notes("");
    let others = u64::try_from(OWN_KEYS_MAX).unwrap() + 200;
    fill(&database, "ann", 0..3);
    fill(&database, "bob", 3..others);
    fill(&database, "ann", others..others + 3);
    let mut asked = json!({"where": {"kind": "k"}, "limit": 4});
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let page = query(&database, &user("ann"), &asked).unwrap();
        assert!(page.cost.keys_read <= u64::try_from(OWN_KEYS_MAX).unwrap());
        assert_eq!(page.plan.scan().unwrap().filtered, ["@owner = \"ann\""]);
        seen.extend(ids(&page));
        pages += 1;
        match page.next() {
            None => break,
            Some(next) => asked["after"] = next.into(),
        }
    }
    assert_eq!(seen, [0, 1, 2, others, others + 1, others + 2]);
    assert!(pages >= 2, "the budget ends the first page");
}

#[test]
fn j31_what_must_be_exact_is_refused_with_the_key_to_add() {
    let database = notes("");
    fill(&database, "ann", 0..3);
    let asked = read_query(&json!({"where": {"kind": "k"}}));
    let refused = no_index(block_on(database.engine.count(&user("ann"), "notes", &asked)));
    assert!(
        refused.suggest.as_deref().unwrap().contains("{@owner}")
            && refused.suggest.as_deref().unwrap().contains("{kind}")
    );
    assert_eq!(refused.backfill_documents, 0, "how many there are is not his to know");
    no_index(block_on(database.engine.exists(&user("ann"), "notes", &asked)));
    no_index(block_on(database.engine.count(&user("ann"), "notes", &read_query(&json!({})))));
    let counted = block_on(database.engine.count(&Actor::Admin("root".into()), "notes", &asked));
    assert_eq!(counted.unwrap().count, 3);
    // A query that no key serves for anybody is not served by looking at everything, either.
    no_index(query(
        &database,
        &user("ann"),
        &json!({"where": {"kind": "k"}, "order": "@created_at"}),
    ));
}

#[test]
fn j31_who_may_read_nothing_finds_nothing() {
    let database = notes("");
    fill(&database, "ann", 0..3);
    let nobody = Actor::Anonymous;
    let page = query(&database, &nobody, &json!({"where": {"kind": "k"}})).unwrap();
    assert_eq!((page.items.len(), page.next(), page.cost.keys_read), (0, None, 0));
    let asked = read_query(&json!({}));
    assert_eq!(block_on(database.engine.count(&nobody, "notes", &asked)).unwrap().count, 0);
    assert!(!block_on(database.engine.exists(&nobody, "notes", &asked)).unwrap().exists);
    let listed = block_on(database.engine.list(&nobody, "notes", &List::default())).unwrap();
    assert_eq!((listed.items.len(), listed.matches_length), (0, Some(0)));
    assert_eq!(block_on(database.engine.collection(&nobody, "notes")).unwrap().documents, None);
    let keys = keyloom_engine::KeyQuery::default();
    let refused = block_on(database.engine.keys(&user("ann"), "notes", &keys)).unwrap_err();
    assert_eq!(refused.code(), "forbidden");
}

#[test]
fn j31_a_list_leaves_out_what_is_not_his_and_hides_it_as_a_start() {
    let database = notes("");
    fill(&database, "bob", 0..5);
    fill(&database, "ann", 5..8);
    let list = |start: Option<&str>, order| {
        let list = List { start_after: start.map(str::to_owned), order, ..List::default() };
        block_on(database.engine.list(&user("ann"), "notes", &list))
    };
    let keys: Vec<String> = list(None, None).unwrap().items.into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["note:5", "note:6", "note:7"]);
    assert_eq!(list(Some("note:5"), None).unwrap().items.len(), 2);

    let database = notes("made = \"made:{@owner}:{@created_at desc}:{id}\"");
    fill(&database, "bob", 0..2);
    fill(&database, "ann", 5..8);
    let newest = keyloom_engine::ListOrder {
        field: keyloom_engine::ListField::CreatedAt,
        direction: keyloom_engine::Sort::Descending,
    };
    let start = |key: &str| {
        let list =
            List { start_after: Some(key.to_owned()), order: Some(newest), ..List::default() };
        block_on(database.engine.list(&user("ann"), "notes", &list))
            .map(|listed| listed.items.len())
    };
    let refusal = |key: &str| start(key).unwrap_err().to_string().replace(key, "KEY");
    assert_eq!(start("note:6").unwrap(), 1);
    assert_eq!(refusal("note:0"), refusal("note:99"), "another's document and none are alike");
}

#[test]
fn p06_subjects_of_a_document_list_it_from_the_keys_that_lead_with_them() {
    let schema = include_str!("../../../../schemas/approvals.toml");
    let database = Database::open(schema);
    for number in 0..300 {
        let (requester, code) = (format!("r{number}"), format!("A-{number}"));
        let data = json!({"requester": requester, "approver": "boss", "code": code});
        database.put("approvals", &data);
    }
    for (requester, approver) in [("ann", "bob"), ("bob", "ann"), ("ann", "boss")] {
        let code = format!("A-{requester}-{approver}");
        let data = json!({"requester": requester, "approver": approver, "code": code});
        database.put("approvals", &data);
    }
    let page = |actor: &Actor, asked: &Json| {
        database.store.reset();
        block_on(database.engine.query(actor, "approvals", &read_query(asked))).unwrap()
    };
    // What is asked for is his: the keys are those that anybody would read.
    let own = page(&user("ann"), &json!({"where": {"requester": "ann"}, "order": "-created_at"}));
    assert_eq!((own.items.len(), own.cost.keys_read), (2, 2));
    // Nothing is asked for: all that is his, from both indexes.
    let all = page(&user("ann"), &json!({"order": "-created_at"}));
    assert_eq!(
        (all.items.len(), all.plan.path().as_str()),
        (3, "any(index:approver, index:requester)")
    );
    assert!(all.cost.keys_read <= 5, "{:?}", all.cost);
    // What is asked for is another's: only what both have to do with.
    let shared = page(&user("ann"), &json!({"where": {"approver": "boss"}}));
    assert_eq!(shared.items.len(), 1);
    assert_eq!(shared.plan.scan().unwrap().budget, OWN_KEYS_MAX);
}

#[test]
fn a_cursor_of_one_caller_is_refused_for_another() {
    let database = notes("");
    fill(&database, "ann", 0..5);
    let asked = json!({"where": {"kind": "k"}, "limit": 2});
    let next = query(&database, &user("ann"), &asked).unwrap().next().unwrap();
    let mut follow = asked.clone();
    follow["after"] = next.into();
    assert_eq!(ids(&query(&database, &user("ann"), &follow).unwrap()), [2, 3]);
    assert_eq!(query(&database, &user("bob"), &follow).unwrap_err().code(), "invalid_argument");
}

#[test]
fn documents_that_are_shared_by_an_array_are_not_lost_when_another_member_is_asked_for() {
    let database = Database::open(
        r#"
        [collections.notes]
        key = "note:{id}"
        access = { read = "managed", write = "managed", subjects = ["members"] }
        [collections.notes.fields]
        id      = { type = "u64", required = true }
        members = { type = "id[]", elements = { max = 9 } }
        [collections.notes.indexes]
        members = "notes:members:{members[]}:{id}"
        "#,
    );
    database.put("notes", &json!({"id": 1, "members": ["ann", "bob"]}));
    database.put("notes", &json!({"id": 2, "members": ["bob"]}));
    let ann = user("ann");
    for own in [json!({}), json!({"where": {"members": "ann"}})] {
        assert_eq!(ids(&query(&database, &ann, &own).unwrap()), [1]);
    }
    let bob = json!({"where": {"members": "bob"}});
    let error = query(&database, &ann, &bob).unwrap_err().to_string();
    assert!(error.contains("an element of `members` makes documents yours"), "{error}");
}
