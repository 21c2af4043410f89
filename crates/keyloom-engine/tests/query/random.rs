//! Random schemas, documents and queries against a plain filter and sort.
//!
//! For every query: what the engine returns, page by page, is what a filter over all documents
//! returns, in order and each document once; a refused query is served once the suggested index is
//! added; no page reads more keys than its plan says.

use std::collections::BTreeSet;

use keyloom_engine::{Error, Items, Page, Selection};
use keyloom_key::Value;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::database::{Database, value_of};

const FIELDS: &str = r#"
[collections.docs.fields]
id   = { type = "u64", required = true }
a    = { type = "enum", values = ["x", "y", "z"], required = true }
b    = { type = "i64", required = true }
c    = { type = "text", required = true, length = { max = 4 } }
d    = { type = "i64" }
n    = { type = "name", required = true }
tags = { type = "text[]", elements = { max = 3 }, length = { max = 4 } }
"#;

const WORDS: [&str; 3] = ["x", "y", "z"];

const KEYS: [&str; 3] = ["k:{id}", "k:{a}:{id}", "k:{b desc}:{id}"];

const COMPONENTS: [&str; 12] = [
    "{a}",
    "{a desc}",
    "{b}",
    "{b desc}",
    "{c}",
    "{c prefix 2}",
    "{d}",
    "{n}",
    "{tags[]}",
    "{id shard 3}",
    "{b shard 2}",
    "{tags[] prefix 1}",
];

/// An index as numbers: places in `COMPONENTS`, and whether it is partial or includes fields.
type IndexDraw = (Vec<usize>, bool, bool);

#[derive(Clone, Debug)]
struct Case {
    key: usize,
    indexes: Vec<IndexDraw>,
    documents: Vec<Json>,
    query: Json,
}

fn case() -> impl Strategy<Value = Case> {
    let index = (prop::collection::vec(0..COMPONENTS.len(), 1..4), any::<bool>(), any::<bool>());
    let indexes = prop::collection::vec(index, 0..5);
    let documents = prop::collection::vec(document(), 0..30);
    (0..KEYS.len(), indexes, documents, query()).prop_map(|(key, indexes, documents, query)| {
        let number = |(id, mut document): (usize, Json)| {
            document["id"] = id.into();
            document
        };
        let documents = documents.into_iter().enumerate().map(number).collect();
        Case { key, indexes, documents, query }
    })
}

/// A case whose query follows its first index: values for its leading components, then an order.
fn aligned() -> impl Strategy<Value = Case> {
    (case(), prop::collection::vec(0..1000_usize, 12)).prop_map(|(mut case, picks)| {
        let Some((components, partial, _)) = case.indexes.first() else { return case };
        let mut picks = picks.into_iter();
        let mut pick = |count: usize| picks.next().unwrap_or(0) % count;
        let bound = pick(components.len() + 1);
        let mut filter = json!({});
        if *partial {
            filter["a"] = json!({"in": ["y", "x"]});
        }
        for component in components.iter().take(bound) {
            let field = field_of(component);
            let values = values_of(field);
            let (one, other) = (&values[pick(values.len())], &values[pick(values.len())]);
            filter[field] = match pick(3) {
                0 if field != "n" => json!({"in": [one, other]}),
                _ => one.clone(),
            };
        }
        case.query["where"] = filter;
        case.query.as_object_mut().unwrap().remove("order");
        if let Some(component) = components.get(bound) {
            let field = field_of(component);
            match pick(4) {
                0 if ["c", "n", "tags"].contains(&field) => {
                    let prefix = ["", "a", "p", "m"][pick(4)];
                    case.query["where"][field] = json!({"prefix": prefix});
                }
                1 if field != "n" => {
                    let values = values_of(field);
                    case.query["where"][field] = json!({"gte": values[pick(values.len())]});
                }
                _ if ["a", "b", "c", "id"].contains(&field) => {
                    let sign = ["", "-"][pick(2)];
                    case.query["order"] = format!("{sign}{field}").into();
                }
                _ => {}
            }
        }
        case
    })
}

fn field_of(component: &usize) -> &'static str {
    let component = COMPONENTS[*component].trim_start_matches('{');
    component.split(['}', ' ', '[']).next().unwrap()
}

