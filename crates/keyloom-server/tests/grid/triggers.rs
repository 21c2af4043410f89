//! Functions that are called, and changes that call them.

use hyper::Method;
use keyloom_api::grid::oprc_function_client::OprcFunctionClient;
use keyloom_api::grid::{self, EventType, ResponseStatus};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tonic::Code;

use crate::function::Function;
use crate::server::Server;

const VALUES: &str = "/api/class/order/0/objects/o/values";

/// Every change of the entry `status` calls `notify` on the object `log`.
const WATCHED: &str = r#"
[classes.order.event.data_trigger_str.status]
on_create = [{ class = "order", object = "log", function = "notify" }]
on_update = [{ class = "order", object = "log", function = "notify" }]
on_delete = [{ class = "order", object = "log", function = "notify" }]
"#;

#[tokio::test]
async fn functions_are_called_over_grpc_and_rest_and_tell_how_it_went() {
    let mut function = Function::start().await;
    let server = Server::start(&function.schema("")).await;
    let mut client = OprcFunctionClient::new(server.channel.clone());
    let request = grid::ObjectInvocationRequest {
        cls_id: "order".to_owned(),
        object_id_str: Some("O-1".to_owned()),
        fn_id: "notify".to_owned(),
        payload: b"hello".to_vec(),
        ..grid::ObjectInvocationRequest::default()
    };
    let answer = client.invoke_obj(request.clone()).await.unwrap().into_inner();
    assert_eq!((answer.status(), answer.payload.unwrap()), (ResponseStatus::Okay, b"hello".into()));
    let path = "/api/class/order/0/invokes/notify";
    let answer = server.post(path, b"hi").await;
    assert_eq!((answer.status, &answer.read()["payload"]), (200, &json!("aGk=")));
    let called = function.called(2).await;
    assert_eq!(called[0].object.as_deref(), Some("o-1"));
    assert_eq!(called[1].object, None);

    let path = "/api/class/order/0/invokes/fail";
    let answer = server.post(path, b"").await;
    assert_eq!((answer.status, &answer.read()["status"]), (200, &json!("APP_ERROR")));
    let missing = grid::ObjectInvocationRequest { fn_id: "none".to_owned(), ..request.clone() };
    assert_eq!(client.invoke_obj(missing).await.unwrap_err().code(), Code::NotFound);
    let both = grid::ObjectInvocationRequest { object_id: Some(1), ..request };
    assert_eq!(client.invoke_obj(both).await.unwrap_err().code(), Code::InvalidArgument);
    server.stop().await;
}

#[tokio::test]
async fn an_asynchronous_call_keeps_its_result_until_it_is_fetched() {
    let mut function = Function::start().await;
    let server = Server::start(&function.schema("")).await;
    let path = "/api/class/order/auto/objects/o/invokes/notify?async=true";
    let answer = server.post(path, b"later").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.read()["invocation_id"].as_str().unwrap().to_owned();
    let partition = answer.read()["headers"]["keyloom-partition"].as_str().unwrap().to_owned();
    function.called(1).await;
    let path = format!("/api/class/order/{partition}/invocations/{id}");
    let result = loop {
        let answer = server.get(&path).await;
        if answer.status == 200 {
            break answer.read();
        }
        assert_eq!((answer.status, &answer.read()["status"]), (202, &json!("RUNNING")));
        tokio::task::yield_now().await;
    };
    assert_eq!((&result["payload"], &result["status"]), (&json!("bGF0ZXI="), &json!("OKAY")));
    assert_eq!(server.get(&path).await.problem(), "404 not_found", "it was fetched");
    server.stop().await;
}

#[tokio::test]
async fn o14_each_change_of_a_watched_entry_is_told_once_in_order_and_an_equal_value_is_none() {
    let mut function = Function::start().await;
    let server = Server::start(&function.schema(WATCHED)).await;
    let status = format!("{VALUES}/status");
    for value in ["new", "paid", "paid", "sent"] {
        assert!(server.json(Method::PUT, &status, &json!(value)).await.status < 300);
    }
    server.json(Method::PUT, &format!("{VALUES}/other"), &json!(1)).await;
    server.send(Method::DELETE, &status, &[], b"").await;
    let events = function.events(4).await;
    let kinds: Vec<EventType> = events.iter().map(|(info, _)| info.event_type()).collect();
    let update = EventType::DataUpdate;
    assert_eq!(kinds, [EventType::DataCreate, update, update, EventType::DataDelete]);
    let payloads: Vec<&[u8]> = events.iter().map(|(_, payload)| payload.as_slice()).collect();
    assert_eq!(payloads, [&b"\"new\""[..], b"\"paid\"", b"\"sent\"", b""]);
    let sequences: Vec<u64> = events.iter().map(|(info, _)| info.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4]);
    let (info, _) = &events[0];
    assert_eq!(info.source_object_id_str.as_deref(), Some("o"));
    assert_eq!(info.key_str.as_deref(), Some("status"));
    assert_eq!(function.called(4).await[0].object.as_deref(), Some("log"));
    server.stop().await;
}

