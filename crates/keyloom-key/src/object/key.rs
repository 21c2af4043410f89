//! Where the records of an object stand.
//!
//! ```text
//! [08][class u16][partition u16] <id> 00 00                    metadata
//!                                <id> 00 01                    event configuration
//!                                <id> 00 10 <u32>              entry with a numeric key
//!                                <id> 00 12 <key>              entry with a string key
//!                                <id> 00 11 <varint> <key>     the same, older layout
//! [08][class u16][partition u16] 00 <u64>                      numeric identities in their order
//! [09][class u16][partition u16] <u64>                         a whole object, oldest layout
//! [05][class u16][partition u16] <id>                          tombstone
//! ```
//!
//! `<id>` is the spelling of the identity: decimal ASCII or normalized text.
//!
//! I1: No identity holds or begins with a NUL, so the records of one object are one range that
//!     holds nothing else, and no identity can be taken for the directory of numbers.
//! I2: What the old 8-byte keys hold cannot stand in the space of the others: the number whose
//!     bytes are `31 32 33 34 35 36 00 00` would be the metadata of `123456`.

use super::{CUT_OFF, EntryKey, ObjectDecodeError, ObjectId, stored_text, varint};
use crate::head::{Head, Space};

const METADATA: u8 = 0x00;
const EVENT: u8 = 0x01;
const NUMERIC_ENTRY: u8 = 0x10;
const LENGTH_ENTRY: u8 = 0x11;
const STRING_ENTRY: u8 = 0x12;

/// Everything of an object but its record types: builds the keys of its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKey {
    /// The head, the identity and the NUL behind it.
    prefix: Vec<u8>,
    number: Option<u64>,
}

/// One record of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectRecord {
    /// Version, counts and flags.
    Metadata,
    /// What its changes trigger.
    Event,
    /// An entry.
    Entry(EntryKey),
    /// An entry with a string key in the older layout, which orders keys by their length first.
    LengthEntry(EntryKey),
}

/// A key of the object spaces, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredKey {
    /// A record of an object.
    Record {
        /// Whose it is.
        id: ObjectId,
        /// Which one it is.
        record: ObjectRecord,
    },
    /// A number in the directory of numeric identities.
    Directory(u64),
    /// A whole object in the oldest layout.
    Legacy(u64),
}

impl ObjectKey {
    /// The keys of one object.
    #[must_use]
    pub fn new(class: u16, partition: u16, id: &ObjectId) -> Self {
        let mut prefix = Vec::with_capacity(KEY_BYTES_USUAL);
        head(Space::Object, class, partition).write(&mut prefix);
        id.with_spelling(|spelling| prefix.extend_from_slice(spelling));
        prefix.push(0);
        let number = match id {
            ObjectId::Numeric(number) => Some(*number),
            ObjectId::String(_) => None,
        };
        Self { prefix, number }
    }

    /// The key of the metadata.
    #[must_use]
    pub fn metadata(&self) -> Vec<u8> {
        self.with(METADATA, &[])
    }

    /// The key of the event configuration.
    #[must_use]
    pub fn event(&self) -> Vec<u8> {
        self.with(EVENT, &[])
    }

    /// The key of an entry.
    #[must_use]
    pub fn entry(&self, key: &EntryKey) -> Vec<u8> {
        match key {
            EntryKey::Numeric(number) => self.with(NUMERIC_ENTRY, &number.to_be_bytes()),
            EntryKey::String(text) => self.with(STRING_ENTRY, text.as_str().as_bytes()),
        }
    }

    /// The key that an entry has in the older layout; `None` for a numeric one, which has no other.
    #[must_use]
    pub fn length_entry(&self, key: &EntryKey) -> Option<Vec<u8>> {
        let EntryKey::String(text) = key else { return None };
        let mut entry = self.with(LENGTH_ENTRY, &[]);
        varint::write(text.as_str().len(), &mut entry);
        entry.extend_from_slice(text.as_str().as_bytes());
        Some(entry)
    }

    /// The range of all records: first key, and the end that is not part of it.
    #[must_use]
    pub fn records(&self) -> (Vec<u8>, Vec<u8>) {
        (self.prefix.clone(), self.end())
    }

    /// The range of the entries with string keys that begin with `prefix`, which is normalized.
    #[must_use]
    pub fn string_entries(&self, prefix: &str) -> (Vec<u8>, Vec<u8>) {
        let from = self.with(STRING_ENTRY, prefix.as_bytes());
        let mut to = from.clone();
        // No byte of UTF-8 is FF.
        to.push(0xFF);
        (from, to)
    }

    /// The range of all entries, in all layouts.
    #[must_use]
    pub fn entries(&self) -> (Vec<u8>, Vec<u8>) {
        (self.with(NUMERIC_ENTRY, &[]), self.end())
    }