fn values_of(field: &str) -> Vec<Json> {
    match field {
        "a" => vec!["x".into(), "y".into(), "z".into()],
        "b" => (-2..3).map(Json::from).collect(),
        "c" => vec!["".into(), "a".into(), "ab".into(), "aba".into(), "b".into()],
        "d" => (0..3).map(Json::from).collect(),
        "n" => vec!["mmm".into(), "MMMM".into()],
        "tags" => vec!["p".into(), "q".into(), "pq".into()],
        "id" => (0..9).map(Json::from).collect(),
        other => panic!("{other}"),
    }
}

fn document() -> impl Strategy<Value = Json> {
    let tags = prop::option::of(prop::collection::vec("[pq]{1,2}", 0..3));
    let fields = (0..3_usize, -2..3_i64, "[ab]{0,4}", prop::option::of(0..3_i64), "[mM]{3,4}");
    (fields, tags).prop_map(|((a, b, c, d, n), tags)| {
        let mut document = json!({"a": WORDS[a], "b": b, "c": c, "n": n});
        if let Some(d) = d {
            document["d"] = d.into();
        }
        if let Some(tags) = tags {
            document["tags"] = tags.into();
        }
        document
    })
}

fn query() -> impl Strategy<Value = Json> {
    let order = prop::option::of(prop::sample::select(vec!["a", "-a", "b", "-b", "c", "-c", "id"]));
    let distinct =
        prop_oneof![4 => Just(None), 1 => prop::sample::select(vec!["a", "b", "c"]).prop_map(Some)];
    let any = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(filter(), 1..4)];
    let select = prop::option::of(prop::sample::subsequence(vec!["a", "b", "c", "n", "id"], 0..4));
    (filter(), any, order, distinct, 1..7_usize, select).prop_map(
        |(filter, any, order, distinct, limit, select)| {
            let mut query = json!({"where": filter, "limit": limit});
            if !any.is_empty() {
                query["any"] = any.into();
            }
            if let Some(order) = order {
                query["order"] = order.into();
            }
            if let Some(distinct) = distinct {
                query["distinct"] = distinct.into();
            }
            if let (Some(select), None) = (select, distinct) {
                let mut select: Vec<&str> = select;
                select.push("id");
                query["select"] = select.into();
            }
            query
        },
    )
}

fn filter() -> impl Strategy<Value = Json> {
    let text = "[ab]{0,3}";
    let word = || prop::sample::select(vec!["x", "y", "z"]);
    let test = prop_oneof![
        word().prop_map(|a| ("a", json!(a))),
        prop::collection::vec(word(), 0..3).prop_map(|a| ("a", json!({"in": a}))),
        (-2..3_i64).prop_map(|b| ("b", json!(b))),
        prop::collection::vec(-2..3_i64, 1..3).prop_map(|b| ("b", json!({"in": b}))),
        (-2..3_i64).prop_map(|b| ("b", json!({"gt": b}))),
        (-2..3_i64, -2..3_i64).prop_map(|(from, to)| ("b", json!({"gte": from, "lt": to}))),
        text.prop_map(|c| ("c", json!(c))),
        text.prop_map(|c| ("c", json!({"prefix": c}))),
        text.prop_map(|c| ("c", json!({"lte": c}))),
        ("[ab]{0,1}", text).prop_map(|(prefix, c)| ("c", json!({"prefix": prefix, "gt": c}))),
        (0..3_i64).prop_map(|d| ("d", json!(d))),
        (0..3_i64).prop_map(|d| ("d", json!({"gte": d}))),
        "[mM(]{3}".prop_map(|n| ("n", json!(n))),
        "[pq]{1,2}".prop_map(|tag| ("tags", json!(tag))),
        prop::collection::vec("[pq]{1,2}", 1..3).prop_map(|tags| ("tags", json!({"in": tags}))),
        "[pq]{0,2}".prop_map(|tag| ("tags", json!({"prefix": tag}))),
        (0..30_u64).prop_map(|id| ("id", json!(id))),
    ];
    prop::collection::vec(test, 0..3).prop_map(|tests| {
        let mut filter = json!({});
        for (field, test) in tests {
            filter[field] = test;
        }
        filter
    })
}

