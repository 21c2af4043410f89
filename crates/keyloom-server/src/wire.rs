//! From the engine's answers to the shapes of the wire, field by field: a new field does not
//! compile until it is decided.

use keyloom_api as api;
use keyloom_engine as engine;
use keyloom_engine::Error;
use keyloom_engine::schema::ClassSchema;
use serde_json::value::RawValue;

/// A document.
pub fn document(document: engine::Document) -> Result<api::Document, Error> {
    let engine::Document { key, version, created_at, updated_at, owner, description, data } =
        document;
    let data = raw(&key, data)?;
    Ok(api::Document { key, version, created_at, updated_at, owner, description, data })
}

/// A page, with its plan if that was asked for.
pub fn page(page: engine::Page, explain: bool) -> Result<api::Page, Error> {
    let next = page.next();
    let engine::Page { items, next: _, cost: spent, plan: run } = page;
    let items = match items {
        engine::Items::Documents(documents) => {
            let item = |found| document(found).map(api::Item::Document);
            documents.into_iter().map(item).collect::<Result<_, _>>()?
        }
        engine::Items::Selected(rows) => rows.iter().map(selected).collect::<Result<_, _>>()?,
    };
    Ok(api::Page { items, next, cost: cost(spent), plan: explain.then(|| plan(&run)) })
}

/// A count.
pub fn count(counted: engine::Counted, explain: bool) -> api::Count {
    let engine::Counted { count, cost: spent, plan: run } = counted;
    api::Count { count, cost: cost(spent), plan: explain.then(|| plan(&run)) }
}

/// An existence.
pub fn exists(existence: engine::Existence, explain: bool) -> api::Exists {
    let engine::Existence { exists, cost: spent, plan: run } = existence;
    api::Exists { exists, cost: cost(spent), plan: explain.then(|| plan(&run)) }
}

/// A page of keys.
pub fn keys(page: engine::KeyPage) -> api::KeyPage {
    let engine::KeyPage { keys, next, cost: spent, plan } = page;
    api::KeyPage { path: plan.path(), keys, next, cost: cost(spent) }
}

/// A page of the list matcher.
pub fn list(listed: engine::Listed, explain: bool) -> Result<api::ListPage, Error> {
    let engine::Listed {
        items,
        items_length,
        items_page,
        matches_length,
        matches_pages,
        next,
        cost: spent,
        plan: run,
    } = listed;
    Ok(api::ListPage {
        items: items.into_iter().map(document).collect::<Result<_, _>>()?,
        items_length,
        items_page,
        matches_length,
        matches_pages,
        next,
        cost: cost(spent),
        plan: explain.then(|| plan(&run)),
    })
}

/// What an operation of a batch did.
pub fn written(written: engine::Written) -> Result<api::BatchResult, Error> {
    use api::Outcome;
    use engine::Written;
    let (outcome, key, version, kept) = match written {
        Written::Created(new) => (Outcome::Created, new.key.clone(), Some(new.version), Some(new)),
        Written::Updated(new) => (Outcome::Updated, new.key.clone(), Some(new.version), Some(new)),
        Written::Deleted { key, version } => (Outcome::Deleted, key, Some(version), None),
        Written::Absent { key } => (Outcome::Absent, key, None, None),
    };
    Ok(api::BatchResult { outcome, key, version, document: kept.map(document).transpose()? })
}

/// What a write would do.
pub fn write_plan(plan: engine::WritePlan) -> api::WritePlan {
    let engine::WritePlan { puts, deletes, checks, changes } = plan;
    let puts = puts.into_iter().map(planned_key).collect();
    let deletes = deletes.into_iter().map(planned_key).collect();
    api::WritePlan { puts, deletes, checks, changes }
}

/// What a schema changes.
pub fn schema_change(change: engine::SchemaChange, applied: bool) -> api::SchemaChange {
    let engine::SchemaChange { version, steps } = change;
    let steps = steps.into_iter().map(step).collect();
    api::SchemaChange { version, applied, steps }
}

/// A collection.
pub fn collection(info: engine::CollectionInfo) -> Result<api::Collection, Error> {
    let engine::CollectionInfo { name, schema, documents, indexes } = info;
    let template = schema.key.clone();
    let schema = serde_json::to_value(&schema)
        .map_err(|error| Error::Corrupt { detail: error.to_string() })?;
    let indexes = indexes.into_iter().map(index).collect();
    // So far a collection has one key format.
    let formats = vec![api::Format { template, documents }];
    Ok(api::Collection { name, documents, formats, schema, indexes })
}

