//! Ranges hold what they should, and say so.

use std::ops::Bound;

use keyloom_key::{Component, Cut, Kind, PackError, Span, Tail, Template, Value};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generate::{any_component_value, any_key, any_template, packed, template, text, ulid};

const REQUESTER: &str = "approval:index:requester:{requester}:{created_at desc}:{id}";
const REQUESTER_FIELDS: &str = "requester:id,created_at:millis,id:ulid";

/// Both ends in text, as `explain` prints them.
fn check(template: &Template, bound: &[Value], tail: &Tail, from: &str, to: &str) {
    let (first, end) = template.spell_span(bound, tail).unwrap();
    assert_eq!((first.as_str(), end.as_str()), (from, to));
}

fn contains(span: &Span, key: &[u8]) -> bool {
    span.from.as_slice() <= key && key < span.to.as_slice()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_span_holds_exactly_the_keys_that_satisfy_it(
        (template, keys, bound, tail) in any_question(),
    ) {
        let span = template.span(&bound, &tail).unwrap();
        prop_assert!(span.from <= span.to);
        for key in &keys {
            prop_assert_eq!(
                contains(&span, &packed(&template, key)),
                satisfies(key, &bound, &tail),
                "{} {:?} {:?} {:?}", template, bound, tail, key
            );
        }
    }
}

#[test]
fn a_bound_prefix_is_a_range_over_everything_under_it() {
    let template = template(REQUESTER, REQUESTER_FIELDS);
    check(&template, &[], &Tail::All, "approval:index:requester:", "approval:index:requester:*");
    check(
        &template,
        &[text("u1")],
        &Tail::All,
        "approval:index:requester:u1:",
        "approval:index:requester:u1:*",
    );
}

#[test]
fn a_user_does_not_see_the_keys_of_one_whose_id_is_longer() {
    let template = template(REQUESTER, REQUESTER_FIELDS);
    let id = ulid("01ARZ3NDEKTSV4RRFFQ69G5FAV");
    let span = template.span(&[text("u1")], &Tail::All).unwrap();
    let key = |user| packed(&template, &[text(user), Value::Int(7), id.clone()]);
    assert!(contains(&span, &key("u1")));
    assert!(!contains(&span, &key("u10")));
    assert!(!contains(&span, &key("u")));
}

#[test]
fn a_range_over_a_descending_component_begins_with_the_latest() {
    let template = template(REQUESTER, REQUESTER_FIELDS);
    let since = |lower| Tail::Range { lower, upper: Bound::Unbounded };
    check(
        &template,
        &[text("u1")],
        &since(Bound::Included(Value::Int(1_700_000_000_000))),
        "approval:index:requester:u1:",
        "approval:index:requester:u1:8299999999999:*",
    );
    check(
        &template,
        &[text("u1")],
        &since(Bound::Excluded(Value::Int(1_700_000_000_000))),
        "approval:index:requester:u1:",
        "approval:index:requester:u1:8299999999999:",
    );
}

#[test]
fn a_prefix_is_a_range_over_the_texts_that_begin_so() {
    let template = template("tag:{value}:{id}", "value:text,id:ulid");
    check(&template, &[], &Tail::Prefix("he:l".to_owned()), "tag:he%3Al", "tag:he%3Al*");
    check(&template, &[], &Tail::Prefix(String::new()), "tag:", "tag:*");
}

#[test]
fn r01_a_prefix_of_names_is_folded_as_names_are() {
    let template = template("n:{name}", "name:name");
    let tail = Tail::Prefix("JohnD".to_owned());
    let span = template.span(&[], &tail).unwrap();
    assert!(contains(&span, &packed(&template, &[text("johndoe")])));
    check(&template, &[], &tail, "n:johnd", "n:johnd*");
}

#[test]
fn a_range_of_names_may_begin_with_what_is_too_short_for_a_name() {
    let template = template("n:{name}", "name:name");
    let tail = Tail::Range { lower: Bound::Included(text("m")), upper: Bound::Unbounded };
    let span = template.span(&[], &tail).unwrap();
    assert!(contains(&span, &packed(&template, &[text("max")])));
    assert!(!contains(&span, &packed(&template, &[text("lea")])));
}

#[test]
fn a_range_that_ends_before_it_begins_is_empty() {
    let template = template("n:{n}", "n:u64");
    let tail = Tail::Range {
        lower: Bound::Included(Value::Unsigned(8)),
        upper: Bound::Included(Value::Unsigned(4)),
    };
    let span = template.span(&[], &tail).unwrap();
    assert_eq!(span.from, span.to);
    check(&template, &[], &tail, "n:8", "n:8");
}

#[test]
fn a_span_of_a_whole_key_holds_that_key_only() {
    let template = template("n:{n}", "n:u64");
    let key = [Value::Unsigned(8)];
    let span = template.span(&key, &Tail::All).unwrap();
    assert!(contains(&span, &packed(&template, &key)));
    assert!(!contains(&span, &packed(&template, &[Value::Unsigned(9)])));
    check(&template, &key, &Tail::All, "n:8", "n:8*");
}