fn schema(case: &Case, added: &[String]) -> String {
    let mut text = format!("[collections.docs]\nkey = \"{}\"\n{FIELDS}", KEYS[case.key]);
    text.push_str("[collections.docs.indexes]\n");
    for (number, (components, partial, includes)) in case.indexes.iter().enumerate() {
        let mut parts: Vec<&str> = components.iter().map(|place| COMPONENTS[*place]).collect();
        let arrays = |parts: &[&str]| parts.iter().filter(|part| part.contains("[]")).count();
        while arrays(&parts) > 1 {
            parts.pop();
        }
        parts.extend(["{a}", "{b}", "{id}"].into_iter().filter(|part| {
            let name = part.trim_matches(['{', '}']);
            KEYS[case.key].contains(&format!("{{{name}"))
        }));
        let when = if *partial { ", when = { a = [\"x\", \"y\"] }" } else { "" };
        let include = if *includes { ", include = [\"n\", \"c\"]" } else { "" };
        let key = parts.join(":");
        text.push_str(&format!("i{number} = {{ key = \"i{number}:{key}\"{when}{include} }}\n"));
    }
    for (number, template) in added.iter().enumerate() {
        text.push_str(&format!("added{number} = \"{template}\"\n"));
    }
    text
}

/// Whether one value passes all tests of a field.
fn passes(value: &Json, tests: &Json, field: &str) -> bool {
    let folded = |value: &Json| match value {
        Json::String(text) if field == "n" => json!(text.to_lowercase()),
        other => other.clone(),
    };
    let value = &folded(value);
    let compared = |limit: &Json| match (value, limit) {
        (Json::String(value), Json::String(limit)) => value.cmp(limit),
        (value, limit) => value.as_i64().cmp(&limit.as_i64()),
    };
    let Json::Object(tests) = tests else { return *value == folded(tests) };
    tests.iter().all(|(name, limit)| match name.as_str() {
        "in" => limit.as_array().unwrap().contains(value),
        "prefix" => value.as_str().unwrap().starts_with(limit.as_str().unwrap()),
        "gt" => compared(limit).is_gt(),
        "gte" => compared(limit).is_ge(),
        "lt" => compared(limit).is_lt(),
        "lte" => compared(limit).is_le(),
        other => panic!("{other}"),
    })
}

/// Whether a document passes filters together: of an array, one element passes all tests.
fn matches(document: &Json, filters: &[&Json]) -> bool {
    let fields: BTreeSet<&String> =
        filters.iter().flat_map(|filter| filter.as_object().unwrap().keys()).collect();
    fields.into_iter().all(|field| {
        let passes_all = |value: &Json| {
            let tests = filters.iter().filter_map(|filter| filter.get(field));
            tests.into_iter().all(|tests| passes(value, tests, field))
        };
        match document.get(field) {
            None => false,
            Some(Json::Array(elements)) => elements.iter().any(passes_all),
            Some(value) => passes_all(value),
        }
    })
}

fn expected(case: &Case) -> Vec<Json> {
    let filter = &case.query["where"];
    let holds = |document: &&Json| match case.query.get("any") {
        None => matches(document, &[filter]),
        Some(any) => {
            any.as_array().unwrap().iter().any(|other| matches(document, &[filter, other]))
        }
    };
    case.documents.iter().filter(holds).cloned().collect()
}

/// All pages of the query, with suggested indexes added until it is served; `None` if no key could
/// serve it.
fn served(database: &Database, case: &Case) -> Option<Vec<Page>> {
    let mut added = Vec::new();
    let mut query = case.query.clone();
    let mut pages: Vec<Page> = Vec::new();
    loop {
        match database.try_query("docs", &query) {
            Ok(page) => {
                let next = page.next().clone();
                pages.push(page);
                match next {
                    None => return Some(pages),
                    Some(next) => query["after"] = next.into(),
                }
                assert!(pages.len() < 200, "{query} does not end");
            }
            Err(Error::NoIndex(refused)) => {
                assert!(added.len() < 5, "{added:?} do not serve {query}: {refused:?}");
                let suggested = refused.suggest.clone().unwrap();
                assert!(!added.contains(&suggested), "{refused:?} does not serve {query}");
                added.push(suggested);
                database.apply(&schema(case, &added));
            }
            Err(Error::LimitExceeded { .. }) => return None,
            Err(Error::Invalid { detail }) => {
                let unservable = [
                    "keys have one range",
                    "keys hold one array",
                    "keys are in one order only",
                    "groups come in the order",
                    "no key could serve",
                    "keys hold one element",
                ];
                assert!(unservable.iter().any(|text| detail.contains(text)), "{query}: {detail}");
                return None;
            }
            Err(other) => panic!("{query}: {other}"),
        }
    }
}

