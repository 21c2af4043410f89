//! Identities and keys of the object grid.

use keyloom_key::limits::{KEY_BYTES_MAX, STRING_ID_BYTES_MAX, STRING_ID_LIMIT_MAX};
use keyloom_key::{EntryKey, IdentityError, ObjectId, ObjectKey, ObjectRecord, StoredKey};
use proptest::prelude::*;

fn id(text: &str) -> ObjectId {
    ObjectId::string(text, STRING_ID_BYTES_MAX).unwrap()
}

fn entry(text: &str) -> EntryKey {
    EntryKey::string(text, STRING_ID_BYTES_MAX).unwrap()
}

fn key_of(id: &ObjectId) -> ObjectKey {
    ObjectKey::new(0x0102, 0x0304, id)
}

#[test]
fn o02_identities_are_normalized_or_refused() {
    assert_eq!(id("User-ABC_01").to_string(), "user-abc_01");
    assert_eq!(id("e\u{301}").to_string(), "\u{e9}");
    for bad in ["a\u{7}", "a\0b", ""] {
        let refused = ObjectId::string(bad, STRING_ID_BYTES_MAX);
        assert!(matches!(refused, Err(IdentityError::StringId { .. })), "{bad:?}");
        assert!(EntryKey::string(bad, STRING_ID_BYTES_MAX).is_err(), "{bad:?}");
    }
    assert_eq!(id(&"x".repeat(160)).to_string().len(), 160);
    let long = ObjectId::string(&"x".repeat(161), STRING_ID_BYTES_MAX);
    assert!(matches!(long, Err(IdentityError::StringIdTooLong { bytes_max: 160, .. })));
}

#[test]
fn o03_digits_that_fit_64_bits_are_the_number_however_they_are_sent() {
    assert_eq!(id("42"), ObjectId::Numeric(42));
    assert_eq!(ObjectId::segment("42", 160), Ok(ObjectId::Numeric(42)));
    assert_eq!(ObjectId::segment("0", 160), Ok(ObjectId::Numeric(0)));
    assert_eq!(ObjectId::segment("18446744073709551615", 160), Ok(ObjectId::Numeric(u64::MAX)));
    for text in ["18446744073709551616", "ord_2025_09_12345", "é", "4 2", "-1"] {
        let parsed = ObjectId::segment(text, 160).unwrap();
        assert!(matches!(parsed, ObjectId::String(..)), "{text}");
        assert_eq!(parsed.to_string(), text);
    }
}

#[test]
fn o03_a_segment_with_zeros_before_its_digits_is_refused_and_never_a_second_object() {
    let error = ObjectId::segment("007", 160).unwrap_err().to_string();
    assert!(error.contains("leading zero"), "{error}");
    assert!(EntryKey::segment("007", 160).is_err());
    // As a text, where nobody would take it for a number, it is a text.
    assert!(matches!(id("007"), ObjectId::String(..)));
}

#[test]
fn o06_an_entry_key_of_digits_is_numeric_in_a_path_and_a_text_in_a_map_of_texts() {
    assert_eq!(EntryKey::segment("7", 160), Ok(EntryKey::Numeric(7)));
    assert_eq!(EntryKey::segment("4294967296", 160), Ok(entry("4294967296")));
    assert_ne!(entry("7"), EntryKey::Numeric(7));
    assert_eq!(EntryKey::segment("Profile.Email", 160), Ok(entry("profile.email")));
    assert!(EntryKey::segment("", 160).is_err());
}

