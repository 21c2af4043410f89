//! Conditions of the command line: `FIELD=VALUE` and `FIELD.OPERATOR=VALUE`.
//!
//! The operators are those of the wire. `in` takes values with commas between them, or a JSON array
//! if a value itself has a comma. A group of `--any` is one or more conditions with spaces between
//! them; a value with a space stands in double quotes.

use crate::problem::Failure;
use keyloom_engine::schema::CollectionSchema;
use keyloom_engine::{Filter, Test};
use keyloom_server::asked;

/// The filter that conditions mean.
pub(crate) fn filter<T: AsRef<str>>(
    schema: &CollectionSchema,
    conditions: &[T],
) -> Result<Filter, Failure> {
    let mut filter = Filter::new();
    for condition in conditions {
        let (field, test) = read(schema, condition.as_ref())?;
        let tests: &mut Vec<Test> = filter.entry(field).or_default();
        if tests.iter().any(|known| is_bound_twice(known, &test)) {
            let detail = format!("`{}`: this field is bound so already", condition.as_ref());
            return Err(Failure::Invalid(detail));
        }
        tests.push(test);
    }
    Ok(filter)
}

/// The filters that the groups of `--any` mean.
pub(crate) fn alternatives(
    schema: &CollectionSchema,
    groups: &[String],
) -> Result<Vec<Filter>, Failure> {
    groups.iter().map(|group| filter(schema, &words(group)?)).collect()
}

/// Whether two tests are one bound that stands twice. Values can be listed twice: what is in both
/// lists is meant.
fn is_bound_twice(one: &Test, other: &Test) -> bool {
    let is_list = matches!(one, Test::Equal(_) | Test::In(_));
    !is_list && std::mem::discriminant(one) == std::mem::discriminant(other)
}

fn read(schema: &CollectionSchema, condition: &str) -> Result<(String, Test), Failure> {
    let (name, text) = condition.split_once('=').ok_or_else(|| {
        Failure::Invalid(format!(
            "`{condition}` is no condition: write FIELD=VALUE, or FIELD.OPERATOR=VALUE with \
             prefix, gt, gte, lt, lte or in"
        ))
    })?;
    asked::condition(schema, name, text).map_err(Failure::Invalid)
}

/// The conditions of a group.
fn words(group: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for character in group.chars() {
        match character {
            '"' => quoted = !quoted,
            space if space.is_whitespace() && !quoted => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            other => word.push(other),
        }
    }
    if quoted {
        return Err(Failure::Invalid(format!("`{group}`: a double quote is not closed")));
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    if words.is_empty() {
        return Err(Failure::Invalid("an empty --any matches nothing: leave it out".to_owned()));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    fn schema() -> CollectionSchema {
        let text = include_str!("../../../schemas/approvals.toml");
        let schema = keyloom_engine::schema::Schema::from_toml(text).unwrap();
        schema.collections["approvals"].clone()
    }

    fn refusal(condition: &str) -> String {
        filter(&schema(), &[condition]).unwrap_err().to_string()
    }

    #[test]
    fn conditions_of_one_field_hold_together() {
        let filter =
            filter(&schema(), &["created_at.gte=5", "requester=a=b", "created_at.lt=9"]).unwrap();
        let bounds = [Test::GreaterOrEqual(Json::from(5)), Test::Less(Json::from(9))];
        assert_eq!(filter["created_at"], bounds);
        assert_eq!(filter["requester"], [Test::Equal(Json::from("a=b"))]);
    }

    #[test]
    fn a_bound_stands_once() {
        let twice = ["created_at.gt=5", "created_at.lt=9", "created_at.gt=6"];
        let error = filter(&schema(), &twice).unwrap_err().to_string();
        assert_eq!(error, "`created_at.gt=6`: this field is bound so already");
        let any = alternatives(&schema(), &["comment.prefix=a comment.prefix=b".to_owned()]);
        assert!(any.is_err());
        assert!(filter(&schema(), &["status=pending", "status=denied"]).is_ok());
    }

    #[test]
    fn a_list_has_commas_or_is_json() {
        let words = |condition: &str| filter(&schema(), &[condition]).unwrap();
        let two = Test::In(vec![Json::from("pending"), Json::from("denied")]);
        assert_eq!(words("status.in=pending,denied")["status"], [two]);
        let odd = Test::In(vec![Json::from("a,b")]);
        assert_eq!(words(r#"requester.in=["a,b"]"#)["requester"], [odd]);
        assert_eq!(words("status.in=")["status"], [Test::In(Vec::new())]);
        assert!(refusal("status.in=[").starts_with("`status`: not a JSON array"));
    }

    #[test]
    fn what_is_no_condition_is_explained() {
        assert!(refusal("requester").starts_with("`requester` is no condition: write FIELD=VALUE"));
        assert!(refusal("requester.like=x").starts_with("`requester` has no operator `like`"));
        assert!(refusal("created_at.gt=soon").starts_with("`created_at`: `soon` is not a time"));
    }

    #[test]
    fn a_group_has_spaces_between_its_conditions_and_quotes_around_others() {
        let groups =
            vec![r#" requester=u1   comment.prefix="it is" "#.to_owned(), "approver=u1".to_owned()];
        let any = alternatives(&schema(), &groups).unwrap();
        assert_eq!(any[0]["comment"], [Test::Prefix("it is".to_owned())]);
        assert_eq!(any[0].len(), 2);
        assert_eq!(any[1].len(), 1);
    }

    #[test]
    fn a_group_without_conditions_or_with_an_open_quote_is_refused() {
        for group in ["", "  ", "comment=\"x"] {
            assert!(alternatives(&schema(), &[group.to_owned()]).is_err(), "{group}");
        }
    }
}
