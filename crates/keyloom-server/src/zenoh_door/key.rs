//! Keys of Zenoh: where an object is, and what is asked of it.
//!
//! ```text
//! oprc/<class>/<partition>/objects/<number or text>[/…]
//! oprc/<class>/<partition>/sobjects/<text>[/…]
//! oprc/<class>/<partition>/objects/list-objects
//! oprc/<class>/<partition>/invokes/<function>[/async/<invocation>]
//! oprc/capabilities
//! ```
//!
//! Segments are percent-decoded, and normalized as everywhere.

use keyloom_engine::{Error, ObjectId, Partition};
use percent_encoding::percent_decode_str;

use crate::grid as convert;
use crate::service::Service;

/// A key, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) class: String,
    pub(super) partition: Partition,
    pub(super) object: Option<ObjectId>,
    pub(super) what: What,
}

/// What a key asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The object itself.
    Object,
    /// To set it, with an acknowledgement.
    Set,
    /// To set the entries that are given and keep the others; the object comes back.
    Merge,
    /// To set and delete entries, with an acknowledgement.
    BatchSet,
    /// A page of its entries.
    Entries,
    /// One of its entries, as the segment spells it.
    Entry(String),
    /// A page of the objects of the partition.
    List,
    /// To call a function and wait.
    Invoke(String),
    /// To call a function; the result is published.
    InvokeLater(String, String),
    /// The result of such a call.
    Result(String, String),
    /// What is published when the object changes.
    Changes,
}

/// Reads a key.
pub(super) fn read(service: &Service, text: &str) -> Result<Key, Error> {
    if text.contains(['*', '$']) {
        let detail = format!("`{text}` is a pattern: name one key; `*` is %2A, and `$` is %24");
        return Err(Error::Invalid { detail });
    }
    let segments = text.split('/').map(decoded).collect::<Result<Vec<_>, _>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["oprc", class, partition, rest @ ..] = segments.as_slice() else {
        return Err(unknown(text));
    };
    let (object, rest) = match rest {
        ["objects", "list-objects"] => (None, &["list-objects"][..]),
        ["objects", id, rest @ ..] => (Some(service.object_segment(id)?), rest),
        ["sobjects", id, rest @ ..] => (Some(service.object_id(None, Some(id))?), rest),
        rest => (None, rest),
    };
    let what = match (rest, object.is_some()) {
        ([], true) => What::Object,
        (["set"], true) => What::Set,
        (["merge"], true) => What::Merge,
        (["batch-set"], true) => What::BatchSet,
        (["entries"], true) => What::Entries,
        (["entries", key], true) => What::Entry((*key).to_owned()),
        (["changes"], true) => What::Changes,
        (["list-objects"], false) => What::List,
        (["invokes", function], _) => What::Invoke((*function).to_owned()),
        (["invokes", function, "async", id], _) => {
            What::InvokeLater((*function).to_owned(), (*id).to_owned())
        }
        (["results", function, "async", id], _) => {
            What::Result((*function).to_owned(), (*id).to_owned())
        }
        _ => return Err(unknown(text)),
    };
    let partition = convert::partition(partition)?;
    Ok(Key { class: (*class).to_owned(), partition, object, what })
}

fn decoded(segment: &str) -> Result<String, Error> {
    let text = percent_decode_str(segment).decode_utf8();
    let text = text.map_err(|_| Error::Invalid { detail: "the key is not UTF-8".to_owned() })?;
    Ok(text.into_owned())
}

fn unknown(text: &str) -> Error {
    Error::Invalid { detail: format!("`{text}` is no key of the grid") }
}
