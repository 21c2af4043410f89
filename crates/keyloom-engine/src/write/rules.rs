//! The rules of a schema, checked on a document before and after.
//!
//! U1: Pure: what needs other documents (unique, references, capacity) is checked by the commit.

use keyloom_key::Value;

use crate::catalog::{Collection, Field};
use crate::document::{FieldValue, Members, Record, raw_elements, raw_text};
use crate::error::Error;
use crate::schema::Length;

/// Checks everything that can be known from the data alone.
pub(crate) fn check_rules(
    collection: &Collection,
    members: &Members<'_>,
    record: &Record,
) -> Result<(), Error> {
    let fields = members.fields();
    for (place, field) in fields.iter().enumerate() {
        let broken = |rule, detail| violation(collection, field, rule, detail);
        let Some(value) = record.get(place) else {
            if field.is_always_present() {
                return Err(broken("required", "it is missing".to_owned()));
            }
            continue;
        };
        // Few rules look at the text of a member, and it has to be looked for.
        let raw = || members.of_field(place).unwrap_or_default();
        if let Some(bounds) = field.elements {
            let count = raw_elements(raw()).map_err(|detail| broken("elements", detail))?.len();
            check_bounds(bounds, count, "elements").map_err(|detail| broken("elements", detail))?;
        }
        if field.length.is_some() || field.pattern.is_some() {
            check_texts(field, value, raw()).map_err(|(rule, detail)| broken(rule, detail))?;
        }
        if let Some(allowed) = &field.values
            && !each(value).all(|value| allowed.contains(value))
        {
            return Err(broken("values", format!("{} is not one of {}", raw(), spelled(allowed))));
        }
        if let Some(other) = field.differs_from
            && record.get(other) == Some(value)
        {
            let other = fields.get(other).map_or("?", |field| &field.name);
            return Err(broken("differs_from", format!("it is the same as `{other}`")));
        }
    }
    Ok(())
}

/// Checks that every default obeys the rules of its field: nobody could create a document
/// otherwise.
pub(crate) fn check_defaults(collection: &Collection) -> Result<(), Error> {
    for field in &collection.fields {
        let Some(default) = &field.default else { continue };
        // What it has to differ from belongs to a whole document.
        let alone = [Field { differs_from: None, ..field.clone() }];
        let data = Members::with_added(b"{}", [(field.name.as_str(), default.as_str())]);
        let members = Members::parse_for(&alone, &data)?;
        let checked = Record::read(collection, &members)
            .and_then(|record| check_rules(collection, &members, &record));
        if let Err(Error::RuleViolation { rule, detail, .. }) = checked {
            let at = format!("collections.{}.fields.{}", collection.name, field.name);
            return Err(Error::Schema { at, detail: format!("default: {rule}: {detail}") });
        }
    }
    Ok(())
}

/// Checks what a change may do to a stored document.
pub(super) fn check_change(
    collection: &Collection,
    old: Option<&Record>,
    new: &Record,
) -> Result<(), Error> {
    // A new document may hold anything but sums, which the engine keeps.
    if old.is_none() && collection.derive.is_none() {
        return Ok(());
    }
    for (place, field) in collection.fields.iter().enumerate() {
        let after = new.get(place);
        let (before, untouched) = match old {
            None if field.derived => (None, after == Some(&FieldValue::Scalar(Value::Int(0)))),
            None => continue,
            Some(old) => (old.get(place), old.get(place) == after),
        };
        if untouched {
            continue;
        }
        let broken = |rule, detail: &str| violation(collection, field, rule, detail.to_owned());
        if field.derived || names_group(collection, place) {
            return Err(broken("derive", "the engine keeps this field, nobody else"));
        }
        if field.frozen {
            return Err(broken("frozen", "it never changes after create"));
        }
        if let Some(transitions) = &field.transitions {
            check_transition(transitions, before, after)
                .map_err(|detail| broken("transitions", &detail))?;
        }
        if let Some(freeze) = &collection.freeze
            && old.is_some_and(|old| old.satisfies(&freeze.when))
            && !freeze.open.get(place).copied().unwrap_or(false)
        {
            return Err(broken("freeze", "the document is final, only these may change: ")
                .with_open_fields(collection));
        }
    }
    Ok(())
}

