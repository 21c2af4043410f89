//! The list matcher: expressions on keys and descriptions, times, owners, orders, pages.

use keyloom_engine::{Actor, Error, List, ListField, ListOrder, Sort, TimeMatcher, literal};
use pollster::block_on;
use serde_json::json;

use crate::database::{Database, ulid};

const NOTES: &str = r#"
[collections.notes]
key = "{id}"
[collections.notes.fields]
id = { type = "id", required = true }
[collections.notes.indexes]
created = "notes:created:{@created_at desc}:{id}"
owner   = "notes:owner:{@owner}:{@created_at desc}:{id}"
"#;

const VOTES: &str = r#"
[collections.votes]
key = "usr_{usr_key}_tag_{tag_key}_tar_{tar_key}_key_{vote_key}"
[collections.votes.fields]
usr_key  = { type = "ulid", required = true }
tag_key  = { type = "ulid", required = true }
tar_key  = { type = "ulid", required = true }
vote_key = { type = "ulid", required = true }
[collections.votes.indexes]
target = "tag_{tag_key}_tar_{tar_key}_key_{vote_key}_usr_{usr_key}"
"#;

fn keys(database: &Database, list: &List) -> Vec<String> {
    database.list("notes", list).items.into_iter().map(|document| document.key).collect()
}

fn by_key(pattern: &str) -> List {
    List { key: Some(pattern.to_owned()), ..List::default() }
}

fn order(field: ListField, direction: Sort) -> Option<ListOrder> {
    Some(ListOrder { field, direction })
}

/// Ten notes, created at 1000, 1010, …, 1090.
fn notes() -> Database {
    let database = Database::open(NOTES);
    for number in 0..10 {
        database.clock.set(1000 + 10 * number);
        database.put("notes", &json!({"id": format!("n{number}")}));
    }
    database
}

fn votes() -> Database {
    let database = Database::open(VOTES);
    let mut vote = 1000;
    for usr in 1..4 {
        for tag in 11..13 {
            for tar in 21..24 {
                for _ in 0..4 {
                    vote += 1;
                    database.put(
                        "votes",
                        &json!({
                            "usr_key": ulid(usr), "tag_key": ulid(tag), "tar_key": ulid(tar),
                            "vote_key": ulid(vote),
                        }),
                    );
                }
            }
        }
    }
    database
}

#[test]
fn j15_a_count_is_of_all_matches_whatever_the_limit() {
    let database = Database::open(NOTES);
    for number in 0..11 {
        database.put("notes", &json!({"id": format!("a{number}")}));
    }
    database.put("notes", &json!({"id": "b"}));
    let list = List { limit: Some(10), ..by_key("^a") };
    assert_eq!(database.list("notes", &list).items_length, 10);
    assert_eq!(database.count_list("notes", &list), 11);
    assert_eq!(database.count_list("notes", &List::default()), 12);
}

#[test]
fn j16_a_list_without_order_is_in_key_order() {
    let database = Database::open(NOTES);
    for id in ["b", "a", "c"] {
        database.put("notes", &json!({"id": id}));
    }
    assert_eq!(keys(&database, &List::default()), ["a", "b", "c"]);
    let reverse = List { order: order(ListField::Keys, Sort::Descending), ..List::default() };
    assert_eq!(keys(&database, &reverse), ["c", "b", "a"]);
}

