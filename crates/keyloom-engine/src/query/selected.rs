//! The selected fields of documents: values as they were read, spelled only where somebody asks.
//!
//! F1: A row has all values and all JSON that its shape tells the places of, and so a value for
//!     each component of its document's key.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use keyloom_key::Value;
use serde::Serialize;

use crate::catalog::{Collection, Source};
use crate::document::single_value;

/// The selected fields of the documents of a page, a row for each document.
#[derive(Clone)]
pub struct Selection {
    collection: Arc<Collection>,
    fields: Vec<Source>,
    shapes: Vec<Shape>,
    rows: Vec<Row>,
    /// The values of all rows, one row after the other.
    values: Vec<Value>,
    /// Where the JSON of all rows is, one row after the other; nowhere if there is none.
    json: Vec<Range<usize>>,
    text: String,
}

/// What rows that were read alike have, and where.
#[derive(Clone)]
pub(super) struct Shape {
    /// For each component of the document key, its place among the values of a row.
    pub(super) key: Vec<usize>,
    /// For each selected field.
    pub(super) fields: Vec<Held>,
}

/// Where a row has a field.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// At this place among its values.
    Value(usize),
    /// At this place among its JSON, if there is any.
    Json(usize),
}

/// Where a row begins.
#[derive(Clone, Copy)]
struct Row {
    shape: usize,
    values: usize,
    json: usize,
}

/// The selected fields of one document.
#[derive(Clone, Copy)]
pub struct Selected<'p> {
    rows: &'p Selection,
    shape: &'p Shape,
    values: &'p [Value],
    json: &'p [Range<usize>],
}

impl Selection {
    /// No rows yet, with room for so many.
    pub(super) fn with_capacity(
        collection: &Arc<Collection>,
        fields: &[Source],
        shapes: Vec<Shape>,
        rows: usize,
    ) -> Selection {
        let values = collection.key.sources.len() + fields.len();
        Selection {
            collection: Arc::clone(collection),
            fields: fields.to_vec(),
            shapes,
            rows: Vec::with_capacity(rows),
            values: Vec::with_capacity(rows * values),
            json: Vec::new(),
            text: String::new(),
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names of the fields, in the order in which they were selected, each once.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = &str> {
        self.fields.iter().map(|field| self.collection.source_name(*field))
    }

    /// The row at this place.
    pub fn get(&self, place: usize) -> Option<Selected<'_>> {
        self.rows.get(place).map(|row| self.read(*row))
    }

    /// All rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Selected<'_>> {
        self.rows.iter().map(|row| self.read(*row))
    }

    fn read(&self, row: Row) -> Selected<'_> {
        let row = || {
            Some(Selected {
                rows: self,
                shape: self.shapes.get(row.shape)?,
                values: self.values.get(row.values..)?,
                json: self.json.get(row.json..)?,
            })
        };
        row().expect("a row begins where it was written")
    }

    /// Begins a row of this shape, and gives the values of all rows, to append its own.
    pub(super) fn begin_row(&mut self, shape: usize) -> &mut Vec<Value> {
        self.rows.push(Row { shape, values: self.values.len(), json: self.json.len() });
        &mut self.values
    }

    /// Appends what is JSON already to the last row.
    pub(super) fn add_json(&mut self, raw: Option<&str>) {
        let from = self.text.len();
        self.text.push_str(raw.unwrap_or_default());
        self.json.push(from..self.text.len());
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'p> Selected<'p> {
    /// The key of the document in text spelling.
    pub fn key(&self) -> String {
        let values = self.shape.key.iter().filter_map(|place| self.values.get(*place));
        let values: Vec<&Value> = values.collect();
        let key = self.rows.collection.key.template.render(&values);
        key.expect("F1: the values were read from a key")
    }

    /// The value of the field at this place of the selection, as the data has it. `None` if the
    /// document has no such field, or if its type is none that a key can hold: then only
    /// [`data`](Self::data) has it.
    pub fn value(&self, place: usize) -> Option<Cow<'p, Value>> {
        match *self.shape.fields.get(place)? {
            Held::Value(value) => self.values.get(value).map(Cow::Borrowed),
            Held::Json(json) => {
                let kind = self.rows.collection.source_kind(*self.rows.fields.get(place)?)?;
                single_value(kind, self.raw(json)?).map(Cow::Owned)
            }
        }
    }

    /// A JSON object with the selected fields that the document has.
    pub fn data(&self) -> Vec<u8> {
        let mut json = Vec::new();
        self.write_data(&mut json);
        json
    }

    /// Writes [`data`](Self::data) behind what `json` holds.
    pub fn write_data(&self, json: &mut Vec<u8>) {
        let mut separator = b'{';
        let mut write_name = |name: &str, json: &mut Vec<u8>| {
            // No name needs an escape.
            json.extend_from_slice(&[separator, b'"']);
            json.extend_from_slice(name.as_bytes());
            json.extend_from_slice(b"\":");
            separator = b',';
        };
        for (name, held) in self.rows.fields().zip(&self.shape.fields) {
            match held {
                Held::Value(place) => {
                    if let Some(value) = self.values.get(*place) {
                        write_name(name, json);
                        write_value(value, json);
                    }
                }
                Held::Json(place) => {
                    if let Some(raw) = self.raw(*place) {
                        write_name(name, json);
                        json.extend_from_slice(raw.as_bytes());
                    }
                }
            }
        }
        json.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
    }

    fn raw(&self, place: usize) -> Option<&'p str> {
        let raw = self.rows.text.get(self.json.get(place)?.clone())?;
        // Nothing that is JSON is empty.
        (!raw.is_empty()).then_some(raw)
    }
}

impl fmt::Debug for Selected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key(), String::from_utf8_lossy(&self.data()))
    }
}

fn write_value(value: &Value, json: &mut Vec<u8>) {
    match value {
        Value::Ulid(ulid) => {
            json.push(b'"');
            json.extend_from_slice(&ulid.characters());
            json.push(b'"');
        }
        Value::Uuid(uuid) => write_json(&uuid.to_string(), json),
        Value::Text(text) => write_json(text, json),
        Value::Int(number) => write_json(number, json),
        Value::Unsigned(number) => write_json(number, json),
        Value::Bool(truth) => write_json(truth, json),
    }
}

fn write_json<T: Serialize + ?Sized>(value: &T, json: &mut Vec<u8>) {
    serde_json::to_writer(json, value).expect("a vector takes all that is written to it");
}
