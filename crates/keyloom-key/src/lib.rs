//! Identities, key templates, and the two spellings of a key.
//!
//! A [`Template`] turns field values into a key and back. The **text spelling** is for people, URLs
//! and logs; the **packed spelling** is what a store holds. Both name the same key:
//!
//! ```text
//! template   approval:index:requester:{requester}:{created_at desc}:{id}
//! text       approval:index:requester:u1:8299999999999:01ARZ3NDEKTSV4RRFFQ69G5FAV
//! packed     [head: 5 bytes] [string u1] [complement of int] [16 bytes of the ULID]
//! ```
//!
//! Everything here is pure: no I/O, no clock, no randomness of its own.

mod excerpt;
mod head;
mod identity;
pub mod limits;
mod object;
mod template;
mod value;

pub use head::{Head, Space};
pub use identity::{IdentityError, Name, NumericId, StringId, Ulid, UlidGenerator, Uuid};
pub use object::{
    EntryKey, EntryStep, ObjectDecodeError, ObjectId, ObjectKey, ObjectRecord, ObjectStep,
    ObjectText, StoredKey, Touched,
};
pub use template::{
    Anchors, Component, Constraint, Cut, DecodeError, Each, Located, Order, PackError, ParseError,
    Span, Tail, Template, TemplateError, TemplateProblem,
};
pub use value::{Kind, Value, ValueError};
