//! What a query asks of one field, typed and brought into one form.
//!
//! N1: The values of [`Term::OneOf`] ascend, none stands twice, and there is at least one.
//! N2: The bounds of an [`Interval`] do not exclude each other, and it is not a single value.
//! N3: What nothing can satisfy is no term at all: the functions here give `None` for it.

use std::fmt;
use std::ops::Bound;

use keyloom_key::{Tail, Value};

use crate::catalog::Source;

/// Conditions that hold together, each on another source.
pub(crate) type Branch = Vec<(Source, Term)>;

/// What is asked of one source. Of an array, one element has to satisfy all of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    /// It has one of these values.
    OneOf(Vec<Value>),
    /// It lies in an interval.
    Within(Interval),
}

/// A connected piece of the order of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) prefix: Option<String>,
    pub(crate) lower: Bound<Value>,
    pub(crate) upper: Bound<Value>,
}

impl Term {
    /// One of these values.
    pub(crate) fn one_of(mut values: Vec<Value>) -> Option<Term> {
        values.sort_unstable();
        values.dedup();
        if values.is_empty() { None } else { Some(Term::OneOf(values)) }
    }

    /// Text that begins so.
    pub(crate) fn prefix(prefix: String) -> Term {
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        Term::Within(Interval { prefix: Some(prefix), lower, upper })
    }

    /// Between the bounds.
    pub(crate) fn range(lower: Bound<Value>, upper: Bound<Value>) -> Option<Term> {
        Interval { prefix: None, lower, upper }.into_term()
    }

    /// Both at once.
    pub(crate) fn and(self, other: Term) -> Option<Term> {
        match (self, other) {
            (Term::OneOf(mut values), other) | (other, Term::OneOf(mut values)) => {
                values.retain(|value| other.holds(value));
                Term::one_of(values)
            }
            (Term::Within(one), Term::Within(other)) => one.and(other)?.into_term(),
        }
    }

    /// Whether a value satisfies it.
    pub(crate) fn holds(&self, value: &Value) -> bool {
        match self {
            Term::OneOf(values) => values.binary_search(value).is_ok(),
            Term::Within(interval) => interval.holds(value),
        }
    }

    /// Whether it leaves one value only.
    pub(crate) fn is_single(&self) -> bool {
        self.single().is_some()
    }

    /// The one value that it leaves, if it leaves no other.
    pub(crate) fn single(&self) -> Option<&Value> {
        match self {
            Term::OneOf(values) => match values.as_slice() {
                [value] => Some(value),
                _ => None,
            },
            Term::Within(_) => None,
        }
    }
}

impl Interval {
    /// What it asks of a component, for [`keyloom_key::Template::span`]; all of it holds.
    pub(crate) fn tails(&self) -> Vec<Tail> {
        let mut tails = Vec::with_capacity(2);
        if let Some(prefix) = &self.prefix {
            tails.push(Tail::Prefix(prefix.clone()));
        }
        if self.lower != Bound::Unbounded || self.upper != Bound::Unbounded {
            tails.push(Tail::Range { lower: self.lower.clone(), upper: self.upper.clone() });
        }
        tails
    }

    /// Whether the first characters of a text decide it.
    ///
    /// A cut text is the text itself or has all its characters. So it compares with anything
    /// shorter as the whole text does.
    pub(crate) fn is_decided_by(&self, characters: u16) -> bool {
        let characters = usize::from(characters);
        let prefix = self.prefix.as_ref().is_none_or(|text| text.chars().count() <= characters);
        let short = |bound: &Bound<Value>| match bound {
            Bound::Unbounded => true,
            Bound::Included(value) | Bound::Excluded(value) => is_shorter(value, characters),
        };
        prefix && short(&self.lower) && short(&self.upper)
    }

    fn holds(&self, value: &Value) -> bool {
        let begins = match (&self.prefix, value) {
            (None, _) => true,
            (Some(prefix), Value::Text(text)) => text.starts_with(prefix),
            (Some(_), _) => false,
        };
        let above = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => value >= lower,
            Bound::Excluded(lower) => value > lower,
        };
        let below = match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => value <= upper,
            Bound::Excluded(upper) => value < upper,
        };
        begins && above && below
    }

    fn and(self, other: Interval) -> Option<Interval> {
        let prefix = match (self.prefix, other.prefix) {
            (Some(one), Some(other)) if one.starts_with(&other) => Some(one),
            (Some(one), Some(other)) if other.starts_with(&one) => Some(other),
            (Some(_), Some(_)) => return None,
            (one, other) => one.or(other),
        };
        let lower = tighter(self.lower, other.lower, |one, other| one > other);
        let upper = tighter(self.upper, other.upper, |one, other| one < other);
        Some(Interval { prefix, lower, upper })
    }

    fn into_term(self) -> Option<Term> {
        let single = match (&self.lower, &self.upper) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => None,
            (Bound::Included(lower), Bound::Included(upper)) if lower == upper => {
                Some(lower.clone())
            }
            (Bound::Included(lower), Bound::Included(upper)) if lower < upper => None,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) if lower < upper => None,
            _ => return None,
        };
        match single {
            None => Some(Term::Within(self)),
            Some(value) if self.holds(&value) => Term::one_of(vec![value]),
            Some(_) => None,
        }
    }
}

/// Whether a text has fewer characters; other values are never cut.
pub(crate) fn is_shorter(value: &Value, characters: usize) -> bool {
    match value {
        Value::Text(text) => text.chars().count() < characters,
        _ => true,
    }
}

