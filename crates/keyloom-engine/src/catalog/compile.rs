//! From the stored record to the catalog in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_key::{Cut, Each, Head, Kind, Space, Template, Value};
use keyloom_store::{Limits, Stamp};

use super::field::{Field, FieldKind};
use super::record::{CatalogRecord, CollectionRecord, PathRole, PathState};
use super::{
    CREATED_AT, Capacity, Catalog, Collection, Condition, Freeze, Index, OWNER, Path, Set, Source,
    UPDATED_AT, Unique, class, link, size,
};
use crate::access::Access;
use crate::error::Error;
use crate::limits::{PATHS_MAX, SCHEMA_FIELDS_MAX, SET_DOCUMENTS_MAX, SUBJECTS_MAX};
use crate::schema::{CollectionSchema, IndexSchema, WhenFull, Words};

/// The name of the claim behind `one_per_owner`.
pub(crate) const ONE_PER_OWNER: &str = "one_per_owner";

/// Compiles all collections of a record and links them with each other.
pub(crate) fn compile(
    record: CatalogRecord,
    stamp: Option<Stamp>,
    limits: &Limits,
) -> Result<Catalog, Error> {
    let mut collections = BTreeMap::new();
    for stored in &record.collections {
        let collection = compile_collection(stored)?;
        size::check(&collection, limits)?;
        collections.insert(stored.name.clone(), collection);
    }
    link::link(&mut collections)?;
    let collections =
        collections.into_iter().map(|(name, collection)| (name, Arc::new(collection))).collect();
    let classes = class::compile_classes(&record.classes)?;
    Ok(Catalog { stamp, record, collections, classes })
}

/// An [`Error::Schema`] somewhere in a collection.
pub(super) fn wrong(collection: &str, at: &str, detail: impl Into<String>) -> Error {
    let at = if at.is_empty() {
        format!("collections.{collection}")
    } else {
        format!("collections.{collection}.{at}")
    };
    Error::Schema { at, detail: detail.into() }
}

fn compile_collection(stored: &CollectionRecord) -> Result<Collection, Error> {
    let (name, schema) = (stored.name.as_str(), &stored.schema);
    check_name(name).map_err(|detail| wrong(name, "", detail))?;
    let fields = compile_fields(name, schema)?;
    let next_fields = match &stored.next_schema {
        Some(next) => Some(compile_fields(name, next)?),
        None => None,
    };
    let head = Head { space: Space::Document, collection: stored.id, template: 0 };
    let key = compile_path(name, "key", &schema.key, &fields)?.at("key", head, PathState::Ready);
    check_document_key(name, &fields, &key)?;
    let mut collection = Collection {
        name: name.to_owned(),
        id: stored.id,
        schema: Arc::new(schema.clone()),
        fields,
        next_fields,
        key,
        uniques: Vec::new(),
        indexes: Vec::new(),
        access: Access {
            read: schema.access.read,
            write: schema.access.write,
            subjects: Vec::new(),
        },
        freeze: None,
        capacity: None,
        sets: Vec::new(),
        derive: None,
        derived_into: Vec::new(),
    };
    if schema.unique.len() + schema.indexes.len() > PATHS_MAX {
        return Err(wrong(name, "", format!("more than {PATHS_MAX} indexes and unique claims")));
    }
    compile_uniques(&mut collection, stored)?;
    compile_indexes(&mut collection, stored)?;
    collection.access.subjects = compile_subjects(&collection)?;
    collection.freeze = compile_freeze(&collection)?;
    collection.capacity = compile_capacity(&collection)?;
    collection.sets = compile_sets(&collection)?;
    Ok(collection)
}

/// Refuses what cannot be the name of a collection or a class.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if first && name.len() <= 64 && name.chars().all(plain) {
        return Ok(());
    }
    Err("a name is a letter, then letters, digits, `_`, `-`, at most 64")
}

