//! Whatever comes from disk, network or people is answered, never with a panic.
//!
//! The fuzz targets do the same with more patience; these run with every test.

use keyloom_key::{Anchors, Head, Kind, Name, NumericId, StringId, Tail, Template, Ulid, Uuid};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generate::{any_template, kind_of};

const FIELDS: &str = "a:text,b:id,u:ulid,n:u64,t:millis,s:enum(on|off)";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn compiling_never_panics(text in any_template_text()) {
        if let Err(error) = Template::compile(&text, &|name| kind_of(FIELDS, name)) {
            prop_assert!(error.position <= text.chars().count());
            prop_assert!(error.to_string().ends_with(error.problem.advice()));
        }
    }

    #[test]
    fn unpacking_never_panics(
        template in any_template(),
        bytes in vec(prop_oneof![any_element_byte(), any::<u8>()], 0..40),
    ) {
        let key = template.unpack(&bytes);
        if let Ok(key) = &key {
            prop_assert_eq!(key.len(), template.components().len());
        }
        let text = key.map(|key| template.render(&key).expect("what unpacks can be rendered"));
        prop_assert_eq!(template.respell(&bytes), text);
    }

    #[test]
    fn parsing_never_panics(template in any_template(), text in any_key_text()) {
        if let Ok(key) = template.parse(&text) {
            prop_assert_eq!(template.render(&key), Ok(text));
        }
    }

    #[test]
    fn reading_identities_never_panics(text in any_identity_text(), bytes_max in 0..300_usize) {
        if let Ok(ulid) = Ulid::parse(&text) {
            prop_assert_eq!(ulid.to_string(), text.as_str());
        }
        if let Ok(uuid) = Uuid::parse(&text) {
            prop_assert_eq!(uuid.to_string(), text.as_str());
        }
        if let Ok(name) = Name::parse(&text) {
            prop_assert_eq!(name.as_str(), text.to_lowercase());
        }
        if let Ok(id) = StringId::parse(&text, bytes_max) {
            prop_assert!((1..=bytes_max).contains(&id.as_str().len()));
        }
        if let Ok(number) = NumericId::parse(&text) {
            prop_assert_eq!(number.to_string(), text.as_str());
        }
    }

    #[test]
    fn reading_values_never_panics(text in any_identity_text()) {
        for kind in [Kind::Millis, Kind::I64, Kind::U64, Kind::Bool, Kind::Id, Kind::Text] {
            if let Ok(value) = kind.parse_text(&text) {
                prop_assert_eq!(value.to_string(), text.as_str());
            }
        }
    }

    #[test]
    fn reading_heads_never_panics(bytes in vec(prop_oneof![0..8_u8, any::<u8>()], 0..9)) {
        if let Ok((head, components)) = Head::read(&bytes) {
            let mut out = Vec::new();
            head.write(&mut out);
            out.extend_from_slice(components);
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn locating_never_panics(
        template in any_template(),
        literals in vec(any_key_text(), 0..4),
        start: bool,
        end: bool,
    ) {
        let literals: Vec<&str> = literals.iter().map(String::as_str).collect();
        let located = template.locate_in_order(&literals, Anchors { start, end });
        prop_assert_eq!(&located, &template.locate_in_order(&literals, Anchors { start, end }));
    }

    #[test]
    fn asking_for_prefixes_never_panics(template in any_template(), prefix in "\\PC{0,20}|.{0,9}") {
        if let Ok(span) = template.span(&[], &Tail::Prefix(prefix)) {
            prop_assert!(span.from < span.to);
        }
    }
}

/// Braces, fields and modifiers in any order, and anything else between them.
fn any_template_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{", "}", "a", "b", "u", "n", "t", "s", "{a}", "{u}", "[]", " ", " desc", " prefix ",
            " shard ", "4", ":", "#", "@", "_", "%",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn any_key_text() -> impl Strategy<Value = String> {
    "([a-f0-9:#_%/é-]|\\PC|usr_){0,40}"
}

fn any_element_byte() -> impl Strategy<Value = u8> {
    prop::sample::select(b"\x00\x02\x0C\x13\x14\x15\x1C\x26\x27\x30\xFD\xEB\xFF\xCFa".to_vec())
}

fn any_identity_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,40}", "[0-9A-Z]{26}", "[0-9a-f]{32}", "-?[0-9]{1,21}", ".{0,5}"]
}
