//! Identities: what is accepted, what is refused, and what the refusal says.

use keyloom_key::limits::{STRING_ID_BYTES_MAX, ULID_MILLIS_MAX};
use keyloom_key::{IdentityError, Name, NumericId, StringId, Ulid, UlidGenerator, Uuid};
use proptest::prelude::*;

#[test]
fn r04_names_have_3_to_30_letters_digits_and_hyphens() {
    for name in ["abc", "123john", "user1-test2", &"a".repeat(30)] {
        assert_eq!(Name::parse(name).map(|name| name.to_string()).as_deref(), Ok(name));
    }
    for name in ["ab", "a b", "a_b", "@ab", "", "äöü", "abc\n", &"a".repeat(31)] {
        assert!(matches!(Name::parse(name), Err(IdentityError::Name { .. })), "{name:?}");
    }
}

#[test]
fn r01_a_name_is_found_in_any_case() {
    let name = Name::parse("JohnDoe").unwrap();
    assert_eq!(name.as_str(), "johndoe");
    assert_eq!(Name::parse("johndoe").unwrap(), name);
    assert_eq!(Name::parse("JOHNDOE").unwrap(), name);
}

#[test]
fn r06_ulids_are_read_in_their_canonical_spelling_only() {
    for ulid in ["7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        assert_eq!(Ulid::parse(ulid).map(|ulid| ulid.to_string()).as_deref(), Ok(ulid));
    }
    for ulid in [
        "01ARZ3NDEKTSV4RRFFQ69G5FA",
        "01ARZ3NDEKTSV4RRFFQ69G5FAVX",
        "01arz3ndektsv4rrffq69g5fav",
        "01ARZ3NDEKTSV4RRFFQ69G5FAI",
        "01ARZ3NDEKTSV4RRFFQ69G5FAL",
        "01ARZ3NDEKTSV4RRFFQ69G5FAO",
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "",
        "80000000000000000000000000",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "01ARZ3NDEKTSV4RRFFQ69G5Fé",
    ] {
        assert!(matches!(Ulid::parse(ulid), Err(IdentityError::Ulid { .. })), "{ulid:?}");
    }
}

#[test]
fn r06_a_ulid_tells_when_it_was_made() {
    assert_eq!(Ulid::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap().millis(), 1_469_922_850_259);
    assert_eq!(Ulid::parse("7ZZZZZZZZZZZZZZZZZZZZZZZZZ").unwrap().millis(), ULID_MILLIS_MAX);
}