fn compile_fields(name: &str, schema: &CollectionSchema) -> Result<Vec<Field>, Error> {
    if schema.fields.len() > SCHEMA_FIELDS_MAX {
        return Err(wrong(name, "fields", format!("more than {SCHEMA_FIELDS_MAX} fields")));
    }
    let mut fields = Vec::with_capacity(schema.fields.len());
    for (field, rules) in &schema.fields {
        let compiled = Field::compile(field, rules)
            .map_err(|detail| wrong(name, &format!("fields.{field}"), detail))?;
        fields.push(compiled);
    }
    let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
    for (field, rules) in fields.iter_mut().zip(schema.fields.values()) {
        if let Some(other) = &rules.differs_from {
            field.differs_from = names.binary_search(other).ok();
            if field.differs_from.is_none() {
                let at = format!("fields.{}.differs_from", field.name);
                return Err(wrong(name, &at, format!("there is no field `{other}`")));
            }
        }
    }
    compile_by(name, schema, &mut fields)?;
    if let Some(derive) = &schema.derive {
        for kept in derive.sum.keys().chain(&derive.count) {
            match fields.iter_mut().find(|field| field.name == *kept) {
                Some(field) if field.kind == FieldKind::Key(Kind::I64) && !field.array => {
                    field.derived = true;
                }
                _ => {
                    let detail = format!("`{kept}` must be a field of type i64 here");
                    return Err(wrong(name, "derive", detail));
                }
            }
        }
    }
    Ok(fields)
}

/// Resolves, for each value that only some may set, who that is.
fn compile_by(name: &str, schema: &CollectionSchema, fields: &mut [Field]) -> Result<(), Error> {
    for (field, rules) in &schema.fields {
        for (word, holder) in rules.by.iter().flatten() {
            let at = format!("fields.{field}.by");
            let source =
                subject_source(fields, holder).map_err(|detail| wrong(name, &at, detail))?;
            let known = fields.iter_mut().find(|known| known.name == *field);
            let Some(Field { kind: FieldKind::Key(kind), by, .. }) = known else { continue };
            kind.parse_text(word).map_err(|error| wrong(name, &at, error.to_string()))?;
            by.insert(word.clone(), source);
        }
    }
    Ok(())
}

/// What holds a subject: a field that a subject can be compared with, or the owner.
fn subject_source(fields: &[Field], name: &str) -> Result<Source, String> {
    if name == OWNER {
        return Ok(Source::Owner);
    }
    let place = fields.iter().position(|field| field.name == name);
    let field = place.and_then(|place| fields.get(place));
    match (place, field.map(|field| &field.kind)) {
        (Some(place), Some(FieldKind::Key(kind)))
            if !matches!(kind, Kind::Bool | Kind::Enum(_)) =>
        {
            Ok(Source::Field(place))
        }
        (Some(_), _) => Err(format!("`{name}` has a type that holds no subject")),
        (None, _) => Err(format!("there is no field `{name}`")),
    }
}

fn compile_subjects(collection: &Collection) -> Result<Vec<Source>, Error> {
    let named = &collection.schema.access.subjects;
    if named.is_empty() {
        return Ok(vec![Source::Owner]);
    }
    if named.len() > SUBJECTS_MAX {
        let detail = format!("more than {SUBJECTS_MAX} fields");
        return Err(wrong(&collection.name, "access.subjects", detail));
    }
    let mut subjects = Vec::with_capacity(named.len());
    for name in named {
        let source = subject_source(&collection.fields, name)
            .map_err(|detail| wrong(&collection.name, "access.subjects", detail))?;
        if !subjects.contains(&source) {
            subjects.push(source);
        }
    }
    Ok(subjects)
}

/// A compiled template that does not know its place yet.
struct PathDraft {
    template: Template,
    sources: Vec<Source>,
}

impl PathDraft {
    fn at(self, name: &str, head: Head, state: PathState) -> Path {
        let PathDraft { template, sources } = self;
        Path { name: name.to_owned(), template, head, sources, state }
    }
}

fn compile_path(
    collection: &str,
    at: &str,
    text: &str,
    fields: &[Field],
) -> Result<PathDraft, Error> {
    let place = |name: &str| fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok();
    let source = |name: &str| match name {
        CREATED_AT => Some(Source::CreatedAt),
        UPDATED_AT => Some(Source::UpdatedAt),
        OWNER => Some(Source::Owner),
        _ => place(name).map(Source::Field),
    };
    let kind_of = |name: &str| match source(name)? {
        Source::CreatedAt | Source::UpdatedAt => Some(Kind::Millis),
        Source::Owner => Some(Kind::Id),
        Source::Field(field) => match &fields.get(field)?.kind {
            FieldKind::Key(kind) => Some(kind.clone()),
            FieldKind::Number | FieldKind::Json => None,
        },
    };
    let template = Template::compile(text, &kind_of)
        .map_err(|error| wrong(collection, at, error.to_string()))?;
    let mut sources = Vec::with_capacity(template.components().len());
    for component in template.components() {
        let Some(source) = source(&component.field) else {
            return Err(wrong(collection, at, format!("there is no field `{}`", component.field)));
        };
        let array = match source {
            Source::Field(field) => fields.get(field).is_some_and(|field| field.array),
            _ => false,
        };
        let name = &component.field;
        match (array, component.each) {
            (true, Each::One) => {
                let detail = format!("`{name}` is an array: write {{{name}[]}}");
                return Err(wrong(collection, at, detail));
            }
            (false, Each::Element) => {
                let detail = format!("`{name}` is no array: write {{{name}}}");
                return Err(wrong(collection, at, detail));
            }
            (true, Each::Element) | (false, Each::One) => {}
        }
        sources.push(source);
    }
    Ok(PathDraft { template, sources })
}

