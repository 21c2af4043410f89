//! From what is asked on the wire to what the engine is asked.

use keyloom_api as api;
use keyloom_engine as engine;
use keyloom_engine::schema::CollectionSchema;
use keyloom_engine::{Feed, Filter, OrderBy, Position, Query, Sort, Test};
use serde_json::Value as Json;

use crate::typed;

/// A query from its body; whether the plan is wanted is told apart.
pub fn query(body: api::QueryBody) -> (Query, bool) {
    let api::QueryBody { filter, any, order, limit, after, distinct, select, scan, explain } = body;
    let query = Query {
        filter: tests(filter),
        any: any.into_iter().map(tests).collect(),
        order: order.map(order_by),
        limit,
        after,
        distinct,
        select,
        scan,
    };
    (query, explain)
}

/// The deletions of the documents that were found, as they were found.
pub(crate) fn deletions(collection: &str, found: &engine::Items) -> Vec<engine::Operation> {
    let engine::Items::Documents(found) = found else { return Vec::new() };
    let deletion = |document: &engine::Document| engine::Operation {
        collection: collection.to_owned(),
        action: engine::Action::Delete {
            key: document.key.clone(),
            precondition: engine::Precondition::Version(document.version),
        },
    };
    found.iter().map(deletion).collect()
}

/// A query from the parameters of an address.
pub fn parameters(
    schema: &CollectionSchema,
    parameters: &[(String, String)],
) -> Result<(Query, bool), String> {
    let mut query = Query::default();
    let mut explain = false;
    for (name, text) in parameters {
        match name.as_str() {
            "order" => {
                let order = api::Order::parse(text).map_err(|error| error.to_string())?;
                query.order = Some(order_by(order));
            }
            "limit" => query.limit = Some(number(name, text)?),
            "after" => query.after = Some(text.clone()),
            "distinct" => query.distinct = Some(text.clone()),
            "select" => query.select = Some(text.split(',').map(str::to_owned).collect()),
            "scan" => query.scan = Some(number(name, text)?),
            "explain" => explain = flag(name, text)?,
            _ => {
                let (field, test) = condition(schema, name, text)?;
                query.filter.entry(field).or_default().push(test);
            }
        }
    }
    Ok((query, explain))
}

/// Where a reader of the feed begins: behind a position, at the end, or with the oldest change that
/// there is.
pub fn position(text: Option<&str>, feed: Feed) -> Result<Position, String> {
    match text {
        None => Ok(feed.trimmed),
        Some("end") => Ok(feed.last),
        Some(text) => {
            let position = text.parse().map(Position);
            let position =
                position.map_err(|_| format!("`{text}` is not a position, nor `end`"))?;
            if position > feed.last {
                return Err(format!(
                    "position {text} is behind the end of the feed, {}: it comes from another \
                     database, or from one that was restored since; read the documents again, then \
                     follow from `end`",
                    feed.last.0
                ));
            }
            Ok(position)
        }
    }
}

/// A condition as a parameter: `FIELD=VALUE` or `FIELD.OPERATOR=VALUE`. `in` takes values with
/// commas between them, or a JSON array if a value itself has a comma.
pub fn condition(
    schema: &CollectionSchema,
    name: &str,
    text: &str,
) -> Result<(String, Test), String> {
    use api::Operator;
    let (field, operator) = Operator::of_parameter(name).map_err(|error| error.to_string())?;
    let kind = typed::kind_of(schema, field);
    let value =
        |text: &str| typed::value(kind, text).map_err(|detail| format!("`{field}`: {detail}"));
    let test = match operator {
        Operator::Equal => Test::Equal(value(text)?),
        Operator::Prefix => Test::Prefix(text.to_owned()),
        Operator::Greater => Test::Greater(value(text)?),
        Operator::GreaterOrEqual => Test::GreaterOrEqual(value(text)?),
        Operator::Less => Test::Less(value(text)?),
        Operator::LessOrEqual => Test::LessOrEqual(value(text)?),
        Operator::In if text.starts_with('[') => {
            let list = serde_json::from_str(text);
            Test::In(list.map_err(|error| format!("`{field}`: not a JSON array: {error}"))?)
        }
        Operator::In if text.is_empty() => Test::In(Vec::new()),
        Operator::In => Test::In(text.split(',').map(value).collect::<Result<_, _>>()?),
    };
    Ok((field.to_owned(), test))
}

/// A list from its body.
pub fn list(body: api::ListBody) -> engine::List {
    let api::ListBody { matcher, paginate, order, owner, count: _, scan, explain: _ } = body;
    let api::Matcher { key, description, created_at, updated_at } = matcher;
    let api::Paginate { start_after, limit } = paginate;
    engine::List {
        key,
        description,
        created_at: created_at.map(time),
        updated_at: updated_at.map(time),
        owner,
        order: order.map(list_order),
        start_after,
        limit,
        scan,
    }
}