fn check_order(query: &Json, documents: &[&Json]) {
    let Some(order) = query["order"].as_str() else { return };
    let (field, descending) = match order.strip_prefix('-') {
        Some(field) => (field, true),
        None => (order, false),
    };
    let in_order = |one: &&Json, other: &&Json| {
        let (one, other) = if descending { (other, one) } else { (one, other) };
        match (&one[field], &other[field]) {
            (Json::String(one), Json::String(other)) => one <= other,
            (one, other) => one.as_i64() <= other.as_i64(),
        }
    };
    assert!(documents.is_sorted_by(in_order), "{query}: {documents:?}");
}

/// Values are what the JSON of their row says; what is no single value is none.
fn check_values(rows: &Selection) {
    for row in rows.iter() {
        let data: Json = serde_json::from_slice(&row.data()).unwrap();
        for (place, name) in rows.fields().enumerate() {
            let value = row.value(place).map(|value| match value.into_owned() {
                Value::Text(text) => json!(text),
                Value::Int(number) => json!(number),
                Value::Unsigned(number) => json!(number),
                other => panic!("no field is of the kind of {other:?}"),
            });
            let expected = data.get(name).filter(|json| !json.is_array());
            assert_eq!(value.as_ref(), expected, "{name} of {data}");
        }
        assert_eq!(row.value(rows.fields().len()), None);
    }
}

fn check(case: &Case) -> bool {
    let database = Database::open(&schema(case, &[]));
    for document in &case.documents {
        database.put("docs", document);
    }
    let expected = expected(case);
    let Some(pages) = served(&database, case) else { return false };
    let by_id = |id: &Json| case.documents.iter().find(|document| document["id"] == *id).unwrap();
    let items = pages.iter().flat_map(|page| page.items.iter());
    let found: Vec<&Json> = items.clone().map(|item| by_id(&value_of(item, "id"))).collect();
    for (item, document) in items.zip(&found) {
        if let Some(select) = case.query["select"].as_array() {
            for field in select.iter().map(|field| field.as_str().unwrap()) {
                assert_eq!(value_of(item, field), document[field], "{}", pages[0].plan);
            }
        }
        let stored = database.get("docs", &item.key());
        assert_eq!(stored.as_ref(), Some(*document), "{}", pages[0].plan);
    }
    for rows in pages.iter().filter_map(|page| match &page.items {
        Items::Documents(_) => None,
        Items::Selected(rows) => Some(rows),
    }) {
        check_values(rows);
    }
    check_order(&case.query, &found);
    let plain =
        !pages[0].plan.path().starts_with("any(") && !case.query.to_string().contains("tags");
    for page in pages.iter().filter(|page| plain && page.plan.probe().is_none()) {
        let results = u64::try_from(page.items.len()).unwrap();
        let groups =
            if case.query.get("distinct").is_some() { page.plan.ranges().len() } else { 1 };
        let bound = results * u64::try_from(groups).unwrap() + page.cost.ranges;
        assert!(page.cost.keys_read <= bound, "{:?} for {results}: {}", page.cost, page.plan);
    }
    let counted = database.count("docs", &case.query).count;
    match case.query["distinct"].as_str() {
        None => {
            let ids = |documents: &[&Json]| -> Vec<u64> {
                let mut ids: Vec<u64> =
                    documents.iter().map(|document| document["id"].as_u64().unwrap()).collect();
                ids.sort_unstable();
                ids
            };
            let expected: Vec<&Json> = expected.iter().collect();
            assert_eq!(ids(&found), ids(&expected), "{}: {}", case.query, pages[0].plan);
            assert_eq!(counted, u64::try_from(expected.len()).unwrap());
        }
        Some(group) => {
            let groups = |documents: &[&Json]| -> BTreeSet<String> {
                documents.iter().map(|document| document[group].to_string()).collect()
            };
            let expected: Vec<&Json> = expected.iter().collect();
            assert_eq!(groups(&found), groups(&expected), "{}: {}", case.query, pages[0].plan);
            assert_eq!(found.len(), groups(&found).len(), "{}: {}", case.query, pages[0].plan);
            assert!(found.iter().all(|document| expected.contains(document)));
            assert_eq!(counted, u64::try_from(found.len()).unwrap());
        }
    }
    let existence = database.exists("docs", &case.query);
    assert_eq!(existence.exists, !expected.is_empty(), "{}", existence.plan);
    check_scan(&database, case, &expected);
    true
}