fn check_document_key(collection: &str, fields: &[Field], key: &Path) -> Result<(), Error> {
    for (component, source) in key.template.components().iter().zip(&key.sources) {
        let name = &component.field;
        if component.cut != Cut::Whole || component.each != Each::One {
            let detail = format!("`{name}` must stand whole: the key names the document");
            return Err(wrong(collection, "key", detail));
        }
        let Source::Field(field) = *source else {
            return Err(wrong(collection, "key", "a document key is made of its data only"));
        };
        if !fields.get(field).is_some_and(Field::is_always_present) {
            let detail = format!("`{name}` is part of the key: make it required or generated");
            return Err(wrong(collection, "key", detail));
        }
    }
    Ok(())
}

/// Where the record says that a template stands.
fn placed(
    stored: &CollectionRecord,
    role: PathRole,
    name: &str,
) -> Result<(Head, PathState), Error> {
    let path = stored.paths.iter().find(|path| path.role == role && path.name == name);
    let path = path.ok_or_else(|| {
        Error::corrupt(format!("the catalog has no id for `{name}` of `{}`", stored.name))
    })?;
    let head = Head { space: role.space(), collection: stored.id, template: path.id };
    Ok((head, path.state))
}

fn compile_uniques(collection: &mut Collection, stored: &CollectionRecord) -> Result<(), Error> {
    let name = collection.name.clone();
    for (unique, text) in &stored.schema.unique {
        let at = format!("unique.{unique}");
        let draft = compile_path(&name, &at, text, &collection.fields)?;
        for component in draft.template.components() {
            if component.cut != Cut::Whole || component.each != Each::One {
                let detail = format!("`{}` must stand whole in a unique claim", component.field);
                return Err(wrong(&name, &at, detail));
            }
        }
        let (head, state) = placed(stored, PathRole::Unique, unique)?;
        let path = draft.at(unique, head, state);
        collection.uniques.push(Unique { path, one_per_owner: None });
    }
    if let Some(mode) = stored.schema.one_per_owner {
        if stored.schema.unique.contains_key(ONE_PER_OWNER) {
            let detail = "this name belongs to the rule: choose another one";
            return Err(wrong(&name, &format!("unique.{ONE_PER_OWNER}"), detail));
        }
        let draft = compile_path(&name, ONE_PER_OWNER, "{@owner}", &collection.fields)?;
        let (head, state) = placed(stored, PathRole::Unique, ONE_PER_OWNER)?;
        let path = draft.at(ONE_PER_OWNER, head, state);
        collection.uniques.push(Unique { path, one_per_owner: Some(mode) });
    }
    Ok(())
}

fn compile_indexes(collection: &mut Collection, stored: &CollectionRecord) -> Result<(), Error> {
    let name = collection.name.clone();
    for (index, schema) in &stored.schema.indexes {
        let at = format!("indexes.{index}");
        let draft = compile_path(&name, &at, &schema.key, &collection.fields)?;
        let key_from = document_key_in(collection, &draft)
            .map_err(|missing| wrong(&name, &at, missing_key_field(schema, &missing)))?;
        let mut include = Vec::with_capacity(schema.include.len());
        for field in &schema.include {
            let place = collection.field(field).ok_or_else(|| {
                wrong(&name, &format!("{at}.include"), format!("there is no field `{field}`"))
            })?;
            include.push(place);
        }
        include.sort_unstable();
        include.dedup();
        let when = compile_condition(collection, &format!("{at}.when"), &schema.when)?;
        let (head, state) = placed(stored, PathRole::Index, index)?;
        let path = draft.at(index, head, state);
        collection.indexes.push(Index { path, when, include, key_from });
    }
    Ok(())
}

