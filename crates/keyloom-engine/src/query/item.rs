//! From what was read to what is handed out: whole documents, or the fields that were selected.
//!
//! I1: What is selected from keys alone equals what would be selected from the document.

use std::borrow::Cow;

use keyloom_key::{Component, Head, Value};
use serde::Serialize;

use super::Item;
use super::candidate::Candidate;
use super::course::Stretch;
use super::element::{Elements, document_key_of, end_of, identity_bytes_at_the_end};
use super::plan::Plan;
use super::stream::Hit;
use crate::catalog::{Collection, Source};
use crate::document::{Document, HeadRecord, Members};
use crate::error::Error;

/// The bytes that most selections have room in.
const OBJECT_BYTES_USUAL: usize = 128;

/// The results of a page.
pub(super) fn items(
    collection: &Collection,
    plan: &Plan,
    hits: Vec<Hit>,
) -> Result<Vec<Item>, Error> {
    let Some(select) = &plan.course.select else {
        return hits.into_iter().map(|hit| document(collection, hit).map(Item::Document)).collect();
    };
    // Where each field is found in a key is the same for all keys of a range.
    let covers: Vec<Cover<'_>> = match plan.covering {
        true => plan.course.stretches.iter().map(|it| Cover::new(collection, it, select)).collect(),
        false => Vec::new(),
    };
    let mut items = Vec::with_capacity(hits.len());
    let mut elements = Elements::default();
    for hit in &hits {
        items.push(match covers.get(hit.stretch) {
            Some(cover) => cover.item(collection, hit, &mut elements)?,
            None => selected(collection, select, hit)?,
        });
    }
    Ok(items)
}

/// Whole documents.
pub(crate) fn documents(collection: &Collection, hits: Vec<Hit>) -> Result<Vec<Document>, Error> {
    hits.into_iter().map(|hit| document(collection, hit)).collect()
}

fn document(collection: &Collection, hit: Hit) -> Result<Document, Error> {
    Document::stored(collection.key.respell(&hit.document)?, hit.value)
}

/// Selected members of a stored document.
fn selected(collection: &Collection, select: &[Source], hit: &Hit) -> Result<Item, Error> {
    let mut object = JsonObject::new();
    let head = HeadRecord::decode(&hit.value)?;
    let members = Members::parse(head.data)?;
    let millis = |time: u64| Value::Int(i64::try_from(time).unwrap_or(i64::MAX));
    for source in select {
        let name = MemberName::new(collection.source_name(*source));
        match source {
            Source::Field(_) => object.add_raw(&name, members.get(name.plain)),
            Source::CreatedAt => object.add(&name, &millis(head.created_at())),
            Source::UpdatedAt => object.add(&name, &millis(head.updated_at())),
            Source::Owner => {
                if let Some(owner) = head.owner {
                    object.add(&name, &Value::Text(owner.to_owned()));
                }
            }
        }
    }
    let key = collection.key.respell(&hit.document)?;
    Ok(Item::Selected { key, data: object.finish() })
}

/// How the selected fields are had from the keys of one range.
struct Cover<'c> {
    candidate: Candidate<'c>,
    fields: Vec<(MemberName<'c>, Held<'c>)>,
    /// How many bytes at the end of a key name its document, if they do.
    identity_bytes: Option<usize>,
    /// The first component that is looked at, and where it begins.
    first: (usize, usize),
}

