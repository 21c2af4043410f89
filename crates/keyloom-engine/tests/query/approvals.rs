//! Queries over approvals: lists by requester and approver, lookups, status, times.

use keyloom_engine::Actor;
use serde_json::{Value as Json, json};

use crate::database::{Database, ulid, value_of};

const SCHEMA: &str = r#"
[collections.approvals]
key = "approval:record:{id}"

[collections.approvals.fields]
id         = { type = "ulid", generate = "ulid" }
code       = { type = "text", length = { max = 16 } }
requester  = { type = "id", required = true }
approver   = { type = "id", required = true }
status     = { type = "enum", values = ["pending", "approved", "denied"], default = "pending" }
note       = { type = "text", length = { max = 40 } }
created_at = { type = "millis", generate = "now" }

[collections.approvals.unique]
code = "approval:code:{code}"

[collections.approvals.indexes]
requester = "approval:index:requester:{requester}:{created_at desc}:{id}"
approver  = "approval:index:approver:{approver}:{created_at desc}:{id}"
status = {key = "approval:index:status:{status}:{created_at desc}:{id}", include = ["note","code"]}
pending   = { key = "approval:index:pending:{created_at}:{id}", when = { status = "pending" } }
"#;

fn approvals() -> Database {
    Database::open(SCHEMA)
}

fn approval(number: u128, requester: &str, approver: &str, created_at: i64) -> Json {
    json!({
        "id": ulid(number), "code": format!("A-{number}"), "requester": requester,
        "approver": approver, "created_at": created_at, "note": format!("note {number}"),
    })
}

/// 30 of `me`, every third one approved, among others.
fn filled() -> Database {
    let database = approvals();
    for number in 0..30 {
        let mut own = approval(number, "me", "boss", 1000 + number as i64);
        if number % 3 == 0 {
            own["status"] = "approved".into();
        }
        database.put("approvals", &own);
        let other = approval(100 + number, &format!("u{number}"), "chief", 1000 + number as i64);
        database.put("approvals", &other);
    }
    database
}

fn numbers(values: Vec<Json>) -> Vec<i64> {
    values.iter().map(|value| value.as_i64().unwrap()).collect()
}

#[test]
fn p02_a_lookup_by_the_full_key_is_one_read() {
    let database = filled();
    let page = database.query("approvals", &json!({"where": {"id": ulid(3)}}));
    assert_eq!(value_of(page.items.get(0).unwrap(), "code"), "A-3");
    assert_eq!((page.cost.keys_read, page.cost.documents_read), (1, 0));
    assert_eq!(page.plan.path(), "key");
    let page = database.query("approvals", &json!({"where": {"id": ulid(999)}}));
    assert!(page.items.is_empty() && page.next().is_none());
    assert_eq!(page.cost.keys_read, 1);
}

#[test]
fn p02_a_lookup_by_code_is_two_reads() {
    let database = filled();
    let page = database.query("approvals", &json!({"where": {"code": "A-3"}}));
    assert_eq!(value_of(page.items.get(0).unwrap(), "id"), ulid(3));
    assert_eq!((page.cost.keys_read, page.cost.documents_read), (1, 1));
    assert_eq!(page.plan.path(), "unique:code");
    assert!(database.query("approvals", &json!({"where": {"code": "?"}})).items.is_empty());
}

#[test]
fn p02_an_empty_or_malformed_identity_is_an_error() {
    let database = filled();
    for id in ["", "01arz3ndektsv4rrffq69g5fav", "80000000000000000000000000"] {
        let error = database.error("approvals", &json!({"where": {"id": id}}));
        assert!(error.contains("`id`"), "{error}");
    }
    let error = database.error("approvals", &json!({"where": {"requester": ""}}));
    assert!(error.contains("`requester`"), "{error}");
}