/// For each component of the document key, where the draft holds it whole; or the field that is
/// missing.
fn document_key_in(collection: &Collection, draft: &PathDraft) -> Result<Vec<usize>, String> {
    let holds = |wanted: &Source| {
        draft.template.components().iter().zip(&draft.sources).position(|(component, source)| {
            source == wanted && component.cut == Cut::Whole && component.each == Each::One
        })
    };
    let missing = |source: &Source| collection.source_name(*source).to_owned();
    collection
        .key
        .sources
        .iter()
        .map(|source| holds(source).ok_or_else(|| missing(source)))
        .collect()
}

fn missing_key_field(schema: &IndexSchema, missing: &str) -> String {
    format!(
        "an index key names its document, so it holds all fields of the document key: \
         add {{{missing}}} to `{}`",
        schema.key
    )
}

fn compile_condition(
    collection: &Collection,
    at: &str,
    when: &BTreeMap<String, Words>,
) -> Result<Condition, Error> {
    let mut condition = Vec::with_capacity(when.len());
    for (name, words) in when {
        let place = collection
            .field(name)
            .ok_or_else(|| wrong(&collection.name, at, format!("there is no field `{name}`")))?;
        let field = collection.fields.get(place).filter(|field| !field.array);
        let Some(FieldKind::Key(kind)) = field.map(|field| &field.kind) else {
            let detail = format!("`{name}` has a type that no condition can compare");
            return Err(wrong(&collection.name, at, detail));
        };
        let values: Result<Vec<Value>, _> =
            words.0.iter().map(|word| kind.parse_text(word)).collect();
        let values =
            values.map_err(|error| wrong(&collection.name, at, format!("`{name}`: {error}")))?;
        if values.is_empty() {
            return Err(wrong(&collection.name, at, format!("`{name}` lists no value")));
        }
        condition.push((place, values));
    }
    Ok(condition)
}

fn compile_freeze(collection: &Collection) -> Result<Option<Freeze>, Error> {
    let Some(schema) = &collection.schema.freeze else { return Ok(None) };
    let when = compile_condition(collection, "freeze.when", &schema.when)?;
    if when.is_empty() {
        return Err(wrong(&collection.name, "freeze.when", "name at least one field"));
    }
    let mut open = vec![false; collection.fields.len()];
    for name in &schema.except {
        let place = collection.field(name).and_then(|place| open.get_mut(place));
        let Some(place) = place else {
            let detail = format!("there is no field `{name}`");
            return Err(wrong(&collection.name, "freeze.except", detail));
        };
        *place = true;
    }
    Ok(Some(Freeze { when, open }))
}

fn compile_capacity(collection: &Collection) -> Result<Option<Capacity>, Error> {
    let Some(schema) = &collection.schema.capacity else { return Ok(None) };
    let wrong = |detail: String| wrong(&collection.name, "capacity", detail);
    if schema.max == 0 {
        return Err(wrong("`max` is at least 1".to_owned()));
    }
    let by = match (schema.full, &schema.by) {
        (WhenFull::Refuse, None) => None,
        (WhenFull::Refuse, Some(_)) => return Err(wrong("`by` goes with full = \"evict\"".into())),
        (WhenFull::Evict, None) => {
            return Err(wrong("evict needs `by`: the index whose first document goes".to_owned()));
        }
        (WhenFull::Evict, Some(name)) => {
            let place = collection.indexes.iter().position(|index| index.path.name == *name);
            let place = place.ok_or_else(|| wrong(format!("there is no index `{name}`")))?;
            Some(place)
        }
    };
    Ok(Some(Capacity { max: schema.max, full: schema.full, by }))
}

fn compile_sets(collection: &Collection) -> Result<Vec<Set>, Error> {
    let mut sets = Vec::with_capacity(collection.schema.sets.len());
    for (name, schema) in &collection.schema.sets {
        let at = format!("sets.{name}");
        let leading: Vec<&str> =
            collection.key.sources.iter().map(|s| collection.source_name(*s)).collect();
        let bound = schema.by.len();
        let matches = leading.get(..bound).is_some_and(|head| head == schema.by.as_slice());
        if !matches || bound == 0 || bound == leading.len() {
            let detail =
                format!("`by` names the first fields of the key, but not all: {leading:?}");
            return Err(wrong(&collection.name, &at, detail));
        }
        if schema.max == 0 || schema.max > SET_DOCUMENTS_MAX || schema.min > schema.max {
            let detail = format!("`max` is 1 to {SET_DOCUMENTS_MAX} and not below `min`");
            return Err(wrong(&collection.name, &at, detail));
        }
        sets.push(Set { name: name.clone(), bound, min: schema.min, max: schema.max });
    }
    Ok(sets)
}
