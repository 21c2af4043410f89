//! The packed spelling of keys, byte by byte.

use expect_test::expect;
use keyloom_key::limits::KEY_BYTES_MAX;
use keyloom_key::{DecodeError, Head, PackError, Template, Value};

use crate::generate::{packed, template, text, ulid};

/// The key has these bytes, and the bytes are this key.
fn check(template: &Template, key: &[Value], expected: &[u8]) {
    assert_eq!(packed(template, key), expected);
    assert_eq!(template.unpack(expected).as_deref(), Ok(key));
}

fn refused(template: &Template, bytes: &[u8]) {
    assert!(template.unpack(bytes).is_err(), "{template} {bytes:02x?}");
}

#[test]
fn literals_cost_nothing() {
    check(&template("usr_{n}_tag_", "n:u64"), &[Value::Unsigned(0)], &[0x14]);
}

#[test]
fn elements_are_those_of_the_tuple_layer() {
    check(&template("{t}", "t:text"), &[text("né")], b"\x02n\xC3\xA9\x00");
    check(&template("{t}", "t:text"), &[text("")], b"\x02\x00");
    check(&template("{b}", "b:bool"), &[Value::Bool(false)], &[0x26]);
    check(&template("{b}", "b:bool"), &[Value::Bool(true)], &[0x27]);
    check(&template("{i}", "i:i64"), &[Value::Int(-1)], &[0x13, 0xFE]);
    check(&template("{i}", "i:i64"), &[Value::Int(-5_551_212)], b"\x11\xABK\x93");
    check(&template("{u}", "u:u64"), &[Value::Unsigned(256)], &[0x16, 1, 0]);
    let ulid_bytes = [[0x30].as_slice(), &[0xFF; 16]].concat();
    let greatest = ulid("7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    check(&template("{id}", "id:ulid"), &[greatest], &ulid_bytes);
}

#[test]
fn p22_times_sort_right_in_both_directions_whatever_the_year() {
    let times = [i64::MIN, -1, 0, 1, 9_999_999_999_999, 10_000_000_000_000, i64::MAX];
    let up = template("{at}", "at:millis");
    let down = template("{at desc}", "at:millis");
    let keys = |template| times.map(|millis| packed(template, &[Value::Int(millis)]));
    assert!(keys(&up).is_sorted());
    assert!(keys(&down).iter().rev().is_sorted());
    check(&up, &[Value::Int(0)], &[0x14]);
    check(&down, &[Value::Int(0)], &[0xEB]);
    check(&up, &[Value::Int(i64::MIN)], b"\x0C\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
    check(&down, &[Value::Int(i64::MIN)], b"\xF3\x80\x00\x00\x00\x00\x00\x00\x00");
}

#[test]
fn s17_a_separator_inside_a_value_makes_another_key() {
    let tags = template("tag:{author}#{file}", "author:text,file:text");
    check(&tags, &[text("a#b"), text("c")], b"\x02a#b\x00\x02c\x00");
    check(&tags, &[text("a"), text("b#c")], b"\x02a\x00\x02b#c\x00");
}

#[test]
fn damaged_bytes_are_refused() {
    let pair = template("{a}:{n}", "a:text,n:u64");
    for bytes in [
        b"".as_slice(),
        b"\x02",
        b"\x02a",
        b"\x02a\x00",
        b"\x02a\x00\x15",
        b"\x02a\x00\x15\x01\x00",
        b"\x01a\x00\x15\x01",
        b"\x02\xFF\x00\x15\x01",
        b"\x02a\x00\xFFb\x00\x15\x01",
        b"\x02a\x00\x13\xFE",
        b"\x02a\x00\x1D\x01\x05",
    ] {
        refused(&pair, bytes);
    }
    assert_eq!(pair.unpack(b"\x02a\x00\x15\x01\x00"), Err(DecodeError::TrailingBytes { found: 1 }));
    assert_eq!(
        pair.unpack(b"\x02a\x00\x16\x01"),
        Err(DecodeError::Truncated { wanted: 3, found: 2 })
    );
}

#[test]
fn an_int_written_with_more_bytes_than_it_needs_is_refused() {
    let number = template("{n}", "n:i64");
    for bytes in [
        [0x15, 0x00].as_slice(),
        &[0x16, 0x00, 0x05],
        &[0x13, 0xFF],
        &[0x12, 0xFF, 0xFE],
        &[0x0B, 0xFE, 0xFE],
        &[0x0C, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x1C, 0x80, 0, 0, 0, 0, 0, 0, 0],
    ] {
        refused(&number, bytes);
    }
    check(&number, &[Value::Int(5)], &[0x15, 0x05]);
}

#[test]
fn a_stored_value_that_the_component_does_not_take_is_refused() {
    refused(&template("{n}", "n:name"), b"\x02AbC\x00");
    refused(&template("{i}", "i:id"), b"\x02\x00");
    refused(&template("{i}", "i:id"), b"\x02a\x01\x00");
    refused(&template("{s}", "s:enum(on|off)"), b"\x02of\x00");
    refused(&template("{v prefix 2}", "v:text"), b"\x02abc\x00");
    refused(&template("{v shard 4}", "v:text"), &[0x15, 4]);
    refused(&template("{u}", "u:uuid"), &[[0x30].as_slice(), &[0; 16]].concat());
    refused(&template("{b}", "b:bool"), &[0x28]);
}

#[test]
fn text_with_nul_is_refused_because_it_would_break_order_and_prefixes() {
    let texts = template("{a desc}", "a:text");
    let mut out = vec![7];
    assert_eq!(
        texts.pack(&[text("a\0")], &mut out),
        Err(PackError::ContainsNul { field: "a".to_owned() })
    );
    assert_eq!(out, [7]);
}

#[test]
fn a_key_has_at_most_1024_bytes_with_its_head() {
    let bare = template("{a}:{b}", "a:text,b:text");
    let key = |bytes: usize| [text(&"x".repeat(bytes)), text("")];
    let overhead = 4;
    let most = KEY_BYTES_MAX - Head::BYTES - overhead;
    assert_eq!(packed(&bare, &key(most)).len(), 1019);
    let mut out = vec![7];
    assert_eq!(
        bare.pack(&key(most + 1), &mut out),
        Err(PackError::KeyTooLong { bytes: 1020, max: 1019 })
    );
    assert_eq!(out, [7], "a refused key leaves nothing behind");
    assert_eq!(bare.unpack(&[0x02; 1020]), Err(DecodeError::TooLong { found: 1020, max: 1019 }));
}

#[test]
fn the_longest_key_still_has_a_text_that_parses() {
    let fields: Vec<String> = (0..16).map(|index| format!("{{t{index}}}")).collect();
    let kinds: Vec<String> = (0..15).map(|index| format!("t{index}:millis")).collect();
    let literal = "~".repeat((512 - fields.concat().len()) / 15);
    let longest = template(&fields.join(&literal), &format!("{},t15:text", kinds.join(",")));
    let mut key = vec![Value::Int(0); 15];
    let room = KEY_BYTES_MAX - Head::BYTES - 15 - 2;
    key.push(text(&"%".repeat(room)));
    assert_eq!(packed(&longest, &key).len(), KEY_BYTES_MAX - Head::BYTES);
    let spelled = longest.render(&key).unwrap();
    assert_eq!(longest.parse(&spelled), Ok(key));
}

#[test]
fn a_refusal_names_the_field() {
    let pair = template("{a}:{n}", "a:id,n:u64");
    let error = pair.pack(&[text(""), Value::Unsigned(1)], &mut Vec::new()).unwrap_err();
    expect![[r#"a needs a value of kind id, not """#]].assert_eq(&error.to_string());
    let error = pair.unpack(b"\x02a\x00\x26").unwrap_err();
    expect!["the bytes of n are not a canonical element of kind u64"].assert_eq(&error.to_string());
}
