//! The rows with 1,000,000 documents, on the embedded stores. What is asserted is the reported
//! cost, never the time.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test is a panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use keyloom_engine::schema::Schema;
use keyloom_engine::{
    Action, Actor, Engine, Error, Filter, List, Operation, Options, OrderBy, Page, Query, Sort,
    Test,
};
use keyloom_key::Ulid;
use keyloom_store::OrderedStore;
use keyloom_store_fjall::{Durability, FjallStore};
use keyloom_store_redb::RedbStore;
use pollster::block_on;
use serde_json::{Value as Json, json};

/// How many unrelated documents are there. `KEYLOOM_DOCUMENTS` makes a quick run.
fn crowd() -> usize {
    std::env::var("KEYLOOM_DOCUMENTS").map_or(1_000_000, |text| text.parse().unwrap())
}

#[test]
fn approvals_are_listed_in_the_cost_of_what_is_returned() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(redb(folder.path()), include_str!("../../../schemas/approvals.toml"));
    // Ten thousand requesters `u0`, `u1`, … with the others' requests, and 30 of `me`.
    let others = (0..crowd()).map(|n| {
        json!({ "requester": format!("u{}", n % 10_000), "approver": format!("a{}", n % 100),
                "created_at": 1_700_000_000_000_u64 + n as u64,
                "status": if n % 1000 == 0 { "pending" } else { "approved" } })
    });
    load(&engine, "approvals", others);
    let own = (0..30).map(|n| {
        json!({ "requester": "me", "approver": "boss", "code": format!("A-ME{n:04}"),
                "created_at": 1_700_000_100_000_u64 + n * 50_000, "status": "pending" })
    });
    load(&engine, "approvals", own);

    p05_twenty_newest_then_ten(&engine);
    p02_by_code_and_by_id(&engine);
    p18_pending_older_than_thirty_minutes(&engine);
    p07_users_do_not_leak(&engine);
}

fn p05_twenty_newest_then_ten(engine: &Engine) {
    let mine = Query { order: newest("created_at"), ..equal(&[("requester", json!("me"))]) };
    let first = ask(engine, "approvals", &Query { limit: Some(20), ..mine.clone() });
    let codes = field(&first, "code");
    assert_eq!((codes.len(), &codes[0], &codes[19]), (20, &json!("A-ME0029"), &json!("A-ME0010")));
    assert!(first.cost.keys_read <= 21, "{:?}", first.cost);
    assert_eq!((first.cost.documents_read, first.cost.ranges), (20, 1));
    let second =
        ask(engine, "approvals", &Query { limit: Some(20), after: first.next(), ..mine.clone() });
    assert_eq!(field(&second, "code")[9], json!("A-ME0000"));
    assert!(second.cost.keys_read <= 21 && second.next().is_none(), "{:?}", second.cost);
    let counted = block_on(engine.count(&Actor::Local, "approvals", &mine)).unwrap();
    assert_eq!((counted.count, counted.cost.keys_read), (30, 30));
    let all = block_on(engine.count(&Actor::Local, "approvals", &Query::default())).unwrap();
    assert_eq!((all.count, all.cost.keys_read), (crowd() as u64 + 30, 1));
}

fn p02_by_code_and_by_id(engine: &Engine) {
    let by_code = ask(engine, "approvals", &equal(&[("code", json!("A-ME0007"))]));
    assert_eq!((by_code.cost.keys_read, by_code.cost.documents_read), (1, 1));
    let id = field(&by_code, "id")[0].clone();
    let by_id = ask(engine, "approvals", &equal(&[("id", id)]));
    assert_eq!((by_id.cost.keys_read, by_id.cost.documents_read), (1, 0));
    let data = |page: &Page| page.items.get(0).unwrap().data().into_owned();
    assert_eq!(data(&by_id), data(&by_code));
}

fn p18_pending_older_than_thirty_minutes(engine: &Engine) {
    let now = 1_700_000_000_000_i64 + 25 * 60_000 * 10;
    let tests = vec![Test::Less(json!(now - 30 * 60_000))];
    let mut query = equal(&[("status", json!("pending"))]);
    query.filter.insert("created_at".to_owned(), tests);
    query.order = Some(OrderBy { field: "created_at".to_owned(), direction: Sort::Ascending });
    query.limit = Some(25);
    let page = ask(engine, "approvals", &query);
    assert_eq!(page.items.len(), 25);
    assert!(page.cost.keys_read <= 26, "{:?}", page.cost);
}

