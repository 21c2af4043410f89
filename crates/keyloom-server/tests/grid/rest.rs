//! Objects and entries over REST.

use hyper::Method;
use keyloom_api::grid;
use prost::Message as _;
use serde_json::json;

use crate::server::{GRID, Server};

const OBJECTS: &str = "/api/class/order/0/objects";
const PROTOBUF: &str = "application/x-protobuf";

#[tokio::test]
async fn o01_what_rest_writes_grpc_reads_and_the_other_way_round() {
    let server = Server::start(GRID).await;
    for id in ["42", "Ord_2025_09_12345"] {
        let path = format!("{OBJECTS}/{id}");
        let body = json!({ "entries": { "1": { "data": "aGk=" } }, "entries_str": { "A": 7 } });
        let answer = server.json(Method::PUT, &path, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let place = format!("{OBJECTS}/{}", id.to_lowercase());
        assert_eq!(answer.header("location"), place);
        let mut client = server.data();
        let request = grid::SingleObjectRequest {
            cls_id: "order".to_owned(),
            object_id_str: Some(id.to_owned()),
            ..grid::SingleObjectRequest::default()
        };
        let found = client.get(request.clone()).await.unwrap().into_inner().obj.unwrap();
        assert_eq!(
            (found.entries[&1].data.as_slice(), found.entries_str["a"].data.as_slice()),
            (b"hi".as_slice(), b"7".as_slice())
        );
        let merge = grid::SetObjectRequest {
            cls_id: "order".to_owned(),
            object_id_str: Some(id.to_owned()),
            object: Some(grid::ObjData::default()),
            ..grid::SetObjectRequest::default()
        };
        let merged = client.merge(merge).await.unwrap().into_inner().obj.unwrap();
        let version = merged.metadata.unwrap().version.unwrap();
        let answer = server.get(&path).await;
        assert_eq!(answer.header("etag"), format!("\"{version}\""));
        let object = answer.read();
        assert_eq!(object["metadata"]["version"], version);
        assert_eq!(object["entries"]["1"], json!({ "data": "aGk=", "type": "byte" }));
        let answer = server.json(Method::PATCH, &path, &json!({ "entries": { "2": 1 } })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(server.send(Method::DELETE, &path, &[], b"").await.status, 200);
        assert_eq!(client.get(request).await.unwrap_err().code(), tonic::Code::NotFound);
        assert_eq!(server.get(&path).await.problem(), "404 not_found");
    }
    server.stop().await;
}

#[tokio::test]
async fn o03_a_segment_of_digits_is_a_number_and_anything_else_a_string() {
    let server = Server::start(GRID).await;
    for (segment, field, expected) in [
        ("42", "object_id", json!(42)),
        ("18446744073709551616", "object_id_str", json!("18446744073709551616")),
        ("ord_2025_09_12345", "object_id_str", json!("ord_2025_09_12345")),
        ("%C3%A9", "object_id_str", json!("é")),
    ] {
        let path = format!("{OBJECTS}/{segment}");
        assert_eq!(server.json(Method::PUT, &path, &json!({})).await.status, 201, "{segment}");
        assert_eq!(server.get(&path).await.read()["metadata"][field], expected);
    }
    let path = format!("{OBJECTS}/007");
    let answer = server.json(Method::PUT, &path, &json!({})).await;
    assert_eq!(answer.problem(), "400 invalid_argument", "never two objects");
    server.stop().await;
}

#[tokio::test]
async fn o07_a_change_is_based_on_the_version_that_it_names() {
    let server = Server::start(GRID).await;
    let path = format!("{OBJECTS}/o/values/status");
    let created = server.json(Method::PUT, &path, &json!({ "value": "shipped" })).await;
    assert_eq!(created.status, 201, "{created:?}");
    let tag = created.header("etag").to_owned();
    let entry = server.get(&path).await;
    assert_eq!((entry.status, entry.header("etag")), (200, tag.as_str()));
    assert_eq!(entry.read()["data"], "eyJ2YWx1ZSI6InNoaXBwZWQifQ==");
    let same = server.send(Method::GET, &path, &[("if-none-match", &tag)], b"").await;
    assert_eq!(same.status, 304);

    let json = ("content-type", "application/json");
    let batch = format!("{OBJECTS}/o/values/batch");
    let body = json!({ "values": { "7": 1, "Name": "ann" }, "delete_keys": ["status"] });
    let body = body.to_string();
    let done =
        server.send(Method::POST, &batch, &[json, ("if-match", &tag)], body.as_bytes()).await;
    assert_eq!(done.status, 200, "{done:?}");
    let late =
        server.send(Method::POST, &batch, &[json, ("if-match", &tag)], body.as_bytes()).await;
    assert_eq!(late.problem(), "412 version_conflict");
    assert_eq!(server.get(&path).await.problem(), "404 not_found");
    assert_eq!(server.get(&format!("{OBJECTS}/o/values/NAME")).await.status, 200);
    let gone = server.send(Method::DELETE, &format!("{OBJECTS}/o/values/7"), &[], b"").await;
    assert_eq!(gone.status, 200, "{gone:?}");
    server.stop().await;
}

#[tokio::test]
async fn messages_are_taken_and_given_where_the_client_says_so() {
    let server = Server::start(GRID).await;
    let value = grid::ValData { data: vec![1, 2, 3], r#type: 1 };
    let entries = [(1, value.clone())].into();
    let object = grid::ObjData { entries, ..grid::ObjData::default() };
    let path = format!("{OBJECTS}/7");
    let headers = [("content-type", PROTOBUF), ("accept", PROTOBUF)];
    let answer = server.send(Method::PUT, &path, &headers, &object.encode_to_vec()).await;
    assert_eq!((answer.status, answer.header("content-type")), (201, PROTOBUF));
    let written = grid::EmptyResponse::decode(answer.body).unwrap();
    let answer = server.send(Method::GET, &path, &headers[1..], b"").await;
    let found = grid::ObjData::decode(answer.body).unwrap();
    assert_eq!(found.entries, object.entries);
    assert_eq!(found.metadata.unwrap().version, written.object_version);
    let answer = server.send(Method::GET, &format!("{path}/values/1"), &headers[1..], b"").await;
    assert_eq!(grid::ValData::decode(answer.body).unwrap(), value);
    let wrong = server.send(Method::PUT, &path, &headers, b"\xFF\xFF").await;
    assert_eq!(wrong.problem(), "400 invalid_argument");
    server.stop().await;
}

#[tokio::test]
async fn bad_addresses_and_bodies_are_refused_with_problem_documents() {
    let server = Server::start(GRID).await;
    for (path, expected) in [
        ("/api/class/nothing/0/objects/1", "404 not_found"),
        ("/api/class/order/4/objects/1", "400 invalid_argument"),
        ("/api/class/order/65536/objects/1", "400 invalid_argument"),
        ("/api/class/order/-1/objects/1", "400 invalid_argument"),
        ("/api/class/order/0/objects/%FF", "400 invalid_argument"),
        ("/api/class/order/0/objects/a%00b", "400 invalid_argument"),
    ] {
        let answer = server.json(Method::PUT, path, &json!({})).await;
        assert_eq!(answer.problem(), expected, "{path}");
    }
    let path = format!("{OBJECTS}/o");
    for body in [json!({ "entries": { "x": 1 } }), json!({ "more": 1 }), json!(7), json!([])] {
        let answer = server.json(Method::PUT, &path, &body).await;
        assert_eq!(answer.problem(), "400 invalid_argument", "{body}");
    }
    let answer = server.send(Method::PUT, &path, &[("content-type", "text/plain")], b"{}").await;
    assert_eq!(answer.problem(), "415 invalid_argument");
    let large = json!({ "entries": { "1": "x".repeat(1 << 20) } });
    let answer = server.json(Method::PUT, &path, &large).await;
    assert_eq!(answer.problem(), "413 limit_exceeded");
    let many: serde_json::Map<_, _> = (0..1001).map(|n| (format!("k{n}"), json!(n))).collect();
    let (batch, many) = (format!("{path}/values/batch"), json!({ "values": many }));
    let answer = server.json(Method::POST, &batch, &many).await;
    assert_eq!(answer.problem(), "413 limit_exceeded");
    let target = json!([{ "cls_id": "order", "fn_id": "missing" }]);
    let event = json!({ "data_trigger": { "1": { "on_create": target } } });
    let answer = server.json(Method::PUT, &path, &json!({ "event": event })).await;
    assert_eq!(answer.problem(), "400 invalid_argument");
    assert!(answer.read()["detail"].as_str().unwrap().contains("missing"), "{answer:?}");
    assert_eq!(server.get(&path).await.problem(), "404 not_found");
    server.stop().await;
}

#[tokio::test]
async fn o12_o13_the_rollout_is_moved_at_run_time_and_refusals_name_the_flag() {
    let server = Server::start(GRID).await;
    let rollout = |body: serde_json::Value| {
        let server = &server;
        async move { server.json(Method::PUT, "/api/rollout", &body).await }
    };
    assert_eq!(rollout(json!({ "phase": 0, "id_len_max": 90 })).await.status, 200);
    assert_eq!(rollout(json!({ "phase": 0 })).await.read()["id_len_max"], 90, "it was not named");
    assert_eq!(server.get("/api/capabilities").await.read()["string_ids"], false);
    let path = format!("{OBJECTS}/text");
    let refused = server.json(Method::PUT, &path, &json!({})).await;
    assert_eq!(refused.problem(), "400 invalid_argument");
    assert!(refused.read()["detail"].as_str().unwrap().contains("ODGM_ENABLE_STRING_IDS"));
    assert_eq!(rollout(json!({ "phase": 4 })).await.status, 200);
    assert_eq!(server.get("/api/capabilities").await.read()["string_ids"], true);
    let numeric = server.json(Method::PUT, &format!("{OBJECTS}/1"), &json!({})).await;
    assert!(numeric.read()["warning"].as_str().unwrap().contains("deprecated"), "{numeric:?}");
    assert_eq!(rollout(json!({ "phase": 6 })).await.status, 200);
    let mut client = server.data();
    let by_number = grid::SingleObjectRequest {
        cls_id: "order".to_owned(),
        object_id: Some(1),
        ..grid::SingleObjectRequest::default()
    };
    let refused = client.get(by_number).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
    assert_eq!(rollout(json!({ "phase": 7 })).await.problem(), "400 invalid_argument");
    assert_eq!(server.get("/api/rollout").await.read()["phase"], 6);
    server.stop().await;
}

#[tokio::test]
async fn classes_are_created_through_the_api_and_show_what_is_in_them() {
    let server = Server::start(GRID).await;
    let class = json!({ "about": "Things", "partitions": 2 });
    let answer = server.json(Method::PUT, "/api/class/thing", &class).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    server
        .json(Method::PUT, "/api/class/thing/1/objects/a", &json!({ "entries": { "1": 1 } }))
        .await;
    let classes = server.get("/api/class").await.read();
    assert!(classes["classes"].as_array().unwrap().contains(&json!("thing")), "{classes}");
    let shown = server.get("/api/class/thing").await.read();
    assert_eq!(shown["schema"]["partitions"], 2);
    assert_eq!(shown["partitions"][0]["string_objects"], 1);
    // With another number, `auto` would look elsewhere.
    for partitions in [1, 3] {
        let other = json!({ "partitions": partitions });
        let refused = server.json(Method::PUT, "/api/class/thing", &other).await;
        assert!(refused.status >= 400, "{refused:?}");
    }
    let watched = json!({ "partitions": 2, "event": { "data_trigger_str": { "7": {} } } });
    let refused = server.json(Method::PUT, "/api/class/thing", &watched).await;
    assert!(refused.read()["detail"].as_str().unwrap().contains("data_trigger"), "{refused:?}");
    let hash = server.get("/debug/object-hash/thing/0/A").await.read();
    let id = keyloom_engine::ObjectId::string("a", 160).unwrap();
    assert_eq!(hash["object_id"], "a");
    assert_eq!(hash["hash"], format!("{:016x}", id.hash64()));
    assert_eq!(hash["auto_partition"], id.partition(2));
    let metrics = server.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.contains(r#"keyloom_objects{class="thing",variant="string"} 1"#), "{text}");
    assert!(text.contains("keyloom_string_id_adoption_percent 100"), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn o06_several_entries_are_read_at_once_in_the_order_they_are_asked_for() {
    let server = Server::start(GRID).await;
    let path = format!("{OBJECTS}/o/values");
    let batch = json!({ "values": { "a": 1, "é": 2, "7": 3 } });
    assert_eq!(server.json(Method::POST, &format!("{path}/batch"), &batch).await.status, 201);
    let page = server.get(&format!("{path}?key=7&key=none&key=e%CC%81&key=A")).await;
    assert_eq!(page.status, 200, "{page:?}");
    let page = page.read();
    let keys: Vec<&str> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["key"].as_str().unwrap())
        .collect();
    assert_eq!((keys, &page["next"]), (vec!["7", "é", "a"], &json!(null)));
    for wrong in ["key=a&prefix=a", "key=a&key=A"] {
        let answer = server.get(&format!("{path}?{wrong}")).await;
        assert_eq!(answer.problem(), "400 invalid_argument", "{wrong}");
    }
    let many = "key=a&".repeat(1001);
    assert_eq!(server.get(&format!("{path}?{many}")).await.problem(), "413 limit_exceeded");
    let absent = server.get(&format!("{OBJECTS}/none/values?key=a")).await;
    assert_eq!(absent.problem(), "404 not_found");
    server.stop().await;
}

#[tokio::test]
async fn o07_any_version_of_an_absent_object_is_a_failed_precondition_whatever_is_asked() {
    let server = Server::start(GRID).await;
    let any = [("content-type", "application/json"), ("if-match", "*")];
    let object = format!("{OBJECTS}/o");
    let (value, batch) = (format!("{object}/values/1"), format!("{object}/values/batch"));
    for (method, path, body) in [
        (Method::PUT, &object, "{}"),
        (Method::PATCH, &object, "{}"),
        (Method::DELETE, &object, ""),
        (Method::PUT, &value, "1"),
        (Method::DELETE, &value, ""),
        (Method::POST, &batch, r#"{"delete_keys": ["1"]}"#),
    ] {
        let answer = server.send(method.clone(), path, &any, body.as_bytes()).await;
        assert_eq!(answer.problem(), "412 version_conflict", "{method} {path}");
    }
    let deleting = json!({ "delete_keys": ["1"] });
    assert_eq!(server.json(Method::POST, &batch, &deleting).await.problem(), "404 not_found");
    assert_eq!(server.get(&object).await.problem(), "404 not_found", "nothing was created");
    server.stop().await;
}

#[tokio::test]
async fn an_object_that_says_of_itself_that_it_is_elsewhere_is_refused() {
    let server = Server::start(GRID).await;
    let path = "/api/class/order/1/objects/o";
    let put = async |metadata: serde_json::Value| {
        server.json(Method::PUT, path, &json!({ "metadata": metadata })).await
    };
    for (metadata, named) in [
        (json!({ "cls_id": "other" }), "class"),
        (json!({ "partition_id": 0 }), "partition"),
        (json!({ "object_id": 7 }), "object"),
        (json!({ "object_id_str": "p" }), "object"),
        (json!({ "object_id": 7, "object_id_str": "o" }), "twice"),
        (json!({ "more": 1 }), "more"),
    ] {
        let refused = put(metadata).await;
        assert_eq!(refused.problem(), "400 invalid_argument");
        assert!(refused.read()["detail"].as_str().unwrap().contains(named), "{refused:?}");
    }
    assert_eq!(server.get(path).await.problem(), "404 not_found");
    assert_eq!(put(json!({ "object_id_str": "O" })).await.status, 201, "normalized as everywhere");
    let mut object = server.get(path).await.read();
    assert_eq!(put(object["metadata"].take()).await.status, 200, "what was read can be put back");
    let metadata =
        Some(grid::ObjMeta { cls_id: "order".to_owned(), partition_id: 2, ..Default::default() });
    let object = grid::ObjData { metadata, ..Default::default() };
    let headers = [("content-type", PROTOBUF)];
    let refused = server.send(Method::PUT, path, &headers, &object.encode_to_vec()).await;
    assert_eq!(refused.problem(), "400 invalid_argument");
    let set = grid::SetObjectRequest {
        cls_id: "order".to_owned(),
        partition_id: 1,
        object_id_str: Some("o".to_owned()),
        object: Some(object),
        ..Default::default()
    };
    let refused = server.data().set(set).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_entry_that_is_called_batch_is_read_set_and_deleted_where_batches_are_sent() {
    let server = Server::start(GRID).await;
    let path = format!("{OBJECTS}/o/values/batch");
    assert_eq!(server.json(Method::PUT, &path, &json!(7)).await.status, 201);
    let found = server.get(&path).await.read();
    assert_eq!((&found["key"], &found["data"]), (&json!("batch"), &json!("Nw==")));
    assert_eq!(server.get(&format!("{OBJECTS}/o/values/%62atch")).await.read(), found);
    let batch = json!({ "values": { "batch": 8, "other": 1 } });
    assert_eq!(server.json(Method::POST, &path, &batch).await.status, 200);
    assert_eq!(server.get(&path).await.read()["data"], "OA==");
    assert_eq!(server.send(Method::DELETE, &path, &[], b"").await.status, 200);
    assert_eq!(server.get(&path).await.problem(), "404 not_found");
    assert_eq!(server.get(&format!("{OBJECTS}/o/values/other")).await.status, 200);
    server.stop().await;
}