/// What a class says.
pub fn class_schema(schema: &ClassSchema) -> Result<serde_json::Value, Error> {
    serde_json::to_value(schema).map_err(|error| Error::Corrupt { detail: error.to_string() })
}

/// What a template costs.
pub fn path_cost(cost: engine::PathCost) -> api::PathCost {
    let engine::PathCost { path, template, key_bytes_max, keys_per_document, lints } = cost;
    api::PathCost { path, template, key_bytes_max, keys_per_document, lints }
}

/// What there is to know of a token.
pub fn token(token: engine::Token) -> api::Token {
    let engine::Token { id, subject, role, scopes, created_at, expires_at } = token;
    let role = match role {
        engine::Role::Admin => api::Role::Admin,
        engine::Role::User => api::Role::User,
    };
    let right = |right: engine::Right| match right {
        engine::Right::Read => api::Right::Read,
        engine::Right::Write => api::Right::Write,
    };
    let scopes = scopes.0.into_iter();
    let scopes = scopes.map(|(name, rights)| (name, rights.into_iter().map(right).collect()));
    api::Token { id, subject, role, scopes: scopes.collect(), created_at, expires_at }
}

/// A new token with its secret, which is shown here and never again.
pub fn new_token(new: engine::Token, secret: &engine::Secret) -> api::NewToken {
    api::NewToken { about: token(new), token: secret.expose().to_owned() }
}

/// A page of tokens.
pub fn token_page(page: engine::TokenPage) -> api::TokenPage {
    let engine::TokenPage { tokens, next } = page;
    api::TokenPage { items: tokens.into_iter().map(token).collect(), next }
}

/// An item of the feed.
pub fn change(change: engine::Change) -> api::Change {
    match change {
        engine::Change::Document(change) => document_change(change),
        engine::Change::Object(change) => object_change(change),
    }
}

fn document_change(change: engine::DocumentChange) -> api::Change {
    let engine::DocumentChange { position, kind, collection, key, version, subjects: _ } = change;
    let kind = match kind {
        engine::ChangeKind::Created => api::ChangeKind::Created,
        engine::ChangeKind::Updated => api::ChangeKind::Updated,
        engine::ChangeKind::Deleted => api::ChangeKind::Deleted,
    };
    let what = api::Changed::Document { collection, key };
    api::Change { position: position.0, kind, what, version }
}

fn object_change(change: engine::ObjectChange) -> api::Change {
    let engine::ObjectChange { position, kind, class, partition, id, version, entries } = change;
    let entry = |engine::EntryStep { kind, key }| api::EntryChange {
        kind: touched(kind),
        key: key.to_string(),
    };
    let entries = entries.into_iter().map(entry).collect();
    let what = api::Changed::Object { class, partition, object: id.to_string(), entries };
    api::Change { position: position.0, kind: touched(kind), what, version }
}

fn touched(kind: engine::Touched) -> api::ChangeKind {
    match kind {
        engine::Touched::Created => api::ChangeKind::Created,
        engine::Touched::Updated => api::ChangeKind::Updated,
        engine::Touched::Deleted => api::ChangeKind::Deleted,
    }
}

/// What a check found.
pub fn check_report(report: engine::CheckReport) -> api::CheckReport {
    let engine::CheckReport { documents, objects, keys, problems, repaired } = report;
    let problems = problems
        .into_iter()
        .map(|engine::Problem { collection, path, key, what }| api::CheckProblem {
            collection,
            path,
            key,
            what: what.to_owned(),
        })
        .collect();
    api::CheckReport { documents, objects, keys, problems, repaired }
}

fn selected(selected: engine::Selected<'_>) -> Result<api::Item, Error> {
    let key = selected.key();
    let data = raw(&key, selected.data())?;
    Ok(api::Item::Selected(api::Selected { key, data }))
}

/// What an answer has cost.
pub fn cost(cost: engine::Cost) -> api::Cost {
    let engine::Cost { keys_read, documents_read, ranges } = cost;
    api::Cost { keys_read, documents_read, ranges }
}