/// Checks that a document may go: not while the engine counts others in it.
pub(super) fn check_delete(collection: &Collection, old: &Record) -> Result<(), Error> {
    let Some(derive) = &collection.derive else { return Ok(()) };
    let mut kept = derive.sums.iter().map(|(here, _)| *here).chain(derive.count);
    let counting = kept.find(|place| old.scalar(*place).is_some_and(|sum| *sum != Value::Int(0)));
    let Some(field) = counting.and_then(|place| collection.fields.get(place)) else {
        return Ok(());
    };
    let detail = format!("documents of `{}` are counted in it: delete those first", derive.from);
    Err(violation(collection, field, "derive", detail))
}

/// Whether a field tells whose sums a derived document holds.
fn names_group(collection: &Collection, place: usize) -> bool {
    let derive = collection.derive.as_ref();
    derive.is_some_and(|derive| derive.group.iter().any(|(here, _)| *here == place))
}

impl Error {
    /// Names the fields that stay open when a document is frozen.
    fn with_open_fields(self, collection: &Collection) -> Error {
        let Some(freeze) = &collection.schema.freeze else { return self };
        match self {
            Error::RuleViolation { collection, field, rule, mut detail } => {
                let open = if freeze.except.is_empty() {
                    "none".to_owned()
                } else {
                    freeze.except.join(", ")
                };
                detail.push_str(&open);
                Error::RuleViolation { collection, field, rule, detail }
            }
            other => other,
        }
    }
}

fn violation(collection: &Collection, field: &Field, rule: &'static str, detail: String) -> Error {
    Error::RuleViolation {
        collection: collection.name.clone(),
        field: field.name.clone(),
        rule,
        detail,
    }
}

fn check_transition(
    transitions: &crate::schema::Transitions,
    before: Option<&FieldValue>,
    after: Option<&FieldValue>,
) -> Result<(), String> {
    let word = |value: Option<&FieldValue>| match value {
        Some(FieldValue::Scalar(Value::Text(word))) => word.clone(),
        _ => "nothing".to_owned(),
    };
    let (before, after) = (word(before), word(after));
    let allowed = transitions.get(&before).map_or(&[][..], Vec::as_slice);
    if allowed.contains(&after) {
        return Ok(());
    }
    if allowed.is_empty() {
        return Err(format!("`{before}` is final, it cannot become `{after}`"));
    }
    Err(format!("`{before}` may become {}, not `{after}`", allowed.join(", ")))
}

/// Checks the texts of a value as they were written.
fn check_texts(field: &Field, value: &FieldValue, raw: &str) -> Result<(), (&'static str, String)> {
    match value {
        FieldValue::Scalar(_) => raw_text(raw).map_or(Ok(()), |text| check_text(field, &text)),
        FieldValue::Array(elements) => elements.iter().try_for_each(|element| match element {
            Value::Text(text) => check_text(field, text),
            _ => Ok(()),
        }),
        FieldValue::Other(_) => Ok(()),
    }
}

fn check_text(field: &Field, text: &str) -> Result<(), (&'static str, String)> {
    if let Some(bounds) = field.length {
        check_bounds(bounds, text.chars().count(), "characters")
            .map_err(|detail| ("length", detail))?;
    }
    match &field.pattern {
        Some(pattern) if !pattern.is_match(text) => {
            let pattern = pattern.as_str().trim_start_matches("^(?:").trim_end_matches(")$");
            Err(("pattern", format!("it does not match {pattern}")))
        }
        _ => Ok(()),
    }
}

fn check_bounds(bounds: Length, found: usize, what: &str) -> Result<(), String> {
    let (min, max) = (bounds.min.unwrap_or(0), bounds.max.unwrap_or(usize::MAX));
    if found < min {
        return Err(format!("{found} {what}, at least {min} needed"));
    }
    if found > max {
        return Err(format!("{found} {what}, at most {max} allowed"));
    }
    Ok(())
}

fn each(value: &FieldValue) -> impl Iterator<Item = &Value> {
    let values: &[Value] = match value {
        FieldValue::Scalar(value) => std::slice::from_ref(value),
        FieldValue::Array(values) => values,
        FieldValue::Other(_) => &[],
    };
    values.iter()
}

fn spelled(values: &[Value]) -> String {
    let words = values.iter().map(|value| match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Ulid(id) => id.to_string(),
        Value::Uuid(id) => id.to_string(),
    });
    words.collect::<Vec<_>>().join(", ")
}
