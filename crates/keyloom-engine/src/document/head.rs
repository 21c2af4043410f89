//! What is stored under a document's key, and under the key of a deleted one.
//!
//! ```text
//! document   01 | version u64 | created u64 | flags u8 | owner? | description? | JSON to the end
//!            version and created in microseconds, big-endian; flag 1: owner, flag 2: description;
//!            each of these as length u16, big-endian, and UTF-8
//! tombstone  01 | version u64
//! ```
//!
//! H1: `created` is the version with which the document was created, so an untouched document has
//!     `created_at == updated_at`.
//! H2: The JSON bytes are as they came.

use crate::error::Error;

/// The format of both records, their first byte.
const FORMAT: u8 = 1;
const FLAG_OWNER: u8 = 1;
const FLAG_DESCRIPTION: u8 = 2;
const MICROS_PER_MILLI: u64 = 1000;

/// A stored document, borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadRecord<'a> {
    pub(crate) version: u64,
    pub(crate) created: u64,
    pub(crate) owner: Option<&'a str>,
    pub(crate) description: Option<&'a str>,
    pub(crate) data: &'a [u8],
}

/// What remains of a deleted document: its last version, so that it is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) version: u64,
}

impl<'a> HeadRecord<'a> {
    /// The time of creation, in milliseconds.
    pub(crate) fn created_at(&self) -> u64 {
        self.created / MICROS_PER_MILLI
    }

    /// The time of the last change, in milliseconds.
    pub(crate) fn updated_at(&self) -> u64 {
        self.version / MICROS_PER_MILLI
    }

    /// The record as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let texts = [(FLAG_OWNER, self.owner), (FLAG_DESCRIPTION, self.description)];
        let texts_len: usize =
            texts.iter().filter_map(|(_, text)| Some(2 + text.as_ref()?.len())).sum();
        let mut bytes = Vec::with_capacity(18 + texts_len + self.data.len());
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&self.created.to_be_bytes());
        bytes.push(texts.iter().filter(|(_, text)| text.is_some()).map(|(flag, _)| flag).sum());
        for text in texts.into_iter().filter_map(|(_, text)| text) {
            let len = u16::try_from(text.len()).expect("owner and description are bounded");
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(self.data);
        bytes
    }

    /// Reads a record.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<HeadRecord<'a>, Error> {
        let rest = check_format(bytes)?;
        let (version, rest) = take_u64(rest)?;
        let (created, rest) = take_u64(rest)?;
        let Some((&flags, rest)) = rest.split_first() else { return Err(truncated()) };
        if flags & !(FLAG_OWNER | FLAG_DESCRIPTION) != 0 {
            return Err(Error::corrupt(format!("a document has unknown flags {flags:#04x}")));
        }
        let (owner, rest) = take_text(rest, flags & FLAG_OWNER != 0)?;
        let (description, data) = take_text(rest, flags & FLAG_DESCRIPTION != 0)?;
        Ok(HeadRecord { version, created, owner, description, data })
    }
}

impl Tombstone {
    /// The record as bytes.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes
    }

    /// Reads a record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Tombstone, Error> {
        match take_u64(check_format(bytes)?)? {
            (version, []) => Ok(Tombstone { version }),
            _ => Err(Error::corrupt("a tombstone has bytes behind its end")),
        }
    }
}

fn check_format(bytes: &[u8]) -> Result<&[u8], Error> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        Some((format, _)) => Err(Error::corrupt(format!(
            "a record has format {format}, this program reads {FORMAT}: use a newer one"
        ))),
        None => Err(truncated()),
    }
}

fn take_u64(bytes: &[u8]) -> Result<(u64, &[u8]), Error> {
    let (head, rest) = bytes.split_first_chunk().ok_or_else(truncated)?;
    Ok((u64::from_be_bytes(*head), rest))
}

fn take_text(bytes: &[u8], present: bool) -> Result<(Option<&str>, &[u8]), Error> {
    if !present {
        return Ok((None, bytes));
    }
    let (len, rest) = bytes.split_first_chunk().ok_or_else(truncated)?;
    let len = usize::from(u16::from_be_bytes(*len));
    let (text, rest) = rest.split_at_checked(len).ok_or_else(truncated)?;
    let text = std::str::from_utf8(text)
        .map_err(|_| Error::corrupt("owner or description is not UTF-8"))?;
    Ok((Some(text), rest))
}

fn truncated() -> Error {
    Error::corrupt("a record is cut off")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_document_survives_its_encoding(
            version: u64, created: u64, owner: Option<String>, description: Option<String>,
            data: Vec<u8>,
        ) {
            let head = HeadRecord {
                version, created, owner: owner.as_deref(), description: description.as_deref(),
                data: &data,
            };
            let bytes = head.encode();
            prop_assert_eq!(HeadRecord::decode(&bytes).unwrap(), head);
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
            let _ = HeadRecord::decode(&bytes);
            let _ = Tombstone::decode(&bytes);
        }
    }

    #[test]
    fn a_tombstone_survives_its_encoding() {
        let tombstone = Tombstone { version: 7 };
        assert_eq!(Tombstone::decode(&tombstone.encode()).unwrap(), tombstone);
        assert!(Tombstone::decode(&[1, 0]).is_err());
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let error = HeadRecord::decode(&[9]).unwrap_err().to_string();
        assert!(error.contains("format 9"), "{error}");
    }
}
