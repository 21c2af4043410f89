//! The examples of the OpenAPI document, sent as they are.

use axum::http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value as Json, json};

use crate::server::{APPROVALS, REPUTATION, STICKERS, Server};

/// A server with what the examples need of the demo database.
async fn demo() -> Server {
    let server = Server::start(&[APPROVALS, REPUTATION, STICKERS].concat()).await;
    server.create("users", &json!({"username": "Ada", "display_name": "Ada Lovelace"})).await.ok();
    for (author, file, value) in [("u1", "f1", "hello world"), ("u3", "f7", "helicopter")] {
        let tag = json!({"author": author, "file": file, "value": value});
        server.create("sticker_tags", &tag).await.ok();
    }
    server
}

#[tokio::test]
async fn every_example_of_the_document_succeeds() {
    let document = demo().await.get("/openapi.json").await.ok();
    let mut sent = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let content = &operation["requestBody"]["content"]["application/json"];
            let body = &content["example"];
            let parts = parts(operation);
            if body.is_null() && parts.is_empty() {
                continue;
            }
            let path = parts.iter().fold(path.clone(), |path, (name, value)| {
                path.replace(&format!("{{{name}}}"), value)
            });
            let method: Method = method.to_ascii_uppercase().parse().unwrap();
            let server = demo().await;
            let ask = server.ask(method.clone(), path.clone());
            let ask = if body.is_null() { ask } else { ask.json(body) };
            let is_change = operation["parameters"].to_string().contains("\"If-Match\"");
            let ask = if is_change { ask.header("if-match", "*") } else { ask };
            let answer = ask.send().await;
            assert!(matches!(answer.status, 200 | 201), "{method} {path}: {answer:?}");
            sent += 1;
        }
    }
    assert_eq!(sent, 21, "an example is gone, or new");
}

/// The parts of a path with their examples; what is a path itself keeps its slashes.
fn parts(operation: &Json) -> Vec<(String, String)> {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    let parts = parameters.filter(|one| one["in"] == "path" && one["example"].is_string());
    let part = |one: &Json| {
        let (name, value) = (one["name"].as_str().unwrap(), one["example"].as_str().unwrap());
        let segments = value.split('/').map(|one| utf8_percent_encode(one, NON_ALPHANUMERIC));
        let segments: Vec<String> = segments.map(|one| one.to_string()).collect();
        (name.to_owned(), segments.join("/"))
    };
    parts.map(part).collect()
}