    /// The range of all records up to this entry, and with it.
    #[must_use]
    pub fn records_through(&self, key: &EntryKey) -> (Vec<u8>, Vec<u8>) {
        let mut to = self.entry(key);
        to.push(0);
        (self.prefix.clone(), to)
    }

    /// Which record of this object stands under a key.
    pub fn read(&self, key: &[u8]) -> Result<ObjectRecord, ObjectDecodeError> {
        let problem = "it is the key of another object";
        let rest = key.strip_prefix(self.prefix.as_slice());
        read_record(rest.ok_or(ObjectDecodeError { problem })?)
    }

    /// The first key behind all records: where the next object begins.
    #[must_use]
    pub fn end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone();
        if let Some(last) = end.last_mut() {
            *last = 1;
        }
        end
    }

    /// Where the last version of the deleted object stands.
    #[must_use]
    pub fn tombstone(&self) -> Vec<u8> {
        let mut key = self.prefix.clone();
        key.pop();
        if let Some(first) = key.first_mut() {
            *first = Space::Tombstone as u8;
        }
        key
    }

    /// The place of a numeric identity in the directory.
    #[must_use]
    pub fn directory(&self) -> Option<Vec<u8>> {
        let number = self.number?;
        let mut key = self.prefix.get(..Head::BYTES)?.to_vec();
        key.push(0);
        key.extend_from_slice(&number.to_be_bytes());
        Some(key)
    }

    /// Where a numeric object stands in the oldest layout.
    #[must_use]
    pub fn legacy(&self) -> Option<Vec<u8>> {
        let number = self.number?;
        let mut key = self.prefix.get(..Head::BYTES)?.to_vec();
        if let Some(first) = key.first_mut() {
            *first = Space::LegacyObject as u8;
        }
        key.extend_from_slice(&number.to_be_bytes());
        Some(key)
    }

    fn with(&self, record: u8, rest: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + 4 + rest.len());
        key.extend_from_slice(&self.prefix);
        key.push(record);
        key.extend_from_slice(rest);
        key
    }
}

impl StoredKey {
    /// Reads a key of the object spaces: its class, its partition and what stands there.
    pub fn read(key: &[u8]) -> Result<(u16, u16, Self), ObjectDecodeError> {
        let (head, rest) = Head::read(key).map_err(|_| CUT_OFF)?;
        let stored = match (head.space, rest) {
            (Space::LegacyObject, number) => Self::Legacy(number_of(number)?),
            (Space::Object, [0, number @ ..]) => Self::Directory(number_of(number)?),
            (Space::Object, rest) => {
                let nul = rest.iter().position(|byte| *byte == 0).ok_or(CUT_OFF)?;
                let (spelling, rest) = rest.split_at_checked(nul).ok_or(CUT_OFF)?;
                let id = ObjectId::from_spelling(spelling)?;
                let rest = rest.get(1..).unwrap_or_default();
                Self::Record { id, record: read_record(rest)? }
            }
            _ => return Err(ObjectDecodeError { problem: "it is not a key of an object" }),
        };
        Ok((head.collection, head.template, stored))
    }
}

/// The bytes that most keys have room in.
const KEY_BYTES_USUAL: usize = 64;

fn head(space: Space, class: u16, partition: u16) -> Head {
    Head { space, collection: class, template: partition }
}

fn number_of(bytes: &[u8]) -> Result<u64, ObjectDecodeError> {
    let problem = "a numeric identity does not have 8 bytes";
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| ObjectDecodeError { problem })
}

/// Reads what stands behind the NUL of an identity.
fn read_record(rest: &[u8]) -> Result<ObjectRecord, ObjectDecodeError> {
    Ok(match rest {
        [METADATA] => ObjectRecord::Metadata,
        [EVENT] => ObjectRecord::Event,
        [NUMERIC_ENTRY, number @ ..] => {
            let problem = "a numeric entry key does not have 4 bytes";
            let number = number.try_into().map_err(|_| ObjectDecodeError { problem })?;
            ObjectRecord::Entry(EntryKey::Numeric(u32::from_be_bytes(number)))
        }
        [LENGTH_ENTRY, rest @ ..] => {
            let (length, text) = varint::read(rest)?;
            if length != text.len() {
                return Err(ObjectDecodeError { problem: "a length is wrong" });
            }
            ObjectRecord::LengthEntry(EntryKey::String(stored_text(text)?))
        }
        [STRING_ENTRY, text @ ..] => ObjectRecord::Entry(EntryKey::String(stored_text(text)?)),
        _ => return Err(ObjectDecodeError { problem: "its record type is unknown" }),
    })
}
