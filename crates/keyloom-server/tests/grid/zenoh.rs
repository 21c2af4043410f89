//! Objects, entries and functions over Zenoh, on loopback.

use std::num::NonZeroU32;
use std::time::Duration;

use hyper::Method;
use keyloom_api::grid::{self, ResponseStatus};
use keyloom_server::{Config, ZenohEndpoints};
use prost::Message;
use serde_json::json;
use tokio::time::timeout;
use zenoh::Session;
use zenoh::sample::SampleKind;

use crate::function::Function;
use crate::server::{GRID, Server};

/// A server with Zenoh, and a session that is connected to it.
async fn start(schema: &str) -> (Server, Session) {
    let (server, session) = start_with(schema, Config::default()).await;
    // Queries are answered as soon as the server has said that it answers them.
    while ask(&session, "oprc/capabilities", None).await.is_none() {}
    (server, session)
}

/// The same, run as told; it may not answer yet.
async fn start_with(schema: &str, config: Config) -> (Server, Session) {
    // Zenoh does not tell which port it took, so one is chosen that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("tcp/{free}");
    let zenoh = ZenohEndpoints { listen: vec![endpoint.clone()], connect: Vec::new() };
    let server = Server::with(schema, Config { zenoh: Some(zenoh), ..config }).await;
    let mut config = zenoh::Config::default();
    for (name, value) in [
        ("mode", "\"client\"".to_owned()),
        ("scouting/multicast/enabled", "false".to_owned()),
        ("connect/endpoints", format!("[\"{endpoint}\"]")),
    ] {
        config.insert_json5(name, &value).unwrap();
    }
    (server, zenoh::open(config).await.unwrap())
}

/// The answer to a query: a message or a problem; `None` if nobody answers.
async fn ask(
    session: &Session,
    key: &str,
    payload: Option<Vec<u8>>,
) -> Option<Result<Vec<u8>, String>> {
    ask_as(session, None, key, payload).await
}

/// The same with a token.
async fn ask_as(
    session: &Session,
    token: Option<&str>,
    key: &str,
    payload: Option<Vec<u8>>,
) -> Option<Result<Vec<u8>, String>> {
    let mut query = session.get(key).timeout(Duration::from_secs(10));
    if let Some(payload) = payload {
        query = query.payload(payload);
    }
    if let Some(token) = token {
        query = query.attachment(token);
    }
    let replies = query.await.unwrap();
    let reply = replies.recv_async().await.ok()?;
    Some(match reply.result() {
        Ok(sample) => Ok(sample.payload().to_bytes().into_owned()),
        Err(error) => Err(String::from_utf8(error.payload().to_bytes().into_owned()).unwrap()),
    })
}

async fn read<T: Message + Default>(session: &Session, key: &str, payload: Option<Vec<u8>>) -> T {
    let bytes = ask(session, key, payload).await.expect("somebody answers").unwrap();
    T::decode(bytes.as_slice()).unwrap()
}

/// The code of the problem that a query is told.
async fn refused(session: &Session, key: &str, payload: Option<Vec<u8>>) -> String {
    code(ask(session, key, payload).await)
}

fn code(answer: Option<Result<Vec<u8>, String>>) -> String {
    let problem = answer.expect("somebody answers").unwrap_err();
    let problem: serde_json::Value = serde_json::from_str(&problem).unwrap();
    problem["code"].as_str().unwrap().to_owned()
}

