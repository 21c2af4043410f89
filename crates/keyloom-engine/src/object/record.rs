//! What is stored under the keys of an object.
//!
//! ```text
//! metadata   01 | version u64 | created u64 | flags u8 | numeric entries u32 | string entries u32
//!               | bytes of all values u64
//!            flag 1: there is an event configuration
//!            flag 2: some string entries lie in the older layout
//! entry      kind u8 | data to the end; kind 0 bytes, 1 CRDT map
//! event      01 | JSON
//! legacy     01 | version u64 | created u64 | entries; each u32 key | u32 length | entry
//! ```
//!
//! `version` and `created` are microseconds since 1970, as in documents.

use keyloom_key::EntryKey;

use super::{Val, ValKind};
use crate::error::Error;
use crate::schema::Event;

/// The format of the records that have one, their first byte.
const FORMAT: u8 = 1;
const FLAG_EVENT: u8 = 1;
const FLAG_LENGTH_ENTRIES: u8 = 2;

/// What is known of an object without reading its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) version: u64,
    pub(crate) created: u64,
    pub(crate) has_event: bool,
    /// Whether some string entries lie in the older layout.
    pub(crate) has_length_entries: bool,
    pub(crate) numeric: u32,
    pub(crate) string: u32,
    /// Of all values.
    pub(crate) bytes: u64,
}

/// A whole object in the oldest layout; it has numeric entries only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LegacyObject {
    pub(crate) version: u64,
    pub(crate) created: u64,
    pub(crate) entries: Vec<(EntryKey, Val)>,
}

impl Metadata {
    /// How many entries there are.
    pub(crate) fn entries(&self) -> u64 {
        u64::from(self.numeric) + u64::from(self.string)
    }

    /// The time of creation, in milliseconds.
    pub(crate) fn created_at(&self) -> u64 {
        self.created / 1000
    }

    /// The time of the last change, in milliseconds.
    pub(crate) fn updated_at(&self) -> u64 {
        self.version / 1000
    }

    /// The record as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Metadata { version, created, has_event, has_length_entries, numeric, string, bytes } =
            self;
        let mut out = Vec::with_capacity(34);
        out.push(FORMAT);
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&created.to_be_bytes());
        let event = if *has_event { FLAG_EVENT } else { 0 };
        out.push(event | if *has_length_entries { FLAG_LENGTH_ENTRIES } else { 0 });
        out.extend_from_slice(&numeric.to_be_bytes());
        out.extend_from_slice(&string.to_be_bytes());
        out.extend_from_slice(&bytes.to_be_bytes());
        out
    }

    /// Reads a record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Metadata, Error> {
        let mut rest = check_format(bytes)?;
        let version = take(&mut rest).map(u64::from_be_bytes)?;
        let created = take(&mut rest).map(u64::from_be_bytes)?;
        let [flags] = take(&mut rest)?;
        if flags & !(FLAG_EVENT | FLAG_LENGTH_ENTRIES) != 0 {
            return Err(Error::corrupt(format!("an object has unknown flags {flags:#04x}")));
        }
        let metadata = Metadata {
            version,
            created,
            has_event: flags & FLAG_EVENT != 0,
            has_length_entries: flags & FLAG_LENGTH_ENTRIES != 0,
            numeric: take(&mut rest).map(u32::from_be_bytes)?,
            string: take(&mut rest).map(u32::from_be_bytes)?,
            bytes: take(&mut rest).map(u64::from_be_bytes)?,
        };
        if rest.is_empty() {
            Ok(metadata)
        } else {
            Err(Error::corrupt("an object has a long tail"))
        }
    }
}

impl Val {
    /// The record as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.data.len());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.data);
        out
    }

    /// Reads a record; what it holds is not copied.
    pub(crate) fn decode(mut bytes: Vec<u8>) -> Result<Val, Error> {
        let kind = ValKind::read(&bytes)?;
        bytes.drain(..1);
        Ok(Val { kind, data: bytes })
    }

    fn decode_slice(bytes: &[u8]) -> Result<Val, Error> {
        let kind = ValKind::read(bytes)?;
        Ok(Val { kind, data: bytes.get(1..).unwrap_or_default().to_vec() })
    }
}

impl ValKind {
    fn read(bytes: &[u8]) -> Result<ValKind, Error> {
        match bytes.first() {
            Some(0) => Ok(ValKind::Byte),
            Some(1) => Ok(ValKind::CrdtMap),
            Some(kind) => Err(Error::corrupt(format!("an entry has the unknown kind {kind}"))),
            None => Err(truncated()),
        }
    }
}

