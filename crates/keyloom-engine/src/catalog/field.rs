//! Compiles the rules of one field.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_key::{Kind, Value};
use regex::Regex;
use serde_json::Value as Json;

use super::Source;
use crate::schema::{FieldSchema, Length};

/// A field with its rules, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: FieldKind,
    /// Whether the field holds an array of such values.
    pub(crate) array: bool,
    pub(crate) required: bool,
    pub(crate) length: Option<Length>,
    pub(crate) elements: Option<Length>,
    /// The numbers or texts that are allowed; the words of an enum are part of its kind.
    pub(crate) values: Option<Vec<Value>>,
    pub(crate) pattern: Option<Regex>,
    /// JSON text of the default.
    pub(crate) default: Option<String>,
    pub(crate) generate: Option<Generate>,
    pub(crate) frozen: bool,
    pub(crate) transitions: Option<BTreeMap<String, Vec<String>>>,
    /// For each value, what holds the subject that alone may set it.
    pub(crate) by: BTreeMap<String, Source>,
    pub(crate) differs_from: Option<usize>,
    pub(crate) refers_to: Option<Reference>,
    /// Whether the engine keeps it (sum or count of another collection).
    pub(crate) derived: bool,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldKind {
    /// A value that can stand in a key.
    Key(Kind),
    /// Any JSON number.
    Number,
    /// Any JSON value.
    Json,
}

/// How the engine makes a value for a new document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Generate {
    Ulid,
    /// The time of the commit, in milliseconds.
    Now,
    /// A readable code: fixed text around a number of random characters.
    Code {
        before: String,
        characters: usize,
        after: String,
    },
}

/// A unique claim of another collection that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) collection: String,
    pub(crate) unique: String,
}

impl Field {
    /// Whether every document has it.
    pub(crate) fn is_always_present(&self) -> bool {
        self.required || self.default.is_some() || self.generate.is_some() || self.derived
    }

    /// Compiles what can be known from the field alone; `differs_from` and `by` are
    /// resolved by the caller.
    pub(crate) fn compile(name: &str, schema: &FieldSchema) -> Result<Field, String> {
        check_name(name)?;
        let (kind, array) = compile_kind(schema)?;
        let text_like = matches!(kind, FieldKind::Key(Kind::Text | Kind::Id | Kind::Name));
        if schema.length.is_some() && !text_like {
            return Err("`length` counts characters: it fits text, id and name only".to_owned());
        }
        if schema.pattern.is_some() && !text_like {
            return Err("`pattern` fits text, id and name only".to_owned());
        }
        if schema.elements.is_some() && !array {
            return Err("`elements` fits arrays only".to_owned());
        }
        if schema.transitions.is_some() && (array || !matches!(kind, FieldKind::Key(Kind::Enum(_))))
        {
            return Err("`transitions` fits an enum only".to_owned());
        }
        if schema.by.is_some() && (array || !matches!(kind, FieldKind::Key(Kind::Enum(_)))) {
            return Err("`by` fits an enum only".to_owned());
        }
        for bounds in [schema.length, schema.elements].into_iter().flatten() {
            if bounds.min.unwrap_or(0) > bounds.max.unwrap_or(usize::MAX) {
                return Err("its least is above its most".to_owned());
            }
        }
        let field = Field {
            name: name.to_owned(),
            values: compile_values(&kind, schema)?,
            pattern: schema.pattern.as_deref().map(compile_pattern).transpose()?,
            generate: schema
                .generate
                .as_deref()
                .map(|text| compile_generate(text, &kind))
                .transpose()?,
            default: schema.default.as_ref().map(Json::to_string),
            transitions: compile_transitions(&kind, schema)?,
            refers_to: schema.refers_to.as_deref().map(compile_reference).transpose()?,
            required: schema.required,
            length: schema.length,
            elements: schema.elements,
            frozen: schema.frozen,
            by: BTreeMap::new(),
            differs_from: None,
            derived: false,
            kind,
            array,
        };
        if array && (field.generate.is_some() || field.refers_to.is_some()) {
            return Err("an array is neither generated nor a reference".to_owned());
        }
        Ok(field)
    }
}

