//! The text spelling of keys, as the requirements print it.

use expect_test::{Expect, expect};
use keyloom_key::{PackError, ParseError, Template, Value};

use crate::generate::{template, text, ulid};

const A: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const B: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
const VOTES: &str = "usr_{usr_key}_tag_{tag_key}_tar_{tar_key}_key_{vote_key}";
const VOTES_FIELDS: &str = "usr_key:ulid,tag_key:ulid,tar_key:ulid,vote_key:ulid";

/// The key has this text, and the text is this key.
fn check(template: &Template, key: &[Value], expected: &str) {
    assert_eq!(template.render(key).as_deref(), Ok(expected));
    assert_eq!(template.parse(expected).as_deref(), Ok(key), "{expected}");
}

fn refused(template: &Template, texts: &[&str]) {
    for text in texts {
        assert!(template.parse(text).is_err(), "{template} {text:?}");
    }
}

#[test]
fn keys_are_written_as_the_requirements_print_them() {
    check(
        &template(VOTES, VOTES_FIELDS),
        &[ulid(A), ulid(B), ulid(A), ulid(B)],
        &format!("usr_{A}_tag_{B}_tar_{A}_key_{B}"),
    );
    check(
        &template(
            "approval:index:requester:{requester}:{created_at desc}:{id}",
            "requester:id,created_at:millis,id:ulid",
        ),
        &[text("u1"), Value::Int(1_700_000_000_000), ulid(A)],
        &format!("approval:index:requester:u1:8299999999999:{A}"),
    );
}

#[test]
fn r01_a_user_key_ends_with_the_folded_name() {
    let users = template("usr_{usr_key}_usrName_{name}_", "usr_key:ulid,name:name");
    let name = users.components()[1].kind.parse_text("JohnDoe").unwrap();
    check(&users, &[ulid(A), name], &format!("usr_{A}_usrName_johndoe_"));
    refused(&users, &[&format!("usr_{A}_usrName_JohnDoe_"), &format!("usr_{A}_usrName_jo_")]);
}

#[test]
fn p22_times_before_1970_and_after_2286_are_spelled_and_read() {
    let up = template("t:{at}", "at:millis");
    let down = template("t:{at desc}", "at:millis");
    for (millis, ascending, descending) in [
        (0, "t:0000000000000", "t:9999999999999"),
        (-1, "t:-1", "t:10000000000000"),
        (1_700_000_000_000, "t:1700000000000", "t:8299999999999"),
        (9_999_999_999_999, "t:9999999999999", "t:0000000000000"),
        (10_000_000_000_000, "t:10000000000000", "t:-1"),
        (i64::MAX, "t:9223372036854775807", "t:-9223362036854775808"),
        (i64::MIN, "t:-9223372036854775808", "t:9223382036854775807"),
    ] {
        check(&up, &[Value::Int(millis)], ascending);
        check(&down, &[Value::Int(millis)], descending);
    }
}

#[test]
fn p22_times_have_one_spelling() {
    let wrong = ["t:", "t:0", "t:-0", "t:-01", "t:00000000000000", "t:+000000000000", "t:1e12"];
    refused(&template("t:{at}", "at:millis"), &wrong);
    refused(&template("t:{at desc}", "at:millis"), &wrong);
    refused(&template("t:{at}", "at:millis"), &["t:9223372036854775808"]);
    refused(&template("t:{at desc}", "at:millis"), &["t:9223382036854775808"]);
}

#[test]
fn s17_a_separator_inside_a_value_does_not_move_the_border() {
    let tags = template("tag:{author}#{file}", "author:text,file:text");
    check(&tags, &[text("a#b"), text("c")], "tag:a%23b#c");
    check(&tags, &[text("a"), text("b#c")], "tag:a#b#c");
}

#[test]
fn only_what_could_be_mistaken_is_escaped() {
    let tags = template("{author}#{file}:{rest}", "author:text,file:id,rest:text");
    check(&tags, &[text("a:é %"), text("b#:"), text("#: ~")], "a:é %25#b#%3A:#: ~");
    check(&tags, &[text("\u{1}\n\u{7f}"), text("b"), text("")], "%01%0A%7F#b:");
    check(&tags, &[text("\u{85}"), text("b"), text("%")], "\u{85}#b:%25");
}

#[test]
fn escapes_have_one_spelling() {
    let tags = template("{author}#{file}", "author:text,file:text");
    refused(
        &tags,
        &[
            "a%", "a%2", "a%2#b", "a%zz#b", "%0a#b", "%61#b", "%3A#b", "%E9#b", "%é1#b", "a\n#b",
            "a%23", "%00#b", "a#%23", "a#%",
        ],
    );
    check(&tags, &[text("#%"), text("#%")], "%23%25##%25");
}

