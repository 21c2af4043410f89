//! The rules of one field, as people write them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The rules of one field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as in { type = \"text\" }")]
pub struct FieldSchema {
    /// `ulid uuid name id text millis u64 i64 bool enum number json`; with `[]` behind it, an array
    /// of such values.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the field is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Whether a document must have it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// Bounds on the number of characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    /// Bounds on the number of elements of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<Length>,
    /// The values that are allowed: the words of an enum, or a few numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Json>>,
    /// A regular expression that the whole text must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The value of a new document that does not have the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
    /// `ulid`, `now` or `code A-{6}`: made by the engine for a new document that does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<String>,
    /// Whether it never changes after create.
    #[serde(default, skip_serializing_if = "is_false")]
    pub frozen: bool,
    /// From each value, the values that may follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transitions: Option<Transitions>,
    /// For each value, the field whose subject alone may set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<BTreeMap<String, String>>,
    /// Another field whose value it must not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs_from: Option<String>,
    /// `collection.claim`: a unique claim that must exist, checked in the same commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refers_to: Option<String>,
}

/// From each value, the values that may follow.
pub type Transitions = BTreeMap<String, Vec<String>>;

/// Bounds, both inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, as in { max = 100 }")]
pub struct Length {
    /// The least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<usize>,
    /// The most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
}

/// One word or several, each as good as the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WordsForm")]
pub struct Words(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a value or a list of values")]
enum WordsForm {
    One(WordForm),
    Several(Vec<WordForm>),
}

/// A word as text, or what TOML has a form of its own for.
#[derive(Deserialize)]
#[serde(untagged)]
enum WordForm {
    Text(String),
    Truth(bool),
    Number(i64),
}

impl From<WordsForm> for Words {
    fn from(form: WordsForm) -> Words {
        match form {
            WordsForm::One(word) => Words(vec![word.text()]),
            WordsForm::Several(words) => Words(words.into_iter().map(WordForm::text).collect()),
        }
    }
}

impl WordForm {
    fn text(self) -> String {
        match self {
            WordForm::Text(text) => text,
            WordForm::Truth(truth) => truth.to_string(),
            WordForm::Number(number) => number.to_string(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands the field by reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