#[test]
fn p05_the_twenty_newest_of_a_requester_cost_21_index_keys_and_then_ten() {
    let database = filled();
    let query = json!({"where": {"requester": "me"}, "order": "-created_at", "limit": 20});
    let first = database.query("approvals", &query);
    assert_eq!((first.cost.keys_read, first.cost.documents_read), (21, 20));
    assert_eq!(value_of(first.items.get(0).unwrap(), "created_at"), 1029);
    let mut query = query;
    query["after"] = first.next().unwrap().into();
    let second = database.query("approvals", &query);
    assert_eq!((second.items.len(), second.next()), (10, None));
    assert_eq!((second.cost.keys_read, second.cost.documents_read), (10, 10));
    assert_eq!(value_of(second.items.get(9).unwrap(), "created_at"), 1000);
}

#[test]
fn p05_the_oldest_come_first_from_the_same_index_in_reverse() {
    let database = filled();
    let query = json!({"where": {"requester": "me"}, "order": "created_at", "limit": 7});
    let created = numbers(database.values("approvals", &query, "created_at"));
    assert_eq!(created, (1000..1030).collect::<Vec<i64>>());
    assert_eq!(
        database.explain("approvals", &query),
        "index:requester  approval:index:requester:me: .. approval:index:requester:me:*  \
         reverse  ≤ 8 keys"
    );
}

#[test]
fn p06_requester_or_approver_is_one_merged_list_with_each_document_once() {
    let database = approvals();
    database.put("approvals", &approval(1, "me", "boss", 10));
    database.put("approvals", &approval(2, "you", "me", 20));
    database.put("approvals", &approval(3, "me", "me", 30));
    database.put("approvals", &approval(4, "you", "boss", 40));
    let query = json!({
        "any": [{"requester": "me"}, {"approver": "me"}], "order": "-created_at", "limit": 2,
    });
    assert_eq!(numbers(database.values("approvals", &query, "created_at")), [30, 20, 10]);
    let page = database.query("approvals", &query);
    assert_eq!(page.plan.path(), "any(index:approver, index:requester)");
    assert_eq!(page.plan.ranges().len(), 2);
    assert_eq!(database.count("approvals", &query).count, 3);
}

#[test]
fn p07_a_user_does_not_see_those_of_another_whose_name_goes_on() {
    let database = approvals();
    database.put("approvals", &approval(1, "u1", "boss", 10));
    database.put("approvals", &approval(2, "u10", "boss", 20));
    let query = json!({"where": {"requester": "u1"}});
    assert_eq!(numbers(database.values("approvals", &query, "created_at")), [10]);
}

#[test]
fn p08_status_is_served_by_an_index_and_a_wrong_word_lists_the_words() {
    let database = filled();
    let query = json!({"where": {"status": "approved"}, "order": "-created_at", "limit": 5});
    let page = database.query("approvals", &query);
    assert_eq!((page.items.len(), page.cost.keys_read), (5, 6));
    assert_eq!(page.plan.path(), "index:status");
    let error = database.error("approvals", &json!({"where": {"status": "aproved"}}));
    assert!(error.contains("pending, approved, denied"), "{error}");
}

#[test]
fn p18_pending_older_than_a_time_costs_what_it_returns() {
    let database = filled();
    let query = json!({
        "where": {"status": "pending", "created_at": {"lt": 1005}}, "order": "created_at",
    });
    let page = database.query("approvals", &query);
    let found: Vec<Json> = page.items.iter().map(|item| value_of(item, "created_at")).collect();
    assert_eq!(found, [1000, 1001, 1001, 1002, 1002, 1003, 1004, 1004]);
    assert_eq!(page.cost.keys_read, 8);
    assert!(page.plan.path().starts_with("index:"), "{}", page.plan);
}

