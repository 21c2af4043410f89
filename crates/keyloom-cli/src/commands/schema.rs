//! `keyloom schema`: declare, show and check collections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use keyloom_api::{Collection, CollectionChange, SchemaChange, StepKind};
use keyloom_engine::schema::{ClassSchema, CollectionSchema, FieldSchema, Schema};
use keyloom_engine::{Engine, Options, PathCost};
use keyloom_store::memory::MemoryStore;
use serde_json::Value as Json;

use super::Session;
use crate::backend::read_schema;
use crate::input;
use crate::output::{Format, Output, counted};
use crate::problem::Failure;
use crate::progress::Progress;
use crate::table::Table;
use keyloom_server::wire;

/// Reads schema files and checks them alone, so that a wrong one never touches a database.
pub(super) async fn read_checked(files: &[PathBuf]) -> Result<Schema, Failure> {
    let schema = input::schema(files)?;
    empty_engine().await?.plan_schema(&schema).await?;
    Ok(schema)
}

/// Puts a schema in force, or tells what it would change.
pub(super) async fn apply(
    session: &mut Session<'_>,
    schema: &Schema,
    dry_run: bool,
) -> Result<(), Failure> {
    let change = if dry_run {
        session.backend.plan_schema(schema).await?
    } else {
        let mut progress = Progress::start("index");
        let mut documents = 0;
        let mut step = |more: u64| {
            documents += more;
            progress.step(documents, None);
        };
        let applied = session.backend.apply_schema(schema, &mut step).await;
        progress.finish();
        applied?
    };
    match session.output.format() {
        Format::Json => session.output.json(&change),
        Format::Text => tell_change(session.output, &change),
    }
}

/// Shows the named collections, or all collections and classes of the database.
pub(super) async fn show(
    session: &mut Session<'_>,
    collections: Vec<String>,
    toml: bool,
) -> Result<(), Failure> {
    let mut classes = BTreeMap::new();
    let names = match collections.is_empty() {
        true => {
            for name in session.backend.classes().await? {
                let class = session.backend.class(&name).await?;
                classes.insert(name, class);
            }
            session.backend.collections().await?
        }
        false => collections,
    };
    let mut infos = Vec::new();
    for name in names {
        infos.push(session.backend.collection(&name).await?);
    }
    if toml {
        let mut schema = Schema { classes, ..Schema::default() };
        for info in infos {
            let collection = read_schema(&info)?;
            schema.collections.insert(info.name, collection);
        }
        let text = toml::to_string(&schema)
            .map_err(|error| Failure::Invalid(format!("not expressible as TOML: {error}")))?;
        return session.output.line(text.trim_end());
    }
    match session.output.format() {
        Format::Json => {
            let shown = serde_json::json!({ "collections": infos, "classes": classes });
            session.output.json(&shown)
        }
        Format::Text => {
            if infos.is_empty() && classes.is_empty() {
                let hint = "no collections yet: declare some with `keyloom schema apply FILE`";
                return session.output.line(hint);
            }
            infos.iter().try_for_each(|info| tell_collection(session.output, info))?;
            classes.iter().try_for_each(|(name, class)| tell_class(session.output, name, class))
        }
    }
}

/// Checks schema files: what each key costs, and what to think about.
pub(super) async fn check(files: &[PathBuf], output: &mut Output) -> Result<(), Failure> {
    let schema = read_checked(files).await?;
    let costs = empty_engine().await?.schema_costs(&schema).await?;
    match output.format() {
        Format::Json => {
            let collections: BTreeMap<String, Vec<_>> = costs
                .into_iter()
                .map(|(name, paths)| (name, paths.into_iter().map(wire::path_cost).collect()))
                .collect();
            output.json(&serde_json::json!({ "collections": collections }))
        }
        Format::Text => {
            costs.iter().try_for_each(|(name, paths)| tell_costs(output, name, paths))?;
            let collections = counted(count(costs.len()), "collection");
            match schema.classes.len() {
                0 => output.line(format_args!("{collections}: fine")),
                classes => {
                    let classes = match classes {
                        1 => "1 class".to_owned(),
                        classes => format!("{classes} classes"),
                    };
                    output.line(format_args!("{collections}, {classes}: fine"))
                }
            }
        }
    }
}

async fn empty_engine() -> Result<Engine, Failure> {
    Ok(Engine::open(Arc::new(MemoryStore::new()), Options::default()).await?)
}

