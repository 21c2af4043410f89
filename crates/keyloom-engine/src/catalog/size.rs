//! How long keys can become, and what each template costs: known when a schema is applied, never
//! found out at the first large write.

use keyloom_key::{Cut, Each, Kind};
use keyloom_store::Limits;

use super::compile::wrong;
use super::{Collection, Path, Source};
use crate::error::Error;
use crate::limits::{ARRAY_ELEMENTS_MAX, DOCUMENT_BYTES_MAX};

/// The bytes before the components of a packed key.
const HEAD_BYTES: usize = 5;

/// What one template costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCost {
    /// `key`, `unique:name` or `index:name`.
    pub path: String,
    /// Its template.
    pub template: String,
    /// The longest key in bytes, packed.
    pub key_bytes_max: usize,
    /// The most keys that one document has under it.
    pub keys_per_document: usize,
    /// What to think about; empty if nothing.
    pub lints: Vec<String>,
}

/// The cost of every template of a collection, the document key first.
pub(crate) fn path_costs(collection: &Collection) -> Vec<PathCost> {
    let key = cost("key".to_owned(), collection, &collection.key);
    let uniques = collection
        .uniques
        .iter()
        .map(|unique| cost(format!("unique:{}", unique.path.name), collection, &unique.path));
    let indexes = collection
        .indexes
        .iter()
        .map(|index| cost(format!("index:{}", index.path.name), collection, &index.path));
    std::iter::once(key).chain(uniques).chain(indexes).collect()
}

/// The most bytes of a packed value of a source; `None` if nothing bounds it.
pub(crate) fn value_bytes_max(collection: &Collection, source: Source) -> Option<usize> {
    component_bytes(collection, source, Cut::Whole)
}

/// Refuses a collection that could make keys longer, or commits of more operations, than the store
/// takes.
pub(super) fn check(collection: &Collection, limits: &Limits) -> Result<(), Error> {
    let paths = std::iter::once(&collection.key).chain(collection.further_paths());
    let mut keys = 0;
    for path in paths {
        check_bounded(collection, path)?;
        let bytes = key_bytes_max(collection, path);
        if bytes > limits.key_bytes_max {
            let detail = format!(
                "its keys can take {bytes} bytes, the store takes {}: bound the length of its \
                 texts, or use {{field prefix N}}",
                limits.key_bytes_max
            );
            return Err(wrong(&collection.name, &path.name, detail));
        }
        keys += keys_per_document(collection, path);
    }
    if DOCUMENT_BYTES_MAX > limits.value_bytes_max {
        let detail = format!("the store takes values of {} bytes only", limits.value_bytes_max);
        return Err(wrong(&collection.name, "", detail));
    }
    // An update that moves every key deletes one and puts one.
    if 2 * keys + 8 > limits.commit_operations_max {
        let detail = format!(
            "a write can touch {keys} keys, the store takes {} operations: use fewer indexes or \
             bound `elements`",
            limits.commit_operations_max
        );
        return Err(wrong(&collection.name, "indexes", detail));
    }
    Ok(())
}

fn check_bounded(collection: &Collection, path: &Path) -> Result<(), Error> {
    for (component, source) in path.template.components().iter().zip(&path.sources) {
        if component_bytes(collection, *source, component.cut).is_none() {
            let name = &component.field;
            let detail = format!(
                "`{name}` is text without a bound: give it length = {{ max = N }}, or write \
                 {{{name} prefix N}}"
            );
            return Err(wrong(&collection.name, &path.name, detail));
        }
    }
    Ok(())
}

fn cost(name: String, collection: &Collection, path: &Path) -> PathCost {
    let mut lints = Vec::new();
    let leading = path.template.components().first();
    if let Some(component) = leading {
        let hot = matches!(component.kind, Kind::Millis | Kind::Bool | Kind::Enum(_))
            && !matches!(component.cut, Cut::Shard(_));
        if hot && name != "key" {
            lints.push(format!(
                "hot leading component `{}`: new keys land side by side; on a distributed store \
                 lead with {{id shard 16}}",
                component.field
            ));
        }
    }
    if path.sources.contains(&Source::UpdatedAt) {
        lints.push("holds `@updated_at`: every update moves this key".to_owned());
    }
    PathCost {
        path: name,
        template: path.template.text().to_owned(),
        key_bytes_max: key_bytes_max(collection, path),
        keys_per_document: keys_per_document(collection, path),
        lints,
    }
}

fn key_bytes_max(collection: &Collection, path: &Path) -> usize {
    let components = path.template.components().iter().zip(&path.sources);
    let bytes = components.map(|(component, source)| {
        component_bytes(collection, *source, component.cut).unwrap_or(usize::MAX / 64)
    });
    HEAD_BYTES + bytes.sum::<usize>()
}

fn keys_per_document(collection: &Collection, path: &Path) -> usize {
    let components = path.template.components().iter().zip(&path.sources);
    let mut keys = 1;
    for (component, source) in components {
        if let (Each::Element, Source::Field(field)) = (component.each, *source) {
            let bound = collection.fields.get(field).and_then(|field| field.elements?.max);
            keys *= bound.unwrap_or(ARRAY_ELEMENTS_MAX);
        }
    }
    keys
}

/// The most bytes of one packed component; `None` if nothing bounds it.
fn component_bytes(collection: &Collection, source: Source, cut: Cut) -> Option<usize> {
    if let Cut::Shard(_) = cut {
        return Some(9);
    }
    // A string element has a type byte and an end byte, a character has at most four bytes.
    let text = |characters: usize| 2 + 4 * characters;
    let kind = collection.source_kind(source)?;
    let length = match source {
        Source::Field(field) => collection.fields.get(field).and_then(|field| field.length?.max),
        _ => None,
    };
    let whole = match kind {
        Kind::Ulid | Kind::Uuid => Some(17),
        Kind::Name => Some(32),
        Kind::Id => Some(length.map_or(130, |characters| text(characters).min(130))),
        Kind::Text => length.map(text),
        Kind::Millis | Kind::U64 | Kind::I64 => Some(9),
        Kind::Bool => Some(1),
        Kind::Enum(words) => words.iter().map(|word| word.len() + 2).max(),
    };
    match cut {
        Cut::Prefix(characters) => {
            let cut = text(usize::from(characters));
            Some(whole.map_or(cut, |whole| whole.min(cut)))
        }
        Cut::Whole | Cut::Shard(_) => whole,
    }
}