#[test]
fn keys_are_laid_out_as_the_register_says() {
    let key = key_of(&ObjectId::Numeric(42));
    let head = [0x08, 1, 2, 3, 4];
    let with = |rest: &[u8]| [&head[..], rest].concat();
    assert_eq!(key.metadata(), with(b"42\0\0"));
    assert_eq!(key.event(), with(b"42\0\x01"));
    assert_eq!(key.entry(&EntryKey::Numeric(7)), with(b"42\0\x10\0\0\0\x07"));
    assert_eq!(key.entry(&entry("name")), with(b"42\0\x12name"));
    assert_eq!(key.length_entry(&entry("name")).unwrap(), with(b"42\0\x11\x04name"));
    assert_eq!(key.length_entry(&EntryKey::Numeric(7)), None);
    assert_eq!(key.records(), (with(b"42\0"), with(b"42\x01")));
    assert_eq!(key.records_through(&entry("n")), (with(b"42\0"), with(b"42\0\x12n\0")));
    assert_eq!(key.directory().unwrap(), with(b"\0\0\0\0\0\0\0\0\x2A"));
    assert_eq!(key.tombstone(), [5, 1, 2, 3, 4, b'4', b'2']);
    assert_eq!(key.legacy().unwrap(), [9, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 42]);
    assert_eq!(key_of(&id("a")).legacy(), None);
    assert_eq!(key_of(&id("a")).directory(), None);
}

#[test]
fn the_longest_identities_fit_one_key() {
    let id = ObjectId::string(&"i".repeat(STRING_ID_LIMIT_MAX), STRING_ID_LIMIT_MAX).unwrap();
    let entry = EntryKey::string(&"e".repeat(STRING_ID_LIMIT_MAX), STRING_ID_LIMIT_MAX).unwrap();
    assert!(key_of(&id).length_entry(&entry).unwrap().len() <= KEY_BYTES_MAX);
}

#[test]
fn o21_the_partition_of_an_identity_never_changes() {
    let golden = include_str!("../../../../tests/golden/partitions.txt");
    let lines = golden.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut count = 0;
    for line in lines {
        let [text, hash, of_1, of_16, of_1000, of_65536] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("six columns: {line}");
        };
        let id = id(text);
        assert_eq!(format!("{:016x}", id.hash64()), hash, "{text}");
        let found = [1, 16, 1000, 65_536].map(|count| id.partition(count).to_string());
        assert_eq!(found, [of_1, of_16, of_1000, of_65536], "{text}");
        count += 1;
    }
    assert!(count >= 8);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,3}",
        "[0-9]{1,21}",
        "[A-Za-z0-9._:-]{1,40}",
        "\\PC{1,12}",
        "[aAe\u{301}\u{e9}J\u{30c}]{1,6}",
    ]
}

fn any_id() -> impl Strategy<Value = ObjectId> {
    prop_oneof![
        any::<u64>().prop_map(ObjectId::Numeric),
        (0..300_u64).prop_map(ObjectId::Numeric),
        any_text().prop_map(|text| id(&text)),
    ]
}

fn any_entry() -> impl Strategy<Value = EntryKey> {
    prop_oneof![
        any::<u32>().prop_map(EntryKey::Numeric),
        (0..300_u32).prop_map(EntryKey::Numeric),
        any_text().prop_map(|text| entry(&text)),
    ]
}

