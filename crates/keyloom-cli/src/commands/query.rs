//! `keyloom query`, `count` and `exists`: documents by their fields.

use keyloom_api::Order;
use keyloom_engine::schema::CollectionSchema;
use keyloom_engine::{OrderBy, Sort};

use super::{Session, show};
use crate::args::{Conditions, Query};
use crate::conditions::{alternatives, filter};
use crate::output::{Format, counted};
use crate::problem::Failure;

pub(super) async fn run(session: &mut Session<'_>, query: Query) -> Result<(), Failure> {
    let Query { conditions, order, limit, after, select } = query;
    let (collection, explain) = (conditions.collection.clone(), conditions.explain);
    let schema = session.schema(&collection).await?;
    let order = order.map(|text| read_order(&text)).transpose()?;
    let asked = asked(&schema, conditions)?;
    let asked = keyloom_engine::Query { order, limit, after, select, ..asked };
    let mut page = session.backend.query(&collection, &asked).await?;
    let output = &mut *session.output;
    if output.format() == Format::Json {
        page.plan = page.plan.filter(|_| explain);
        return output.json(&page);
    }
    if explain {
        show::plan(output, page.plan.as_ref())?;
    }
    let items = page.items.iter().map(|item| (item.key(), item.data().get().as_bytes()));
    output.table(&show::documents(&schema, items))?;
    let found = counted(u64::try_from(page.items.len()).unwrap_or(u64::MAX), "document");
    show::summary(output, &found, page.plan.as_ref(), &page.cost)?;
    show::next_page(output, "--after", page.next.as_deref())
}

pub(super) async fn count(
    session: &mut Session<'_>,
    conditions: Conditions,
) -> Result<(), Failure> {
    let (collection, explain) = (conditions.collection.clone(), conditions.explain);
    let asked = asked(&session.schema(&collection).await?, conditions)?;
    let mut counted = session.backend.count(&collection, &asked).await?;
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

pub(super) async fn exists(
    session: &mut Session<'_>,
    conditions: Conditions,
) -> Result<(), Failure> {
    let (collection, explain) = (conditions.collection.clone(), conditions.explain);
    let asked = asked(&session.schema(&collection).await?, conditions)?;
    let mut existence = session.backend.exists(&collection, &asked).await?;
    let output = &mut *session.output;
    if output.format() == Format::Json {
        existence.plan = existence.plan.filter(|_| explain);
        return output.json(&existence);
    }
    if explain {
        show::plan(output, existence.plan.as_ref())?;
    }
    output.line(if existence.exists { "yes" } else { "no" })?;
    show::summary(output, "looked", existence.plan.as_ref(), &existence.cost)
}

fn asked(
    schema: &CollectionSchema,
    conditions: Conditions,
) -> Result<keyloom_engine::Query, Failure> {
    let Conditions { collection: _, conditions, any, distinct, scan, explain: _ } = conditions;
    Ok(keyloom_engine::Query {
        filter: filter(schema, &conditions)?,
        any: alternatives(schema, &any)?,
        distinct,
        scan,
        ..keyloom_engine::Query::default()
    })
}

fn read_order(text: &str) -> Result<OrderBy, Failure> {
    let Order { field, descending } =
        Order::parse(text).map_err(|error| Failure::Invalid(error.to_string()))?;
    let direction = if descending { Sort::Descending } else { Sort::Ascending };
    Ok(OrderBy { field, direction })
}
