//! The limits of keys and of what they are made of, each with its reason.

/// Packed key, head included. Every store target takes 1 KiB, so stores stay interchangeable.
pub const KEY_BYTES_MAX: usize = 1024;

/// Text spelling of a key. The longest text of a key of [`KEY_BYTES_MAX`]: three characters for
/// each packed byte (all of them escaped), 13 digits for each of 16 short times, and the literals.
pub const TEXT_KEY_BYTES_MAX: usize = 4096;

/// Template text. Long enough for any readable key format, short enough to show in an error.
pub const TEMPLATE_BYTES_MAX: usize = 512;

/// Components of one template. The longest key format of the requirements has four.
pub const TEMPLATE_COMPONENTS_MAX: usize = 16;

/// `prefix N`: 256 characters of four bytes already fill a key.
pub const PREFIX_CHARACTERS_MAX: u16 = 256;

/// `shard N`: a read merges N ranges, and each of them is a seek.
pub const SHARDS_MAX: u16 = 256;

/// Fewest characters of a name.
pub const NAME_CHARACTERS_MIN: usize = 3;

/// Most characters of a name.
pub const NAME_CHARACTERS_MAX: usize = 30;

/// Value of kind `id`: eight of them fit into one key.
pub const ID_BYTES_MAX: usize = 128;

/// String identity of an object or an entry, after normalization (`ODGM_MAX_STRING_ID_LEN`).
pub const STRING_ID_BYTES_MAX: usize = 160;

/// The longest limit that can be set for string identities: an object's and an entry's fit into one
/// key together with the head.
pub const STRING_ID_LIMIT_MAX: usize = 500;

/// The last millisecond that the 48 bits of a ULID can hold, in the year 10889.
pub const ULID_MILLIS_MAX: u64 = (1 << 48) - 1;