/// A plan.
pub fn plan(plan: &engine::Plan) -> api::Plan {
    let ranges = plan.ranges();
    let is_one = ranges.windows(2).all(|two| matches!(two, [one, other] if one.path == other.path));
    let range = |range: engine::PlanRange| {
        let engine::PlanRange { path, from, to } = range;
        api::Range { path: (!is_one).then_some(path), from, to }
    };
    let scan_note = |note: engine::ScanNote| {
        let engine::ScanNote { budget, filtered } = note;
        api::ScanNote { budget: u64::try_from(budget).unwrap_or(u64::MAX), filtered }
    };
    api::Plan {
        path: plan.path(),
        ranges: ranges.into_iter().map(range).collect(),
        direction: match plan.direction() {
            engine::Direction::Forward => api::Direction::Forward,
            engine::Direction::Reverse => api::Direction::Reverse,
        },
        covering: plan.covering,
        keys_read_max: plan.keys_read_max,
        probe: plan.probe().map(str::to_owned),
        scan: plan.scan().map(scan_note),
    }
}

fn planned_key(planned: engine::PlannedKey) -> api::PlannedKey {
    let engine::PlannedKey { role, key, key_bytes, value_bytes } = planned;
    api::PlannedKey { role, key, key_bytes, value_bytes }
}

fn step(step: engine::SchemaStep) -> api::CollectionChange {
    use engine::SchemaStep as Step;
    let (change, collection, path, documents) = match step {
        Step::CollectionAdded { collection } => {
            (api::StepKind::CollectionAdded, collection, None, None)
        }
        Step::PathAdded { collection, path, backfill_documents } => {
            (api::StepKind::PathAdded, collection, Some(path), Some(backfill_documents))
        }
        Step::PathRemoved { collection, path } => {
            (api::StepKind::PathRemoved, collection, Some(path), None)
        }
        Step::RulesChanged { collection, check_documents } => {
            (api::StepKind::RulesChanged, collection, None, Some(check_documents))
        }
        Step::ClassAdded { class } => (api::StepKind::ClassAdded, class, None, None),
        Step::ClassChanged { class } => (api::StepKind::ClassChanged, class, None, None),
        // A step of a newer engine: at least it is told that there is one.
        _ => (api::StepKind::Other, String::new(), None, None),
    };
    api::CollectionChange { change, collection, path, documents }
}

fn index(index: engine::IndexInfo) -> api::Index {
    let engine::IndexInfo { path, template, state } = index;
    api::Index { path, template, state: state.to_owned() }
}

fn raw(key: &str, data: Vec<u8>) -> Result<Box<RawValue>, Error> {
    let text = String::from_utf8(data).ok();
    let raw = text.and_then(|text| RawValue::from_string(text).ok());
    let damaged = || Error::Corrupt { detail: format!("the data of `{key}` is not JSON") };
    raw.ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(data: &[u8]) -> engine::Document {
        engine::Document {
            key: "k".to_owned(),
            version: 3,
            created_at: 1,
            updated_at: 2,
            owner: Some("u".to_owned()),
            description: None,
            data: data.to_vec(),
        }
    }

    #[test]
    fn a_document_goes_out_as_it_is_stored() {
        let wire = document(stored(br#"{"a" : 1.0}"#)).unwrap();
        assert_eq!(wire.data.get(), r#"{"a" : 1.0}"#);
        assert_eq!((wire.version, wire.owner.as_deref()), (3, Some("u")));
    }

    #[test]
    fn damaged_data_is_an_error_and_not_a_broken_answer() {
        for data in [&b"{"[..], b"\xFF", b""] {
            let error = document(stored(data)).unwrap_err().to_string();
            assert_eq!(error, "stored data is corrupt: the data of `k` is not JSON");
        }
    }

    #[test]
    fn a_step_is_told_with_the_documents_it_reads() {
        let added = engine::SchemaStep::PathAdded {
            collection: "a".to_owned(),
            path: "index:b".to_owned(),
            backfill_documents: 5,
        };
        let change = engine::SchemaChange { version: 2, steps: vec![added] };
        let wire = schema_change(change, false);
        assert_eq!(wire.steps[0].documents, Some(5));
        assert_eq!(wire.steps[0].change, api::StepKind::PathAdded);
        assert!(!wire.applied);
    }
}
