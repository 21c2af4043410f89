//! The body of a query.
//!
//! B1: A member that is not known is an error: a misspelled condition never widens a query.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value as Json};
use utoipa::ToSchema;

use crate::condition::{Tests, read_tests};
use crate::unique::Unique;

/// What is asked of a collection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryBody {
    /// What every result satisfies.
    #[serde(default, rename = "where", deserialize_with = "tests")]
    #[schema(value_type = Object)]
    pub filter: Tests,
    /// If not empty, every result satisfies at least one of these, too.
    #[serde(default, deserialize_with = "alternatives")]
    #[schema(value_type = Vec<Object>)]
    pub any: Vec<Tests>,
    /// The order of the results: a field, with `-` before it for descending.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub order: Option<Order>,
    /// The most results of the page.
    #[serde(default)]
    pub limit: Option<usize>,
    /// The `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
    /// Only the first document of each group of documents that agree in this field.
    #[serde(default)]
    pub distinct: Option<String>,
    /// Only these fields of each document.
    #[serde(default)]
    pub select: Option<Vec<String>>,
    /// Allows a scan that reads at most so many keys.
    #[serde(default)]
    pub scan: Option<usize>,
    /// Whether the plan is wanted with the answer.
    #[serde(default)]
    pub explain: bool,
}

/// An order of results.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Order {
    /// The field to order by.
    pub field: String,
    /// Whether the largest comes first.
    pub descending: bool,
}

/// Why something is not a query.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{detail}")]
pub struct QueryError {
    /// What is wrong, and where.
    pub detail: String,
}

impl QueryBody {
    /// Reads the body of a query.
    pub fn from_json(text: &[u8]) -> Result<QueryBody, QueryError> {
        serde_json::from_slice(text).map_err(|error| QueryError { detail: error.to_string() })
    }
}

impl Order {
    /// Reads `created_at` or `-created_at`.
    pub fn parse(text: &str) -> Result<Order, QueryError> {
        let (field, descending) = match text.strip_prefix('-') {
            Some(field) => (field, true),
            None => (text, false),
        };
        if field.is_empty() {
            let detail = "an order is a field, with `-` before it for descending".to_owned();
            return Err(QueryError { detail });
        }
        Ok(Order { field: field.to_owned(), descending })
    }
}

impl TryFrom<String> for Order {
    type Error = QueryError;

    fn try_from(text: String) -> Result<Order, QueryError> {
        Order::parse(&text)
    }
}

fn tests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tests, D::Error> {
    let Unique(tests) = Unique::deserialize(deserializer)?;
    object(tests).and_then(|tests| read_tests(tests).map_err(D::Error::custom))
}

fn alternatives<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Tests>, D::Error> {
    let alternatives = Vec::<Unique>::deserialize(deserializer)?.into_iter();
    let read =
        |Unique(tests)| object(tests).and_then(|it| read_tests(it).map_err(D::Error::custom));
    alternatives.map(read).collect()
}

fn object<E: Error>(tests: Json) -> Result<Map<String, Json>, E> {
    match tests {
        Json::Object(tests) => Ok(tests),
        _ => Err(E::custom("conditions are an object: {\"field\": value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Condition, Operator};

    fn refusal(text: &str) -> String {
        QueryBody::from_json(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_example_is_read() {
        let text = br#"{"where": {"tag_key": "T", "value": {"prefix": "he"},
                        "status": {"in": ["pending"]}}, "any": [{"a": 1}, {"b": 2}],
                        "order": "-created_at", "limit": 20, "after": "c", "distinct": "file",
                        "select": ["id"], "scan": 1000, "explain": true}"#;
        let body = QueryBody::from_json(text).unwrap();
        let prefix = Condition { operator: Operator::Prefix, value: "he".into() };
        assert_eq!(body.filter["value"], [prefix]);
        assert_eq!(body.any.len(), 2);
        assert_eq!(body.order.unwrap(), Order { field: "created_at".into(), descending: true });
        assert_eq!((body.limit, body.scan, body.explain), (Some(20), Some(1000), true));
        assert_eq!(body.select.unwrap(), ["id"]);
    }

    #[test]
    fn an_empty_body_asks_for_everything() {
        assert_eq!(QueryBody::from_json(b"{}").unwrap(), QueryBody::default());
    }

    #[test]
    fn an_unknown_member_is_an_error_that_names_it() {
        let error = refusal(r#"{"were": {}}"#);
        assert!(error.contains("unknown field `were`") && error.contains("`where`"), "{error}");
    }

    #[test]
    fn malformed_and_deeply_nested_bodies_are_errors() {
        assert!(refusal("{").contains("line 1 column 1"), "{}", refusal("{"));
        let deep = format!(r#"{{"where": {{"a": {}"#, "[".repeat(100_000));
        assert!(refusal(&deep).contains("recursion limit"), "{}", refusal(&deep));
    }

    #[test]
    fn a_wrong_condition_is_named_with_its_field() {
        let error = refusal(r#"{"any": [{"value": {"begins": "x"}}]}"#);
        assert!(error.starts_with("`value` has no operator `begins`"), "{error}");
    }

    #[test]
    fn an_order_names_a_field() {
        assert!(refusal(r#"{"order": "-"}"#).starts_with("an order is a field"));
        assert_eq!(Order::parse("a").unwrap(), Order { field: "a".into(), descending: false });
    }
}
