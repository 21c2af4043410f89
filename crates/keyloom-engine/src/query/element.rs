//! Splits packed keys into the elements of their components without decoding them.
//!
//! An element tells its own length (FoundationDB tuple encoding; a descending one is complemented):
//!
//! ```text
//! text 02 … 00    int 0C–1C and |code − 14| bytes    bool 26, 27    ulid, uuid 30 and 16 bytes
//! ```
//!
//! E1: Bytes that are no element give `None`, never a panic.

use keyloom_key::limits::TEMPLATE_COMPONENTS_MAX;
use keyloom_key::{Component, Head, Kind, Order};

use super::candidate::Candidate;
use crate::catalog::{Collection, Index, Path};
use crate::error::Error;

/// The bytes of a ULID or a UUID.
const UUID_ELEMENT_BYTES: usize = 17;

/// The elements of a key, by component.
#[derive(Default)]
pub(crate) struct Elements<'k> {
    slices: [&'k [u8]; TEMPLATE_COMPONENTS_MAX],
}

impl<'k> Elements<'k> {
    /// Splits a stored key of `path`; its bytes were written by this program, so what does not fit
    /// is damage.
    pub(crate) fn of(path: &Path, key: &'k [u8]) -> Result<Elements<'k>, Error> {
        let mut elements = Elements::default();
        elements.split(path, packed(key)).ok_or_else(|| misfit(path, key))?;
        Ok(elements)
    }

    fn split(&mut self, path: &Path, packed: &'k [u8]) -> Option<()> {
        let mut rest = packed;
        for (slot, component) in self.slices.iter_mut().zip(path.template.components()) {
            let (element, tail) = rest.split_at_checked(element_len(rest, component.order)?)?;
            *slot = element;
            rest = tail;
        }
        rest.is_empty().then_some(())
    }

    /// The element of a component; nothing behind the last.
    pub(crate) fn get(&self, component: usize) -> &'k [u8] {
        self.slices.get(component).copied().unwrap_or_default()
    }
}

/// The key of the document that an index key names.
pub(crate) fn document_key_of(
    collection: &Collection,
    candidate: &Candidate<'_>,
    key: &[u8],
    value: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut document = Vec::with_capacity(key.len());
    let Some(index) = candidate.index else {
        if candidate.is_document_key() {
            return Ok(key.to_vec());
        }
        collection.key.head.write(&mut document);
        document.extend_from_slice(value);
        return Ok(document);
    };
    collection.key.head.write(&mut document);
    let bytes = identity_bytes_at_the_end(collection, index);
    if let Some(identity) = bytes.and_then(|bytes| end_of(key, bytes)) {
        document.extend_from_slice(identity);
        return Ok(document);
    }
    let elements = Elements::of(&index.path, key)?;
    let held = index.path.template.components();
    for (place, component) in index.key_from.iter().zip(collection.key.template.components()) {
        let element = elements.get(*place);
        if held.get(*place).is_some_and(|held| held.order == component.order) {
            document.extend_from_slice(element);
        } else {
            document.extend(element.iter().map(|byte| !byte));
        }
    }
    Ok(document)
}

/// How many bytes at the end of every key of an index are the components of the document key as
/// they are, if so. Those of a fixed length are found there without a walk through what stands
/// before them.
fn identity_bytes_at_the_end(collection: &Collection, index: &Index) -> Option<usize> {
    let own = collection.key.template.components();
    let held = index.path.template.components();
    let (_, last) = held.split_at_checked(held.len().checked_sub(own.len())?)?;
    let places = held.len() - own.len()..held.len();
    let is_same = |(held, own): (&Component, &Component)| {
        matches!(own.kind, Kind::Ulid | Kind::Uuid)
            && (held.order, held.cut) == (own.order, own.cut)
    };
    let is_there = index.key_from.iter().copied().eq(places) && last.iter().zip(own).all(is_same);
    is_there.then_some(UUID_ELEMENT_BYTES * own.len())
}

/// The last bytes of a key, but nothing of its head.
fn end_of(key: &[u8], bytes: usize) -> Option<&[u8]> {
    let start = key.len().checked_sub(bytes)?;
    key.get(start.max(Head::BYTES)..)
}

/// What stands behind the head of a key.
fn packed(key: &[u8]) -> &[u8] {
    key.get(Head::BYTES..).unwrap_or_default()
}

/// That what is stored, all of it or behind its head, is not what a path writes.
pub(super) fn misfit(path: &Path, stored: &[u8]) -> Error {
    let shown = stored.escape_ascii();
    Error::corrupt(format!("key {shown} of `{}` does not fit it", path.name))
}

/// The length of the element that `packed` begins with.
pub(crate) fn element_len(packed: &[u8], order: Order) -> Option<usize> {
    let mask = match order {
        Order::Ascending => 0x00,
        Order::Descending => 0xFF,
    };
    match packed.first()? ^ mask {
        0x02 => packed.iter().position(|byte| *byte == mask).map(|end| end + 1),
        code @ 0x0C..=0x1C => Some(1 + usize::from(code.abs_diff(0x14))),
        0x26 | 0x27 => Some(1),
        0x30 => Some(UUID_ELEMENT_BYTES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use keyloom_key::{Kind, Template, Ulid, Value};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_of_element_tells_its_length() {
        let kinds = [
            (Kind::Text, Value::Text("a\u{7f}é".to_owned())),
            (Kind::Text, Value::Text(String::new())),
            (Kind::I64, Value::Int(i64::MIN)),
            (Kind::I64, Value::Int(0)),
            (Kind::Millis, Value::Int(-1)),
            (Kind::U64, Value::Unsigned(u64::MAX)),
            (Kind::Bool, Value::Bool(true)),
            (Kind::Ulid, Value::Ulid(Ulid::from_bytes([7; 16]))),
        ];
        for (kind, value) in kinds {
            for text in ["{f}", "{f desc}"] {
                let template = Template::compile(text, &|_| Some(kind.clone())).unwrap();
                let mut packed = Vec::new();
                template.pack(std::slice::from_ref(&value), &mut packed).unwrap();
                let length = packed.len();
                packed.extend_from_slice(&[0x00, 0xFF, 0x02]);
                let order = template.components()[0].order;
                assert_eq!(element_len(&packed, order), Some(length), "{value:?} {text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_length_or_none(bytes: Vec<u8>) {
            for order in [Order::Ascending, Order::Descending] {
                let _ = element_len(&bytes, order);
            }
        }
    }
}