fn tell_change(output: &mut Output, change: &SchemaChange) -> Result<(), Failure> {
    let SchemaChange { version, applied, steps } = change;
    if steps.is_empty() {
        return output.line(format_args!("nothing to change: version {version} says the same"));
    }
    for CollectionChange { change, collection, path, documents } in steps {
        let what = match change {
            StepKind::CollectionAdded => "new collection",
            StepKind::PathAdded => "new",
            StepKind::PathRemoved => "removed",
            StepKind::RulesChanged => "changed rules",
            StepKind::ClassAdded => "new class",
            StepKind::ClassChanged => "changed class",
            StepKind::Other => "changed",
        };
        let mut line = format!("{collection}: {what}");
        line.extend(path.iter().map(|path| format!(" {path}")));
        let documents = documents.filter(|documents| *documents > 0);
        line.extend(documents.map(|count| format!(" ({})", counted(count, "stored document"))));
        output.line(line)?;
    }
    if *applied {
        output.dim(format_args!("version {version} is in force"))
    } else {
        let stored = steps.iter().any(|step| step.documents.is_some_and(|count| count > 0));
        if stored {
            output.line(
                "stored documents were not read: `schema apply` reads those whose rules change, \
                 and refuses what one of them contradicts",
            )?;
        }
        output.dim("nothing was changed: this was a dry run")
    }
}

fn tell_collection(output: &mut Output, info: &Collection) -> Result<(), Failure> {
    let Collection { name, documents, indexes, .. } = info;
    let schema = &read_schema(info)?;
    output.bold(name)?;
    let documents = documents.map(|documents| counted(documents, "document"));
    let about: Vec<String> = documents.into_iter().chain(schema.about.clone()).collect();
    output.dim(about.join(" · "))?;
    let mut paths = Table::new(["path", "template", "state"]);
    paths.row(["key", &schema.key, "ready"]);
    for index in indexes {
        paths.row([index.path.as_str(), index.template.as_str(), index.state.as_str()]);
    }
    output.table(&paths)?;
    output.line("")?;
    output.table(&fields(schema))?;
    output.line("")
}

fn tell_class(output: &mut Output, name: &str, class: &ClassSchema) -> Result<(), Failure> {
    let ClassSchema { about, partitions, functions, event: _ } = class;
    output.bold(format_args!("class {name}"))?;
    let partitions = counted(u64::from(*partitions), "partition");
    let about: Vec<String> = std::iter::once(partitions).chain(about.clone()).collect();
    output.dim(about.join(" · "))?;
    if !functions.is_empty() {
        let mut table = Table::new(["function", "url"]);
        for (name, function) in functions {
            table.row([name.as_str(), function.url.as_str()]);
        }
        output.table(&table)?;
    }
    output.line("")
}

fn fields(schema: &CollectionSchema) -> Table {
    let mut table = Table::new(["field", "type", "rules"]);
    for (name, field) in &schema.fields {
        table.row([name.clone(), field.kind.clone(), rules(field)]);
    }
    table
}

/// The rules of a field as a schema file spells them.
fn rules(field: &FieldSchema) -> String {
    let Ok(Json::Object(members)) = serde_json::to_value(field) else { return String::new() };
    let rules = members.into_iter().filter(|(name, _)| name != "type" && name != "about");
    let spelled: Vec<String> = rules
        .map(|(name, value)| match value {
            Json::Bool(true) if name != "default" => name,
            Json::String(text) => format!("{name} {text}"),
            value => format!("{name} {value}"),
        })
        .collect();
    spelled.join(", ")
}

fn tell_costs(output: &mut Output, name: &str, paths: &[PathCost]) -> Result<(), Failure> {
    let keys: usize = paths.iter().map(|path| path.keys_per_document).sum();
    output.bold(name)?;
    output.dim(format_args!("at most {} per document", counted(count(keys), "key")))?;
    let mut table = Table::new(["path", "template", "bytes per key", "keys per write"]);
    for path in paths {
        let PathCost { path, template, key_bytes_max, keys_per_document, lints: _ } = path;
        let bytes = format!("≤ {key_bytes_max}");
        table.row([path.clone(), template.clone(), bytes, keys_per_document.to_string()]);
    }
    output.table(&table)?;
    for path in paths {
        for lint in &path.lints {
            output.line(format_args!("  {}: {lint}", path.path))?;
        }
    }
    output.line("")
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