/// Reads a JSON scalar as a value of `kind`.
pub(crate) fn scalar(kind: &Kind, json: &Json) -> Result<Value, String> {
    match (kind, json) {
        (Kind::Millis | Kind::I64, Json::Number(number)) => number
            .as_i64()
            .map(Value::Int)
            .ok_or_else(|| format!("{number} is not a whole number of 64 bits with sign")),
        (Kind::U64, Json::Number(number)) => number
            .as_u64()
            .map(Value::Unsigned)
            .ok_or_else(|| format!("{number} is not a whole number from 0 to 2^64 - 1")),
        (Kind::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (Kind::Millis | Kind::I64 | Kind::U64 | Kind::Bool, other) => {
            Err(format!("{} is not {}", short(other), described(kind)))
        }
        (_, Json::String(text)) => kind.parse_text(text).map_err(|error| error.to_string()),
        (_, other) => Err(format!("{} is not {}", short(other), described(kind))),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if first && name.len() <= 64 && characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err("a field name is a letter or `_`, then letters, digits and `_`, at most 64".to_owned())
}

fn compile_kind(schema: &FieldSchema) -> Result<(FieldKind, bool), String> {
    let (name, array) = match schema.kind.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (schema.kind.as_str(), false),
    };
    let kind = match name {
        "ulid" => Kind::Ulid,
        "uuid" => Kind::Uuid,
        "name" => Kind::Name,
        "id" => Kind::Id,
        "text" => Kind::Text,
        "millis" => Kind::Millis,
        "u64" => Kind::U64,
        "i64" => Kind::I64,
        "bool" => Kind::Bool,
        "enum" => Kind::Enum(compile_words(schema)?),
        "number" => return Ok((FieldKind::Number, array)),
        "json" if !array => return Ok((FieldKind::Json, false)),
        other => {
            return Err(format!(
                "unknown type `{other}`; there are ulid, uuid, name, id, text, millis, u64, i64, \
                 bool, enum, number, json, and arrays such as text[]"
            ));
        }
    };
    Ok((FieldKind::Key(kind), array))
}

fn compile_words(schema: &FieldSchema) -> Result<Arc<[String]>, String> {
    let values = schema.values.as_deref().unwrap_or_default();
    if values.is_empty() {
        return Err("an enum needs `values`, a list of words".to_owned());
    }
    let mut words = Vec::with_capacity(values.len());
    for value in values {
        let Some(word) = value.as_str() else {
            return Err(format!("{value} is not a word"));
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if word.is_empty() || word.len() > 64 || !word.chars().all(plain) {
            return Err(format!("`{word}`: a word has 1 to 64 of A-Z a-z 0-9 _ . -"));
        }
        if words.iter().any(|known| known == word) {
            return Err(format!("`{word}` stands twice in `values`"));
        }
        words.push(word.to_owned());
    }
    Ok(words.into())
}

fn compile_values(kind: &FieldKind, schema: &FieldSchema) -> Result<Option<Vec<Value>>, String> {
    match (kind, schema.values.as_deref()) {
        (_, None) | (FieldKind::Key(Kind::Enum(_)), _) => Ok(None),
        (FieldKind::Key(kind), Some(values)) => {
            values.iter().map(|value| scalar(kind, value)).collect::<Result<_, _>>().map(Some)
        }
        (FieldKind::Number | FieldKind::Json, Some(_)) => {
            Err("`values` does not fit number and json: use i64".to_owned())
        }
    }
}

fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    // Alone first: `a)(b` must not become valid by what is put around it.
    Regex::new(pattern).map_err(|error| format!("pattern: {error}"))?;
    // The whole text has to match; an unanchored rule would let anything around it through.
    Regex::new(&format!("^(?:{pattern})$")).map_err(|error| format!("pattern: {error}"))
}

fn compile_generate(text: &str, kind: &FieldKind) -> Result<Generate, String> {
    let generate = match text {
        "ulid" => Generate::Ulid,
        "now" => Generate::Now,
        other => compile_code(other)?,
    };
    let fits = match (&generate, kind) {
        (Generate::Ulid, FieldKind::Key(kind)) => *kind == Kind::Ulid,
        (Generate::Now, FieldKind::Key(kind)) => *kind == Kind::Millis,
        (Generate::Code { .. }, FieldKind::Key(kind)) => matches!(kind, Kind::Text | Kind::Id),
        _ => false,
    };
    if fits { Ok(generate) } else { Err(format!("`generate = \"{text}\"` does not fit the type")) }
}

fn compile_code(text: &str) -> Result<Generate, String> {
    let wrong = || format!("`{text}`: generate takes `ulid`, `now` or `code A-{{6}}`");
    let pattern = text.strip_prefix("code ").ok_or_else(wrong)?;
    let (before, rest) = pattern.split_once('{').ok_or_else(wrong)?;
    let (count, after) = rest.split_once('}').ok_or_else(wrong)?;
    let characters = count.parse().map_err(|_| wrong())?;
    if !(4..=32).contains(&characters) || after.contains(['{', '}']) {
        return Err(format!("`{text}`: a code has one group of 4 to 32 random characters"));
    }
    Ok(Generate::Code { before: before.to_owned(), characters, after: after.to_owned() })
}

fn compile_transitions(
    kind: &FieldKind,
    schema: &FieldSchema,
) -> Result<Option<BTreeMap<String, Vec<String>>>, String> {
    let Some(transitions) = &schema.transitions else { return Ok(None) };
    let FieldKind::Key(kind) = kind else { return Ok(None) };
    for word in transitions.iter().flat_map(|(from, to)| std::iter::once(from).chain(to)) {
        kind.parse_text(word).map_err(|error| format!("transitions: {error}"))?;
    }
    Ok(Some(transitions.clone()))
}

fn compile_reference(text: &str) -> Result<Reference, String> {
    match text.split_once('.') {
        Some((collection, unique)) if !collection.is_empty() && !unique.is_empty() => {
            Ok(Reference { collection: collection.to_owned(), unique: unique.to_owned() })
        }
        _ => Err(format!("`{text}`: refers_to takes `collection.unique`")),
    }
}

fn described(kind: &Kind) -> &'static str {
    match kind {
        Kind::Ulid => "a ULID",
        Kind::Uuid => "a UUID",
        Kind::Name => "a name",
        Kind::Id => "an id",
        Kind::Text => "text",
        Kind::Millis => "a time in milliseconds since 1970",
        Kind::U64 | Kind::I64 => "a whole number",
        Kind::Bool => "true or false",
        Kind::Enum(_) => "one of the words of the enum",
    }
}

/// A JSON value for an error message, never long.
fn short(json: &Json) -> String {
    let text = json.to_string();
    match text.char_indices().nth(40) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or("")),
    }
}
