//! A schema changes while documents are stored.

mod claims;
mod indexes;
mod interruptions;
mod races;
mod rules;
mod schemas;

use keyloom_engine::Actor;
use keyloom_key::{Head, Space};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::support::Database;

const PEOPLE: &str = r#"
[collections.people]
key = "person:{id}"
fields.id = { type = "id", required = true }
fields.name = { type = "text", length = { max = 20 } }
fields.age = { type = "i64" }
"#;

/// The schema of people with more lines.
fn people_with(lines: &str) -> String {
    format!("{PEOPLE}\n{lines}\n")
}

fn person(id: &str, name: &str, age: i64) -> Json {
    json!({"id": id, "name": name, "age": age})
}

/// Three people, two of whom have the same age.
fn people() -> Database {
    let database = Database::new(PEOPLE);
    for (id, name, age) in [("a", "Ann", 30), ("b", "Bob", 30), ("c", "Cyd", 40)] {
        database.create("people", &person(id, name, age)).unwrap();
    }
    database
}

fn states(database: &Database) -> Vec<String> {
    let info = block_on(database.engine.collection(&Actor::Local, "people")).unwrap();
    info.indexes.iter().map(|index| format!("{} {}", index.path, index.state)).collect()
}

fn templates(database: &Database) -> Vec<u16> {
    let mut found: Vec<u16> = database
        .entries()
        .iter()
        .map(|entry| Head::read(&entry.key).unwrap().0)
        .filter(|head| matches!(head.space, Space::Index | Space::Claim))
        .map(|head| head.template)
        .collect();
    found.dedup();
    found
}