#[test]
fn numbers_words_and_truths_are_plain() {
    let all =
        template("{u}:{i}:{b}:{w}:{n}:{i desc}", "u:u64,i:i64,b:bool,w:enum(on|off.line),n:name");
    let key = |i| {
        [
            Value::Unsigned(u64::MAX),
            Value::Int(i),
            Value::Bool(false),
            text("off.line"),
            text("a-1"),
            Value::Int(i),
        ]
    };
    let max = u64::MAX;
    check(&all, &key(-7), &format!("{max}:-7:false:off.line:a-1:-7"));
    refused(&all, &["1:1:false:on:abc", "1:1:false:on:abc:", "1:1:False:on:abc:1"]);
    refused(&all, &["01:1:true:on:abc:1", "1:+1:true:on:abc:1", "1:1:true:offline:abc:1"]);
    refused(&all, &["-1:1:true:on:abc:1", "1:1:true:on:Abc:1", "1:1:true:on:abc:1:"]);
}

#[test]
fn r07_uuid_keys_of_the_earlier_plan_are_read() {
    let old = template("USR={usr}_TAG={tag}", "usr:uuid,tag:uuid");
    let uuid = "67e5504410b1426f9247bb680e5fe0c8";
    let key = old.parse(&format!("USR={uuid}_TAG={uuid}")).unwrap();
    assert_eq!(old.render(&key).unwrap(), format!("USR={uuid}_TAG={uuid}"));
    refused(&old, &[&format!("USR={uuid}_TAG={}", uuid.to_uppercase())]);
}

#[test]
fn buckets_and_beginnings_are_checked_when_they_are_read() {
    let sharded = template("{id shard 16}:{id prefix 2}", "id:id");
    check(&sharded, &[Value::Unsigned(15), text("ab")], "15:ab");
    refused(&sharded, &["16:ab", "1:abc", "1:"]);
}

#[test]
fn fixed_lengths_need_nothing_between_them() {
    let pair = template("{a}{b}7{a}", "a:ulid,b:uuid");
    let uuid = "67e5504410b1426f9247bb680e5fe0c8";
    let text = format!("{A}{uuid}7{B}");
    assert_eq!(pair.render(&pair.parse(&text).unwrap()).unwrap(), text);
    refused(&pair, &[&format!("{A}é{uuid}7{B}"), &format!("{A}{uuid}")]);
}

#[test]
fn r09_a_key_in_another_order_or_case_is_refused_with_the_place_and_the_template() {
    let votes = template("usr_{u}_tag_{t}", "u:ulid,t:ulid");
    let check = |text: &str, expected: Expect| {
        expected.assert_eq(&votes.parse(text).unwrap_err().to_string());
    };
    check(
        &format!("USR_{A}_TAG_{B}"),
        expect![[r#"expected "usr_" at character 0 of a key of usr_{u}_tag_{t}"#]],
    );
    check(
        &format!("tag_{A}_usr_{B}"),
        expect![[r#"expected "usr_" at character 0 of a key of usr_{u}_tag_{t}"#]],
    );
    check(
        &format!("usr_{A}_tar_{B}"),
        expect![[r#"expected "_tag_" at character 33 of a key of usr_{u}_tag_{t}"#]],
    );
    check(
        &format!("usr_{A}"),
        expect![[r#"expected "_tag_" at character 30 of a key of usr_{u}_tag_{t}"#]],
    );
    check(
        &format!("usr_{A}_tag_{B}_x"),
        expect!["expected the end of the key at character 61 of a key of usr_{u}_tag_{t}"],
    );
    check(
        &format!("usr_{}_tag_{B}", A.to_lowercase()),
        expect!["expected u (ulid) at character 4 of a key of usr_{u}_tag_{t}"],
    );
}

#[test]
fn a_mismatch_is_counted_in_characters() {
    let template = template("{a}:{s}", "a:text,s:enum(on|off)");
    let error = template.parse("éé:of").unwrap_err();
    assert_eq!(
        error,
        ParseError::Mismatch {
            position: 3,
            expected: "s (one of on, off)".to_owned(),
            template: "{a}:{s}".to_owned(),
        }
    );
}

#[test]
fn a_text_longer_than_any_key_is_refused() {
    let bare = template("{a}", "a:text");
    assert!(matches!(bare.parse(&"x".repeat(4097)), Err(ParseError::TooLong { .. })));
}

#[test]
fn values_that_do_not_fit_are_not_rendered() {
    let pair = template("{a}:{n}", "a:text,n:u64");
    assert_eq!(pair.render(&[text("a")]), Err(PackError::WrongCount { expected: 2, found: 1 }));
    assert!(matches!(
        pair.render(&[text("a"), Value::Int(1)]),
        Err(PackError::WrongKind { field, .. }) if field == "n"
    ));
    assert!(matches!(
        pair.render(&[text("a\0"), Value::Unsigned(1)]),
        Err(PackError::ContainsNul { field }) if field == "a"
    ));
}
