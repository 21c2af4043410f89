//! Random templates and keys, and the model that they are compared with.
//!
//! The alphabets are small, so that keys meet: equal components, prefixes, separators in values.

use std::cmp::Ordering;

use keyloom_key::{Component, Cut, Kind, Order, Template, Ulid, Uuid, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Compiles a template whose fields are given as `name:kind,…` (`enum(a|b)` for words).
pub(crate) fn template(text: &str, fields: &str) -> Template {
    match Template::compile(text, &|name| kind_of(fields, name)) {
        Ok(template) => template,
        Err(error) => panic!("{error}"),
    }
}

/// The kind of a field in a list such as `id:ulid,status:enum(on|off)`.
pub(crate) fn kind_of(fields: &str, name: &str) -> Option<Kind> {
    let (_, kind) = fields
        .split(',')
        .filter_map(|field| field.split_once(':'))
        .find(|(own, _)| *own == name)?;
    let words = kind.strip_prefix("enum(").and_then(|words| words.strip_suffix(')'));
    Some(match (kind, words) {
        (_, Some(words)) => Kind::Enum(words.split('|').map(str::to_owned).collect()),
        ("ulid", _) => Kind::Ulid,
        ("uuid", _) => Kind::Uuid,
        ("name", _) => Kind::Name,
        ("id", _) => Kind::Id,
        ("text", _) => Kind::Text,
        ("millis", _) => Kind::Millis,
        ("u64", _) => Kind::U64,
        ("i64", _) => Kind::I64,
        ("bool", _) => Kind::Bool,
        _ => panic!("{kind} is not a kind"),
    })
}

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

pub(crate) fn ulid(text: &str) -> Value {
    Value::Ulid(Ulid::parse(text).unwrap())
}

pub(crate) fn packed(template: &Template, key: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    template.pack(key, &mut bytes).unwrap();
    bytes
}

/// The order that keys should have: that of their components, each in its direction.
pub(crate) fn compare(template: &Template, a: &[Value], b: &[Value]) -> Ordering {
    template
        .components()
        .iter()
        .zip(a.iter().zip(b))
        .map(|(component, (a, b))| match component.order {
            Order::Ascending => a.cmp(b),
            Order::Descending => b.cmp(a),
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

pub(crate) fn any_kind() -> impl Strategy<Value = Kind> {
    select(vec![
        Kind::Ulid,
        Kind::Uuid,
        Kind::Name,
        Kind::Id,
        Kind::Text,
        Kind::Millis,
        Kind::U64,
        Kind::I64,
        Kind::Bool,
        Kind::Enum(["on", "off", "o.n", "x-1"].map(str::to_owned).into()),
    ])
}

/// A value of the kind, near others of it.
pub(crate) fn any_value(kind: &Kind) -> BoxedStrategy<Value> {
    match kind {
        Kind::Ulid => any_bits().prop_map(|bits| Value::Ulid(Ulid::from_bytes(bits))).boxed(),
        Kind::Uuid => any_bits().prop_map(|bits| Value::Uuid(version_4(bits))).boxed(),
        Kind::Name => "[ab1-]{3,5}".prop_map(Value::Text).boxed(),
        Kind::Id => "[abA1#:%_/é-]{1,4}".prop_map(Value::Text).boxed(),
        Kind::Text => "[ab1#:%_/é\u{1}\u{7f}\u{10FFFF}-]{0,4}".prop_map(Value::Text).boxed(),
        Kind::Millis | Kind::I64 => any_int().prop_map(Value::Int).boxed(),
        Kind::U64 => prop_oneof![0..3_u64, 250..260_u64, Just(u64::MAX), any::<u64>()]
            .prop_map(Value::Unsigned)
            .boxed(),
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Enum(words) => select(words.to_vec()).prop_map(Value::Text).boxed(),
    }
}

/// A key of the template.
pub(crate) fn any_key(template: &Template) -> BoxedStrategy<Vec<Value>> {
    template.components().iter().map(any_component_value).collect::<Vec<_>>().boxed()
}

/// A template and so many of its keys.
pub(crate) fn any_keys(count: usize) -> impl Strategy<Value = (Template, Vec<Vec<Value>>)> {
    any_template().prop_flat_map(move |template| {
        let keys = vec(any_key(&template), count);
        (Just(template), keys)
    })
}

pub(crate) fn any_template() -> impl Strategy<Value = Template> {
    let lead = select(vec!["", "k_", "usr_", "a:", "01"]);
    let piece = (any_kind(), select(vec!["", " desc", " prefix 2", " prefix 2 desc", " shard 3"]));
    // A fixed length may be followed by anything; the proof forbids most of it after the others.
    let fixed = select(vec!["", "A", "7", "_", "_tag_", "f-"]);
    let separated = select(vec![":", "#", "_", "/", ":x:", "_tag_", "#1"]);
    let end = select(vec!["", "", ":", "_end"]);
    (lead, vec((piece, fixed, separated), 1..4), end).prop_map(|(lead, pieces, end)| {
        let mut text = lead.to_owned();
        let mut kinds = Vec::new();
        let last = pieces.len() - 1;
        for (index, ((kind, modifier), fixed, separated)) in pieces.into_iter().enumerate() {
            let cuts = modifier.contains("prefix") && !matches!(kind, Kind::Id | Kind::Text);
            let modifier = if cuts { "" } else { modifier };
            let is_fixed = matches!(kind, Kind::Ulid | Kind::Uuid) && !modifier.contains("shard");
            let follows = match (index == last, is_fixed) {
                (true, _) => end,
                (false, true) => fixed,
                (false, false) => separated,
            };
            text += &format!("{{f{index}{modifier}}}{follows}");
            kinds.push(kind);
        }
        let kind_of = |name: &str| {
            let index: usize = name.strip_prefix('f')?.parse().ok()?;
            kinds.get(index).cloned()
        };
        Template::compile(&text, &kind_of).unwrap()
    })
}

pub(crate) fn any_component_value(component: &Component) -> BoxedStrategy<Value> {
    let component = component.clone();
    match component.cut {
        Cut::Shard(count) => (0..u64::from(count)).prop_map(Value::Unsigned).boxed(),
        Cut::Whole | Cut::Prefix(_) => {
            any_value(&component.kind).prop_map(move |value| component.value_of(&value)).boxed()
        }
    }
}

fn any_int() -> impl Strategy<Value = i64> {
    prop_oneof![
        -3..3_i64,
        -260..-250_i64,
        250..260_i64,
        9_999_999_999_990..10_000_000_000_010_i64,
        Just(i64::MIN),
        Just(i64::MAX),
        any::<i64>(),
    ]
}

fn any_bits() -> impl Strategy<Value = [u8; 16]> {
    prop_oneof![select(vec![[0; 16], [0x11; 16], [0xFF; 16]]), any::<[u8; 16]>()]
}

fn version_4(mut bits: [u8; 16]) -> Uuid {
    bits[6] = 0x40 | (bits[6] & 0x0F);
    bits[8] = 0x80 | (bits[8] & 0x3F);
    Uuid::from_bytes(bits).unwrap()
}