fn p07_users_do_not_leak(engine: &Engine) {
    let page = ask(
        engine,
        "approvals",
        &Query { limit: Some(1000), ..equal(&[("requester", json!("u1"))]) },
    );
    assert_eq!(page.items.len(), crowd() / 10_000);
    assert!(field(&page, "requester").iter().all(|requester| requester == "u1"));
}

#[test]
fn votes_are_found_by_any_part_of_their_key_in_the_cost_of_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(fjall(folder.path()), include_str!("../../../schemas/reputation.toml"));
    let users: Vec<Json> = (0..1000).map(|n| json!(ulid(1, n))).collect();
    let tags: Vec<Json> = (0..100).map(|n| json!(ulid(2, n))).collect();
    load(&engine, "users", users.iter().enumerate().map(|(n, user)| {
        json!({ "usr_key": user, "username": format!("user-{n}"), "display_name": "U" })
    }));
    load(
        &engine,
        "tags",
        tags.iter().enumerate().map(
            |(n, tag)| json!({ "usr_key": users[0], "tag_key": tag, "name": format!("tag-{n}") }),
        ),
    );
    // The crowd votes among users 2… on tags 1…; user 0 votes 20 times for user 1 on tag 0.
    let vote = |usr: usize, tag: usize, tar: usize, at: u64| {
        json!({ "usr_key": users[usr], "tag_key": tags[tag], "tar_key": users[tar], "value": 1,
                "created_at": at })
    };
    let others = (0..crowd()).map(|n| {
        let usr = 2 + n % 997;
        vote(usr, 1 + n % 99, if usr == 2 { 3 } else { 2 + (usr * 7 + n) % 997 }, n as u64)
    });
    let others = others.filter(|vote| vote["usr_key"] != vote["tar_key"]);
    load(&engine, "votes", others);
    load(&engine, "votes", (0..20).map(|n| vote(0, 0, 1, 5_000_000 + n)));
    let (usr, tag, tar) =
        (users[0].as_str().unwrap(), tags[0].as_str().unwrap(), users[1].as_str().unwrap());

    j37_an_anchored_expression_reads_one_range(&engine, usr, tag);
    j38_an_expression_on_inner_segments_is_served_by_an_index(&engine, tag, tar);
    r11_every_question_costs_what_it_returns(&engine, usr, tag, tar);
}

fn j37_an_anchored_expression_reads_one_range(engine: &Engine, usr: &str, tag: &str) {
    let list =
        List { key: Some(format!("^usr_{usr}_tag_{tag}_")), limit: Some(10), ..List::default() };
    let listed = block_on(engine.list(&Actor::Local, "votes", &list)).unwrap();
    assert_eq!((listed.items.len(), listed.plan.path().as_str()), (10, "key"));
    assert!(listed.cost.keys_read <= 11, "{:?}", listed.cost);
    let counted = block_on(engine.count_list(&Actor::Local, "votes", &list)).unwrap();
    assert_eq!((counted.count, counted.cost.keys_read), (20, 20));
}

fn j38_an_expression_on_inner_segments_is_served_by_an_index(
    engine: &Engine,
    tag: &str,
    tar: &str,
) {
    let list =
        List { key: Some(format!("tag_{tag}_tar_{tar}_")), limit: Some(10), ..List::default() };
    let listed = block_on(engine.list(&Actor::Local, "votes", &list)).unwrap();
    assert_eq!((listed.items.len(), listed.plan.path().as_str()), (10, "index:tag_target"));
    assert!(listed.cost.keys_read <= 11, "{:?}", listed.cost);
    // No index leads with the vote itself: refused, with the template to add.
    let list = List { key: Some("key_01".to_owned()), ..List::default() };
    let Error::NoIndex(refused) = block_on(engine.list(&Actor::Local, "votes", &list)).unwrap_err()
    else {
        panic!("it has to be refused");
    };
    assert!(refused.suggest.as_deref().unwrap().contains("{vote_key}"), "{refused:?}");
    assert!(refused.backfill_documents > crowd() as u64 / 2);
}