/// Where a field is.
enum Held<'c> {
    /// In the value of the index key.
    Included,
    /// In a component of the key.
    Key(usize, &'c Component),
    /// In a component of the document key.
    DocumentKey(usize, &'c Component),
}

impl<'c> Cover<'c> {
    fn new(collection: &'c Collection, stretch: &Stretch, select: &[Source]) -> Cover<'c> {
        let candidate = Candidate::of(collection, stretch.at)
            .expect("a plan is run with the collection that it was made for");
        let held = |source: &Source| {
            let included = matches!((candidate.index, source), (Some(index), Source::Field(field))
                if index.include.contains(field));
            if included {
                return Some(Held::Included);
            }
            let components = candidate.path.template.components();
            let own = candidate.place_of(*source).and_then(|it| Some((it, components.get(it)?)));
            let key = collection.key.template.components().iter().zip(&collection.key.sources);
            own.map(|(place, component)| Held::Key(place, component)).or_else(|| {
                let mut places = key.enumerate().filter(|(_, (_, filled))| *filled == source);
                places.next().map(|(place, (component, _))| Held::DocumentKey(place, component))
            })
        };
        let name = |source: &Source| MemberName::new(collection.source_name(*source));
        let field = |source: &Source| Some((name(source), held(source)?));
        let fields: Vec<_> = select.iter().filter_map(field).collect();
        let is_bound =
            |held: &Held<'_>| matches!(held, Held::Key(place, _) if *place < stretch.bound());
        // What is bound is the same in all keys of the range: only who selects it looks at it.
        let first = match fields.iter().any(|(_, held)| is_bound(held)) {
            true => (0, Head::BYTES),
            false => (stretch.bound(), stretch.bound_bytes),
        };
        let index = candidate.index;
        let identity_bytes = index.and_then(|index| identity_bytes_at_the_end(collection, index));
        Cover { candidate, fields, identity_bytes, first }
    }

    /// Selected members from the key alone; `own` is room for its elements.
    fn item<'h>(
        &self,
        collection: &Collection,
        hit: &'h Hit,
        own: &mut Elements<'h>,
    ) -> Result<Item, Error> {
        let document = match self.identity_bytes.and_then(|bytes| end_of(&hit.key, bytes)) {
            Some(identity) => Cow::Borrowed(identity),
            None => {
                let key = document_key_of(collection, &self.candidate, &hit.key, &hit.value)?;
                Cow::Owned(key.get(Head::BYTES..).unwrap_or_default().to_vec())
            }
        };
        let mut object = JsonObject::new();
        let included = match self.candidate.index {
            Some(index) if !index.include.is_empty() => Some(Members::parse(&hit.value)?),
            _ => None,
        };
        own.read(self.candidate.path, &hit.key, self.first)?;
        for (name, held) in &self.fields {
            let (component, element) = match held {
                Held::Included => {
                    let raw = included.as_ref().and_then(|members| members.get(name.plain));
                    object.add_raw(name, raw);
                    continue;
                }
                Held::Key(place, component) => (component, own.get(*place)),
                Held::DocumentKey(place, component) => {
                    (component, Elements::of_packed(&collection.key, &document)?.get(*place))
                }
            };
            let value = component.unpack(element).map_err(|e| Error::corrupt(e.to_string()))?;
            object.add(name, &value);
        }
        let key = collection.key.respell_packed(&document)?;
        Ok(Item::Selected { key, data: object.finish() })
    }
}

/// The name of a member, and how it is written in JSON behind another one.
struct MemberName<'c> {
    plain: &'c str,
    spelled: Vec<u8>,
}

impl<'c> MemberName<'c> {
    fn new(plain: &'c str) -> MemberName<'c> {
        let mut spelled = Vec::with_capacity(plain.len() + 4);
        spelled.push(b',');
        write_json(plain, &mut spelled);
        spelled.push(b':');
        MemberName { plain, spelled }
    }
}

/// A JSON object that is written member by member.
struct JsonObject {
    bytes: Vec<u8>,
}

impl JsonObject {
    fn new() -> JsonObject {
        JsonObject { bytes: Vec::with_capacity(OBJECT_BYTES_USUAL) }
    }

    /// Adds a member with a value of a key.
    fn add(&mut self, name: &MemberName<'_>, value: &Value) {
        self.add_name(name);
        let bytes = &mut self.bytes;
        match value {
            Value::Ulid(ulid) => {
                bytes.push(b'"');
                bytes.extend_from_slice(&ulid.characters());
                bytes.push(b'"');
            }
            Value::Uuid(uuid) => write_json(&uuid.to_string(), bytes),
            Value::Text(text) => write_json(text, bytes),
            Value::Int(number) => write_json(number, bytes),
            Value::Unsigned(number) => write_json(number, bytes),
            Value::Bool(truth) => write_json(truth, bytes),
        }
    }

    /// Adds a member with a value that is JSON already, if there is one.
    fn add_raw(&mut self, name: &MemberName<'_>, raw: Option<&str>) {
        if let Some(raw) = raw {
            self.add_name(name);
            self.bytes.extend_from_slice(raw.as_bytes());
        }
    }

    fn add_name(&mut self, name: &MemberName<'_>) {
        self.bytes.extend_from_slice(&name.spelled);
    }

    fn finish(mut self) -> Vec<u8> {
        match self.bytes.first_mut() {
            // No member stands before the first one.
            Some(comma) => *comma = b'{',
            None => self.bytes.push(b'{'),
        }
        self.bytes.push(b'}');
        self.bytes
    }
}

fn write_json<T: Serialize + ?Sized>(value: &T, bytes: &mut Vec<u8>) {
    serde_json::to_writer(bytes, value).expect("a vector takes all that is written to it");
}
