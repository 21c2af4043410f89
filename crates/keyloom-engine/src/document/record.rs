//! The typed values of a document's fields: what rules look at and keys are made of.

use std::borrow::Cow;

use keyloom_key::{Kind, Value};
use serde_json::value::RawValue;

use super::head::HeadRecord;
use super::members::{Member, Members};
use crate::catalog::{Collection, Condition, Field, FieldKind, Source};
use crate::error::Error;
use crate::limits::ARRAY_ELEMENTS_MAX;

/// The values of a document, in the order of its collection's fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    values: Vec<Option<FieldValue>>,
}

/// The value of one field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldValue {
    Scalar(Value),
    Array(Vec<Value>),
    /// A number or any other JSON, which no key can hold.
    Other(String),
}

/// What is wrong with a member.
enum Wrong {
    /// No field has its name.
    Unknown,
    /// Its value is not of the field's type; says why.
    Type(String),
}

/// What the engine knows of a document beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts<'a> {
    pub(crate) created_at: u64,
    pub(crate) updated_at: u64,
    pub(crate) owner: Option<&'a str>,
}

impl<'a> From<HeadRecord<'a>> for Facts<'a> {
    fn from(head: HeadRecord<'a>) -> Facts<'a> {
        Facts { created_at: head.created_at(), updated_at: head.updated_at(), owner: head.owner }
    }
}

impl Record {
    /// Reads the members of a new document: unknown members and wrong types are violations.
    pub(crate) fn read(collection: &Collection, members: &Members<'_>) -> Result<Record, Error> {
        let broken = |field: &str, rule, detail: String| Error::RuleViolation {
            collection: collection.name.clone(),
            field: field.to_owned(),
            rule,
            detail,
        };
        Record::read_members(members, |name, wrong| match wrong {
            Wrong::Unknown => {
                Some(broken(name, "unknown", "the schema has no such field".to_owned()))
            }
            Wrong::Type(detail) => Some(broken(name, "type", detail)),
        })
    }

    /// Reads the data of a stored document, which has passed the rules before.
    pub(crate) fn stored(collection: &Collection, data: &[u8]) -> Result<Record, Error> {
        let damaged = |detail: String| {
            Error::corrupt(format!("a document of `{}`: {detail}", collection.name))
        };
        let members = Members::parse_for(&collection.fields, data)
            .map_err(|error| damaged(error.to_string()))?;
        Record::read_members(&members, |name, wrong| match wrong {
            // The schema may have lost a field that older documents still have.
            Wrong::Unknown => None,
            Wrong::Type(detail) => Some(damaged(format!("`{name}`: {detail}"))),
        })
    }

    /// `judge` makes an error of what is wrong with a member, or lets it pass.
    fn read_members(
        members: &Members<'_>,
        judge: impl Fn(&str, Wrong) -> Option<Error>,
    ) -> Result<Record, Error> {
        let fields = members.fields();
        let mut values: Vec<Option<FieldValue>> = Vec::new();
        values.resize_with(fields.len(), || None);
        for Member { name, raw, field } in members.iter() {
            let slot = field.and_then(|place| fields.get(place).zip(values.get_mut(place)));
            let wrong = match slot {
                None => Wrong::Unknown,
                Some(_) if *raw == "null" => continue,
                Some((field, value)) => match read_value(field, raw) {
                    Ok(read) => {
                        *value = Some(read);
                        continue;
                    }
                    Err(detail) => Wrong::Type(detail),
                },
            };
            if let Some(error) = judge(name, wrong) {
                return Err(error);
            }
        }
        Ok(Record { values })
    }

    /// The value of a field.
    pub(crate) fn get(&self, field: usize) -> Option<&FieldValue> {
        self.values.get(field).and_then(Option::as_ref)
    }

    /// The value of a field that is no array.
    pub(crate) fn scalar(&self, field: usize) -> Option<&Value> {
        match self.get(field)? {
            FieldValue::Scalar(value) => Some(value),
            FieldValue::Array(_) | FieldValue::Other(_) => None,
        }
    }

