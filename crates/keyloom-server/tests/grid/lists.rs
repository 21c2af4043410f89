//! Pages of objects and entries, over gRPC and REST.

use futures_util::TryStreamExt as _;
use hyper::Method;
use keyloom_api::grid;
use serde_json::json;
use tonic::Code;

use crate::server::{GRID, Server};

const OBJECTS: &str = "/api/class/order/0/objects";

#[tokio::test]
async fn o10_entries_of_many_lengths_are_listed_in_order_in_pages_of_three() {
    let server = Server::start(GRID).await;
    let mut expected: Vec<String> =
        (1..20).map(|length| format!("k{}", "x".repeat(length))).collect();
    expected.sort();
    let values: serde_json::Map<String, serde_json::Value> =
        expected.iter().chain([&"other".to_owned()]).map(|key| (key.clone(), json!(1))).collect();
    let batch = json!({ "values": values });
    let path = format!("{OBJECTS}/o/values");
    assert_eq!(server.json(Method::POST, &format!("{path}/batch"), &batch).await.status, 201);

    let mut client = server.data();
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let request = grid::ListValuesRequest {
            cls_id: "order".to_owned(),
            object_id_str: Some("o".to_owned()),
            key_prefix: Some("K".to_owned()),
            limit: 3,
            cursor: cursor.take(),
            ..grid::ListValuesRequest::default()
        };
        let page = client.list_values(request).await.unwrap().into_inner();
        let page: Vec<grid::ValueEnvelope> = page.try_collect().await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last().cloned() else { break };
        found.extend(page.into_iter().map(|item| item.key));
        cursor = last.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);

    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}?prefix=k&limit=3{next}")).await.read();
        let items = page["items"].as_array().unwrap();
        found.extend(items.iter().map(|item| item["key"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    assert_eq!(found, expected);
    server.stop().await;
}

#[tokio::test]
async fn o11_objects_are_listed_by_prefix_and_a_garbage_cursor_is_a_clear_error() {
    let server = Server::start(GRID).await;
    for id in ["ord_1", "ord_2", "ord_3", "other", "9", "10"] {
        server
            .json(Method::PUT, &format!("{OBJECTS}/{id}"), &json!({ "entries": { "1": 1 } }))
            .await;
    }
    let mut client = server.data();
    let request = grid::ListObjectsRequest {
        cls_id: "order".to_owned(),
        object_id_prefix: Some("ord_".to_owned()),
        limit: 2,
        ..grid::ListObjectsRequest::default()
    };
    let page = client.list_objects(request.clone()).await.unwrap().into_inner();
    let page: Vec<grid::ObjectMetaEnvelope> = page.try_collect().await.unwrap();
    assert_eq!(
        page.iter().map(|item| item.object_id.as_str()).collect::<Vec<_>>(),
        ["ord_1", "ord_2"]
    );
    assert_eq!(page[0].entry_count, 1);
    let cursor = page[1].next_cursor.clone();
    let rest = grid::ListObjectsRequest { cursor, ..request.clone() };
    let page = client.list_objects(rest).await.unwrap().into_inner();
    let page: Vec<grid::ObjectMetaEnvelope> = page.try_collect().await.unwrap();
    assert_eq!(page.iter().map(|item| item.object_id.as_str()).collect::<Vec<_>>(), ["ord_3"]);
    for garbage in [&b"\xFF\xFE"[..], b"garbage"] {
        let request =
            grid::ListObjectsRequest { cursor: Some(garbage.to_vec()), ..request.clone() };
        let refused = client.list_objects(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
    let page = server.get(&format!("{OBJECTS}?order=numeric")).await.read();
    let ids: Vec<&str> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["object_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["9", "10"]);
    assert_eq!(
        server.get(&format!("{OBJECTS}?cursor=garbage")).await.problem(),
        "400 invalid_argument"
    );
    assert_eq!(server.get(&format!("{OBJECTS}?more=1")).await.problem(), "400 invalid_argument");
    server.stop().await;
}

#[tokio::test]
async fn o12_what_is_written_only_is_hidden_in_lists_and_readable_by_its_id() {
    let server = Server::start(GRID).await;
    server.json(Method::PUT, "/api/rollout", &json!({ "phase": 2 })).await;
    for id in ["a", "b", "7"] {
        let answer = server.json(Method::PUT, &format!("{OBJECTS}/{id}"), &json!({})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let page = server.get(OBJECTS).await.read();
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["items"][0]["object_id"], "7");
    assert_eq!(server.get(&format!("{OBJECTS}/a")).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_list_is_of_one_partition_and_auto_is_none() {
    let server = Server::start(GRID).await;
    let listed = grid::ListObjectsRequest {
        cls_id: "order".to_owned(),
        ..grid::ListObjectsRequest::default()
    };
    let mut request = tonic::Request::new(listed);
    request.metadata_mut().insert("keyloom-partition", "auto".parse().unwrap());
    let refused = server.data().list_objects(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    let rest = server.get("/api/class/order/auto/objects").await;
    assert_eq!(rest.problem(), "400 invalid_argument");
    server.stop().await;
}