#[tokio::test]
async fn o14_the_end_of_a_function_calls_what_waits_for_it() {
    let mut function = Function::start().await;
    let server = Server::start(&function.schema(
        r#"
[classes.order.event.func_trigger.notify]
on_complete = [{ class = "order", function = "told" }]
[classes.order.event.func_trigger.fail]
on_error = [{ class = "order", function = "told" }]
"#,
    ))
    .await;
    for name in ["notify", "fail"] {
        let path = format!("/api/class/order/0/invokes/{name}");
        assert_eq!(server.post(&path, b"x").await.status, 200);
    }
    let called = function.called(4).await;
    let told: Vec<_> = called.into_iter().filter(|call| call.function == "told").collect();
    let events: Vec<EventType> = told
        .iter()
        .map(|call| {
            let payload = <grid::TriggerPayload as prost::Message>::decode(&*call.payload).unwrap();
            payload.event_info.unwrap().event_type()
        })
        .collect();
    assert_eq!(events, [EventType::FuncComplete, EventType::FuncError]);
    server.stop().await;
}

#[tokio::test]
async fn o15_what_could_not_be_delivered_is_delivered_when_the_function_is_back() {
    let function = Function::start().await;
    let server = Server::start(&function.schema(WATCHED)).await;
    let address = function.stop();
    for value in 0..3 {
        server.json(Method::PUT, &format!("{VALUES}/status"), &json!(value)).await;
    }
    let mut function = Function::start_at(address).await;
    let events = function.events(3).await;
    let sequences: Vec<u64> = events.iter().map(|(info, _)| info.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    server.stop().await;
}

#[tokio::test]
async fn o16_a_loop_of_triggers_ends_with_a_dead_letter_that_can_be_tried_again() {
    let mut function = Function::start().await;
    let server = Server::start(&function.schema(
        r#"
[classes.order.event.func_trigger.loop]
on_complete = [{ class = "order", function = "loop" }]
"#,
    ))
    .await;
    server.post("/api/class/order/0/invokes/loop", b"x").await;
    let letters = "/api/class/order/0/dead-letters";
    let called = function.called(9).await;
    assert_eq!(called.len(), 9, "the call itself, and as many events as may lead to one");
    let dead = loop {
        let dead = server.get(letters).await.read();
        if !dead["items"].as_array().unwrap().is_empty() {
            break dead;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(dead["items"][0]["depth"], 9);
    assert!(dead["items"][0]["error"].as_str().unwrap().contains("loop"), "{dead}");
    let sequence = &dead["items"][0]["sequence"];
    let again = server.post(&format!("{letters}/{sequence}/replay"), b"").await;
    assert_eq!(again.status, 200, "{again:?}");
    function.called(10).await;
    let none = server.post(&format!("{letters}/99/replay"), b"").await;
    assert_eq!(none.problem(), "404 not_found");
    server.stop().await;
}

#[tokio::test]
async fn a_function_that_does_not_answer_in_its_time_was_not_reached() {
    let function = Function::start().await;
    let server = Server::start(&function.schema("").replace("2000", "50")).await;
    let answer = server.post("/api/class/order/0/invokes/slow", b"").await;
    let answer = answer.read();
    assert_eq!(answer["status"], "SYSTEM_ERROR");
    assert!(answer["headers"]["error"].as_str().unwrap().contains("50 ms"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn functions_that_nobody_waits_for_are_bounded() {
    let function = Function::start().await;
    let server = Server::start(&function.schema("").replace("2000", "60000")).await;
    let path = "/api/class/order/0/invokes/slow?async=true";
    for _ in 0..256 {
        assert_eq!(server.post(path, b"").await.status, 202);
    }
    assert_eq!(server.post(path, b"").await.problem(), "413 limit_exceeded");
    assert_eq!(server.get("/api/class/order/0/dead-letters").await.status, 200, "it goes on");
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_is_too_large_to_be_kept_does_not_seem_to_run() {
    let mut function = Function::start().await;
    let server = Server::start(&function.schema("")).await;
    let path = "/api/class/order/0/invokes/notify?async=true";
    let large = vec![b'x'; (4 << 20) + 1];
    let id = server.post(path, &large).await.read()["invocation_id"].as_str().unwrap().to_owned();
    function.called(1).await;
    let path = format!("/api/class/order/0/invocations/{id}");
    let result = loop {
        let answer = server.get(&path).await;
        if answer.status != 202 {
            break answer.read();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(result["status"], "SYSTEM_ERROR");
    assert!(result["headers"]["error"].as_str().unwrap().contains("too large"), "{result}");
    server.stop().await;
}

#[tokio::test]
async fn dead_letters_are_shown_and_forgotten_where_they_are_and_nowhere_else() {
    let function = Function::start().await;
    let server = Server::start(&function.schema(WATCHED)).await;
    let deep = [("content-type", "application/json"), ("keyloom-depth", "8")];
    for value in ["1", "2", "3"] {
        let path = format!("{VALUES}/status");
        assert!(server.send(Method::PUT, &path, &deep, value.as_bytes()).await.status < 300);
    }
    let letters = "/api/class/order/0/dead-letters";
    let page = server.get(&format!("{letters}?limit=2")).await.read();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (2, &json!(3)));
    let stats = server.get("/api/class/order").await.read();
    assert_eq!(stats["partitions"][0]["dead_letters"], 3);
    let metrics = String::from_utf8(server.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains(r#"keyloom_dead_letters{class="order"} 3"#), "{metrics}");
    let forget = async |path: &str| server.send(Method::DELETE, path, &[], b"").await;
    assert_eq!(forget(&format!("{letters}/2")).await.read()["deleted"], 1);
    assert_eq!(forget(&format!("{letters}/2")).await.problem(), "404 not_found");
    assert_eq!(forget(letters).await.read()["deleted"], 2);
    assert_eq!(server.get(letters).await.read()["items"], json!([]));
    for (path, expected) in [
        ("/api/class/order/4/dead-letters", "400 invalid_argument"),
        ("/api/class/order/65536/dead-letters", "400 invalid_argument"),
        ("/api/class/none/0/dead-letters", "404 not_found"),
        ("/api/class/order/0/dead-letters?limit=0", "400 invalid_argument"),
    ] {
        assert_eq!(server.get(path).await.problem(), expected, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_call_is_finished_although_its_caller_goes_away() {
    let mut function = Function::start().await;
    let server = Server::start(&function.schema(
        r#"
[classes.order.event.func_trigger.gate]
on_complete = [{ class = "order", function = "told" }]
"#,
    ))
    .await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let request = "POST /api/class/order/0/invokes/gate HTTP/1.1\r\nHost: localhost\r\n\
                   Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.unwrap();
    function.called(1).await;
    drop(stream);
    // The server has noticed that when it has nothing more to work on than this question.
    loop {
        let metrics = String::from_utf8(server.get("/metrics").await.body.to_vec()).unwrap();
        if metrics.contains("keyloom_requests_in_flight 1\n") {
            break;
        }
        tokio::task::yield_now().await;
    }
    function.gate.notify_one();
    assert_eq!(function.called(2).await[1].function, "told");
    server.stop().await;
}

#[tokio::test]
async fn d1_partitions_whose_function_is_down_do_not_hold_up_the_others_however_many_they_are() {
    let mut function = Function::start().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let schema = function.schema(&format!(
        r#"
[classes.order.event.data_trigger]
1.on_create = [{{ class = "order", function = "down" }}]
2.on_create = [{{ class = "order", function = "notify" }}]
[classes.order.functions.down]
url = "http://{free}"
"#
    ));
    let server = Server::start(&schema.replace("partitions = 4", "partitions = 100")).await;
    for partition in 0..100 {
        // All but the last one trigger what nobody answers: more than are delivered at once.
        let entry = if partition < 99 { 1 } else { 2 };
        let path = format!("/api/class/order/{partition}/objects/o/values/{entry}");
        assert_eq!(server.json(Method::PUT, &path, &json!(partition)).await.status, 201);
    }
    assert_eq!(function.called(1).await.len(), 1);
    let waiting = server.get("/api/class/order").await.read();
    assert_eq!(waiting["partitions"][0]["waiting_events"], 1, "it is tried again");
    server.stop().await;
}