proptest! {
    #[test]
    fn o02_normalizing_twice_is_normalizing_once(text in any_text()) {
        let once = id(&text);
        prop_assert_eq!(id(&once.to_string()), once);
        let once = entry(&text);
        prop_assert_eq!(entry(&once.to_string()), once);
    }

    #[test]
    fn equal_identities_have_equal_keys_and_unequal_ones_never(
        one in any_id(), two in any_id(), first in any_entry(), second in any_entry(),
    ) {
        let keys = |id: &ObjectId, entry: &EntryKey| {
            let key = key_of(id);
            [Some(key.metadata()), Some(key.event()), Some(key.entry(entry)), key.directory()]
        };
        let (ours, theirs) = (keys(&one, &first), keys(&two, &second));
        prop_assert_eq!(ours[0] == theirs[0], one == two);
        prop_assert_eq!(ours[2] == theirs[2], one == two && first == second);
        let shared = ours.iter().flatten().any(|key| theirs.iter().flatten().any(|k| k == key));
        prop_assert_eq!(shared, one == two);
        prop_assert_eq!(key_of(&one).tombstone() == key_of(&two).tombstone(), one == two);
    }

    #[test]
    fn the_order_of_keys_is_the_order_of_identities(
        one in any_id(), two in any_id(), first in any_entry(), second in any_entry(),
    ) {
        let (ours, theirs) = (key_of(&one), key_of(&two));
        prop_assert_eq!(ours.metadata().cmp(&theirs.metadata()), one.cmp(&two));
        prop_assert_eq!(ours.entry(&first).cmp(&ours.entry(&second)), first.cmp(&second));
        prop_assert_eq!(one.cmp(&two), one.to_string().cmp(&two.to_string()));
    }

    #[test]
    fn the_records_of_an_object_are_one_range_that_holds_nothing_else(
        one in any_id(), two in any_id(), key in any_entry(),
    ) {
        let (from, to) = key_of(&one).records();
        let other = key_of(&two);
        let old = other.length_entry(&key);
        let records = [Some(other.metadata()), Some(other.event()), Some(other.entry(&key)), old];
        for record in records.into_iter().flatten() {
            prop_assert_eq!(from <= record && record < to, one == two);
        }
        let directory = other.directory();
        prop_assert!(directory.is_none_or(|place| !(from <= place && place < to)));
    }

    #[test]
    fn keys_are_read_back(one in any_id(), key in any_entry()) {
        let keys = key_of(&one);
        let read = |key: &[u8]| StoredKey::read(key).unwrap();
        let record = |record| (0x0102, 0x0304, StoredKey::Record { id: one.clone(), record });
        prop_assert_eq!(read(&keys.metadata()), record(ObjectRecord::Metadata));
        prop_assert_eq!(read(&keys.event()), record(ObjectRecord::Event));
        prop_assert_eq!(read(&keys.entry(&key)), record(ObjectRecord::Entry(key.clone())));
        let own = |key: &[u8]| keys.read(key).unwrap();
        prop_assert_eq!(own(&keys.metadata()), ObjectRecord::Metadata);
        prop_assert_eq!(own(&keys.entry(&key)), ObjectRecord::Entry(key.clone()));
        prop_assert!(keys.read(&keys.tombstone()).is_err());
        if let Some(old) = keys.length_entry(&key) {
            prop_assert_eq!(read(&old), record(ObjectRecord::LengthEntry(key)));
        }
        if let ObjectId::Numeric(number) = one {
            let place = |stored| (0x0102, 0x0304, stored);
            prop_assert_eq!(read(&keys.directory().unwrap()), place(StoredKey::Directory(number)));
            prop_assert_eq!(read(&keys.legacy().unwrap()), place(StoredKey::Legacy(number)));
        }
    }

    #[test]
    fn any_bytes_are_a_key_or_refused(
        space in 8..=9_u8,
        rest in prop::collection::vec(prop_oneof![any::<u8>(), 0..0x14_u8], 0..24),
    ) {
        let key = [&[space, 0, 1, 0, 2][..], &rest].concat();
        let Ok((class, partition, stored)) = StoredKey::read(&key) else { return Ok(()) };
        let again = match stored {
            StoredKey::Directory(number) => {
                ObjectKey::new(class, partition, &ObjectId::Numeric(number)).directory()
            }
            StoredKey::Legacy(number) => {
                ObjectKey::new(class, partition, &ObjectId::Numeric(number)).legacy()
            }
            StoredKey::Record { id, record } => {
                let keys = ObjectKey::new(class, partition, &id);
                match record {
                    ObjectRecord::Metadata => Some(keys.metadata()),
                    ObjectRecord::Event => Some(keys.event()),
                    ObjectRecord::Entry(entry) => Some(keys.entry(&entry)),
                    ObjectRecord::LengthEntry(entry) => keys.length_entry(&entry),
                }
            }
        };
        prop_assert_eq!(again, Some(key));
    }

    #[test]
    fn string_entries_with_a_prefix_are_one_range(one in any_text(), prefix in "[a-c]{0,2}") {
        let keys = key_of(&id("x"));
        let (from, to) = keys.string_entries(&prefix);
        let key = entry(&one);
        let stored = keys.entry(&key);
        let inside = from <= stored && stored < to;
        prop_assert_eq!(inside, key.to_string().starts_with(&prefix));
    }
}

#[test]
fn an_identity_takes_two_words_of_memory_beside_its_text() {
    assert_eq!([size_of::<ObjectId>(), size_of::<EntryKey>()], [16, 16]);
}