#[test]
fn questions_that_the_template_cannot_answer_are_refused() {
    let template = template("t:{value prefix 3}:{n}", "value:text,n:u64");
    let refused = |bound: &[Value], tail: Tail| template.span(bound, &tail).unwrap_err();
    let two = [text("abc"), Value::Unsigned(1)];
    let three = [text("abc"), Value::Unsigned(1), Value::Unsigned(1)];
    assert_eq!(refused(&three, Tail::All), PackError::WrongCount { expected: 2, found: 3 });
    assert_eq!(
        refused(&two, Tail::Prefix("a".to_owned())),
        PackError::WrongCount { expected: 2, found: 3 }
    );
    assert_eq!(
        refused(&[text("abc")], Tail::Prefix("1".to_owned())),
        PackError::NotText { field: "n".to_owned(), kind: Kind::U64 }
    );
    // Four characters are not stored, so no range could tell `abcd` from `abce`.
    let not_cut = PackError::NotCut { field: "value".to_owned(), characters: 3 };
    assert_eq!(refused(&[], Tail::Prefix("abcd".to_owned())), not_cut);
    assert_eq!(refused(&[text("abcd")], Tail::All), not_cut);
    assert_eq!(
        refused(&[], Tail::Prefix("a\0".to_owned())),
        PackError::ContainsNul { field: "value".to_owned() }
    );
    let wrong = Tail::Range { lower: Bound::Included(Value::Int(1)), upper: Bound::Unbounded };
    assert!(matches!(refused(&[text("abc")], wrong), PackError::WrongKind { .. }));
}

#[test]
fn a_span_that_no_key_could_reach_is_refused() {
    let template = template("t:{value}", "value:text");
    let long = "x".repeat(1100);
    assert_eq!(
        template.span(&[], &Tail::Prefix(long)).unwrap_err(),
        PackError::KeyTooLong { bytes: 1101, max: 1019 }
    );
}

fn satisfies(key: &[Value], bound: &[Value], tail: &Tail) -> bool {
    let leads = key.iter().zip(bound).all(|(value, bound)| value == bound);
    leads
        && match (tail, key.get(bound.len())) {
            (Tail::All, _) => true,
            (Tail::Prefix(prefix), Some(Value::Text(text))) => text.starts_with(prefix.as_str()),
            (Tail::Range { lower, upper }, Some(value)) => {
                let begins = match lower {
                    Bound::Included(bound) => value >= bound,
                    Bound::Excluded(bound) => value > bound,
                    Bound::Unbounded => true,
                };
                let ends = match upper {
                    Bound::Included(bound) => value <= bound,
                    Bound::Excluded(bound) => value < bound,
                    Bound::Unbounded => true,
                };
                begins && ends
            }
            _ => panic!("the question does not fit the key"),
        }
}

/// A template, some keys, and a question whose bound values are those of the first key.
fn any_question() -> impl Strategy<Value = (Template, Vec<Vec<Value>>, Vec<Value>, Tail)> {
    any_template()
        .prop_flat_map(|template| {
            let keys = vec(any_key(&template), 2..6);
            let count = 0..=template.components().len();
            (Just(template), keys, count)
        })
        .prop_flat_map(|(template, keys, count)| {
            let tail = any_tail(template.components().get(count));
            let bound = keys[0][..count].to_vec();
            (Just(template), Just(mixed(keys)), Just(bound), tail)
        })
}

/// Adds keys that share their beginning with the first one.
fn mixed(mut keys: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let first = keys[0].clone();
    let others = keys.clone();
    for other in others {
        for split in 1..first.len() {
            keys.push([&first[..split], &other[split..]].concat());
        }
    }
    keys
}

fn any_tail(next: Option<&Component>) -> BoxedStrategy<Tail> {
    let Some(component) = next else {
        return Just(Tail::All).boxed();
    };
    let any_bound = || {
        (any_component_value(component), 0..3).prop_map(|(value, how)| match how {
            0 => Bound::Included(value),
            1 => Bound::Excluded(value),
            _ => Bound::Unbounded,
        })
    };
    let range = (any_bound(), any_bound()).prop_map(|(lower, upper)| Tail::Range { lower, upper });
    let is_text = !matches!(component.cut, Cut::Shard(_))
        && matches!(component.kind, Kind::Name | Kind::Id | Kind::Text | Kind::Enum(_));
    if is_text {
        let prefix =
            (any_component_value(component), 0..4_usize).prop_map(|(value, characters)| {
                Tail::Prefix(value.to_string().chars().take(characters).collect())
            });
        prop_oneof![Just(Tail::All), prefix, range].boxed()
    } else {
        prop_oneof![Just(Tail::All), range].boxed()
    }
}
