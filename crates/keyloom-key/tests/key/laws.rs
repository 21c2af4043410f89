//! The laws of keys, for all templates and all values.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::slice::from_ref;

use keyloom_key::{Kind, Order, Template, Value};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generate::{any_key, any_keys, any_kind, any_template, any_value, compare, packed};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_rendered_key_parses_to_itself((template, keys) in any_keys(1)) {
        let text = template.render(&keys[0]).unwrap();
        prop_assert_eq!(template.parse(&text), Ok(keys[0].clone()), "{} {}", template, text);
    }

    #[test]
    fn a_packed_key_unpacks_to_itself((template, keys) in any_keys(1)) {
        let bytes = packed(&template, &keys[0]);
        prop_assert_eq!(template.unpack(&bytes), Ok(keys[0].clone()), "{}", template);
    }

    #[test]
    fn a_key_packs_from_the_values_of_fields_as_from_its_components(
        (template, fields) in any_keys(1),
        missing in any::<prop::sample::Index>(),
    ) {
        let mut out = b"before".to_vec();
        let field = |place: usize| fields[0].get(place).map(Cow::Borrowed);
        prop_assert_eq!(template.pack_fields(field, &mut out), Ok(true), "{}", template);
        let components = template.components().iter().zip(&fields[0]);
        let key: Vec<Value> = components.map(|(part, value)| part.value_of(value)).collect();
        prop_assert_eq!(&out[6..], packed(&template, &key), "{}", template);
        let missing = missing.index(key.len());
        let lacking = |place: usize| field(place).filter(|_| place != missing);
        out.truncate(6);
        prop_assert_eq!(template.pack_fields(lacking, &mut out), Ok(false), "{}", template);
        prop_assert_eq!(&out[..], b"before");
    }

    #[test]
    fn a_packed_key_respells_as_it_renders((template, keys) in any_keys(1)) {
        let bytes = packed(&template, &keys[0]);
        let text = template.render(&keys[0]).unwrap();
        prop_assert_eq!(template.respell(&bytes), Ok(text), "{}", template);
    }

    #[test]
    fn byte_order_is_component_order((template, keys) in any_keys(2)) {
        let [a, b] = [&keys[0], &keys[1]];
        let bytes = packed(&template, a).cmp(&packed(&template, b));
        prop_assert_eq!(bytes, compare(&template, a, b), "{}", template);
    }

    #[test]
    fn no_key_is_a_prefix_of_another((template, keys) in any_keys(2)) {
        let [a, b] = [packed(&template, &keys[0]), packed(&template, &keys[1])];
        prop_assert!(!b.starts_with(&a) || keys[0] == keys[1], "{}", template);
    }

    #[test]
    fn no_element_begins_with_the_bytes_that_end_ranges((template, keys) in any_keys(1)) {
        let bytes = packed(&template, &keys[0]);
        prop_assert!(!matches!(bytes.first(), None | Some(0x00 | 0xFF)), "{}", template);
    }

    #[test]
    fn different_keys_never_render_the_same((template, keys) in any_keys(2)) {
        let [a, b] = [template.render(&keys[0]).unwrap(), template.render(&keys[1]).unwrap()];
        prop_assert_eq!(a == b, keys[0] == keys[1], "{}: {}", template, a);
    }

    #[test]
    fn only_the_canonical_text_of_a_key_parses(
        (template, keys) in any_keys(1),
        change in any_change(),
    ) {
        let text = change.apply_to_text(&template.render(&keys[0]).unwrap());
        if let Ok(key) = template.parse(&text) {
            prop_assert_eq!(template.render(&key), Ok(text), "{}", template);
        }
    }

    #[test]
    fn only_the_canonical_bytes_of_a_key_unpack(
        (template, keys) in any_keys(1),
        change in any_change(),
    ) {
        let bytes = change.apply_to_bytes(packed(&template, &keys[0]));
        if let Ok(key) = template.unpack(&bytes) {
            prop_assert_eq!(packed(&template, &key), bytes, "{}", template);
        }
    }

    #[test]
    fn a_key_is_appended_and_what_stood_before_stays(
        (template, keys) in any_keys(1),
        before in vec(any::<u8>(), 0..9),
    ) {
        let mut out = before.clone();
        template.pack(&keys[0], &mut out).unwrap();
        prop_assert_eq!(out, [before, packed(&template, &keys[0])].concat());
    }

    #[test]
    fn values_compare_as_their_packed_elements((kind, a, b) in any_two_values()) {
        let kind_of = |_: &str| Some(kind.clone());
        let ascending = Template::compile("{f}", &kind_of).unwrap();
        let descending = Template::compile("{f desc}", &kind_of).unwrap();
        let order = |template: &Template| {
            packed(template, from_ref(&a)).cmp(&packed(template, from_ref(&b)))
        };
        prop_assert_eq!(order(&ascending), a.cmp(&b));
        prop_assert_eq!(order(&descending), b.cmp(&a));
    }

    #[test]
    fn a_value_is_read_back_from_its_plain_text((kind, a, _) in any_two_values()) {
        prop_assert!(kind.accepts(&a));
        prop_assert_eq!(kind.parse_text(&a.to_string()), Ok(a));
    }

    #[test]
    fn a_descending_component_is_the_complement_of_the_ascending_one(
        (kind, a, _) in any_two_values(),
    ) {
        let kind_of = |_: &str| Some(kind.clone());
        let ascending = Template::compile("{f}", &kind_of).unwrap();
        let descending = Template::compile("{f desc}", &kind_of).unwrap();
        prop_assert_eq!(descending.components()[0].order, Order::Descending);
        let complement: Vec<u8> =
            packed(&ascending, from_ref(&a)).iter().map(|byte| !byte).collect();
        prop_assert_eq!(packed(&descending, &[a]), complement);
    }
}