fn r11_every_question_costs_what_it_returns(engine: &Engine, usr: &str, tag: &str, tar: &str) {
    let by_user_and_tag = equal(&[("usr_key", json!(usr)), ("tag_key", json!(tag))]);
    let by_tag_and_target = equal(&[("tag_key", json!(tag)), ("tar_key", json!(tar))]);
    let by_target = equal(&[("tar_key", json!(tar))]);
    let by_user = equal(&[("usr_key", json!(usr))]);
    let mut recent = equal(&[("tag_key", json!(tag))]);
    recent.filter.insert("created_at".to_owned(), vec![Test::Greater(json!(5_000_009))]);
    recent.order = newest("created_at");
    for (query, path, results) in [
        (by_user_and_tag, "key", 20),
        (by_tag_and_target, "index:tag_target", 20),
        (by_target, "index:target", 20),
        (by_user, "key", 20),
        (recent, "index:recent", 10),
    ] {
        let page = ask(engine, "votes", &query);
        assert_eq!((page.items.len(), page.plan.path().as_str()), (results, path));
        assert!(page.cost.keys_read <= results as u64 + 1, "{path}: {:?}", page.cost);
        let counted = block_on(engine.count(&Actor::Local, "votes", &query)).unwrap();
        assert_eq!((counted.count, counted.cost.keys_read), (results as u64, results as u64));
    }
}

#[test]
fn s15_a_prefix_with_a_million_hits_reads_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(fjall(folder.path()), include_str!("../../../schemas/stickers.toml"));
    load(
        &engine,
        "sticker_tags",
        (0..crowd()).map(|n| {
            json!({ "author": format!("u{}", n % 1000), "file": format!("f{n}"),
                "value": format!("the {n:07}"), "set": format!("set{}", n % 5000) })
        }),
    );
    let mut query =
        Query { limit: Some(50), distinct: Some("file".to_owned()), ..Query::default() };
    query.filter.insert("value".to_owned(), vec![Test::Prefix("the".to_owned())]);
    let page = ask(&engine, "sticker_tags", &query);
    assert_eq!(page.items.len(), 50);
    assert!(page.cost.keys_read <= 51, "{:?}", page.cost);
    let plain = ask(&engine, "sticker_tags", &Query { distinct: None, ..query });
    assert!(plain.cost.keys_read <= 51, "{:?}", plain.cost);
    // S-16: whether anything of a set is tagged, by anyone or by one author, is one key.
    for conditions in
        [vec![("set", json!("set7"))], vec![("set", json!("set7")), ("author", json!("u7"))]]
    {
        let existence =
            block_on(engine.exists(&Actor::Local, "sticker_tags", &equal(&conditions))).unwrap();
        assert!(existence.exists);
        assert_eq!((existence.cost.keys_read, existence.cost.documents_read), (1, 0));
    }
}

fn redb(folder: &Path) -> Arc<dyn OrderedStore> {
    Arc::new(RedbStore::open(folder).unwrap())
}

fn fjall(folder: &Path) -> Arc<dyn OrderedStore> {
    Arc::new(FjallStore::open(folder, Durability::Durable).unwrap())
}

fn open(store: Arc<dyn OrderedStore>, schema: &str) -> Engine {
    let engine = block_on(Engine::open(store, Options::default())).unwrap();
    let schema = Schema::from_toml(schema).unwrap();
    block_on(engine.apply_schema(&schema, &mut |_| {})).unwrap();
    engine
}

fn load(engine: &Engine, collection: &str, documents: impl Iterator<Item = Json>) {
    let create = |data: Json| Operation {
        collection: collection.to_owned(),
        action: Action::Create {
            key: None,
            data: data.to_string().into_bytes(),
            description: None,
        },
    };
    let mut operations = documents.map(create).peekable();
    while operations.peek().is_some() {
        let batch: Vec<Operation> = operations.by_ref().take(1000).collect();
        block_on(engine.batch(&Actor::Local, &batch)).unwrap();
    }
}

fn ask(engine: &Engine, collection: &str, query: &Query) -> Page {
    block_on(engine.query(&Actor::Local, collection, query)).unwrap()
}

fn equal(conditions: &[(&str, Json)]) -> Query {
    let filter: Filter = conditions
        .iter()
        .map(|(field, value)| ((*field).to_owned(), vec![Test::Equal(value.clone())]))
        .collect::<BTreeMap<_, _>>();
    Query { filter, ..Query::default() }
}

fn newest(field: &str) -> Option<OrderBy> {
    Some(OrderBy { field: field.to_owned(), direction: Sort::Descending })
}

fn field(page: &Page, name: &str) -> Vec<Json> {
    let data = page.items.iter().map(|item| serde_json::from_slice::<Json>(&item.data()).unwrap());
    data.map(|mut data| data[name].take()).collect()
}

fn ulid(millis: u64, number: u32) -> String {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    Ulid::from_parts(millis, random).to_string()
}
