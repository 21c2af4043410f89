//! Answers to queries: what was found, what it has cost, and the plan that was run.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::{Document, Item};

/// A page of results.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// The results, in order.
    pub items: Vec<Item>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
    /// What the page has cost.
    pub cost: Cost,
    /// The plan that was run, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// What an answer has cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cost {
    /// Keys that were read.
    pub keys_read: u64,
    /// Documents that were fetched because a key named them.
    pub documents_read: u64,
    /// Ranges that were opened.
    pub ranges: u64,
}

/// How a query is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// `key`, `index:name`, `unique:name`, or several of them.
    pub path: String,
    /// The ranges that are read, in text spelling.
    pub ranges: Vec<Range>,
    /// From which end they are read.
    pub direction: Direction,
    /// Whether the keys hold all that was asked for, so that no document is read.
    pub covering: bool,
    /// No more keys than these are read for the page.
    pub keys_read_max: u64,
    /// With `distinct` along a range: the path that tells whether a group has come before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// Only if it is a scan: what is filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanNote>,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Range {
    /// The path that it belongs to, if the ranges of the plan belong to several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
}

/// From which end ranges are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The first key first.
    Forward,
    /// The last key first.
    Reverse,
}

/// That a plan is a scan, which the caller has allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScanNote {
    /// How many keys it may read for the page.
    pub budget: u64,
    /// What is looked up in each document because no key serves it.
    pub filtered: Vec<String>,
}

/// How many documents satisfy a query.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Count {
    /// How many.
    pub count: u64,
    /// What counting has cost.
    pub cost: Cost,
    /// The plan that was run, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// Whether any document satisfies a query.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Exists {
    /// Whether there is one.
    pub exists: bool,
    /// What the look has cost.
    pub cost: Cost,
    /// The plan that was run, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// What the list matcher found.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ListPage {
    /// The documents, in order.
    pub items: Vec<Document>,
    /// How many documents the page has.
    pub items_length: u64,
    /// Which page it is, counted from zero; `null` if that is not known without counting.
    pub items_page: Option<u64>,
    /// How many documents match in all; `null` if that is not known without counting.
    pub matches_length: Option<u64>,
    /// How many pages they fill; `null` if that is not known without counting.
    pub matches_pages: Option<u64>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
    /// What the page has cost.
    pub cost: Cost,
    /// The plan that was run, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// A page of stored keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyPage {
    /// The path that they stand under: `key`, `index:name` or `unique:name`.
    pub path: String,
    /// The keys in text spelling, in order.
    pub keys: Vec<String>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
    /// What the page has cost.
    pub cost: Cost,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(scan: Option<ScanNote>) -> Plan {
        Plan {
            path: "index:requester".to_owned(),
            ranges: vec![Range { path: None, from: "a:u1:".to_owned(), to: "a:u1:*".to_owned() }],
            direction: Direction::Reverse,
            covering: false,
            keys_read_max: 21,
            probe: None,
            scan,
        }
    }

    #[test]
    fn a_page_has_the_documented_shape() {
        let cost = Cost { keys_read: 3, documents_read: 2, ranges: 1 };
        let page = Page { items: Vec::new(), next: None, cost, plan: Some(plan(None)) };
        expect_test::expect![[r#"
            {
              "items": [],
              "next": null,
              "cost": {
                "keys_read": 3,
                "documents_read": 2,
                "ranges": 1
              },
              "plan": {
                "path": "index:requester",
                "ranges": [
                  {
                    "from": "a:u1:",
                    "to": "a:u1:*"
                  }
                ],
                "direction": "reverse",
                "covering": false,
                "keys_read_max": 21
              }
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&page).unwrap());
    }

    #[test]
    fn a_plan_mentions_a_scan_only_if_it_is_one() {
        let quiet = serde_json::to_string(&plan(None)).unwrap();
        assert!(!quiet.contains("scan"), "{quiet}");
        let note = ScanNote { budget: 100, filtered: vec!["comment".to_owned()] };
        let said = serde_json::to_string(&plan(Some(note))).unwrap();
        assert!(said.ends_with(r#""scan":{"budget":100,"filtered":["comment"]}}"#), "{said}");
    }

    #[test]
    fn a_page_without_a_plan_does_not_mention_it() {
        let cost = Cost { keys_read: 0, documents_read: 0, ranges: 0 };
        let count = Count { count: 11, cost, plan: None };
        assert_eq!(
            serde_json::to_string(&count).unwrap(),
            r#"{"count":11,"cost":{"keys_read":0,"documents_read":0,"ranges":0}}"#
        );
    }
}