/// A token to be, from its body.
pub fn token(body: api::TokenBody) -> engine::NewToken {
    let api::TokenBody { subject, role, scopes, expires_at } = body;
    let role = match role {
        api::Role::Admin => engine::Role::Admin,
        api::Role::User => engine::Role::User,
    };
    let right = |right: api::Right| match right {
        api::Right::Read => engine::Right::Read,
        api::Right::Write => engine::Right::Write,
    };
    let scopes = scopes.into_iter();
    let scopes = scopes.map(|(name, rights)| (name, rights.into_iter().map(right).collect()));
    let scopes = engine::Scopes(scopes.collect());
    engine::NewToken { subject, role, scopes, expires_at }
}

/// An operation of a batch; the error says what it lacks.
pub fn operation(body: api::BatchOperation) -> Result<engine::Operation, String> {
    use api::BatchOp;
    use engine::Action;
    let api::BatchOperation { op, collection, key, data, description, if_version } = body;
    let given = (data.is_some(), description.is_some(), if_version.is_some());
    let data = data.map(|data| String::from(Box::<str>::from(data)).into_bytes());
    let precondition = if_version.map_or(engine::Precondition::Unsaid, precondition);
    let action = match (op, key, data, given) {
        (BatchOp::Create, key, Some(data), (_, _, false)) => {
            Action::Create { key, data, description }
        }
        (BatchOp::Put, Some(key), Some(data), _) => {
            Action::Put { key, precondition, data, description }
        }
        (BatchOp::Patch, Some(key), Some(patch), (_, false, _)) => {
            Action::Patch { key, precondition, patch }
        }
        (BatchOp::Delete, Some(key), None, (_, false, _)) => Action::Delete { key, precondition },
        (BatchOp::Create, ..) => return Err("a create has data and no if_version".to_owned()),
        (BatchOp::Put, ..) => return Err("a put has key and data".to_owned()),
        (BatchOp::Patch, ..) => return Err("a patch has key and data, no description".to_owned()),
        (BatchOp::Delete, ..) => return Err("a delete has key, and no data".to_owned()),
    };
    Ok(engine::Operation { collection, action })
}

/// A number in a parameter.
pub(crate) fn number<N: std::str::FromStr>(name: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{name}`: `{text}` is not a whole number from 0 on"))
}

/// A switch in a parameter.
pub(crate) fn flag(name: &str, text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{name}`: `{text}` is not true or false"))
}

fn tests(tests: api::Tests) -> Filter {
    let one = |condition: api::Condition| test(condition.operator, condition.value);
    let all = tests.into_iter();
    all.map(|(field, conditions)| (field, conditions.into_iter().map(one).collect())).collect()
}

fn test(operator: api::Operator, value: Json) -> Test {
    use api::Operator;
    match (operator, value) {
        (Operator::In, Json::Array(values)) => Test::In(values),
        (Operator::In, value) => Test::In(vec![value]),
        (Operator::Prefix, Json::String(text)) => Test::Prefix(text),
        (Operator::Prefix, value) => Test::Prefix(value.to_string()),
        (Operator::Equal, value) => Test::Equal(value),
        (Operator::Greater, value) => Test::Greater(value),
        (Operator::GreaterOrEqual, value) => Test::GreaterOrEqual(value),
        (Operator::Less, value) => Test::Less(value),
        (Operator::LessOrEqual, value) => Test::LessOrEqual(value),
    }
}

fn order_by(order: api::Order) -> OrderBy {
    let api::Order { field, descending } = order;
    OrderBy { field, direction: sort(descending) }
}

fn list_order(order: api::ListOrder) -> engine::ListOrder {
    let api::ListOrder { desc, field } = order;
    let field = match field {
        api::ListField::Keys => engine::ListField::Keys,
        api::ListField::CreatedAt => engine::ListField::CreatedAt,
        api::ListField::UpdatedAt => engine::ListField::UpdatedAt,
    };
    engine::ListOrder { field, direction: sort(desc) }
}

fn sort(descending: bool) -> Sort {
    if descending { Sort::Descending } else { Sort::Ascending }
}

fn time(matcher: api::TimeMatcher) -> engine::TimeMatcher {
    match matcher {
        api::TimeMatcher::Equal { timestamp } => engine::TimeMatcher::Equal(timestamp),
        api::TimeMatcher::GreaterThan { timestamp } => engine::TimeMatcher::After(timestamp),
        api::TimeMatcher::LessThan { timestamp } => engine::TimeMatcher::Before(timestamp),
        api::TimeMatcher::Between { timestamps: api::Timestamps { start, end } } => {
            engine::TimeMatcher::Between(start, end)
        }
    }
}

fn precondition(if_version: api::IfVersion) -> engine::Precondition {
    match if_version {
        api::IfVersion::Version(version) => engine::Precondition::Version(version),
        api::IfVersion::Any(api::Star::Star) => engine::Precondition::Any,
    }
}
