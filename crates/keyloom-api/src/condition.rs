//! Conditions on fields, in their two spellings: members of a JSON body and parameters.
//!
//! ```text
//! {"value": {"prefix": "he"}, "owner": "u1"}      value.prefix=he owner=u1
//! ```
//!
//! C1: Both spellings know the same operators by the same names.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use thiserror::Error;

/// Conditions by field; all of them hold together.
pub type Tests = BTreeMap<String, Vec<Condition>>;

/// A condition on one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// How the field is compared.
    pub operator: Operator,
    /// With what: an array for [`Operator::In`], text for [`Operator::Prefix`].
    pub value: Json,
}

/// How a field is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// It is this value.
    Equal,
    /// It is one of these values.
    In,
    /// It is text that begins so.
    Prefix,
    /// It is above this value.
    Greater,
    /// It is this value or above it.
    GreaterOrEqual,
    /// It is below this value.
    Less,
    /// It is this value or below it.
    LessOrEqual,
}

/// Why something is not a condition.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConditionError {
    /// The operator is not known.
    #[error("`{field}` has no operator `{operator}`; there are: prefix, gt, gte, lt, lte, in")]
    UnknownOperator {
        /// The field.
        field: String,
        /// What stands in the place of an operator.
        operator: String,
    },
    /// The value does not fit the operator.
    #[error("`{field}`: {operator} takes {wanted}")]
    WrongValue {
        /// The field.
        field: String,
        /// The operator.
        operator: &'static str,
        /// What it takes.
        wanted: &'static str,
    },
    /// There is no condition.
    #[error("`{field}`: {{}} is no condition; write a value, or prefix, gt, gte, lt, lte, in")]
    Empty {
        /// The field.
        field: String,
    },
}

/// The operators that have a name; equality is a value alone.
const NAMED: [(&str, Operator); 6] = [
    ("prefix", Operator::Prefix),
    ("gt", Operator::Greater),
    ("gte", Operator::GreaterOrEqual),
    ("lt", Operator::Less),
    ("lte", Operator::LessOrEqual),
    ("in", Operator::In),
];

impl Operator {
    /// The field and the operator that the name of a parameter means: `value.prefix`, `owner`.
    pub fn of_parameter(name: &str) -> Result<(&str, Operator), ConditionError> {
        match name.rsplit_once('.') {
            None => Ok((name, Operator::Equal)),
            Some((field, operator)) => Ok((field, named(field, operator)?)),
        }
    }
}

/// Reads the conditions of a JSON object: a value is an equality, an object holds operators.
pub(crate) fn read_tests(object: Map<String, Json>) -> Result<Tests, ConditionError> {
    object
        .into_iter()
        .map(|(field, value)| {
            let conditions = read_conditions(&field, value)?;
            Ok((field, conditions))
        })
        .collect()
}

fn read_conditions(field: &str, value: Json) -> Result<Vec<Condition>, ConditionError> {
    match value {
        Json::Object(operators) if operators.is_empty() => {
            Err(ConditionError::Empty { field: field.to_owned() })
        }
        Json::Object(operators) => operators
            .into_iter()
            .map(|(name, value)| {
                let condition = Condition { operator: named(field, &name)?, value };
                check_value(field, &condition)?;
                Ok(condition)
            })
            .collect(),
        value => Ok(vec![Condition { operator: Operator::Equal, value }]),
    }
}

fn named(field: &str, name: &str) -> Result<Operator, ConditionError> {
    let found = NAMED.iter().find(|(known, _)| *known == name);
    found.map(|(_, operator)| *operator).ok_or_else(|| ConditionError::UnknownOperator {
        field: field.to_owned(),
        operator: name.to_owned(),
    })
}

fn check_value(field: &str, condition: &Condition) -> Result<(), ConditionError> {
    let wrong = |operator, wanted| {
        Err(ConditionError::WrongValue { field: field.to_owned(), operator, wanted })
    };
    match (condition.operator, &condition.value) {
        (Operator::In, Json::Array(_)) | (Operator::Prefix, Json::String(_)) => Ok(()),
        (Operator::In, _) => wrong("in", "an array of values"),
        (Operator::Prefix, _) => wrong("prefix", "text"),
        (_, Json::Array(_) | Json::Object(_)) => wrong("a comparison", "one value"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tests, ConditionError> {
        read_tests(serde_json::from_str(text).unwrap())
    }

    fn refusal(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn a_value_alone_is_an_equality() {
        let tests = read(r#"{"a": "x", "n": -1}"#).unwrap();
        assert_eq!(tests["a"], [Condition { operator: Operator::Equal, value: "x".into() }]);
        assert_eq!(tests["n"], [Condition { operator: Operator::Equal, value: (-1).into() }]);
    }

    #[test]
    fn several_operators_of_a_field_hold_together() {
        let tests = read(r#"{"t": {"gte": 5, "lt": 9}}"#).unwrap();
        let operators: Vec<Operator> = tests["t"].iter().map(|test| test.operator).collect();
        assert_eq!(operators, [Operator::GreaterOrEqual, Operator::Less]);
    }

    #[test]
    fn every_operator_has_one_name_in_both_spellings() {
        for (name, operator) in NAMED {
            let parameter = format!("value.{name}");
            assert_eq!(Operator::of_parameter(&parameter).unwrap(), ("value", operator));
            let value = if operator == Operator::In { r#"["x"]"# } else { r#""x""# };
            let tests = read(&format!(r#"{{"value": {{"{name}": {value}}}}}"#)).unwrap();
            assert_eq!(tests["value"][0].operator, operator);
        }
        assert_eq!(Operator::of_parameter("@owner").unwrap(), ("@owner", Operator::Equal));
    }

    #[test]
    fn an_unknown_operator_is_answered_with_the_known_ones() {
        let expected = "`a` has no operator `like`; there are: prefix, gt, gte, lt, lte, in";
        assert_eq!(refusal(r#"{"a": {"like": "x"}}"#), expected);
        assert_eq!(Operator::of_parameter("a.like").unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_value_that_does_not_fit_its_operator_is_refused() {
        assert_eq!(refusal(r#"{"a": {"in": "x"}}"#), "`a`: in takes an array of values");
        assert_eq!(refusal(r#"{"a": {"prefix": 1}}"#), "`a`: prefix takes text");
        assert_eq!(refusal(r#"{"a": {"gt": [1]}}"#), "`a`: a comparison takes one value");
        assert!(refusal(r#"{"a": {}}"#).starts_with("`a`: {} is no condition"));
    }
}
