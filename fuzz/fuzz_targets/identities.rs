//! Any text is an identity in its canonical spelling, or is refused.
#![no_main]

use keyloom_key::limits::STRING_ID_BYTES_MAX;
use keyloom_key::{Name, NumericId, StringId, Ulid, Uuid};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(ulid) = Ulid::parse(text) {
        assert_eq!(ulid.to_string(), text);
    }
    if let Ok(uuid) = Uuid::parse(text) {
        assert_eq!(uuid.to_string(), text);
    }
    if let Ok(number) = NumericId::parse(text) {
        assert_eq!(number.to_string(), text);
    }
    if let Ok(name) = Name::parse(text) {
        assert_eq!(name.as_str(), text.to_ascii_lowercase());
    }
    if let Ok(id) = StringId::parse(text, STRING_ID_BYTES_MAX) {
        assert_eq!(StringId::parse(id.as_str(), STRING_ID_BYTES_MAX), Ok(id));
    }
});
