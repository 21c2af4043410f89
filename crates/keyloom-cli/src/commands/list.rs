//! `keyloom list`: the list matcher, by expressions, times and owner.

use keyloom_api::Order;
use keyloom_engine::{ListField, ListOrder, Sort, TimeMatcher};

use super::{Session, show};
use crate::args::{List, ListTimes};
use crate::output::{Format, counted};
use crate::problem::Failure;
use keyloom_server::times;

pub(super) async fn run(session: &mut Session<'_>, list: List) -> Result<(), Failure> {
    let List {
        collection,
        key,
        description,
        times,
        owner,
        order,
        start_after,
        limit,
        scan,
        count,
        explain,
    } = list;
    let (created_at, updated_at) = matchers(times)?;
    let order = order.map(|text| read_order(&text)).transpose()?;
    let asked = keyloom_engine::List {
        key,
        description,
        created_at,
        updated_at,
        owner,
        order,
        start_after,
        limit,
        scan,
    };
    if count {
        return count_matches(session, &collection, &asked, explain).await;
    }
    let schema = session.schema(&collection).await?;
    let mut listed = session.backend.list(&collection, &asked).await?;
    let output = &mut *session.output;
    if output.format() == Format::Json {
        listed.plan = listed.plan.filter(|_| explain);
        return output.json(&listed);
    }
    if explain {
        show::plan(output, listed.plan.as_ref())?;
    }
    let items = listed.items.iter().map(|item| (item.key.as_str(), item.data.get().as_bytes()));
    output.table(&show::documents(&schema, items))?;
    let found = counted(listed.items_length, "document");
    show::summary(output, &found, listed.plan.as_ref(), &listed.cost)?;
    show::next_page(output, "--start-after", listed.next.as_deref())
}

async fn count_matches(
    session: &mut Session<'_>,
    collection: &str,
    asked: &keyloom_engine::List,
    explain: bool,
) -> Result<(), Failure> {
    let mut counted = session.backend.count_list(collection, asked).await?;
    let output = &mut *session.output;
    if output.format() == Format::Json {
        counted.plan = counted.plan.filter(|_| explain);
        return output.json(&counted);
    }
    if explain {
        show::plan(output, counted.plan.as_ref())?;
    }
    output.line(counted.count)?;
    show::summary(output, "counted", counted.plan.as_ref(), &counted.cost)
}

fn matchers(times: ListTimes) -> Result<(Option<TimeMatcher>, Option<TimeMatcher>), Failure> {
    let ListTimes {
        created_after,
        created_before,
        created_between,
        updated_after,
        updated_before,
        updated_between,
    } = times;
    let created = matcher(created_after, created_before, created_between)?;
    Ok((created, matcher(updated_after, updated_before, updated_between)?))
}

fn matcher(
    after: Option<String>,
    before: Option<String>,
    between: Option<Vec<String>>,
) -> Result<Option<TimeMatcher>, Failure> {
    if let Some(text) = after {
        return Ok(Some(TimeMatcher::After(time(&text)?)));
    }
    if let Some(text) = before {
        return Ok(Some(TimeMatcher::Before(time(&text)?)));
    }
    match between.as_deref() {
        Some([first, last]) => Ok(Some(TimeMatcher::Between(time(first)?, time(last)?))),
        Some([only]) => Ok(Some(TimeMatcher::Equal(time(only)?))),
        _ => Ok(None),
    }
}

fn time(text: &str) -> Result<u64, Failure> {
    let millis = times::parse(text).and_then(|millis| u64::try_from(millis).ok());
    millis.ok_or_else(|| {
        Failure::Invalid(format!(
            "`{text}` is not a time from 1970 on: write milliseconds, 2026-11-15, or \
             2026-11-15T22:14:16Z"
        ))
    })
}

fn read_order(text: &str) -> Result<ListOrder, Failure> {
    let order = Order::parse(text).map_err(|error| Failure::Invalid(error.to_string()))?;
    let field = match order.field.as_str() {
        "keys" => ListField::Keys,
        "created_at" => ListField::CreatedAt,
        "updated_at" => ListField::UpdatedAt,
        other => {
            return Err(Failure::Invalid(format!(
                "a list has no order `{other}`; there are: keys, created_at, updated_at"
            )));
        }
    };
    let direction = if order.descending { Sort::Descending } else { Sort::Ascending };
    Ok(ListOrder { field, direction })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn one_time_between_is_exactly_then() {
        let between = |times: &[&str]| {
            let times = times.iter().map(|time| (*time).to_owned()).collect();
            matcher(None, None, Some(times)).unwrap()
        };
        assert_eq!(between(&["5"]), Some(TimeMatcher::Equal(5)));
        assert_eq!(between(&["5", "9"]), Some(TimeMatcher::Between(5, 9)));
        assert_eq!(matcher(text("5"), None, None).unwrap(), Some(TimeMatcher::After(5)));
        assert_eq!(matcher(None, text("5"), None).unwrap(), Some(TimeMatcher::Before(5)));
        assert_eq!(matcher(None, None, None).unwrap(), None);
    }

    #[test]
    fn an_order_and_a_time_that_do_not_exist_are_refused() {
        let error = read_order("name").unwrap_err().to_string();
        assert_eq!(error, "a list has no order `name`; there are: keys, created_at, updated_at");
        assert!(time("-1").is_err() && time("soon").is_err());
    }
}