#[test]
fn j17_equal_times_are_in_one_order_across_pages() {
    let database = Database::open(NOTES);
    database.clock.set(5);
    for id in ["b", "a", "c"] {
        // Versions grow by a microsecond; the times in milliseconds are equal.
        database.put("notes", &json!({"id": id}));
    }
    let mut list = List {
        order: order(ListField::CreatedAt, Sort::Descending),
        limit: Some(1),
        ..List::default()
    };
    let mut found = Vec::new();
    loop {
        let page = database.list("notes", &list);
        found.extend(page.items.into_iter().map(|document| document.key));
        match page.next {
            Some(next) => list.start_after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, ["a", "b", "c"]);
}

#[test]
fn j18_times_after_before_between_and_equal() {
    let database = notes();
    let count = |time| {
        let list = List { created_at: Some(time), ..List::default() };
        let listed = database.list("notes", &list);
        assert_eq!(database.count_list("notes", &list), listed.items_length);
        listed.items_length
    };
    assert_eq!(count(TimeMatcher::After(1040)), 5);
    assert_eq!(count(TimeMatcher::Before(1040)), 4);
    assert_eq!(count(TimeMatcher::Between(1040, 1080)), 5);
    assert_eq!(count(TimeMatcher::Equal(1040)), 1);
    assert_eq!(count(TimeMatcher::Between(1080, 1040)), 0);
}

#[test]
fn j19_all_matchers_together_are_the_intersection() {
    let database = Database::open(NOTES);
    let users = [Actor::User("ann".to_owned()), Actor::User("ben".to_owned())];
    for number in 0..16_u64 {
        database.clock.set(1000 + number);
        let id = format!("{}{number}", ["a", "b"][usize::from(number & 1 == 0)]);
        let description = ["good", "bad"][usize::from(number & 2 == 0)];
        let actor = &users[usize::from(number & 4 == 0)];
        database.put_as(actor, "notes", &json!({"id": id}), Some(description));
    }
    let list = List {
        description: Some("^go{2}d$".to_owned()),
        owner: Some("ann".to_owned()),
        created_at: Some(TimeMatcher::After(1008)),
        scan: Some(100),
        ..by_key("^a")
    };
    assert_eq!(keys(&database, &list), ["a15"]);
    assert_eq!(database.count_list("notes", &list), 1);
    let page = database.list("notes", &list);
    assert_eq!(
        page.plan.scan().unwrap().filtered,
        ["@created_at > 1008", "@owner = \"ann\"", "description matches \"^go{2}d$\""]
    );
    assert_eq!((page.plan.path().as_str(), page.cost.keys_read), ("key", 8));
    let refused = database.try_list("notes", &List { scan: None, ..list }).unwrap_err().to_string();
    assert!(refused.contains("a description stands in no key"), "{refused}");
}

#[test]
fn j20_a_description_matcher_leaves_out_documents_without_one() {
    let database = Database::open(NOTES);
    database.put("notes", &json!({"id": "a"}));
    database.put_as(&Actor::Local, "notes", &json!({"id": "b"}), Some(""));
    let list = List { description: Some(".*".to_owned()), scan: Some(10), ..List::default() };
    assert_eq!(keys(&database, &list), ["b"]);
}

#[test]
fn j21_an_expression_matches_anywhere_unless_it_is_anchored_and_case_counts() {
    let database = Database::open(NOTES);
    for id in ["usr_A1", "x_usr_A1"] {
        database.put("notes", &json!({"id": id}));
    }
    let anywhere = List { scan: Some(10), ..by_key("usr_A") };
    assert_eq!(keys(&database, &anywhere), ["usr_A1", "x_usr_A1"]);
    assert_eq!(keys(&database, &by_key("^usr_A")), ["usr_A1"]);
    assert!(keys(&database, &by_key("^usr_a")).is_empty());
    assert!(matches!(database.try_list("notes", &by_key("usr_A")), Err(Error::NoIndex(_))));
}

#[test]
fn j22_a_broken_expression_is_a_clear_error_and_text_can_be_literal() {
    let database = Database::open(NOTES);
    let error = database.try_list("notes", &by_key("(")).unwrap_err();
    assert_eq!(error.code(), "invalid_argument");
    assert!(error.to_string().contains("unclosed group, at character 1"), "{error}");
    for id in ["a(b", "a.b", "acb"] {
        database.put("notes", &json!({"id": id}));
    }
    assert_eq!(keys(&database, &by_key(&format!("^{}$", literal("a(b")))), ["a(b"]);
    assert_eq!(keys(&database, &by_key(&format!("^{}$", literal("a.b")))), ["a.b"]);
}

#[test]
fn j24_a_page_goes_on_where_it_stood_although_the_document_is_gone() {
    let database = notes();
    let mut list = List { limit: Some(4), ..List::default() };
    assert_eq!(keys(&database, &list), ["n0", "n1", "n2", "n3"]);
    database.delete("notes", "n3");
    list.start_after = Some("n3".to_owned());
    let page = database.list("notes", &list);
    let found: Vec<&str> = page.items.iter().map(|document| document.key.as_str()).collect();
    assert_eq!(found, ["n4", "n5", "n6", "n7"]);
    assert_eq!((page.items_page, page.matches_length), (None, None));
    database.delete("notes", "n7");
    list.start_after = page.next;
    assert_eq!(keys(&database, &list), ["n8", "n9"]);
}

#[test]
fn j24_by_time_a_document_that_is_gone_needs_the_next_of_its_page() {
    let database = notes();
    let newest = order(ListField::CreatedAt, Sort::Descending);
    let mut list = List { limit: Some(3), order: newest, ..List::default() };
    let page = database.list("notes", &list);
    list.start_after = Some("n7".to_owned());
    assert_eq!(keys(&database, &list), ["n6", "n5", "n4"]);
    database.delete("notes", "n7");
    let error = database.try_list("notes", &list).unwrap_err().to_string();
    assert!(error.contains("`next`"), "{error}");
    list.start_after = page.next;
    assert_eq!(keys(&database, &list), ["n6", "n5", "n4"]);
}

#[test]
fn j24_a_start_may_be_any_key_and_foreign_text_is_refused() {
    let database = votes();
    let list = |start: &str| List { start_after: Some(start.to_owned()), ..List::default() };
    let before = format!("usr_{0}_tag_{0}_tar_{0}_key_{0}", ulid(0));
    assert_eq!(database.list("votes", &list(&before)).items_length, 72);
    let behind = format!("usr_{0}_tag_{0}_tar_{0}_key_{0}", ulid(1 << 100));
    assert_eq!(database.list("votes", &list(&behind)).items_length, 0);
    let error = database.try_list("votes", &list("usr_")).unwrap_err().to_string();
    assert!(error.contains("neither a key nor a `next`"), "{error}");
}

#[test]
fn j26_collections_do_not_leak_whatever_their_names() {
    let schema: String = ["a", "ab", "a-b"]
        .map(|name| {
            format!(
                "[collections.{name}]\nkey = \"{{id}}\"\n\
                 [collections.{name}.fields]\nid = {{ type = \"id\", required = true }}\n"
            )
        })
        .concat();
    let database = Database::open(&schema);
    for (name, id) in [("a", "1"), ("ab", "2"), ("a-b", "3")] {
        database.put(name, &json!({"id": id}));
    }
    for (name, id) in [("a", "1"), ("ab", "2"), ("a-b", "3")] {
        let listed = database.list(name, &List::default());
        assert_eq!(listed.items.len(), 1);
        assert_eq!(listed.items[0].key, id);
    }
}

#[test]
fn j37_an_anchored_beginning_reads_one_key_more_than_its_page() {
    let database = votes();
    let pattern = format!("^usr_{}_tag_{}_", ulid(2), ulid(12));
    let listed = database.list("votes", &List { limit: Some(10), ..by_key(&pattern) });
    assert_eq!((listed.items_length, listed.cost.keys_read), (10, 11));
    assert_eq!((listed.plan.path().as_str(), listed.cost.documents_read), ("key", 0));
    let rest = List { start_after: listed.next, ..by_key(&pattern) };
    let listed = database.list("votes", &rest);
    assert_eq!((listed.items_length, listed.next), (2, None));
    assert_eq!(database.count_list("votes", &by_key(&pattern)), 12);
}

#[test]
fn j38_inner_segments_are_answered_from_the_index_that_leads_with_them() {
    let database = votes();
    let pattern = format!("tag_{}_tar_{}_", ulid(11), ulid(22));
    let listed = database.list("votes", &List { limit: Some(5), ..by_key(&pattern) });
    assert_eq!((listed.items_length, listed.cost.keys_read), (5, 6));
    assert_eq!(listed.plan.path(), "index:target");
    let rest = List { start_after: Some(listed.items[4].key.clone()), ..by_key(&pattern) };
    let rest = database.list("votes", &rest);
    assert_eq!((rest.items_length, rest.cost.keys_read), (7, 7));
    assert_eq!(database.count_list("votes", &by_key(&pattern)), 12);
}

#[test]
fn j38_without_such_an_index_it_is_refused_with_the_template_to_add() {
    let database = votes();
    let pattern = format!("tar_{}_", ulid(22));
    let Err(Error::NoIndex(refused)) = database.try_list("votes", &by_key(&pattern)) else {
        panic!("no key leads with the target");
    };
    let added = refused.suggest.as_deref().unwrap();
    assert_eq!(added, "votes:tar_key:{tar_key}:{usr_key}:{tag_key}:{vote_key}");
    database.apply(&format!("{VOTES}\nadded = \"{added}\"\n"));
    let listed = database.list("votes", &List { limit: Some(5), ..by_key(&pattern) });
    assert_eq!((listed.items_length, listed.cost.keys_read), (5, 6));
    // The rest of the template is the key's own order, so the default order holds, too.
    assert!(listed.items.is_sorted_by_key(|document| document.key.clone()));
}

#[test]
fn j39_a_list_without_a_limit_is_a_page_and_a_cursor() {
    let database = Database::open(NOTES);
    for number in 0..250 {
        database.put("notes", &json!({"id": format!("n{number:04}")}));
    }
    let mut list = List::default();
    let mut sizes = Vec::new();
    loop {
        let page = database.list("notes", &list);
        sizes.push(page.items_length);
        match page.next {
            Some(next) => list.start_after = Some(next),
            None => break,
        }
    }
    assert_eq!(sizes, [100, 100, 50]);
}

#[test]
fn r09_segments_that_no_key_can_have_are_an_error_and_not_an_empty_list() {
    let database = votes();
    let (usr, tag) = (ulid(0xABCDEF), ulid(11));
    for pattern in [
        format!("^USR_{usr}_TAG_{tag}"),
        format!("TAG_{tag}_TAR_{usr}"),
        format!("^tag_{tag}"),
        format!("tar_{usr}_tag_{tag}"),
        format!("usr_{usr}_tar_"),
        format!("usr_{}_", usr.to_lowercase()),
    ] {
        let error = database.try_list("votes", &by_key(&pattern)).unwrap_err().to_string();
        assert!(error.contains("keys look like usr_{usr_key}_tag_"), "{pattern}: {error}");
    }
}

#[test]
fn pages_are_counted_where_the_page_holds_all_and_only_there() {
    let database = notes();
    let all = database.list("notes", &List { limit: Some(10), ..List::default() });
    assert_eq!(
        (all.items_page, all.matches_length, all.matches_pages),
        (Some(0), Some(10), Some(1))
    );
    let some = database.list("notes", &List { limit: Some(4), ..List::default() });
    assert_eq!((some.items_page, some.matches_length, some.matches_pages), (Some(0), None, None));
    let none = database.list("notes", &by_key("^x"));
    assert_eq!((none.matches_length, none.matches_pages), (Some(0), Some(0)));
    let zero = database.try_list("notes", &List { limit: Some(0), ..List::default() });
    assert_eq!(zero.unwrap_err().to_string(), "the limit of a page is 1 to 1000");
}

#[test]
fn an_anchored_beginning_narrows_a_scan() {
    let database = votes();
    let pattern = format!("^usr_{}_tag_.*[05]$", ulid(3));
    let list = List { scan: Some(1000), ..by_key(&pattern) };
    let listed = database.list("votes", &list);
    assert_eq!(listed.cost.keys_read, 24);
    let expected = |key: &str| key.ends_with(['0', '5']);
    assert!(listed.items_length > 0 && listed.items.iter().all(|document| expected(&document.key)));
    assert!(database.try_list("votes", &List { scan: None, ..list }).is_err());
}

#[test]
fn an_order_that_no_key_has_is_refused_with_the_template() {
    let database = votes();
    let newest = order(ListField::UpdatedAt, Sort::Descending);
    let list = List { order: newest, ..List::default() };
    let Err(Error::NoIndex(refused)) = database.try_list("votes", &list) else {
        panic!("no key is in this order");
    };
    assert_eq!(
        refused.suggest.as_deref().unwrap(),
        "votes:updated_at:{@updated_at desc}:{usr_key}:{tag_key}:{tar_key}:{vote_key}"
    );
    database.apply(&format!("{VOTES}\nadded = \"{}\"\n", refused.suggest.as_deref().unwrap()));
    assert_eq!(database.list("votes", &list).items_length, 72);
}

/// The keys of all pages of three, where each begins behind the last key of the one before.
fn followed_by_key(database: &Database, actor: &Actor, mut list: List) -> Vec<String> {
    let mut found = Vec::new();
    list.limit = Some(3);
    for _ in 0..100 {
        let page = block_on(database.engine.list(actor, "notes", &list)).unwrap();
        found.extend(page.items.into_iter().map(|document| document.key));
        match page.next {
            None => return found,
            Some(_) => list.start_after = found.last().cloned(),
        }
    }
    panic!("the list does not end: {found:?}");
}

#[test]
fn a_page_follows_a_key_in_whichever_bucket_it_lies() {
    let database = Database::open(
        r#"
        [collections.notes]
        key = "{id}"
        [collections.notes.fields]
        id = { type = "id", required = true }
        [collections.notes.indexes]
        spread = "notes:spread:{id shard 16}:{@created_at desc}:{id}"
        "#,
    );
    let mut expected = Vec::new();
    for number in 0..60 {
        database.clock.set(1000 + 10 * number);
        expected.push(database.put("notes", &json!({"id": format!("n{number}")})));
    }
    expected.reverse();
    let newest = List { order: order(ListField::CreatedAt, Sort::Descending), ..List::default() };
    assert_eq!(followed_by_key(&database, &Actor::Local, newest), expected);
}

#[test]
fn a_page_of_own_documents_follows_a_key_by_whichever_field_it_is_his() {
    let database = Database::open(
        r#"
        [collections.notes]
        key = "{id}"
        access = { read = "managed", write = "managed", subjects = ["author", "reader"] }
        [collections.notes.fields]
        id     = { type = "id", required = true }
        author = { type = "id", required = true }
        reader = { type = "id", required = true }
        [collections.notes.indexes]
        author = "notes:author:{author}:{@created_at desc}:{id}"
        reader = "notes:reader:{reader}:{@created_at desc}:{id}"
        "#,
    );
    let mut expected = Vec::new();
    for number in 0..20 {
        database.clock.set(1000 + 10 * number);
        let (author, reader) = match number % 3 {
            0 => ("ann", "bob"),
            1 => ("bob", "ann"),
            _ => ("bob", "eve"),
        };
        let note = json!({"id": format!("n{number}"), "author": author, "reader": reader});
        let key = database.put("notes", &note);
        if number % 3 < 2 {
            expected.push(key);
        }
    }
    expected.reverse();
    let newest = List { order: order(ListField::CreatedAt, Sort::Descending), ..List::default() };
    let ann = Actor::User("ann".to_owned());
    assert_eq!(followed_by_key(&database, &ann, newest.clone()), expected);
    let foreign = List { start_after: Some("n2".to_owned()), ..newest };
    let error = block_on(database.engine.list(&ann, "notes", &foreign)).unwrap_err().to_string();
    assert!(error.contains("there is no document `n2`"), "{error}");
}
