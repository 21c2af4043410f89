//! Single parts of Keyloom, in nanoseconds and, where valgrind is installed, in instructions.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::block_on::block_on;
use keyloom_engine::{
    Action, Actor, Engine, Filter, Operation, Options, OrderBy, Query, Sort, Test,
};
use keyloom_key::{Kind, StringId, Template, Value};
use keyloom_store::memory::MemoryStore;
use serde_json::Value as Json;

use crate::outcome::Outcome;
use crate::scribe::COLLECTION;
use crate::stopwatch::{Stopwatch, nanos};
use crate::workload::{LIST_LIMIT, Workload, schema};

/// The longest id that the target speaks of, in mixed case so that there is something to fold.
const ID_OF_32_BYTES: &str = "Order_2025-09-12_CUSTOMER-000042";

/// The most bytes of an id, as the object grid has it.
const ID_BYTES_MAX: usize = 160;

/// How large the document is from which keys are extracted.
const DOCUMENT_BYTES: usize = 1024;

/// The batches of which the fastest counts: it is the one that was disturbed least.
pub(crate) const BATCHES: u64 = 30;

/// Instructions are counted as the difference between two runs, so that what a process does once
/// does not count.
const INSTRUCTIONS_AT: (u64, u64) = (200, 1200);

/// A part that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Component {
    /// Normalize an id of 32 bytes and pack it into a key.
    EncodeKey,
    /// Read a query and plan it.
    CompilePlan,
    /// Everything that a create does before it reaches the store, for a document of 1 KiB.
    ExtractKeys,
}

/// What one component costs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) component: Component,
    pub(crate) nanos: f64,
    pub(crate) instructions: Option<u64>,
}

impl Component {
    /// All of them.
    pub(crate) const ALL: [Component; 3] =
        [Component::EncodeKey, Component::CompilePlan, Component::ExtractKeys];

    /// What stands in the table.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Component::EncodeKey => "normalize an id of 32 bytes and encode its key",
            Component::CompilePlan => "compile the plan of `20 newest of a requester`",
            Component::ExtractKeys => {
                "extract all keys of a 1 KiB approval (explain of its create)"
            }
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Component::EncodeKey => "encode-key",
            Component::CompilePlan => "compile-plan",
            Component::ExtractKeys => "extract-keys",
        }
    }

    /// Does it so many times; the nanoseconds of one time.
    pub(crate) fn run(self, count: u64) -> Outcome<f64> {
        match self {
            Component::EncodeKey => encode_key(count),
            Component::CompilePlan => compile_plan(count),
            Component::ExtractKeys => extract_keys(count),
        }
    }
}

/// Measures all components; `program` is this program.
pub(crate) fn measure_all(program: &Path, haste: u64) -> Outcome<Vec<Cost>> {
    let mut costs = Vec::new();
    for component in Component::ALL {
        let mut least = f64::INFINITY;
        for _ in 0..BATCHES {
            least = least.min(component.run(2000 / haste)?);
        }
        let instructions = if haste == 1 { instructions(program, component) } else { None };
        costs.push(Cost { component, nanos: least, instructions });
    }
    Ok(costs)
}

fn encode_key(count: u64) -> Outcome<f64> {
    let template = Template::compile("object:{id}", &|_| Some(Kind::Id))?;
    let mut key = Vec::with_capacity(64);
    repeat(count, || {
        let id = StringId::parse(std::hint::black_box(ID_OF_32_BYTES), ID_BYTES_MAX)?;
        key.clear();
        template.pack(&[Value::Text(id.as_str().to_owned())], &mut key)?;
        std::hint::black_box(&key);
        Ok(())
    })
}

fn compile_plan(count: u64) -> Outcome<f64> {
    let engine = engine()?;
    let user = Test::Equal(Json::String("user-1".to_owned()));
    let query = Query {
        filter: Filter::from([("requester".to_owned(), vec![user])]),
        order: Some(OrderBy { field: "created_at".to_owned(), direction: Sort::Descending }),
        limit: Some(LIST_LIMIT),
        ..Query::default()
    };
    repeat(count, || {
        std::hint::black_box(block_on(engine.explain(&Actor::Local, COLLECTION, &query))?);
        Ok(())
    })
}

fn extract_keys(count: u64) -> Outcome<f64> {
    let engine = engine()?;
    let approval = Workload { documents: 5000 }.approval(0);
    let filler = "x".repeat(DOCUMENT_BYTES.saturating_sub(approval.json.len()));
    let data = approval.json.replace("access to project", &format!("access to{filler}project"));
    let action = Action::Create { key: None, data: data.into_bytes(), description: None };
    let operations = [Operation { collection: COLLECTION.to_owned(), action }];
    repeat(count, || {
        std::hint::black_box(block_on(engine.explain_write(&Actor::Local, &operations))?);
        Ok(())
    })
}

fn engine() -> Outcome<Engine> {
    let engine = block_on(Engine::open(Arc::new(MemoryStore::new()), Options::default()))?;
    block_on(engine.apply_schema(&schema()?, &mut |_| {}))?;
    Ok(engine)
}

/// Does something so many times; the nanoseconds of one time.
pub(crate) fn repeat(count: u64, mut once: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let stopwatch = Stopwatch::start();
    for _ in 0..count {
        once()?;
    }
    Ok(nanos(stopwatch.elapsed()) as f64 / count as f64)
}

/// Counts instructions with callgrind; `None` if that does not work here.
fn instructions(program: &Path, component: Component) -> Option<u64> {
    let (few, many) = INSTRUCTIONS_AT;
    let collected = |count: u64| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(program)
            .args(["component", component.name(), &count.to_string()])
            .output()
            .ok()?;
        read_collected(&String::from_utf8_lossy(&output.stderr))
    };
    Some(collected(many)?.checked_sub(collected(few)?)? / (many - few))
}

/// The count in the last lines of callgrind: `==1== Collected : 123456`.
fn read_collected(text: &str) -> Option<u64> {
    let (_, count) = text.lines().find(|line| line.contains("Collected"))?.split_once(':')?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_runs() {
        for component in Component::ALL {
            assert!(component.run(3).unwrap() > 0.0);
        }
    }

    #[test]
    fn the_count_of_callgrind_is_read() {
        let text = "==7== Events    : Ir\n==7== Collected : 98765\n==7== \n";
        assert_eq!(read_collected(text), Some(98_765));
        assert_eq!(read_collected("valgrind: not found"), None);
    }
}