#[test]
fn p22_times_before_1970_after_2286_and_equal_ones_are_in_order() {
    let database = approvals();
    let times = [0, -1, -5_000_000_000_000, 9_999_999_999_999, 10_000_000_000_001, 7, 7, i64::MAX];
    for (number, time) in times.into_iter().enumerate() {
        database.put("approvals", &approval(number as u128, "me", "boss", time));
    }
    let mut expected = times;
    expected.sort_unstable();
    let ascending = json!({"where": {"requester": "me"}, "order": "created_at", "limit": 3});
    assert_eq!(numbers(database.values("approvals", &ascending, "created_at")), expected);
    expected.reverse();
    let descending = json!({"where": {"requester": "me"}, "order": "-created_at", "limit": 3});
    assert_eq!(numbers(database.values("approvals", &descending, "created_at")), expected);
}

#[test]
fn j17_documents_of_one_time_come_in_one_order_on_all_pages() {
    let database = approvals();
    for number in 0..9 {
        database.put("approvals", &approval(number, "me", "boss", 5));
    }
    let query =
        |limit: u64| json!({"where": {"requester": "me"}, "order": "-created_at", "limit": limit});
    let whole = database.values("approvals", &query(100), "id");
    for limit in 1..9 {
        assert_eq!(database.values("approvals", &query(limit), "id"), whole);
    }
}

#[test]
fn several_words_are_merged_by_time_without_reading_more_than_one_key_ahead_in_each() {
    let database = filled();
    let query = json!({
        "where": {"status": {"in": ["approved", "pending"]}}, "order": "-created_at", "limit": 6,
    });
    let page = database.query("approvals", &query);
    assert_eq!((page.plan.ranges().len(), page.plan.keys_read_max), (2, 8));
    assert!(page.cost.keys_read <= 8);
    let created = numbers(database.values("approvals", &query, "created_at"));
    assert_eq!(created.len(), 60);
    assert!(created.is_sorted_by(|one, other| one >= other));
}

#[test]
fn ranges_that_overlap_are_one_and_are_shown_from_the_first_beginning_to_the_last_end() {
    let database = filled();
    let between = |from: u64, to: u64| json!({"created_at": {"gte": from, "lt": to}});
    let query = json!({
        "where": {"requester": "me"}, "order": "created_at",
        "any": [between(3, 9), between(1, 5), between(4, 7)],
    });
    let page = database.query("approvals", &query);
    let [range] = &page.plan.ranges()[..] else { panic!("{}", page.plan) };
    // The index descends, and its text counts down from 9999999999999.
    assert_eq!(range.from, "approval:index:requester:me:9999999999990:*");
    assert_eq!(range.to, "approval:index:requester:me:9999999999998:*");
}

#[test]
fn an_order_by_the_listed_field_itself_runs_the_ranges_one_after_the_other() {
    let database = filled();
    let query = json!({
        "where": {"status": {"in": ["pending", "approved"]}}, "order": "-status", "limit": 11,
    });
    let found = database.values("approvals", &query, "status");
    assert_eq!(found.len(), 60);
    assert!(found.is_sorted_by(|one, other| one.as_str() >= other.as_str()));
    assert_eq!(database.query("approvals", &query).plan.keys_read_max, 12);
}

#[test]
fn a_selection_from_a_claim_has_what_the_claim_holds_and_what_the_document_key_holds() {
    let database = filled();
    let query = json!({"where": {"code": "A-3"}, "select": ["code", "id"]});
    let page = database.query("approvals", &query);
    assert!(page.plan.covering && page.plan.path() == "unique:code", "{}", page.plan);
    let item = page.items.get(0).unwrap();
    assert_eq!(value_of(item, "code"), "A-3");
    assert_eq!(value_of(item, "id"), ulid(3));
    assert_eq!(item.key(), format!("approval:record:{}", ulid(3)));
}