/// Adds a condition to a branch; `None` if nothing can satisfy both.
pub(crate) fn narrow(mut branch: Branch, source: Source, term: Term) -> Option<Branch> {
    match branch.iter().position(|(known, _)| *known == source) {
        None => branch.push((source, term)),
        Some(place) => {
            let (_, known) = branch.remove(place);
            branch.insert(place, (source, known.and(term)?));
        }
    }
    Some(branch)
}

fn tighter(
    one: Bound<Value>,
    other: Bound<Value>,
    wins: impl Fn(&Value, &Value) -> bool,
) -> Bound<Value> {
    match (&one, &other) {
        (Bound::Unbounded, _) => other,
        (_, Bound::Unbounded) => one,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            let other_excludes = matches!(other, Bound::Excluded(_));
            if wins(a, b) || (a == b && !other_excludes) { one } else { other }
        }
    }
}

/// As an explained plan shows it, behind the name of the field.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spelled = |value: &Value| match value {
            Value::Text(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        match self {
            Term::OneOf(values) => {
                let values: Vec<String> = values.iter().map(spelled).collect();
                match values.as_slice() {
                    [value] => write!(f, "= {value}"),
                    _ => write!(f, "in [{}]", values.join(", ")),
                }
            }
            Term::Within(Interval { prefix, lower, upper }) => {
                let mut parts = Vec::new();
                parts.extend(prefix.as_ref().map(|prefix| format!("begins with {prefix:?}")));
                match lower {
                    Bound::Unbounded => {}
                    Bound::Included(value) => parts.push(format!(">= {}", spelled(value))),
                    Bound::Excluded(value) => parts.push(format!("> {}", spelled(value))),
                }
                match upper {
                    Bound::Unbounded => {}
                    Bound::Included(value) => parts.push(format!("<= {}", spelled(value))),
                    Bound::Excluded(value) => parts.push(format!("< {}", spelled(value))),
                }
                f.write_str(&parts.join(" and "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bound() -> impl Strategy<Value = Bound<Value>> {
        let value = (0_i64..6).prop_map(Value::Int);
        prop_oneof![
            Just(Bound::Unbounded),
            value.clone().prop_map(Bound::Included),
            value.prop_map(Bound::Excluded),
        ]
    }

    fn term() -> impl Strategy<Value = Option<Term>> {
        prop_oneof![
            prop::collection::vec((0_i64..6).prop_map(Value::Int), 0..4).prop_map(Term::one_of),
            (bound(), bound()).prop_map(|(lower, upper)| Term::range(lower, upper)),
        ]
    }

    proptest! {
        #[test]
        fn both_terms_hold_where_each_of_them_does(one in term(), other in term()) {
            let holds = |term: &Option<Term>, value: &Value| {
                term.as_ref().is_some_and(|term| term.holds(value))
            };
            let both = match (one.clone(), other.clone()) {
                (Some(one), Some(other)) => one.and(other),
                _ => None,
            };
            for value in (0..6).map(Value::Int) {
                let expected = holds(&one, &value) && holds(&other, &value);
                prop_assert_eq!(holds(&both, &value), expected, "{} {:?}", value, &both);
            }
        }

        #[test]
        fn a_cut_text_decides_what_it_claims_to(
            text in "[ab]{0,4}", limit in "[ab]{0,3}", cut in 1_u16..4, above: bool, open: bool,
        ) {
            let limit = Value::Text(limit);
            let limit = if open { Bound::Excluded(limit) } else { Bound::Included(limit) };
            let (lower, upper) =
                if above { (limit, Bound::Unbounded) } else { (Bound::Unbounded, limit) };
            let interval = Interval { prefix: None, lower, upper };
            if interval.is_decided_by(cut) {
                let short: String = text.chars().take(usize::from(cut)).collect();
                let holds = |text| interval.holds(&Value::Text(text));
                prop_assert_eq!(holds(short), holds(text));
            }
        }
    }

    #[test]
    fn an_interval_of_one_value_is_that_value() {
        let at = |number| Bound::Included(Value::Int(number));
        assert_eq!(Term::range(at(3), at(3)), Term::one_of(vec![Value::Int(3)]));
        assert_eq!(Term::range(at(4), at(3)), None);
        assert_eq!(Term::range(at(3), Bound::Excluded(Value::Int(3))), None);
    }

    #[test]
    fn prefixes_agree_if_one_continues_the_other() {
        let prefix = |text: &str| Term::prefix(text.to_owned());
        assert_eq!(prefix("he").and(prefix("hello")), Some(prefix("hello")));
        assert_eq!(prefix("he").and(prefix("hi")), None);
        let hello = Term::one_of(vec![Value::Text("hello".to_owned())]).unwrap();
        assert_eq!(prefix("he").and(hello.clone()), Some(hello.clone()));
        assert_eq!(hello.and(prefix("hi")), None);
    }

    #[test]
    fn a_term_is_shown_as_people_write_it() {
        let at = |number| Bound::Included(Value::Int(number));
        let between = Term::range(at(1), Bound::Excluded(Value::Int(5))).unwrap();
        assert_eq!(between.to_string(), ">= 1 and < 5");
        let word = Term::one_of(vec![Value::Text("a\"".to_owned())]).unwrap();
        assert_eq!(word.to_string(), r#"= "a\"""#);
        assert_eq!(Term::prefix("x".to_owned()).to_string(), "begins with \"x\"");
    }
}