    /// The value of what fills a component, if it is one value.
    pub(crate) fn source(&self, source: Source, facts: &Facts<'_>) -> Option<Cow<'_, Value>> {
        let millis = |time: u64| Value::Int(i64::try_from(time).unwrap_or(i64::MAX));
        match source {
            Source::Field(field) => self.scalar(field).map(Cow::Borrowed),
            Source::CreatedAt => Some(Cow::Owned(millis(facts.created_at))),
            Source::UpdatedAt => Some(Cow::Owned(millis(facts.updated_at))),
            Source::Owner => facts.owner.map(|owner| Cow::Owned(Value::Text(owner.to_owned()))),
        }
    }

    /// Whether all fields of a condition have one of its values.
    pub(crate) fn satisfies(&self, condition: &Condition) -> bool {
        condition
            .iter()
            .all(|(field, values)| self.scalar(*field).is_some_and(|value| values.contains(value)))
    }
}

/// The text of a JSON string; `None` if the raw value is no string.
pub(crate) fn raw_text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    // Looking at all bytes without a branch is faster than stopping at the first: most are short.
    let is_escaped = inner.bytes().fold(false, |found, byte| found | (byte == b'\\'));
    if is_escaped {
        return serde_json::from_str(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The value of a kind as a document has it, where a key may fold it; `None` if it is not of it.
pub(crate) fn single_value(kind: &Kind, raw: &str) -> Option<Value> {
    match kind {
        Kind::Name => raw_text(raw).map(|text| Value::Text(text.into_owned())),
        kind => read_scalar(kind, raw).ok(),
    }
}

/// The elements of a JSON array as they were written.
pub(crate) fn raw_elements(raw: &str) -> Result<Vec<&RawValue>, String> {
    let elements: Vec<&RawValue> =
        serde_json::from_str(raw).map_err(|_| format!("{} is not an array", cut(raw)))?;
    if elements.len() > ARRAY_ELEMENTS_MAX {
        return Err(format!("{} elements, at most {ARRAY_ELEMENTS_MAX} allowed", elements.len()));
    }
    Ok(elements)
}

fn read_value(field: &Field, raw: &str) -> Result<FieldValue, String> {
    let other = || FieldValue::Other(raw.to_owned());
    match (&field.kind, field.array) {
        (FieldKind::Key(kind), false) => read_scalar(kind, raw).map(FieldValue::Scalar),
        (FieldKind::Key(kind), true) => {
            let values = raw_elements(raw)?.into_iter().map(|raw| read_scalar(kind, raw.get()));
            values.collect::<Result<_, _>>().map(FieldValue::Array)
        }
        (FieldKind::Number, false) => check_number(raw).map(|()| other()),
        (FieldKind::Number, true) => {
            raw_elements(raw)?.into_iter().try_for_each(|raw| check_number(raw.get()))?;
            Ok(other())
        }
        (FieldKind::Json, _) => Ok(other()),
    }
}

fn check_number(raw: &str) -> Result<(), String> {
    // It is JSON already, and nothing else in JSON begins so.
    let is_number = raw.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    if is_number { Ok(()) } else { Err(format!("{} is not a number", cut(raw))) }
}

fn read_scalar(kind: &Kind, raw: &str) -> Result<Value, String> {
    match kind {
        Kind::Millis | Kind::I64 => raw
            .parse()
            .map(Value::Int)
            .map_err(|_| format!("{} is not a whole number of 64 bits", cut(raw))),
        Kind::U64 => raw
            .parse()
            .map(Value::Unsigned)
            .map_err(|_| format!("{} is not a whole number from 0 to 2^64 - 1", cut(raw))),
        Kind::Bool => match raw {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(format!("{} is not true or false", cut(raw))),
        },
        Kind::Ulid | Kind::Uuid | Kind::Name | Kind::Id | Kind::Text | Kind::Enum(_) => {
            let text = raw_text(raw).ok_or_else(|| format!("{} is not text", cut(raw)))?;
            kind.parse_text(&text).map_err(|error| error.to_string())
        }
    }
}

/// A raw value for an error message, never long.
fn cut(raw: &str) -> String {
    match raw.char_indices().nth(40) {
        None => raw.to_owned(),
        Some((end, _)) => format!("{}…", raw.get(..end).unwrap_or("")),
    }
}
