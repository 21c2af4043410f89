//! Values: from plain text, and into a kind.

use expect_test::expect;
use keyloom_key::limits::ID_BYTES_MAX;
use keyloom_key::{Kind, Value, ValueError};

use crate::generate::{kind_of, template, text, ulid};

fn status() -> Kind {
    kind_of("status:enum(pending|approved)", "status").unwrap()
}

#[test]
fn plain_text_is_read_as_the_kind_says() {
    let check = |kind: Kind, plain: &str, value| assert_eq!(kind.parse_text(plain), Ok(value));
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    check(Kind::Ulid, id, ulid(id));
    check(Kind::Name, "JohnDoe", text("johndoe"));
    check(Kind::Id, "JohnDoe", text("JohnDoe"));
    check(Kind::Text, "", text(""));
    check(Kind::Text, "50 %", text("50 %"));
    check(Kind::Millis, "-1", Value::Int(-1));
    check(Kind::I64, "-9223372036854775808", Value::Int(i64::MIN));
    check(Kind::U64, "18446744073709551615", Value::Unsigned(u64::MAX));
    check(Kind::Bool, "true", Value::Bool(true));
    check(status(), "approved", text("approved"));
}

#[test]
fn what_is_nearly_a_value_is_refused() {
    let check = |kind: &Kind, texts: &[&str]| {
        for plain in texts {
            assert!(kind.parse_text(plain).is_err(), "{kind} {plain:?}");
        }
    };
    check(&Kind::Ulid, &["01arz3ndektsv4rrffq69g5fav"]);
    check(&Kind::Uuid, &["67e55044-10b1-426f-9247-bb680e5fe0c8"]);
    check(&Kind::Name, &["ab", "a_b"]);
    check(&Kind::Id, &["", "a\nb", "a\u{85}b"]);
    for number in [Kind::Millis, Kind::I64, Kind::U64] {
        check(&number, &["", "-", "+1", "01", "-0", "1.0", "1e3", " 1", "99999999999999999999"]);
    }
    check(&Kind::U64, &["-1"]);
    check(&Kind::Bool, &["True", "1", ""]);
    check(&status(), &["Pending", "", "pend"]);
}

#[test]
fn an_id_has_1_to_128_bytes() {
    assert!(Kind::Id.parse_text(&"é".repeat(64)).is_ok());
    assert!(Kind::Id.parse_text(&format!("{}x", "é".repeat(64))).is_err());
    assert_eq!(ID_BYTES_MAX, 128);
}

#[test]
fn p08_a_wrong_word_is_answered_with_the_words_that_are_right() {
    let error = status().parse_text("aproved").unwrap_err();
    expect![[r#""aproved" is not one of the words pending, approved"#]]
        .assert_eq(&error.to_string());
}

#[test]
fn a_refusal_says_what_the_kind_needs() {
    let check = |kind: Kind, plain: &str, expected: &str| {
        assert_eq!(kind.parse_text(plain).unwrap_err().to_string(), expected);
    };
    check(Kind::Id, "", "\"\" is not an id: it needs 1 to 128 bytes without control characters");
    check(
        Kind::Millis,
        "007",
        "\"007\" is not a number of kind millis: \
         it needs decimal digits without padding that fit 64 bits",
    );
    check(Kind::Bool, "yes", "\"yes\" is not a bool: it needs true or false");
    assert!(matches!(Kind::Name.parse_text("a_b"), Err(ValueError::Identity(_))));
}

#[test]
fn a_kind_accepts_values_in_their_canonical_form_only() {
    assert!(Kind::Name.accepts(&text("johndoe")));
    assert!(!Kind::Name.accepts(&text("JohnDoe")));
    assert!(Kind::Id.accepts(&text("JohnDoe")));
    assert!(!Kind::Id.accepts(&text("")));
    assert!(Kind::Text.accepts(&text("")));
    assert!(!status().accepts(&text("gone")));
    assert!(Kind::Millis.accepts(&Value::Int(0)));
    assert!(!Kind::U64.accepts(&Value::Int(0)));
    assert!(!Kind::I64.accepts(&Value::Unsigned(0)));
    assert!(!Kind::Text.accepts(&Value::Bool(true)));
}

#[test]
fn kinds_are_written_as_schemas_write_them() {
    let kinds = "ulid uuid name id text millis u64 i64 bool";
    for word in kinds.split(' ') {
        let kind = kind_of(&format!("f:{word}"), "f").unwrap();
        assert_eq!(kind.to_string(), word);
    }
    assert_eq!(status().to_string(), "enum");
}

#[test]
fn a_cut_takes_characters_and_not_bytes() {
    let template = template("{value prefix 3}:{value}", "value:text");
    let components = template.components();
    assert_eq!(components[0].value_of(&text("äöüß")), text("äöü"));
    assert_eq!(components[0].value_of(&text("ä")), text("ä"));
    assert_eq!(components[1].value_of(&text("äöüß")), text("äöüß"));
    assert_eq!(components[0].kind_stored(), Kind::Text);
}

#[test]
fn a_bucket_is_the_same_on_every_machine_and_in_every_release() {
    let template = template("{id shard 16}:{id}", "id:id");
    let component = &template.components()[0];
    assert_eq!(component.kind_stored(), Kind::U64);
    // These numbers are stored in keys: they may never change.
    let buckets: Vec<Value> =
        ["u1", "u2", "u3", "u10"].map(|id| component.value_of(&text(id))).into();
    let expected = [10, 11, 11, 1].map(Value::Unsigned);
    assert_eq!(buckets, expected);
}

#[test]
fn buckets_are_used_evenly() {
    let template = template("{n shard 16}", "n:u64");
    let mut counts = [0; 16];
    for n in 0..16_000 {
        let Value::Unsigned(bucket) = template.components()[0].value_of(&Value::Unsigned(n)) else {
            panic!("a bucket is a number");
        };
        counts[usize::try_from(bucket).unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}
