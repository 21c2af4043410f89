//! The OpenAPI document, made from the rows of `describe` and the types of the wire, and a page
//! that shows it.

use std::collections::BTreeMap;

use axum::http::{Method, header};
use axum::response::IntoResponse;
use axum::routing::get;
use keyloom_api as api;
use serde_json::{Map, Value as Json, json};
use utoipa::ToSchema;

use super::answer::{self, Answer};
use super::describe::{Body, Kind, Operation, Parameter, Success, operations};
use super::examples::{Example, example};
use super::route::Route;

const HTML: &str = "text/html";
const PROBLEM: &str = "application/problem+json";

/// What can go wrong everywhere: a wrong request, an unknown caller, one who may not, an answer
/// that is not acceptable, too many requests, damage, load.
const EVERYWHERE: [u16; 7] = [400, 401, 403, 406, 429, 500, 503];

/// What can go wrong where a body is read.
const WITH_BODY: [u16; 3] = [408, 413, 415];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("/openapi.json", &[Method::GET], get(document)),
        Route::new("/docs", &[Method::GET], get(page)).producing(&[HTML]),
    ]
}

async fn document() -> Answer {
    answer::json(&openapi())
}

/// The page loads nothing but the document, from this server.
async fn page() -> Answer {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                  connect-src 'self'; base-uri 'none'; form-action 'none'";
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    Ok((headers, include_str!("docs.html")).into_response())
}

