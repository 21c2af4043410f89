//! From what the engine is asked to the bodies and addresses of REST.

use keyloom_api as api;
use keyloom_engine as engine;
use keyloom_engine::{Action, List, Operation, Precondition, Query, Sort, Test};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json, json};

use crate::problem::Failure;

/// What stays as it is in a segment of an address.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A segment of an address.
pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, UNESCAPED).to_string()
}

/// Values as segments of an address.
pub(crate) fn segments(values: &[Json]) -> String {
    let text = |value: &Json| match value {
        Json::String(text) => escape(text),
        other => escape(&other.to_string()),
    };
    values.iter().map(text).collect::<Vec<_>>().join("/")
}

/// The parameters of an address that have a value.
pub(crate) fn parameters(parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    let pairs: Vec<String> =
        given.map(|(name, value)| format!("{name}={}", escape(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// The body of a query, which asks for its plan.
pub(crate) fn query(query: &Query) -> Result<Json, Failure> {
    let Query { filter, any, order, limit, after, distinct, select, scan } = query;
    let any: Result<Vec<Json>, Failure> = any.iter().map(tests).collect();
    let order = order.as_ref().map(|order| match order.direction {
        Sort::Ascending => order.field.clone(),
        Sort::Descending => format!("-{}", order.field),
    });
    let mut body = Map::new();
    body.insert("where".to_owned(), tests(filter)?);
    body.insert("any".to_owned(), any?.into());
    let members = [
        ("order", json!(order)),
        ("limit", json!(limit)),
        ("after", json!(after)),
        ("distinct", json!(distinct)),
        ("select", json!(select)),
        ("scan", json!(scan)),
    ];
    let given = members.into_iter().filter(|(_, value)| !value.is_null());
    body.extend(given.map(|(name, value)| (name.to_owned(), value)));
    body.insert("explain".to_owned(), true.into());
    Ok(body.into())
}

/// The body of a list, which asks for its plan.
pub(crate) fn list(list: &List, count: bool) -> api::ListBody {
    let List { key, description, created_at, updated_at, owner, order, start_after, limit, scan } =
        list.clone();
    api::ListBody {
        matcher: api::Matcher {
            key,
            description,
            created_at: created_at.map(time),
            updated_at: updated_at.map(time),
        },
        paginate: api::Paginate { start_after, limit },
        order: order.map(list_order),
        owner,
        count,
        scan,
        explain: true,
    }
}

/// The body of a batch.
pub(crate) fn batch(
    owner: Option<&str>,
    operations: &[Operation],
) -> Result<api::BatchBody, Failure> {
    let operations: Result<_, Failure> = operations.iter().map(operation).collect();
    Ok(api::BatchBody { operations: operations?, owner: owner.map(str::to_owned) })
}

/// JSON that is sent as it is.
pub(crate) fn raw(data: &[u8]) -> Result<Box<RawValue>, Failure> {
    serde_json::from_slice(data)
        .map_err(|error| Failure::Invalid(format!("the data is not JSON: {error}")))
}

fn operation(operation: &Operation) -> Result<api::BatchOperation, Failure> {
    let Operation { collection, action } = operation;
    let blank = |op| api::BatchOperation {
        op,
        collection: collection.clone(),
        key: None,
        data: None,
        description: None,
        if_version: None,
    };
    Ok(match action {
        Action::Create { key, data, description } => api::BatchOperation {
            key: key.clone(),
            data: Some(raw(data)?),
            description: description.clone(),
            ..blank(api::BatchOp::Create)
        },
        Action::Put { key, precondition, data, description } => api::BatchOperation {
            key: Some(key.clone()),
            data: Some(raw(data)?),
            description: description.clone(),
            if_version: if_version(*precondition),
            ..blank(api::BatchOp::Put)
        },
        Action::Patch { key, precondition, patch } => api::BatchOperation {
            key: Some(key.clone()),
            data: Some(raw(patch)?),
            if_version: if_version(*precondition),
            ..blank(api::BatchOp::Patch)
        },
        Action::Delete { key, precondition } => api::BatchOperation {
            key: Some(key.clone()),
            if_version: if_version(*precondition),
            ..blank(api::BatchOp::Delete)
        },
    })
}

/// `Absent` is no version: a command that means a new document creates one.
fn if_version(precondition: Precondition) -> Option<api::IfVersion> {
    match precondition {
        Precondition::Unsaid | Precondition::Absent => None,
        Precondition::Version(version) => Some(api::IfVersion::Version(version)),
        Precondition::Any => Some(api::IfVersion::Any(api::Star::Star)),
    }
}

/// Conditions on fields. Equalities of one field are one list, which can stand beside others.
fn tests(filter: &engine::Filter) -> Result<Json, Failure> {
    let mut body = Map::new();
    for (field, tests) in filter {
        let mut operators = Map::new();
        for test in tests {
            let (name, value) = spelled(test);
            let value = match (operators.remove(name), value) {
                (None, value) => value,
                (Some(Json::Array(known)), Json::Array(more)) => {
                    known.into_iter().filter(|value| more.contains(value)).collect()
                }
                (Some(_), _) => {
                    let detail = format!("`{field}`: {name} stands twice: keep one of them");
                    return Err(Failure::Invalid(detail));
                }
            };
            operators.insert(name.to_owned(), value);
        }
        body.insert(field.clone(), operators.into());
    }
    Ok(body.into())
}

fn spelled(test: &Test) -> (&'static str, Json) {
    match test {
        Test::Equal(value) => ("in", vec![value.clone()].into()),
        Test::In(values) => ("in", values.clone().into()),
        Test::Prefix(prefix) => ("prefix", prefix.clone().into()),
        Test::Greater(value) => ("gt", value.clone()),
        Test::GreaterOrEqual(value) => ("gte", value.clone()),
        Test::Less(value) => ("lt", value.clone()),
        Test::LessOrEqual(value) => ("lte", value.clone()),
    }
}

fn time(time: engine::TimeMatcher) -> api::TimeMatcher {
    match time {
        engine::TimeMatcher::Equal(timestamp) => api::TimeMatcher::Equal { timestamp },
        engine::TimeMatcher::After(timestamp) => api::TimeMatcher::GreaterThan { timestamp },
        engine::TimeMatcher::Before(timestamp) => api::TimeMatcher::LessThan { timestamp },
        engine::TimeMatcher::Between(start, end) => {
            api::TimeMatcher::Between { timestamps: api::Timestamps { start, end } }
        }
    }
}

fn list_order(order: engine::ListOrder) -> api::ListOrder {
    let engine::ListOrder { field, direction } = order;
    let field = match field {
        engine::ListField::Keys => api::ListField::Keys,
        engine::ListField::CreatedAt => api::ListField::CreatedAt,
        engine::ListField::UpdatedAt => api::ListField::UpdatedAt,
    };
    api::ListOrder { desc: direction == Sort::Descending, field }
}

#[cfg(test)]
mod tests {
    use keyloom_server::asked;

    use super::*;

    #[test]
    fn a_query_means_the_same_on_both_sides_of_the_wire() {
        let filter = engine::Filter::from([
            ("a".to_owned(), vec![Test::In(vec!["x".into(), "y".into()])]),
            ("b".to_owned(), vec![Test::GreaterOrEqual(5.into()), Test::Less(9.into())]),
            ("c".to_owned(), vec![Test::Prefix("he".to_owned())]),
        ]);
        let order = Some(engine::OrderBy { field: "b".to_owned(), direction: Sort::Descending });
        let asked = Query {
            any: vec![filter.clone()],
            filter,
            order,
            limit: Some(3),
            after: Some("c".to_owned()),
            distinct: Some("a".to_owned()),
            select: Some(vec!["a".to_owned()]),
            scan: Some(9),
        };
        let body = query(&asked).unwrap().to_string();
        let body = api::QueryBody::from_json(body.as_bytes()).unwrap();
        assert_eq!(asked::query(body), (asked, true));
    }

    #[test]
    fn equalities_of_one_field_are_what_they_have_in_common() {
        let both = |one: &str, other: &str| {
            let two = vec![Test::Equal(one.into()), Test::Equal(other.into())];
            tests(&engine::Filter::from([("a".to_owned(), two)])).unwrap().to_string()
        };
        assert_eq!(both("x", "x"), r#"{"a":{"in":["x"]}}"#);
        assert_eq!(both("x", "y"), r#"{"a":{"in":[]}}"#);
        let twice = vec![Test::Less(1.into()), Test::Less(2.into())];
        assert!(tests(&engine::Filter::from([("a".to_owned(), twice)])).is_err());
    }

    #[test]
    fn a_list_means_the_same_on_both_sides_of_the_wire() {
        let asked = List {
            key: Some("^a".to_owned()),
            created_at: Some(engine::TimeMatcher::Between(1, 2)),
            updated_at: Some(engine::TimeMatcher::After(3)),
            order: Some(engine::ListOrder {
                field: engine::ListField::CreatedAt,
                direction: Sort::Descending,
            }),
            ..List::default()
        };
        assert_eq!(asked::list(list(&asked, false)), asked);
    }

    #[test]
    fn addresses_are_escaped_once() {
        assert_eq!(segments(&["a#b/c".into(), 7.into()]), "a%23b%2Fc/7");
        let given = [("a", Some("x y")), ("b", None), ("c", Some("&"))];
        assert_eq!(parameters(&given), "?a=x%20y&c=%26");
        assert_eq!(parameters(&[("a", None)]), "");
    }
}