fn object(data: &[u8]) -> grid::ObjData {
    let value = grid::ValData { data: data.to_vec(), r#type: 0 };
    grid::ObjData { entries: [(1, value)].into(), ..grid::ObjData::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o01_objects_and_entries_are_the_same_over_zenoh_as_over_rest() {
    let (server, session) = start(GRID).await;
    for (kind, id, path) in [("objects", "42", "42"), ("sobjects", "User%20A", "user%20a")] {
        let key = format!("oprc/order/0/{kind}/{id}");
        let set = object(b"one").encode_to_vec();
        let written: grid::EmptyResponse = read(&session, &format!("{key}/set"), Some(set)).await;
        let found: grid::ObjData = read(&session, &key, None).await;
        assert_eq!(found.metadata.unwrap().version, written.object_version);
        let rest = server.get(&format!("/api/class/order/0/objects/{path}")).await.read();
        assert_eq!(rest["entries"]["1"]["data"], "b25l");

        let two = grid::ValData { data: b"two".to_vec(), r#type: 0 };
        let more = grid::ObjData { entries: [(2, two)].into(), ..grid::ObjData::default() };
        let merge = format!("{key}/merge");
        let merged: grid::ObjData = read(&session, &merge, Some(more.encode_to_vec())).await;
        assert_eq!(merged.entries.into_keys().collect::<Vec<_>>(), [1, 2]);
        assert!(merged.metadata.unwrap().version > written.object_version);

        let value = grid::ValData { data: b"ann".to_vec(), r#type: 0 };
        let entry = format!("{key}/entries/Name");
        let _: grid::EmptyResponse = read(&session, &entry, Some(value.encode_to_vec())).await;
        let found: grid::ValueResponse = read(&session, &entry, None).await;
        assert_eq!((found.key.as_deref(), found.value), (Some("name"), Some(value.clone())));
        let batch = grid::BatchSetValuesRequest {
            values: [("more".to_owned(), value)].into(),
            delete_keys: vec!["name".to_owned()],
            expected_object_version: found.object_version,
            ..grid::BatchSetValuesRequest::default()
        };
        let (batch, batch_set) = (batch.encode_to_vec(), format!("{key}/batch-set"));
        let _: grid::EmptyResponse = read(&session, &batch_set, Some(batch.clone())).await;
        assert_eq!(refused(&session, &batch_set, Some(batch)).await, "version_conflict");
        assert_eq!(refused(&session, &entry, None).await, "not_found");
        let entries = ask(&session, &format!("{key}/entries"), None).await.unwrap().unwrap();
        let first = grid::ValueEnvelope::decode_length_delimited(entries.as_slice()).unwrap();
        assert_eq!(first.key, "1");
    }
    let list = ask(&session, "oprc/order/0/objects/list-objects", None).await.unwrap().unwrap();
    let mut rest = list.as_slice();
    let mut ids = Vec::new();
    while !rest.is_empty() {
        ids.push(grid::ObjectMetaEnvelope::decode_length_delimited(&mut rest).unwrap().object_id);
    }
    assert_eq!(ids, ["42", "user a"]);
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_and_deletes_change_objects_and_changes_are_published() {
    let (server, session) = start(GRID).await;
    let changes = session.declare_subscriber("oprc/order/0/*/*/changes").await.unwrap();
    // A subscription has reached the server when a change arrives.
    let key = "oprc/order/0/sobjects/ord_1";
    let first = loop {
        session.put(key, object(b"x").encode_to_vec()).await.unwrap();
        if let Ok(change) = timeout(Duration::from_millis(500), changes.recv_async()).await {
            break change.unwrap();
        }
    };
    assert_eq!(first.key_expr().as_str(), "oprc/order/0/sobjects/ord_1/changes");
    let now = grid::ObjMeta::decode(&*first.payload().to_bytes()).unwrap();
    assert_eq!(now.object_id_str.as_deref(), Some("ord_1"));
    let found: grid::ObjData = read(&session, key, None).await;
    assert!(found.metadata.unwrap().version >= now.version);
    session.delete(key).await.unwrap();
    loop {
        let change = timeout(Duration::from_secs(10), changes.recv_async()).await.unwrap().unwrap();
        if change.kind() == SampleKind::Delete {
            break;
        }
    }
    assert_eq!(refused(&session, key, None).await, "not_found");
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_called_and_answer_at_once_or_later() {
    let function = Function::start().await;
    let (server, session) = start(&function.schema("")).await;
    let call = grid::ObjectInvocationRequest {
        payload: b"hello".to_vec(),
        ..grid::ObjectInvocationRequest::default()
    };
    let key = "oprc/order/0/objects/7/invokes/notify";
    let answer: grid::InvocationResponse = read(&session, key, Some(call.encode_to_vec())).await;
    assert_eq!((answer.status(), answer.payload), (ResponseStatus::Okay, Some(b"hello".to_vec())));
    session.put(format!("{key}/async/mine"), call.encode_to_vec()).await.unwrap();
    let place = "oprc/order/0/objects/7/results/notify/async/mine";
    let answer = loop {
        if let Some(Ok(bytes)) = ask(&session, place, None).await {
            break grid::InvocationResponse::decode(bytes.as_slice()).unwrap();
        }
    };
    assert_eq!(answer.payload, Some(b"hello".to_vec()));
    assert_eq!(answer.invocation_id.as_deref(), Some("mine"));
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_keys_and_payloads_are_told_over_zenoh() {
    let (server, session) = start(GRID).await;
    for (key, payload, expected) in [
        ("oprc/nothing/0/objects/1", None, "not_found"),
        ("oprc/order/4/objects/1", None, "invalid_argument"),
        ("oprc/order/65536/objects/1", None, "invalid_argument"),
        ("oprc/order/x/objects/1", None, "invalid_argument"),
        ("oprc/order/0/objects/007", None, "invalid_argument"),
        ("oprc/order/0/objects/%FF", None, "invalid_argument"),
        ("oprc/order/0/objects/a%00b", None, "invalid_argument"),
        ("oprc/order/0/more", None, "invalid_argument"),
        ("oprc/order/0/objects/*", None, "invalid_argument"),
        ("oprc/order/0/objects/1/set", Some(vec![0xFF]), "invalid_argument"),
        ("oprc/order/0/invokes/none", None, "not_found"),
    ] {
        assert_eq!(refused(&session, key, payload).await, expected, "{key}");
    }
    let large = object(&vec![0; (1 << 20) + 1]).encode_to_vec();
    let key = "oprc/order/0/objects/1/set";
    assert_eq!(refused(&session, key, Some(large)).await, "limit_exceeded");
    let value = grid::ValData::default();
    let values = (0..1001).map(|number| (format!("k{number}"), value.clone())).collect();
    let many = grid::BatchSetValuesRequest { values, ..grid::BatchSetValuesRequest::default() };
    let batch = "oprc/order/0/objects/1/batch-set";
    assert_eq!(refused(&session, batch, Some(many.encode_to_vec())).await, "limit_exceeded");
    let target = grid::TriggerTarget {
        cls_id: "order".to_owned(),
        fn_id: "missing".to_owned(),
        ..grid::TriggerTarget::default()
    };
    let trigger = grid::DataTrigger { on_create: vec![target], ..grid::DataTrigger::default() };
    let data_trigger = [(1, trigger)].into();
    let event = grid::ObjectEvent { data_trigger, ..grid::ObjectEvent::default() };
    let watched = grid::ObjData { event: Some(event), ..object(b"x") }.encode_to_vec();
    assert_eq!(refused(&session, key, Some(watched)).await, "invalid_argument");
    assert_eq!(refused(&session, "oprc/order/0/objects/1", None).await, "not_found");
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zenoh_that_others_can_reach_needs_tokens() {
    for (listen, connect) in [
        (Some("tcp/0.0.0.0:0"), None),
        (Some("tcp/127.evil.example:7447"), None),
        (Some("0.0.0.0:7447"), None),
        (Some("tcp/127.0.0.1:0"), Some("tcp/192.0.2.1:7447")),
        // A router may pass on what comes from elsewhere.
        (None, Some("tcp/127.0.0.1:7447")),
    ] {
        let listed = |endpoint: Option<&str>| endpoint.map(str::to_owned).into_iter().collect();
        let zenoh = ZenohEndpoints { listen: listed(listen), connect: listed(connect) };
        let config = Config { zenoh: Some(zenoh), ..Config::default() };
        let message = Server::try_with(GRID, config).await.err().unwrap().to_string();
        assert!(message.contains("there is no token yet"), "{listen:?} {connect:?}: {message}");
        let named = connect.or(listen).unwrap();
        assert!(message.contains(named), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_the_attachment_says_who_asks_over_zenoh() {
    let (server, session) = start(GRID).await;
    let order = "oprc/order/0/objects/1";
    let set = (format!("{order}/set"), object(b"x").encode_to_vec());
    let admin = json!({ "subject": "ops", "role": "admin" });
    let admin = server.json(Method::POST, "/v1/tokens", &admin).await.read();
    let admin = admin["token"].as_str().unwrap();
    let reader = json!({ "subject": "eve", "scopes": { "order": ["read"] } });
    let bearer = format!("Bearer {admin}");
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let body = reader.to_string();
    let reader = server.send(Method::POST, "/v1/tokens", &headers, body.as_bytes()).await.read();
    let reader = reader["token"].as_str().unwrap();

    let written = ask_as(&session, Some(admin), &set.0, Some(set.1.clone())).await.unwrap();
    assert!(written.is_ok(), "{written:?}");
    assert!(ask_as(&session, Some(&bearer), order, None).await.unwrap().is_ok());
    assert!(ask_as(&session, Some(reader), order, None).await.unwrap().is_ok());
    let write = ask_as(&session, Some(reader), &set.0, Some(set.1.clone())).await;
    assert_eq!(code(write), "forbidden");
    assert_eq!(code(ask_as(&session, Some("nonsense"), order, None).await), "unauthenticated");
    assert_eq!(refused(&session, order, None).await, "unauthenticated", "there are tokens now");
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_finds_no_place_is_told_that_the_server_is_busy() {
    let config = Config { requests_max: 0, ..Config::default() };
    let (server, session) = start_with(GRID, config).await;
    let answer = loop {
        if let Some(answer) = ask(&session, "oprc/order/0/objects/1", None).await {
            break answer;
        }
    };
    assert_eq!(code(Some(answer)), "unavailable");
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn capabilities_are_told_over_zenoh_and_follow_the_rollout() {
    let (server, session) = start(GRID).await;
    for (phase, expected) in [(3, true), (0, false)] {
        server.json(Method::PUT, "/api/rollout", &json!({ "phase": phase })).await;
        let able: grid::CapabilitiesResponse = read(&session, "oprc/capabilities", None).await;
        assert_eq!((able.string_ids, able.string_entry_keys), (expected, expected));
    }
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_call_that_is_refused_is_answered_where_its_result_is_awaited() {
    let (server, session) = start(GRID).await;
    let results = session.declare_subscriber("oprc/order/0/results/**").await.unwrap();
    let answer = loop {
        let call = grid::InvocationRequest::default().encode_to_vec();
        session.put("oprc/order/0/invokes/none/async/mine", call).await.unwrap();
        // A subscription has reached the server when a result arrives.
        if let Ok(answer) = timeout(Duration::from_millis(500), results.recv_async()).await {
            break answer.unwrap();
        }
    };
    assert_eq!(answer.key_expr().as_str(), "oprc/order/0/results/none/async/mine");
    let answer = grid::InvocationResponse::decode(&*answer.payload().to_bytes()).unwrap();
    assert_eq!(answer.status(), ResponseStatus::InvalidRequest);
    session.close().await.unwrap();
    server.stop().await;
}

/// What is put or asked in the name of so many events.
fn depth(depth: u32) -> String {
    format!("keyloom-depth: {depth}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o16_the_depth_limit_holds_over_zenoh() {
    let watched = r#"
[classes.order.event.data_trigger.1]
on_create = [{ class = "order", function = "told" }]
"#;
    let mut function = Function::start().await;
    let (server, session) = start(&function.schema(watched)).await;
    let letters = "/api/class/order/0/dead-letters";
    let value = grid::ValData { data: b"x".to_vec(), r#type: 0 }.encode_to_vec();
    let batch = grid::BatchSetValuesRequest {
        values: [("1".to_owned(), grid::ValData::default())].into(),
        ..grid::BatchSetValuesRequest::default()
    };
    let set = object(b"x").encode_to_vec();
    for (number, (what, payload)) in [
        ("set", set.clone()),
        ("merge", set.clone()),
        ("batch-set", batch.encode_to_vec()),
        ("entries/1", value.clone()),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("oprc/order/0/objects/{number}/{what}");
        let answer = ask_as(&session, Some(&depth(8)), &key, Some(payload)).await.unwrap();
        assert!(answer.is_ok(), "{what}: {answer:?}");
        let dead = server.get(letters).await.read();
        assert_eq!(dead["items"].as_array().unwrap().len(), number + 1, "{what}");
        assert_eq!(dead["items"][number]["depth"], 9);
    }
    for (number, key) in [(5, "oprc/order/0/objects/7"), (6, "oprc/order/0/objects/8/entries/1")] {
        let payload = if number == 5 { set.clone() } else { value.clone() };
        session.put(key, payload).attachment(depth(8)).await.unwrap();
        while server.get(letters).await.read()["items"].as_array().unwrap().len() < number {
            tokio::task::yield_now().await;
        }
    }
    let call = grid::InvocationRequest::default().encode_to_vec();
    let key = "oprc/order/0/invokes/notify";
    ask_as(&session, Some(&depth(5)), key, Some(call.clone())).await.unwrap().unwrap();
    assert_eq!(function.called(1).await[0].depth.as_deref(), Some("5"));
    session.put(format!("{key}/async/deep"), call).attachment(depth(6)).await.unwrap();
    assert_eq!(function.called(2).await[1].depth.as_deref(), Some("6"));
    let rest = [("content-type", "application/json"), ("keyloom-depth", "7")];
    server.send(Method::POST, "/api/class/order/0/invokes/notify", &rest, b"{}").await;
    assert_eq!(function.called(3).await[2].depth.as_deref(), Some("7"));
    assert_eq!(
        code(ask_as(&session, Some("keyloom-depth: x"), "oprc/order/0/objects/1", None).await),
        "invalid_argument"
    );
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_too_often_over_zenoh_is_told() {
    let config = Config { rate_limit: NonZeroU32::new(2), ..Config::default() };
    let (server, session) = start_with(GRID, config).await;
    let key = "oprc/order/0/objects/1";
    let mut codes = Vec::new();
    while codes.len() < 8 {
        if let Some(answer) = ask(&session, key, None).await {
            codes.push(code(Some(answer)));
        }
    }
    assert!(codes.contains(&"rate_limited".to_owned()), "{codes:?}");
    assert_eq!(codes[0], "not_found", "within the limit");
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_under_way_over_zenoh_is_finished_when_the_server_stops() {
    let mut function = Function::start().await;
    let (server, session) = start(&function.schema("").replace("2000", "60000")).await;
    let asking = session.clone();
    let asked = tokio::spawn(async move {
        let call = grid::InvocationRequest { payload: b"hi".to_vec(), ..Default::default() };
        ask(&asking, "oprc/order/0/invokes/gate", Some(call.encode_to_vec())).await
    });
    function.called(1).await;
    let address = server.address;
    let stopping = tokio::spawn(server.stop());
    // It was told to stop, and listens no longer: then the function answers.
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    function.gate.notify_one();
    let answer = asked.await.unwrap().expect("it is answered").unwrap();
    let answer = grid::InvocationResponse::decode(answer.as_slice()).unwrap();
    assert_eq!(answer.payload, Some(b"hi".to_vec()));
    stopping.await.unwrap();
    session.close().await.unwrap();
}

/// What is published where the result of a call is awaited. The first that arrives counts: a
/// subscription takes a moment to reach the server.
async fn result_of(session: &Session, key: &str, call: Vec<u8>) -> grid::InvocationResponse {
    let place = key.replace("/invokes/", "/results/");
    let results = session.declare_subscriber(place).await.unwrap();
    let answer = loop {
        session.put(key, call.clone()).await.unwrap();
        if let Ok(answer) = timeout(Duration::from_millis(500), results.recv_async()).await {
            break answer.unwrap();
        }
    };
    grid::InvocationResponse::decode(&*answer.payload().to_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_call_that_finds_no_place_is_told_where_its_result_is_awaited() {
    let config = Config { requests_max: 0, ..Config::default() };
    let (server, session) = start_with(GRID, config).await;
    let call = grid::InvocationRequest::default().encode_to_vec();
    let answer = result_of(&session, "oprc/order/0/invokes/none/async/mine", call).await;
    assert_eq!(answer.status(), ResponseStatus::SystemError);
    assert_eq!(answer.headers["keyloom-code"], "unavailable");
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_call_keeps_the_code_of_what_refused_it() {
    let (server, session) = start(GRID).await;
    let call = grid::InvocationRequest::default().encode_to_vec();
    for (key, payload, expected) in [
        ("oprc/order/0/invokes/none/async/a", call.clone(), "not_found"),
        ("oprc/nothing/0/invokes/none/async/b", call.clone(), "not_found"),
        ("oprc/order/4/invokes/none/async/c", call.clone(), "not_found"),
        ("oprc/order/0/invokes/none/async/d", vec![0xFF], "invalid_argument"),
    ] {
        let answer = result_of(&session, key, payload).await;
        assert_eq!(answer.status(), ResponseStatus::InvalidRequest, "{key}");
        assert_eq!(answer.headers["keyloom-code"], expected, "{key}");
    }
    session.close().await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_in_use_does_not_lose_the_result_of_another_call() {
    let mut function = Function::start().await;
    let (server, session) = start(&function.schema("")).await;
    let call = |payload: &[u8]| {
        grid::InvocationRequest { payload: payload.to_vec(), ..Default::default() }.encode_to_vec()
    };
    let key = "oprc/order/0/invokes/notify/async/mine";
    session.put(key, call(b"first")).await.unwrap();
    function.called(1).await;
    session.put(key, call(b"second")).await.unwrap();
    session.put("oprc/order/0/invokes/notify/async/other", call(b"third")).await.unwrap();
    let called = function.called(2).await;
    assert_eq!(called[1].payload, b"third");
    let place = "oprc/order/0/results/notify/async/mine";
    let answer = loop {
        if let Some(Ok(bytes)) = ask(&session, place, None).await {
            break grid::InvocationResponse::decode(bytes.as_slice()).unwrap();
        }
    };
    assert_eq!(answer.payload, Some(b"first".to_vec()));
    session.close().await.unwrap();
    server.stop().await;
}