/// With a budget, a query is answered from whatever there is.
fn check_scan(database: &Database, case: &Case, expected: &[Json]) {
    let mut query = case.query.clone();
    let members = query.as_object_mut().unwrap();
    members.remove("distinct");
    members.remove("order");
    members.remove("select");
    query["scan"] = 20.into();
    query["where"]["c"] = json!({"prefix": "a", "gte": "aa"});
    if let Err(Error::Invalid { detail }) = database.try_query("docs", &query) {
        assert!(detail.contains("side by side"), "{query}: {detail}");
        query["scan"] = 200.into();
    }
    let filter = &query["where"];
    let wanted = match query.get("any") {
        None => case.documents.iter().filter(|document| matches(document, &[filter])).count(),
        Some(any) => {
            let any = any.as_array().unwrap();
            let holds =
                |document: &&Json| any.iter().any(|other| matches(document, &[filter, other]));
            case.documents.iter().filter(holds).count()
        }
    };
    assert!(wanted <= case.documents.len().max(expected.len()));
    assert_eq!(database.values("docs", &query, "id").len(), wanted, "{query}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default()
    })]

    #[test]
    fn every_query_is_a_filter_and_a_sort(case in case()) {
        check(&case);
    }

    #[test]
    fn a_query_that_follows_an_index_is_a_filter_and_a_sort(case in aligned()) {
        check(&case);
    }

    #[test]
    fn a_changed_cursor_is_refused(place: usize, flip in 1_u8..=127) {
        let database = three_pages();
        let query = json!({"order": "-b", "limit": 3});
        let next = database.query("docs", &query).next().unwrap();
        let mut changed = next.clone().into_bytes();
        let place = place % changed.len();
        changed[place] ^= flip;
        if let Ok(changed) = String::from_utf8(changed) {
            let mut query = query;
            query["after"] = changed.into();
            let error = database.try_query("docs", &query).unwrap_err();
            prop_assert_eq!(error.code(), "invalid_argument");
        }
    }
}

fn three_pages() -> Database {
    let case = Case {
        key: 0,
        indexes: vec![(vec![2], false, false)],
        documents: vec![],
        query: json!({}),
    };
    let database = Database::open(&schema(&case, &[]));
    for id in 0..9 {
        database.put("docs", &json!({"id": id, "a": "x", "b": id / 2, "c": "", "n": "abc"}));
    }
    database
}

#[test]
fn a_cursor_of_another_query_is_refused_and_one_of_another_limit_is_not() {
    let database = three_pages();
    let next = database.query("docs", &json!({"order": "-b", "limit": 3})).next().unwrap();
    for other in [
        json!({"order": "b", "limit": 3, "after": next}),
        json!({"limit": 3, "after": next}),
        json!({"where": {"b": {"gt": 0}}, "order": "-b", "limit": 3, "after": next}),
    ] {
        let error = database.error("docs", &other);
        assert!(error.contains("another query"), "{error}");
    }
    let page = database.query("docs", &json!({"order": "-b", "limit": 100, "after": next}));
    assert_eq!(page.items.len(), 6);
}

#[test]
fn j24_a_cursor_survives_that_its_document_is_deleted_or_moves() {
    let database = three_pages();
    let query = json!({"order": "b", "limit": 3});
    let page = database.query("docs", &query);
    assert_eq!(value_of(page.items.get(2).unwrap(), "id"), 2);
    database.delete("docs", "k:2");
    database.patch("docs", "k:1", &json!({"b": 100}));
    let rest = json!({"order": "b", "after": page.next()});
    let found: Vec<Json> = database.values("docs", &rest, "id");
    assert_eq!(found, [3, 4, 5, 6, 7, 8, 1]);
}
