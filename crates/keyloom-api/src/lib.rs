//! What can be asked of Keyloom and what it answers, as JSON and, in [`grid`], as protobuf.
//!
//! A1: These names and shapes are a contract: programs outside rely on them.
//! A2: Documents are spliced as they are stored, never read and written again.
//! A3: Nothing here knows the engine; whoever serves an answer converts it, field by field.

mod condition;
mod document;
pub mod grid;
mod object;
mod page;
mod problem;
mod query;
mod report;
mod request;
mod token;
mod unique;

pub use condition::{Condition, ConditionError, Operator, Tests};
pub use document::{Document, Item, Selected};
pub use object::{
    Capabilities, Class, ClassNames, DeadLetter, DeadLetters, Entry, EntryBatchBody, EntryPage,
    Invoked, LettersDeleted, Object, ObjectBody, ObjectClaim, ObjectHash, ObjectListed,
    ObjectMetadata, ObjectPage, ObjectWritten, PartitionStats, Replayed, Rewritten, Rollout, Value,
    ValueBody, ValueKind,
};
pub use page::{Cost, Count, Direction, Exists, KeyPage, ListPage, Page, Plan, Range, ScanNote};
pub use problem::{Code, Details, Problem, Suggestion, UnknownCode, Versions};
pub use query::{Order, QueryBody, QueryError};
pub use report::{
    BatchAnswer, BatchResult, Change, ChangeKind, Changed, CheckProblem, CheckReport, Collection,
    CollectionChange, Collections, Deleted, DeletedMany, Documents, EntryChange, Format, Index,
    Outcome, PathCost, PlannedKey, Readiness, SchemaChange, StepKind, WritePlan,
};
pub use request::{
    BatchBody, BatchOp, BatchOperation, CheckBody, DocumentBody, IfVersion, KeysBody, ListBody,
    ListField, ListOrder, Matcher, Paginate, SetBody, Star, TimeMatcher, Timestamps,
};
pub use token::{NewToken, Revoked, Right, Role, Scopes, Token, TokenBody, TokenPage};