#[test]
fn the_model_of_order_sees_every_direction() {
    let template = crate::generate::template("{a}:{b desc}", "a:u64,b:u64");
    let key = |a, b| [Value::Unsigned(a), Value::Unsigned(b)];
    assert_eq!(compare(&template, &key(1, 1), &key(2, 1)), Ordering::Less);
    assert_eq!(compare(&template, &key(1, 2), &key(1, 1)), Ordering::Less);
    assert_eq!(compare(&template, &key(1, 1), &key(1, 1)), Ordering::Equal);
}

fn any_two_values() -> impl Strategy<Value = (Kind, Value, Value)> {
    any_kind().prop_flat_map(|kind| {
        let values = (any_value(&kind), any_value(&kind));
        (Just(kind), values).prop_map(|(kind, (a, b))| (kind, a, b))
    })
}

/// A small damage to a key.
#[derive(Debug, Clone)]
enum Change {
    Remove(prop::sample::Index),
    Insert(prop::sample::Index, u8),
    Replace(prop::sample::Index, u8),
}

fn any_change() -> impl Strategy<Value = Change> {
    // Bytes that mean something in one of the two spellings.
    let byte = prop_oneof![
        prop::sample::select(b"%:#_/-+0127A2F a\x00\xFF\x13\x14\x15\x16\x02\x30".to_vec()),
        any::<u8>(),
    ];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        index().prop_map(Change::Remove),
        (index(), byte.clone()).prop_map(|(index, byte)| Change::Insert(index, byte)),
        (index(), byte).prop_map(|(index, byte)| Change::Replace(index, byte)),
    ]
}

impl Change {
    fn apply_to_bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Remove(index) => {
                if !bytes.is_empty() {
                    bytes.remove(index.index(bytes.len()));
                }
            }
            Self::Insert(index, byte) => bytes.insert(index.index(bytes.len() + 1), *byte),
            Self::Replace(index, byte) => {
                if !bytes.is_empty() {
                    let at = index.index(bytes.len());
                    bytes[at] = *byte;
                }
            }
        }
        bytes
    }

    fn apply_to_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.apply_to_bytes(text.as_bytes().to_vec())).into_owned()
    }
}

proptest! {
    #[test]
    fn templates_are_equal_by_text_and_kinds(a in any_template(), b in any_template()) {
        prop_assert_eq!(&a, &a.clone());
        let same = a.text() == b.text() && a.components() == b.components();
        prop_assert_eq!(a == b, same);
    }

    #[test]
    fn the_generator_makes_keys_that_the_template_takes(
        (template, key) in any_template().prop_flat_map(|template| {
            let key = any_key(&template);
            (Just(template), key)
        })
    ) {
        prop_assert_eq!(key.len(), template.components().len());
        prop_assert!(template.render(&key).is_ok());
    }
}
