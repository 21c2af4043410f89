//! From what was read to what is handed out: whole documents, or the fields that were selected.
//!
//! I1: What is selected from keys alone equals what would be selected from the document.

use std::sync::Arc;

use keyloom_key::{Component, Head, Value};

use super::Items;
use super::candidate::Candidate;
use super::course::Stretch;
use super::element::{element_len, misfit};
use super::plan::Plan;
use super::selected::{Held, Selection, Shape};
use super::stream::{Hit, Hits};
use crate::catalog::{Collection, Path, Source};
use crate::document::{Document, HeadRecord, Members};
use crate::error::Error;

/// The results of a page.
pub(super) fn items(collection: &Arc<Collection>, plan: &Plan, hits: Hits) -> Result<Items, Error> {
    let Some(select) = &plan.course.select else {
        return documents(collection, hits).map(Items::Documents);
    };
    if !plan.covering {
        let shapes = vec![document_shape(collection, select)];
        let mut rows = Selection::with_capacity(collection, select, shapes, hits.len());
        for hit in hits.iter() {
            add_row(collection, select, hit, &mut rows)?;
        }
        return Ok(Items::Selected(rows));
    }
    // Where each field is found in a key is the same for all keys of a range.
    let covers = plan.course.stretches.iter().enumerate();
    let covers = covers.map(|stretch| Cover::new(collection, stretch, select));
    let (covers, shapes): (Vec<Cover<'_>>, Vec<Shape>) = covers.unzip();
    let mut rows = Selection::with_capacity(collection, select, shapes, hits.len());
    for hit in hits.iter() {
        let cover = covers.get(hit.stretch).expect("a stream counts the ranges of its course");
        cover.add_row(hit, &mut rows)?;
    }
    Ok(Items::Selected(rows))
}

/// Whole documents.
pub(crate) fn documents(collection: &Collection, hits: Hits) -> Result<Vec<Document>, Error> {
    let document = |(document, value): (Vec<u8>, Vec<u8>)| {
        Document::stored(collection.key.respell(&document)?, value)
    };
    hits.into_documents().map(document).collect()
}

/// What [`add_row`] adds: the components of the key, then times as values and all else as JSON.
fn document_shape(collection: &Collection, select: &[Source]) -> Shape {
    let key: Vec<usize> = (0..collection.key.sources.len()).collect();
    let (mut values, mut json) = (key.len().., 0..);
    let places = select.iter().filter_map(|source| match source {
        Source::CreatedAt | Source::UpdatedAt => values.next().map(Held::Value),
        Source::Field(_) | Source::Owner => json.next().map(Held::Json),
    });
    let fields = places.collect();
    Shape { key, fields }
}

/// Selected members of a stored document.
fn add_row(
    collection: &Collection,
    select: &[Source],
    hit: Hit<'_>,
    rows: &mut Selection,
) -> Result<(), Error> {
    let head = HeadRecord::decode(hit.value)?;
    let members = Members::parse(head.data)?;
    let values = rows.begin_row(0);
    values.extend(collection.key.unpack(hit.document)?);
    values.extend(select.iter().filter_map(|source| {
        let millis = match source {
            Source::CreatedAt => head.created_at(),
            Source::UpdatedAt => head.updated_at(),
            Source::Field(_) | Source::Owner => return None,
        };
        Some(Value::Int(i64::try_from(millis).unwrap_or(i64::MAX)))
    }));
    for source in select {
        match source {
            Source::Field(_) => rows.add_json(members.get(collection.source_name(*source))),
            Source::Owner => {
                let owner = head.owner.map(|owner| serde_json::Value::from(owner).to_string());
                rows.add_json(owner.as_deref());
            }
            Source::CreatedAt | Source::UpdatedAt => {}
        }
    }
    Ok(())
}

/// How the selected fields are had from the keys of one range.
struct Cover<'c> {
    /// Of the range among those of its course, and of the shape of its rows.
    number: usize,
    /// Through the index key, or through a claim and the document key that it holds.
    walks: Vec<Walk<'c>>,
    /// The fields that stand in the value of the index key.
    included: Vec<&'c str>,
}

/// Through packed components, all those from one of them on.
struct Walk<'c> {
    path: &'c Path,
    part: Part,
    /// Where the first component begins.
    from: usize,
    /// The components, and whether the value of each is taken.
    steps: Vec<(&'c Component, Step)>,
}

/// What is done with a component.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Take,
    Pass,
}