#[test]
fn a_ulid_made_past_the_last_millisecond_counts_as_made_in_it() {
    assert_eq!(Ulid::from_parts(u64::MAX, [0xFF; 10]).to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
}

#[test]
fn r07_uuids_are_of_version_4_and_variant_1_in_lower_case_without_hyphens() {
    let accepted = "67e5504410b1426f9247bb680e5fe0c8";
    assert_eq!(Uuid::parse(accepted).map(|uuid| uuid.to_string()).as_deref(), Ok(accepted));
    for uuid in [
        "67e5504410b1426f9247bb680e5",
        "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "67E5504410B1426F9247BB680E5FE0C8",
        "67e5504410b1126f9247bb680e5fe0c8",
        "67e5504410b1426fc247bb680e5fe0c8",
        "67e5504410b1426f7247bb680e5fe0c8",
        "67e5504410b1426f9247bb680e5fe0cg",
        "",
    ] {
        assert!(matches!(Uuid::parse(uuid), Err(IdentityError::Uuid { .. })), "{uuid:?}");
    }
}

#[test]
fn r07_bytes_of_another_version_are_no_uuid() {
    let bytes = Uuid::parse("67e5504410b1426f9247bb680e5fe0c8").unwrap().to_bytes();
    assert!(Uuid::from_bytes(bytes).is_ok());
    assert!(Uuid::from_bytes([0; 16]).is_err());
    assert!(Uuid::from_bytes([0xFF; 16]).is_err());
}

#[test]
fn o02_string_ids_are_composed_and_folded() {
    let id = |text: &str| StringId::parse(text, STRING_ID_BYTES_MAX).map(|id| id.to_string());
    assert_eq!(id("User-ABC_01").as_deref(), Ok("user-abc_01"));
    assert_eq!(id("e\u{301}").as_deref(), Ok("\u{e9}"));
    // Only ASCII is folded: what a capital É becomes depends on the language.
    assert_eq!(id("E\u{301}").as_deref(), Ok("\u{c9}"));
    // There is a composed j with a caron, but no composed J: folding has to come between.
    assert_eq!(id("J\u{30C}").as_deref(), Ok("\u{1F0}"));
    assert_eq!(id("J\u{30C}"), id("j\u{30C}"));
}

#[test]
fn o02_control_characters_nul_and_nothing_are_no_string_ids() {
    for text in ["", "a\0b", "a\u{1}", "\u{7f}", "a\u{85}"] {
        let result = StringId::parse(text, STRING_ID_BYTES_MAX);
        assert!(matches!(result, Err(IdentityError::StringId { .. })), "{text:?}");
    }
}

#[test]
fn o02_a_string_id_has_at_most_160_bytes_after_normalization() {
    let id = |text: &str| StringId::parse(text, STRING_ID_BYTES_MAX);
    assert!(id(&"a".repeat(160)).is_ok());
    assert!(matches!(id(&"a".repeat(161)), Err(IdentityError::StringIdTooLong { .. })));
    // 80 decomposed characters have 240 bytes, and 160 when they are composed.
    assert!(id(&"e\u{301}".repeat(80)).is_ok());
    assert!(matches!(id(&"e\u{301}".repeat(81)), Err(IdentityError::StringIdTooLong { .. })));
    assert!(StringId::parse("abcd", 3).is_err());
}

#[test]
fn a_numeric_id_has_one_spelling() {
    assert_eq!(NumericId::parse("42").map(NumericId::get), Ok(42));
    assert_eq!(NumericId::parse("0").map(NumericId::get), Ok(0));
    assert_eq!(NumericId::parse("18446744073709551615"), Ok(NumericId::new(u64::MAX)));
    for text in ["007", "+1", "-1", "", " 1", "1_0", "18446744073709551616", "٣"] {
        assert!(matches!(NumericId::parse(text), Err(IdentityError::NumericId { .. })), "{text:?}");
    }
}

#[test]
fn a_refusal_says_what_was_wrong_and_what_is_right() {
    let check = |result: Result<(), IdentityError>, expected: &str| {
        assert_eq!(result.unwrap_err().to_string(), expected);
    };
    check(
        Ulid::parse("8ZZZZZZZZZZZZZZZZZZZZZZZZZ").map(drop),
        "\"8ZZZZZZZZZZZZZZZZZZZZZZZZZ\" is not a ULID: it is larger than 128 bits \
         (26 characters of 0-9 and A-Z without I, L, O and U, upper case, the first at most 7)",
    );
    check(
        Uuid::parse("67e5504410b1126f9247bb680e5fe0c8").map(drop),
        "\"67e5504410b1126f9247bb680e5fe0c8\" is not a UUID: its version is not 4 \
         (version 4, variant 1, 32 lower-case hex digits without hyphens)",
    );
    check(
        Name::parse("a_b").map(drop),
        "\"a_b\" is not a name: it has a character that is not allowed \
         (3 to 30 of A-Z, a-z, 0-9 and -)",
    );
    check(
        StringId::parse("a\0", 160).map(drop),
        "\"a\\0\" is not a string id: it has a control character \
         (no control characters, not empty)",
    );
    check(
        StringId::parse("abcd", 3).map(drop),
        "\"abcd\" is too long for a string id: more than 3 bytes",
    );
    check(
        NumericId::parse("007").map(drop),
        "\"007\" is not a numeric id: it has a leading zero \
         (decimal digits without leading zeros, up to 18446744073709551615)",
    );
    check(
        UlidGenerator::new().next(ULID_MILLIS_MAX + 1, &mut |_| {}).map(drop),
        "time 281474976710656 ms does not fit a ULID: set the clock",
    );
}

#[test]
fn ulids_grow_while_the_clock_stands_still_and_when_it_goes_back() {
    let mut generator = UlidGenerator::new();
    let mut zeros = |bytes: &mut [u8]| bytes.fill(0);
    let first = generator.next(1_000, &mut zeros).unwrap();
    let second = generator.next(1_000, &mut zeros).unwrap();
    let third = generator.next(10, &mut zeros).unwrap();
    assert!(first < second && second < third);
    assert_eq!([first.millis(), second.millis(), third.millis()], [1_000; 3]);
}

#[test]
fn a_used_up_millisecond_is_followed_by_the_next_one() {
    let mut generator = UlidGenerator::new();
    let last = generator.next(1_000, &mut |bytes| bytes.fill(0xFF)).unwrap();
    let next = generator.next(1_000, &mut |bytes| bytes.fill(7)).unwrap();
    assert_eq!(last.millis(), 1_000);
    assert_eq!(next, Ulid::from_parts(1_001, [7; 10]), "with randomness of its own");
}

#[test]
fn the_last_ulid_of_all_is_followed_by_none() {
    let mut generator = UlidGenerator::new();
    generator.next(ULID_MILLIS_MAX, &mut |bytes| bytes.fill(0xFF)).unwrap();
    let error = generator.next(0, &mut |bytes| bytes.fill(0)).unwrap_err();
    assert_eq!(error, IdentityError::ClockOutOfRange { millis: ULID_MILLIS_MAX + 1 });
}

proptest! {
    #[test]
    fn every_ulid_is_larger_than_the_one_before(
        steps in prop::collection::vec((-3..3_i64, any::<[u8; 10]>()), 1..50),
    ) {
        let mut generator = UlidGenerator::new();
        let mut now = 1_700_000_000_000_u64;
        let mut last = None;
        for (step, random) in steps {
            now = now.saturating_add_signed(step);
            let ulid = generator.next(now, &mut |bytes| bytes.copy_from_slice(&random)).unwrap();
            prop_assert!(Some(ulid) > last);
            prop_assert!(ulid.millis() >= now);
            last = Some(ulid);
        }
    }

    #[test]
    fn ulid_text_bytes_and_order_agree(a: [u8; 16], b: [u8; 16]) {
        let [x, y] = [Ulid::from_bytes(a), Ulid::from_bytes(b)];
        prop_assert_eq!(x.to_bytes(), a);
        prop_assert_eq!(Ulid::parse(&x.to_string()), Ok(x));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(x.cmp(&y), x.to_string().cmp(&y.to_string()));
    }

    #[test]
    fn a_ulid_holds_the_time_and_the_randomness_it_was_made_of(
        millis in 0..=ULID_MILLIS_MAX,
        random: [u8; 10],
    ) {
        let ulid = Ulid::from_parts(millis, random);
        prop_assert_eq!(ulid.millis(), millis);
        prop_assert_eq!(&ulid.to_bytes()[6..], random.as_slice());
    }

    #[test]
    fn a_uuid_is_written_as_it_was_read(text in "[0-9a-f]{12}4[0-9a-f]{19}") {
        if let Ok(uuid) = Uuid::parse(&text) {
            prop_assert_eq!(uuid.to_string(), text);
            prop_assert_eq!(Uuid::from_bytes(uuid.to_bytes()), Ok(uuid));
        } else {
            prop_assert!(!matches!(text.as_bytes()[16], b'8' | b'9' | b'a' | b'b'));
        }
    }

    #[test]
    fn a_normalized_id_stays_as_it_is(text in any_id_text()) {
        if let Ok(id) = StringId::parse(&text, STRING_ID_BYTES_MAX) {
            prop_assert_eq!(StringId::parse(id.as_str(), STRING_ID_BYTES_MAX), Ok(id));
        }
    }
}

/// Letters with and without marks, whole and in parts.
fn any_id_text() -> impl Strategy<Value = String> {
    prop_oneof!["[JjHhTtWwYyAaKÅå\u{30C}\u{331}\u{308}\u{30A}\u{301}\u{212A}]{1,6}", "\\PC{1,20}"]
}