#[test]
fn a_selection_of_more_keys_than_are_read_at_a_time_keeps_each_row_together() {
    let database = approvals();
    for number in 0..300 {
        database.put("approvals", &approval(number, "me", "boss", number as i64));
    }
    let query = json!({
        "where": {"requester": "me"}, "order": "created_at", "limit": 299,
        "select": ["created_at", "id"],
    });
    let page = database.query("approvals", &query);
    assert!(page.plan.covering && page.items.len() == 299 && page.next.is_some());
    for (number, item) in page.items.iter().enumerate() {
        assert_eq!(value_of(item, "created_at"), number);
        assert_eq!(value_of(item, "id"), ulid(number as u128));
    }
}

#[test]
fn a_selection_that_the_index_holds_needs_no_document() {
    let database = filled();
    let query = json!({
        "where": {"status": "approved"}, "order": "-created_at", "limit": 2,
        "select": ["created_at", "note", "id"],
    });
    let page = database.query("approvals", &query);
    assert!(page.plan.covering);
    assert_eq!(page.cost.documents_read, 0);
    let data = String::from_utf8(page.items.get(0).unwrap().data().into_owned()).unwrap();
    assert_eq!(data, format!(r#"{{"created_at":1027,"note":"note 27","id":"{}"}}"#, ulid(27)));
    assert_eq!(page.items.get(0).unwrap().key(), format!("approval:record:{}", ulid(27)));
    let mut query = query;
    query["select"] = json!(["approver", "created_at", "@owner", "@created_at"]);
    let page = database.query("approvals", &query);
    assert!(!page.plan.covering);
    let data = String::from_utf8(page.items.get(0).unwrap().data().into_owned()).unwrap();
    assert_eq!(data, r#"{"approver":"boss","created_at":1027,"@created_at":1700000000000}"#);
}

#[test]
fn a_partial_index_serves_only_what_its_condition_implies() {
    let without = SCHEMA.lines().filter(|line| !line.starts_with("status = {key"));
    let database = Database::open(&without.collect::<Vec<_>>().join("\n"));
    for number in 0..6 {
        let mut document = approval(number, "me", "boss", 10 * number as i64);
        document["status"] = ["pending", "denied"][number as usize % 2].into();
        database.put("approvals", &document);
    }
    let pending = json!({"where": {"status": "pending"}, "order": "created_at"});
    assert_eq!(numbers(database.values("approvals", &pending, "created_at")), [0, 20, 40]);
    assert_eq!(database.query("approvals", &pending).plan.path(), "index:pending");
    for query in [
        json!({"where": {"status": "denied"}, "order": "created_at"}),
        json!({"where": {"status": {"in": ["pending", "denied"]}}, "order": "created_at"}),
        json!({"order": "created_at"}),
    ] {
        database.refused("approvals", &query);
    }
    let refused = database.refused("approvals", &json!({"order": "created_at"}));
    assert_eq!(refused.suggest.as_deref().unwrap(), "approvals:created_at:{created_at}:{id}");
    assert_eq!((refused.backfill_documents, refused.keys_per_write), (6, 1));
}

#[test]
fn what_no_key_serves_is_refused_with_the_key_to_add_and_then_served_by_it() {
    let database = filled();
    let query = json!({
        "where": {"approver": "boss", "status": "approved"}, "order": "-created_at", "limit": 3,
    });
    let refused = database.refused("approvals", &query);
    assert_eq!(
        refused.suggest.as_deref().unwrap(),
        "approvals:approver_status_created_at:{approver}:{status}:{created_at desc}:{id}"
    );
    assert!(refused.reason.contains("begins with `approver`, `status`"), "{}", refused.reason);
    let added = format!("{SCHEMA}\nadded = \"{}\"\n", refused.suggest.as_deref().unwrap());
    database.apply(&added);
    let page = database.query("approvals", &query);
    assert_eq!((page.items.len(), page.cost.keys_read), (3, 4));
    assert_eq!(page.plan.path(), "index:added");
}

#[test]
fn a_scan_within_a_budget_says_that_it_was_one_and_goes_on() {
    let database = filled();
    let query = json!({
        "where": {"approver": "boss", "status": "approved"}, "order": "-created_at", "limit": 3,
        "scan": 10,
    });
    let page = database.query("approvals", &query);
    let note = page.plan.scan().unwrap();
    assert_eq!((note.budget, page.plan.keys_read_max), (10, 10));
    assert_eq!(note.filtered, ["status = \"approved\""]);
    assert!(page.cost.keys_read <= 10 && page.next().is_some());
    let found = numbers(database.values("approvals", &query, "created_at"));
    assert_eq!(found, [1027, 1024, 1021, 1018, 1015, 1012, 1009, 1006, 1003, 1000]);
    let unsorted = json!({"where": {"approver": "boss"}, "order": "note", "scan": 10});
    assert!(database.error("approvals", &unsorted).contains("order by `note`"));
}

#[test]
fn a_count_under_a_scan_is_exact_or_an_error() {
    let database = filled();
    let query = json!({"where": {"approver": "boss", "status": "approved"}, "scan": 100});
    assert_eq!(database.count("approvals", &query).count, 10);
    let query = crate::database::read_query(&json!({"where": {"note": "note 3"}, "scan": 10}));
    let error =
        pollster::block_on(database.engine.count(&Actor::Local, "approvals", &query)).unwrap_err();
    assert_eq!(error.code(), "limit_exceeded");
}

#[test]
fn conditions_that_exclude_each_other_are_an_empty_page_without_reads() {
    let database = filled();
    for filter in [
        json!({"created_at": {"gt": 5, "lt": 5}}),
        json!({"created_at": {"gte": 6, "lte": 5}}),
        json!({"status": {"in": []}}),
    ] {
        let page = database.query("approvals", &json!({"where": filter}));
        assert_eq!((page.items.len(), page.cost.keys_read), (0, 0));
        assert_eq!(page.plan.path(), "nothing");
    }
}

#[test]
fn a_page_has_at_least_one_result() {
    let refused = filled().try_query("approvals", &json!({"limit": 0})).unwrap_err();
    assert_eq!(refused.to_string(), "the limit of a page is 1 to 1000");
}

#[test]
fn limits_are_held() {
    let database = approvals();
    let code = |query: Json| database.try_query("approvals", &query).unwrap_err().code();
    assert_eq!(code(json!({"limit": 1001})), "limit_exceeded");
    assert_eq!(code(json!({"scan": 1_000_001})), "limit_exceeded");
    assert_eq!(code(json!({"scan": 0})), "invalid_argument");
    let users: Vec<String> = (0..129).map(|number| format!("u{number}")).collect();
    assert_eq!(code(json!({"where": {"requester": {"in": users}}})), "limit_exceeded");
}

#[test]
fn unknown_names_list_the_fields() {
    let database = approvals();
    for query in [
        json!({"where": {"reqester": "u"}}),
        json!({"order": "reqester"}),
        json!({"select": ["reqester"]}),
        json!({"distinct": "reqester"}),
    ] {
        let error = database.error("approvals", &query);
        assert!(error.contains("`reqester`") && error.contains("requester, status"), "{error}");
    }
}

#[test]
fn an_order_by_a_field_that_documents_may_lack_is_an_error_unless_a_range_asks_for_it() {
    let database = filled();
    let error = database.error("approvals", &json!({"order": "note"}));
    assert!(error.contains("documents without it"), "{error}");
    let refused =
        database.refused("approvals", &json!({"where": {"note": {"prefix": ""}}, "order": "note"}));
    assert_eq!(refused.suggest.as_deref().unwrap(), "approvals:note:{note}:{id}");
}

#[test]
fn what_no_key_could_serve_says_what_to_leave_out() {
    let database = filled();
    let query = json!({"where": {"created_at": {"gt": 1}, "requester": {"prefix": "u"}}});
    let error = database.error("approvals", &query);
    assert!(error.contains("`created_at` and `requester`: keys have one range"), "{error}");
    let query = json!({"where": {"requester": {"prefix": "u"}}, "order": "created_at"});
    let error = database.error("approvals", &query);
    assert!(error.contains("in the order of `created_at`"), "{error}");
}

#[test]
fn an_index_key_without_its_document_is_reported_with_both() {
    use keyloom_store::{Commit, Direction, KeyRange, OrderedStore, ScanOptions, Write};
    let database = approvals();
    database.put("approvals", &approval(1, "me", "boss", 10));
    let store = database.store.clone();
    pollster::block_on(async {
        let range = KeyRange { from: vec![2], to: vec![3] };
        let options = ScanOptions { direction: Direction::Forward, limit: 1 };
        let snapshot = store.snapshot().await.unwrap();
        let page = snapshot.scan(&range, options).await.unwrap().next(1).await.unwrap();
        let entry = page.into_iter().next().unwrap();
        let writes = vec![Write::Delete { key: entry.key }];
        let commit = Commit { writes, ..Commit::default() };
        store.commit(commit.into()).await.unwrap();
    });
    let error =
        database.try_query("approvals", &json!({"where": {"requester": "me"}})).unwrap_err();
    assert_eq!(error.code(), "internal");
    let text = error.to_string();
    assert!(text.contains("approval:index:requester:me:"), "{text}");
    assert!(text.contains(&format!("approval:record:{}", ulid(1))), "{text}");
}

#[test]
fn keys_are_listed_in_text_by_path_and_prefix() {
    use keyloom_engine::{Actor, KeyQuery};
    let database = filled();
    let keys = |path: Option<&str>, prefix: Option<&str>, after: Option<String>| {
        let (path, prefix) = (path.map(str::to_owned), prefix.map(str::to_owned));
        let query = KeyQuery { path, prefix, limit: Some(2), after };
        pollster::block_on(database.engine.keys(&Actor::Local, "approvals", &query))
    };
    let page = keys(Some("requester"), Some("approval:index:requester:me:"), None).unwrap();
    assert_eq!(page.keys[0], format!("approval:index:requester:me:9999999998970:{}", ulid(29)));
    assert_eq!((page.keys.len(), page.cost.keys_read), (2, 3));
    let more = keys(Some("requester"), Some("approval:index:requester:me:"), page.next).unwrap();
    assert_eq!(more.keys[1], format!("approval:index:requester:me:9999999998973:{}", ulid(26)));
    assert_eq!(keys(Some("unique:code"), Some("approval:code:A-12"), None).unwrap().keys.len(), 2);
    assert_eq!(keys(None, None, None).unwrap().keys[0], format!("approval:record:{}", ulid(0)));
    let error = keys(Some("requester"), Some("approval:requester"), None).unwrap_err().to_string();
    assert!(error.contains("keys look like approval:index:requester:{requester}"), "{error}");
    let error = keys(Some("nobody"), None, None).unwrap_err().to_string();
    assert!(error.contains("index:requester") && error.contains("unique:code"), "{error}");
}

#[test]
fn a_suggested_index_over_long_texts_is_cut_so_that_it_can_be_applied() {
    let schema = include_str!("../../../../schemas/approvals.toml");
    let database = Database::open(schema);
    database.put(
        "approvals",
        &json!({"requester": "u1", "approver": "u2", "comment": "urgent: a plant"}),
    );
    let query = json!({"where": {"comment": {"prefix": "urgent"}}});
    let refused = database.refused("approvals", &query);
    assert_eq!(refused.suggest.as_deref().unwrap(), "approvals:comment:{comment prefix 100}:{id}");
    let added = format!(
        "{schema}\n[collections.approvals.indexes.added]\nkey = \"{}\"\n",
        refused.suggest.as_deref().unwrap()
    );
    database.apply(&added);
    let page = database.query("approvals", &query);
    assert_eq!((page.plan.path().as_str(), page.items.len()), ("index:added", 1));
}