impl LegacyObject {
    /// Reads a record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<LegacyObject, Error> {
        let mut rest = check_format(bytes)?;
        let version = take(&mut rest).map(u64::from_be_bytes)?;
        let created = take(&mut rest).map(u64::from_be_bytes)?;
        let mut entries: Vec<(EntryKey, Val)> = Vec::new();
        while !rest.is_empty() {
            let key = EntryKey::Numeric(take(&mut rest).map(u32::from_be_bytes)?);
            let length = take(&mut rest).map(u32::from_be_bytes)?;
            let length = usize::try_from(length).map_err(|_| truncated())?;
            let (val, behind) = rest.split_at_checked(length).ok_or_else(truncated)?;
            if entries.last().is_some_and(|(last, _)| *last >= key) {
                return Err(Error::corrupt("the entries of an old object are not in order"));
            }
            entries.push((key, Val::decode_slice(val)?));
            rest = behind;
        }
        Ok(LegacyObject { version, created, entries })
    }

    /// The metadata that the object has in the new layout.
    pub(crate) fn metadata(&self) -> Metadata {
        Metadata {
            version: self.version,
            created: self.created,
            numeric: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
            bytes: self.entries.iter().map(|(_, val)| val.data.len() as u64).sum(),
            ..Metadata::default()
        }
    }
}

/// An event configuration as bytes.
pub(crate) fn encode_event(event: &Event) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    serde_json::to_writer(&mut bytes, event).expect("an event has string keys only");
    bytes
}

/// Reads an event configuration.
pub(crate) fn decode_event(bytes: &[u8]) -> Result<Event, Error> {
    serde_json::from_slice(check_format(bytes)?)
        .map_err(|error| Error::corrupt(format!("an event cannot be read: {error}")))
}

/// What follows the format byte.
pub(super) fn check_format(bytes: &[u8]) -> Result<&[u8], Error> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        Some((format, _)) => Err(Error::corrupt(format!(
            "a record has format {format}, this program reads {FORMAT}: use a newer one"
        ))),
        None => Err(truncated()),
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Error> {
    let (head, rest) = bytes.split_first_chunk().ok_or_else(truncated)?;
    *bytes = rest;
    Ok(*head)
}

fn truncated() -> Error {
    Error::corrupt("a record is cut off")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl LegacyObject {
        /// The record as the programs wrote it that knew no other layout.
        fn encode(&self) -> Vec<u8> {
            let mut out = vec![FORMAT];
            out.extend_from_slice(&self.version.to_be_bytes());
            out.extend_from_slice(&self.created.to_be_bytes());
            for (key, val) in &self.entries {
                let EntryKey::Numeric(key) = key else { continue };
                let val = val.encode();
                let length = u32::try_from(val.len()).expect("values are bounded");
                out.extend_from_slice(&key.to_be_bytes());
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&val);
            }
            out
        }
    }

    proptest! {
        #[test]
        fn metadata_survives_its_encoding(
            version: u64, created: u64, has_event: bool, has_length_entries: bool, numeric: u32,
            string: u32, bytes: u64,
        ) {
            let metadata = Metadata {
                version, created, has_event, has_length_entries, numeric, string, bytes,
            };
            prop_assert_eq!(Metadata::decode(&metadata.encode()).unwrap(), metadata);
        }

        #[test]
        fn an_old_object_survives_its_encoding(
            version: u64, created: u64,
            entries in prop::collection::btree_map(any::<u32>(), any::<(bool, Vec<u8>)>(), 0..5),
        ) {
            let entries = entries.into_iter().map(|(key, (map, data))| {
                let kind = if map { ValKind::CrdtMap } else { ValKind::Byte };
                (EntryKey::Numeric(key), Val { kind, data })
            });
            let object = LegacyObject { version, created, entries: entries.collect() };
            prop_assert_eq!(LegacyObject::decode(&object.encode()).unwrap(), object);
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
            let framed = [&[1][..], &bytes].concat();
            for bytes in [&bytes, &framed] {
                let _ = Metadata::decode(bytes);
                let _ = LegacyObject::decode(bytes);
                let _ = Val::decode(bytes.clone());
                let _ = decode_event(bytes);
            }
        }
    }

    #[test]
    fn damaged_records_are_refused_with_a_reason() {
        let whole = Metadata { version: 7, ..Metadata::default() }.encode();
        for (bytes, expected) in [
            (&b""[..], "cut off"),
            (&[9][..], "format 9"),
            (&whole[..33], "cut off"),
            (&[&whole[..], &[0]].concat()[..], "long tail"),
        ] {
            let error = Metadata::decode(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Val::decode(vec![2]).unwrap_err().to_string().contains("unknown kind 2"));
    }
}
