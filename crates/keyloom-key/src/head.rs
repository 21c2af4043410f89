//! The five bytes before the components of every stored key.
//!
//! ```text
//! [ space: 1 ][ collection: 2, big-endian ][ template: 2, big-endian ][ components … ]
//! ```
//!
//! I1: A tag of [`Space`] is never given to anything else, not even after its use has ended.

use crate::template::DecodeError;

/// What a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Head {
    /// What the value under the key is.
    pub space: Space,
    /// The number of the collection.
    pub collection: u16,
    /// The number of the template within the collection.
    pub template: u16,
}

/// What the value under a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// What the engine knows about collections, templates and itself.
    Catalog = 0x01,
    /// A document under its key.
    Document = 0x02,
    /// A key that leads to a document.
    Index = 0x03,
    /// A key that only one document may hold.
    Claim = 0x04,
    /// The last version of a deleted document.
    Tombstone = 0x05,
    /// A number that the engine counts.
    Counter = 0x06,
    /// A token by which a caller is known.
    Token = 0x07,
    /// A record of an object.
    Object = 0x08,
    /// A whole object under its number, as it was stored before there were entries.
    LegacyObject = 0x09,
    /// An event that waits for its delivery.
    Outbox = 0x0A,
    /// The result of an invocation, until it is fetched or expires.
    Invocation = 0x0B,
}

impl Head {
    /// Bytes of a head.
    pub const BYTES: usize = 5;

    /// Appends the head.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// Splits a stored key into its head and its packed components.
    pub fn read(key: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let Some((&[space, c1, c0, t1, t0], components)) = key.split_first_chunk() else {
            return Err(DecodeError::Truncated { wanted: Self::BYTES, found: key.len() });
        };
        let head = Self {
            space: Space::try_from(space)?,
            collection: u16::from_be_bytes([c1, c0]),
            template: u16::from_be_bytes([t1, t0]),
        };
        Ok((head, components))
    }

    /// The range of everything under this head: first key, and the end that is not part of it.
    #[must_use]
    pub fn whole(&self) -> (Vec<u8>, Vec<u8>) {
        let from = self.to_bytes().to_vec();
        let mut to = from.clone();
        // Counting up carries: the last template of a collection ends where the next one begins.
        for byte in to.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        (from, to)
    }

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let Self { space, collection, template } = self;
        let [c1, c0] = collection.to_be_bytes();
        let [t1, t0] = template.to_be_bytes();
        [space as u8, c1, c0, t1, t0]
    }
}

impl TryFrom<u8> for Space {
    type Error = DecodeError;

    fn try_from(tag: u8) -> Result<Self, DecodeError> {
        match tag {
            0x01 => Ok(Self::Catalog),
            0x02 => Ok(Self::Document),
            0x03 => Ok(Self::Index),
            0x04 => Ok(Self::Claim),
            0x05 => Ok(Self::Tombstone),
            0x06 => Ok(Self::Counter),
            0x07 => Ok(Self::Token),
            0x08 => Ok(Self::Object),
            0x09 => Ok(Self::LegacyObject),
            0x0A => Ok(Self::Outbox),
            0x0B => Ok(Self::Invocation),
            _ => Err(DecodeError::UnknownSpace { tag }),
        }
    }
}