/// Which bytes of a stored key are walked through.
enum Part {
    Key,
    Value,
}

/// What holds a selected field.
#[derive(PartialEq, Eq)]
enum Home {
    /// The value of the index key, at this place among what is included.
    Included(usize),
    /// A component of the path.
    Path(usize),
    /// A component of the document key, which a claim holds.
    Document(usize),
}

impl<'c> Cover<'c> {
    fn new(
        collection: &'c Collection,
        (number, stretch): (usize, &Stretch),
        select: &[Source],
    ) -> (Cover<'c>, Shape) {
        let candidate = Candidate::of(collection, stretch.at)
            .expect("a plan is run with the collection that it was made for");
        let mut included = Vec::new();
        let homes: Vec<Home> = select
            .iter()
            .map(|source| match (candidate.index, source) {
                (Some(index), Source::Field(field)) if index.include.contains(field) => {
                    included.push(collection.source_name(*source));
                    Home::Included(included.len() - 1)
                }
                _ => home(collection, &candidate, *source),
            })
            .collect();
        let key_from = candidate.index.map_or(&[][..], |index| &index.key_from);
        let is_taken = |place| key_from.contains(&place) || homes.contains(&Home::Path(place));
        // What is bound is the same in all keys of the range: only who takes it looks at it.
        let first = match (0..stretch.bound()).any(is_taken) {
            true => (0, Head::BYTES),
            false => (stretch.bound(), stretch.bound_bytes),
        };
        let own = Walk::new(candidate.path, Part::Key, first, is_taken);
        let values_of_own = own.values();
        let value = |place: usize| (0..place).filter(|place| is_taken(*place)).count();
        let key = match candidate.index {
            Some(_) => key_from.iter().map(|place| value(*place)).collect(),
            None => (values_of_own..).take(collection.key.sources.len()).collect(),
        };
        let held = |home: &Home| match *home {
            Home::Included(place) => Held::Json(place),
            Home::Path(place) => Held::Value(value(place)),
            Home::Document(place) => Held::Value(values_of_own + place),
        };
        let fields = homes.iter().map(held).collect();
        let mut walks = vec![own];
        if candidate.is_claim() {
            walks.push(Walk::new(&collection.key, Part::Value, (0, 0), |_| true));
        }
        (Cover { number, walks, included }, Shape { key, fields })
    }

    /// Selected fields from what is stored under a key alone.
    fn add_row(&self, hit: Hit<'_>, rows: &mut Selection) -> Result<(), Error> {
        let values = rows.begin_row(self.number);
        for walk in &self.walks {
            walk.run(hit, values)?;
        }
        if !self.included.is_empty() {
            let members = Members::parse(hit.value)?;
            for name in &self.included {
                rows.add_json(members.get(name));
            }
        }
        Ok(())
    }
}

/// What holds a field that is not included.
fn home(collection: &Collection, candidate: &Candidate<'_>, source: Source) -> Home {
    match candidate.place_of(source) {
        Some(place) => Home::Path(place),
        None => {
            let place = collection.key.sources.iter().position(|filled| *filled == source);
            Home::Document(place.expect("a path that covers holds what is selected"))
        }
    }
}

impl<'c> Walk<'c> {
    fn new(
        path: &'c Path,
        part: Part,
        (first, from): (usize, usize),
        is_taken: impl Fn(usize) -> bool,
    ) -> Walk<'c> {
        let step = |place| if is_taken(place) { Step::Take } else { Step::Pass };
        let components = path.template.components().iter().enumerate().skip(first);
        let steps = components.map(|(place, component)| (component, step(place))).collect();
        Walk { path, part, from, steps }
    }

    /// How many values it takes.
    fn values(&self) -> usize {
        self.steps.iter().filter(|(_, step)| *step == Step::Take).count()
    }

    fn run(&self, hit: Hit<'_>, values: &mut Vec<Value>) -> Result<(), Error> {
        let bytes = match self.part {
            Part::Key => hit.key,
            Part::Value => hit.value,
        };
        let mut rest = bytes.get(self.from..).unwrap_or_default();
        for (component, step) in &self.steps {
            let behind = match step {
                Step::Take => component.unpack_into(rest, values),
                Step::Pass => element_len(rest, component.order).and_then(|len| rest.get(len..)),
            };
            rest = behind.ok_or_else(|| misfit(self.path, bytes))?;
        }
        if rest.is_empty() { Ok(()) } else { Err(misfit(self.path, bytes)) }
    }
}
