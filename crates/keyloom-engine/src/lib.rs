//! Keyloom as an embedded library: schema, documents, indexes, queries and changes over any store.
//!
//! [`Engine`] is the door. A write is one read and one commit; a query is a plan of key ranges and
//! their execution. Planning, rules and key building are plain functions; only the modules that
//! drive the store await.

mod access;
mod apply;
mod catalog;
mod changes;
mod check;
mod document;
mod engine;
mod error;
pub mod limits;
mod list;
mod object;
mod pause;
mod query;
mod read;
pub mod schema;
mod system;
mod token;
mod write;

pub use catalog::{PathCost, SchemaChange, SchemaStep};
pub use changes::{Change, ChangeKind, DocumentChange, ObjectChange, Retention};
pub use check::{CheckReport, Problem, Repair};
pub use document::Document;
pub use engine::{
    Actor, CollectionInfo, Engine, EngineTally, IndexInfo, Mode, Options, RetryPolicy,
};
pub use error::{Error, NoIndex};
pub use keyloom_key::{EntryKey, EntryStep, ObjectId, ObjectStep, Touched};
pub use keyloom_store::{Direction, Feed, Position, Tally};
pub use list::{List, ListField, ListOrder, Listed, TimeMatcher, literal};
pub use object::{
    Completion, Ended, EntriesRead, EntryBatch, EntryList, EntryPage, EventCause, EventPage,
    Failed, Object, ObjectAt, ObjectContent, ObjectItem, ObjectList, ObjectOrder, ObjectPage,
    ObjectStats, ObjectWritten, OutboxAt, OutboxEvent, Partition, Rollout, Terms, Val, ValKind,
};
pub use query::{
    Cost, Counted, Existence, Filter, Item, Items, KeyPage, KeyQuery, OrderBy, Page, Plan,
    PlanRange, Query, ScanNote, Selected, Selection, Sort, Test, UnsealedCursor,
};
pub use system::{RealSystem, System};
pub use token::{Identity, NewToken, Right, Role, Scopes, Secret, Token, TokenPage};
pub use write::{
    Action, Operation, PlannedKey, Precondition, SetReplacement, Update, WritePlan, Written,
};