/// The document.
fn openapi() -> Json {
    let mut paths: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
    for row in operations() {
        paths.entry(row.path).or_default().insert(row.method.to_owned(), operation(&row));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Keyloom",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Documents in collections. Every query is a range of declared keys: \
                what no key serves is refused with the key to add.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

fn operation(row: &Operation) -> Json {
    let Operation { method: _, path, id, summary, parameters, body, answers, problems } = row;
    let example = example(id);
    let mut given = path_parameters(path, example.as_ref());
    given.extend(parameters.iter().map(parameter));
    let mut responses = Map::new();
    for answer in answers {
        responses.insert(answer.status.to_string(), success(answer));
    }
    let with_body: &[u16] = if body.is_some() { &WITH_BODY } else { &[] };
    for status in EVERYWHERE.iter().chain(with_body).chain(*problems) {
        let content = json!({ PROBLEM: { "schema": reference("Problem") } });
        let response = json!({ "description": reason(*status), "content": content });
        responses.insert(status.to_string(), response);
    }
    let mut operation = json!({
        "operationId": id,
        "summary": summary,
        "parameters": given,
        "responses": responses,
    });
    if let (Some(Body { media, schema }), Some(members)) = (body, operation.as_object_mut()) {
        let schema = schema_of(schema);
        let content: Map<String, Json> = media
            .iter()
            .map(|media| {
                let is_text = *media == "application/toml";
                let schema = if is_text { json!({ "type": "string" }) } else { schema.clone() };
                let mut content = json!({ "schema": schema });
                if let (Some(example), "application/json") = (&example, *media) {
                    content = json!({ "schema": schema, "example": example.body });
                }
                ((*media).to_owned(), content)
            })
            .collect();
        members.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
    operation
}

fn path_parameters(path: &str, example: Option<&Example>) -> Vec<Json> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parameters = names.map(|name| {
        let mut parameter = json!({
            "name": name, "in": "path", "required": true,
            "schema": { "type": "string", "minLength": 1 },
        });
        let given = example.iter().flat_map(|example| example.path);
        let given = given.filter(|(known, _)| *known == name).map(|(_, value)| json!(value));
        if let Some(members) = parameter.as_object_mut() {
            members.extend(given.map(|value| ("example".to_owned(), value)));
        }
        parameter
    });
    parameters.collect()
}

fn parameter(row: &Parameter) -> Json {
    let Parameter { name, place, kind, summary } = row;
    let schema = match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Number => json!({ "type": "integer", "minimum": 0 }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Conditions => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
    };
    let mut parameter = json!({
        "name": name, "in": place, "required": false, "description": summary, "schema": schema,
    });
    if let ("If-Match", Some(members)) = (*name, parameter.as_object_mut()) {
        members.insert("example".to_owned(), json!("*"));
    }
    if let (Kind::Conditions, Some(members)) = (kind, parameter.as_object_mut()) {
        members.insert("style".to_owned(), json!("form"));
        members.insert("explode".to_owned(), json!(true));
    }
    parameter
}

fn success(answer: &Success) -> Json {
    let Success { status: _, summary, content, headers } = answer;
    let mut response = json!({ "description": summary });
    let Some(members) = response.as_object_mut() else { return response };
    if !content.is_empty() {
        let content: Map<String, Json> = content
            .iter()
            .map(|(media, schema)| {
                let schema =
                    if schema.is_empty() { json!({ "type": "string" }) } else { schema_of(schema) };
                ((*media).to_owned(), json!({ "schema": schema }))
            })
            .collect();
        members.insert("content".to_owned(), Json::Object(content));
    }
    if !headers.is_empty() {
        let headers: Map<String, Json> = headers
            .iter()
            .map(|(name, summary)| {
                let header = json!({ "description": summary, "schema": { "type": "string" } });
                ((*name).to_owned(), header)
            })
            .collect();
        members.insert("headers".to_owned(), Json::Object(headers));
    }
    response
}

/// A schema by its name, one of several by their names, or any object.
fn schema_of(name: &str) -> Json {
    match name.split_once('|') {
        _ if name.is_empty() => json!({ "type": "object" }),
        Some((one, other)) => json!({ "oneOf": [reference(one), reference(other)] }),
        None => reference(name),
    }
}

fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn reason(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid, or no key serves the query",
        401 => "A valid token is needed",
        403 => "This is not allowed",
        404 => "There is no such thing",
        406 => "The answer would have a type that the client does not take",
        408 => "The body did not arrive in time",
        409 => "Another document holds this value, or other writers were first",
        410 => "Changes that were asked for are no longer kept",
        412 => "The stored version is another one",
        413 => "Something is larger than it may be",
        415 => "The body has a type that is not taken",
        422 => "A rule of the schema is broken",
        428 => "The document exists, and the request does not say which version it is based on",
        429 => "Too many requests",
        503 => "Not now: try again after a moment",
        _ => "Something is damaged",
    }
}

/// The schemas of all types that are named, and of those inside of them.
fn schemas() -> Json {
    let mut found = Vec::new();
    add::<api::BatchAnswer>(&mut found);
    add::<api::BatchBody>(&mut found);
    add::<api::Change>(&mut found);
    add::<api::CheckBody>(&mut found);
    add::<api::CheckReport>(&mut found);
    add::<api::Collection>(&mut found);
    add::<api::Collections>(&mut found);
    add::<api::Count>(&mut found);
    add::<api::Deleted>(&mut found);
    add::<api::DeletedMany>(&mut found);
    add::<api::Document>(&mut found);
    add::<api::DocumentBody>(&mut found);
    add::<api::Documents>(&mut found);
    add::<api::Exists>(&mut found);
    add::<api::KeyPage>(&mut found);
    add::<api::KeysBody>(&mut found);
    add::<api::ListBody>(&mut found);
    add::<api::ListPage>(&mut found);
    add::<api::NewToken>(&mut found);
    add::<api::Page>(&mut found);
    add::<api::Problem>(&mut found);
    add::<api::QueryBody>(&mut found);
    add::<api::Readiness>(&mut found);
    add::<api::Revoked>(&mut found);
    add::<api::SchemaChange>(&mut found);
    add::<api::SetBody>(&mut found);
    add::<api::TokenBody>(&mut found);
    add::<api::TokenPage>(&mut found);
    add::<api::WritePlan>(&mut found);
    add::<api::Capabilities>(&mut found);
    add::<api::Class>(&mut found);
    add::<api::ClassNames>(&mut found);
    add::<api::DeadLetters>(&mut found);
    add::<api::Invoked>(&mut found);
    add::<api::LettersDeleted>(&mut found);
    add::<api::Replayed>(&mut found);
    add::<api::Rewritten>(&mut found);
    add::<api::Entry>(&mut found);
    add::<api::EntryBatchBody>(&mut found);
    add::<api::Object>(&mut found);
    add::<api::ObjectBody>(&mut found);
    add::<api::EntryPage>(&mut found);
    add::<api::ObjectHash>(&mut found);
    add::<api::ObjectPage>(&mut found);
    add::<api::ObjectWritten>(&mut found);
    add::<api::Rollout>(&mut found);
    add::<api::Value>(&mut found);
    let schemas: BTreeMap<String, Json> = found.into_iter().collect();
    json!(schemas)
}

fn add<T: ToSchema>(found: &mut Vec<(String, Json)>) {
    let mut inner = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut inner);
    found.extend(
        inner
            .into_iter()
            .map(|(name, schema)| (name, serde_json::to_value(schema).expect("a schema is JSON"))),
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The document itself and its page are not described by it.
    const ITSELF: [&str; 2] = ["/openapi.json", "/docs"];

    #[test]
    fn d1_every_method_of_every_route_is_described_and_nothing_else() {
        let described: BTreeSet<String> =
            operations().iter().map(|row| format!("{} {}", row.method, row.path)).collect();
        let served: BTreeSet<String> = super::super::routes()
            .iter()
            .filter(|route| !ITSELF.contains(&route.path()))
            .flat_map(|route| {
                let path = route.path().replace("{*", "{");
                let method = |method: &Method| method.as_str().to_ascii_lowercase();
                route.methods().iter().map(move |m| format!("{} {path}", method(m)))
            })
            .collect();
        assert_eq!(described, served);
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = openapi();
        let known = document["components"]["schemas"].as_object().unwrap();
        let text = document.to_string();
        let references: BTreeSet<&str> = text
            .split("#/components/schemas/")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let missing: Vec<_> =
            references.iter().filter(|name| !known.contains_key(**name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(references.len() > 20, "{references:?}");
    }

    #[test]
    fn x1_what_has_parts_or_a_body_has_an_example() {
        for row in operations().iter().filter(|row| row.path.starts_with("/v1")) {
            let parts = path_parameters(row.path, None).len();
            let example = example(row.id);
            assert_eq!(example.is_some(), parts > 0 || row.body.is_some(), "{}", row.id);
            let Some(Example { path, body }) = example else { continue };
            assert_eq!(path.len(), parts, "{}", row.id);
            assert_eq!(!body.is_null(), row.body.is_some(), "{}", row.id);
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let ids: BTreeSet<&str> = operations().iter().map(|row| row.id).collect();
        assert_eq!(ids.len(), operations().len());
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        let page = include_str!("docs.html");
        assert!(!page.contains("://"), "the page names another host");
        assert!(page.len() < 8 << 10, "{} bytes", page.len());
    }
}
