//! Bodies of requests that write, list or name many documents.
//!
//! R1: A member that is not known is an error: a misspelled one never changes what is written.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A document to create or to replace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentBody {
    /// The data, stored byte for byte.
    #[schema(value_type = Object)]
    pub data: Box<RawValue>,
    /// A free text beside the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The keys of documents to get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeysBody {
    /// Keys in text spelling; one may come several times.
    pub keys: Vec<String>,
}

/// Operations that are executed in one commit, or not at all.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    /// The operations, in order.
    pub operations: Vec<BatchOperation>,
    /// Who owns what is created; only administrators name somebody else than themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// One operation of a batch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchOperation {
    /// What to do.
    pub op: BatchOp,
    /// The collection.
    pub collection: String,
    /// The key of the document; a create computes it from the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The data, or the JSON merge patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub data: Option<Box<RawValue>>,
    /// A free text beside the data, for create and put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version that the change is based on, or `"*"` to change whatever is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_version: Option<IfVersion>,
}

/// What an operation of a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BatchOp {
    /// Creates a document; there must be none with its key.
    Create,
    /// Creates or replaces a document.
    Put,
    /// Changes members of a document.
    Patch,
    /// Deletes a document; no effect if it is absent.
    Delete,
}

/// Which version a change is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum IfVersion {
    /// This one.
    Version(u64),
    /// Whatever is there.
    Any(Star),
}

/// The word `"*"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Star {
    /// Whatever is there.
    #[serde(rename = "*")]
    Star,
}

/// What the list matcher is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListBody {
    /// What documents have to match; all of it.
    pub matcher: Matcher,
    /// Which page.
    pub paginate: Paginate,
    /// In which order; that of the keys that serve the list if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<ListOrder>,
    /// Who created the documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether all matches are counted, which reads a key for each of them.
    pub count: bool,
    /// Allows a scan that reads at most so many keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<usize>,
    /// Whether the plan is wanted with the answer.
    pub explain: bool,
}

/// Expressions and times that a document has to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Matcher {
    /// A regular expression that the key matches somewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A regular expression that the description matches somewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When the document was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<TimeMatcher>,
    /// When the document was changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<TimeMatcher>,
}

/// A condition on a time in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "matcher", rename_all = "camelCase", deny_unknown_fields)]
pub enum TimeMatcher {
    /// At this time.
    Equal {
        /// The time.
        timestamp: u64,
    },
    /// Later.
    GreaterThan {
        /// The time.
        timestamp: u64,
    },
    /// Earlier.
    LessThan {
        /// The time.
        timestamp: u64,
    },
    /// From one time to another, both included.
    Between {
        /// The times.
        timestamps: Timestamps,
    },
}

/// Two times in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Timestamps {
    /// The first that is included.
    pub start: u64,
    /// The last that is included.
    pub end: u64,
}

/// Which page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Paginate {
    /// The key of the last document of the page before, or its `next`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_after: Option<String>,
    /// The most documents of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListOrder {
    /// Whether the largest comes first.
    #[serde(default)]
    pub desc: bool,
    /// What it goes by.
    pub field: ListField,
}

/// What the order of a list goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListField {
    /// The document key.
    Keys,
    /// The time of creation.
    CreatedAt,
    /// The time of the last change.
    UpdatedAt,
}

/// The documents that a set holds afterwards.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetBody {
    /// The data of each document.
    #[schema(value_type = Vec<Object>)]
    pub documents: Vec<Box<RawValue>>,
}

/// Whether a check mends what it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// Put missing keys and delete wrong ones; documents are never touched.
    #[serde(default)]
    pub repair: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<ListBody, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn the_list_matcher_has_the_names_of_the_requirement() {
        let body = list(
            r#"{"matcher": {"key": "^usr_", "createdAt": {"matcher": "between",
                "timestamps": {"start": 4, "end": 8}}},
                "paginate": {"startAfter": "k", "limit": 10},
                "order": {"desc": true, "field": "created_at"}, "owner": "u1"}"#,
        )
        .unwrap();
        let times = Timestamps { start: 4, end: 8 };
        assert_eq!(body.matcher.created_at, Some(TimeMatcher::Between { timestamps: times }));
        assert_eq!(body.paginate.start_after.as_deref(), Some("k"));
        assert_eq!(body.order, Some(ListOrder { desc: true, field: ListField::CreatedAt }));
        assert_eq!(list("{}").unwrap(), ListBody::default());
    }

    #[test]
    fn r1_a_misspelled_member_is_an_error_that_names_it() {
        let error = list(r#"{"matcher": {"created_at": null}}"#).unwrap_err().to_string();
        assert!(error.contains("created_at") && error.contains("createdAt"), "{error}");
        let error = serde_json::from_str::<DocumentBody>(r#"{"data": {}, "if_version": 1}"#);
        assert!(error.unwrap_err().to_string().contains("if_version"));
    }

    #[test]
    fn a_version_is_a_number_or_a_star() {
        let read = |text: &str| serde_json::from_str::<IfVersion>(text);
        assert_eq!(read("7").unwrap(), IfVersion::Version(7));
        assert_eq!(read(r#""*""#).unwrap(), IfVersion::Any(Star::Star));
        assert!(read(r#""7""#).is_err() && read("-1").is_err() && read("7.5").is_err());
    }

    #[test]
    fn data_is_kept_byte_for_byte() {
        let body: DocumentBody =
            serde_json::from_str(r#"{"data": { "n" : 1.00 }, "description": null}"#).unwrap();
        assert_eq!(body.data.get(), r#"{ "n" : 1.00 }"#);
        assert_eq!(body.description, None);
    }
}
