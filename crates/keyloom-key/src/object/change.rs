//! The canonical encoding of a change of an object: what was touched, never the values.
//!
//! ```text
//! 03 | kind u8 | class u16 | partition u16 | version u64 | identity | entries to the end
//! kind       1 created, 2 updated, 3 deleted
//! identity   00 | u64                     or  01 | varint length | UTF-8
//! entry      op u8 | 00 | u32             or  op u8 | 01 | varint length | UTF-8
//!            op 1 created, 2 updated, 3 deleted; ascending by key, each key once
//! ```
//!
//! I1: One change has one encoding, on every platform: `write` and `read` are inverse to each
//!     other.
//! I2: Bytes that `write` does not give are refused.

use super::{CUT_OFF, EntryKey, ObjectDecodeError, ObjectId, stored_text, varint};

/// The first byte of a change of an object.
const FORMAT: u8 = 3;
const NUMERIC: u8 = 0;
const STRING: u8 = 1;

/// One version step of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectStep {
    /// What happened to the object.
    pub kind: Touched,
    /// The number of its class.
    pub class: u16,
    /// Its partition.
    pub partition: u16,
    /// The version that the step gave it.
    pub version: u64,
    /// Whose step it is.
    pub id: ObjectId,
    /// The entries that were touched, ascending by key, each once.
    pub entries: Vec<EntryStep>,
}

/// One entry of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStep {
    /// What happened to the entry.
    pub kind: Touched,
    /// Its key.
    pub key: EntryKey,
}

/// What happened to an object or an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Touched {
    /// It is new.
    Created = 1,
    /// It was written again.
    Updated = 2,
    /// It is gone.
    Deleted = 3,
}

impl ObjectStep {
    /// Whether bytes begin like a change of an object.
    #[must_use]
    pub fn is_step(bytes: &[u8]) -> bool {
        bytes.first() == Some(&FORMAT)
    }

    /// The change as bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let Self { kind, class, partition, version, id, entries } = self;
        debug_assert!(entries.is_sorted_by(|one, two| one.key < two.key), "ascending, each once");
        let mut out = Vec::with_capacity(48 + entries.len() * 16);
        out.extend_from_slice(&[FORMAT, *kind as u8]);
        out.extend_from_slice(&class.to_be_bytes());
        out.extend_from_slice(&partition.to_be_bytes());
        out.extend_from_slice(&version.to_be_bytes());
        match id {
            ObjectId::Numeric(number) => {
                out.push(NUMERIC);
                out.extend_from_slice(&number.to_be_bytes());
            }
            ObjectId::String(text) => write_text(text.as_str(), &mut out),
        }
        for EntryStep { kind, key } in entries {
            out.push(*kind as u8);
            match key {
                EntryKey::Numeric(number) => {
                    out.push(NUMERIC);
                    out.extend_from_slice(&number.to_be_bytes());
                }
                EntryKey::String(text) => write_text(text.as_str(), &mut out),
            }
        }
        out
    }

    /// Reads a change.
    pub fn read(bytes: &[u8]) -> Result<Self, ObjectDecodeError> {
        let Some((&[FORMAT, kind], rest)) = bytes.split_first_chunk() else {
            return Err(ObjectDecodeError { problem: "it is cut off or has another format" });
        };
        let kind = Touched::try_from(kind)?;
        let (class, rest) = rest.split_first_chunk().ok_or(CUT_OFF)?;
        let (partition, rest) = rest.split_first_chunk().ok_or(CUT_OFF)?;
        let (version, rest) = rest.split_first_chunk().ok_or(CUT_OFF)?;
        let (id, mut rest) = read_id(rest)?;
        let mut entries: Vec<EntryStep> = Vec::new();
        while !rest.is_empty() {
            let (entry, behind) = read_entry(rest)?;
            if entries.last().is_some_and(|last| last.key >= entry.key) {
                return Err(ObjectDecodeError { problem: "its entries are not in order" });
            }
            entries.push(entry);
            rest = behind;
        }
        Ok(Self {
            kind,
            class: u16::from_be_bytes(*class),
            partition: u16::from_be_bytes(*partition),
            version: u64::from_be_bytes(*version),
            id,
            entries,
        })
    }
}

impl TryFrom<u8> for Touched {
    type Error = ObjectDecodeError;

    fn try_from(tag: u8) -> Result<Self, ObjectDecodeError> {
        match tag {
            1 => Ok(Self::Created),
            2 => Ok(Self::Updated),
            3 => Ok(Self::Deleted),
            _ => Err(ObjectDecodeError { problem: "its kind is unknown" }),
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(STRING);
    varint::write(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

fn read_id(bytes: &[u8]) -> Result<(ObjectId, &[u8]), ObjectDecodeError> {
    match bytes.split_first() {
        Some((&NUMERIC, rest)) => {
            let (number, rest) = rest.split_first_chunk().ok_or(CUT_OFF)?;
            Ok((ObjectId::Numeric(u64::from_be_bytes(*number)), rest))
        }
        Some((&STRING, rest)) => {
            let (text, rest) = read_text(rest)?;
            match ObjectId::from_spelling(text)? {
                id @ ObjectId::String(_) => Ok((id, rest)),
                ObjectId::Numeric(_) => {
                    Err(ObjectDecodeError { problem: "a number is spelled as a text" })
                }
            }
        }
        Some(_) => Err(UNKNOWN_VARIANT),
        None => Err(CUT_OFF),
    }
}

fn read_entry(bytes: &[u8]) -> Result<(EntryStep, &[u8]), ObjectDecodeError> {
    let (&[kind, variant], rest) = bytes.split_first_chunk().ok_or(CUT_OFF)?;
    let kind = Touched::try_from(kind)?;
    let (key, rest) = match variant {
        NUMERIC => {
            let (number, rest) = rest.split_first_chunk().ok_or(CUT_OFF)?;
            (EntryKey::Numeric(u32::from_be_bytes(*number)), rest)
        }
        STRING => {
            let (text, rest) = read_text(rest)?;
            (EntryKey::String(stored_text(text)?), rest)
        }
        _ => return Err(UNKNOWN_VARIANT),
    };
    Ok((EntryStep { kind, key }, rest))
}

fn read_text(bytes: &[u8]) -> Result<(&[u8], &[u8]), ObjectDecodeError> {
    let (length, rest) = varint::read(bytes)?;
    rest.split_at_checked(length).ok_or(CUT_OFF)
}

const UNKNOWN_VARIANT: ObjectDecodeError =
    ObjectDecodeError { problem: "the variant of an identity is unknown" };
