//! What every call passes, and what is answered beside the services of the grid.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use hyper::Method;
use keyloom_api::grid;
use keyloom_server::Config;
use tokio::time::timeout;
use tonic::Code;
use tonic::metadata::MetadataValue;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::server::{GRID, PATIENCE, Server};

#[tokio::test]
async fn health_is_served_on_the_port_of_rest() {
    let server = Server::start("").await;
    let mut client = HealthClient::new(server.channel.clone());
    for service in ["", "oprc.DataService", "oprc.OprcFunction"] {
        let answer = client.check(HealthCheckRequest { service: service.to_owned() }).await;
        assert_eq!(answer.unwrap().into_inner().status(), ServingStatus::Serving, "{service}");
    }
    server.stop().await;
}

#[tokio::test]
async fn who_watches_hears_that_the_server_stops_and_does_not_hold_it_up() {
    let shutdown_timeout = Duration::from_secs(3600);
    let server = Server::with("", Config { shutdown_timeout, ..Config::default() }).await;
    let mut client = HealthClient::new(server.channel.clone());
    let mut watch = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    let heard = watch.next().await.unwrap().unwrap();
    assert_eq!(heard.status(), ServingStatus::Serving);
    let stopping = tokio::spawn(server.stop());
    let heard = watch.next().await.unwrap().unwrap();
    assert_eq!(heard.status(), ServingStatus::NotServing);
    let end = watch.next().await.unwrap().unwrap_err();
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    timeout(PATIENCE, stopping).await.expect("it waits for the watcher").unwrap();
}

#[tokio::test]
async fn reflection_names_the_services_and_shows_their_files() {
    let server = Server::start("").await;
    let answer = reflect(&server, MessageRequest::ListServices(String::new())).await;
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    let names: BTreeSet<String> = list.service.into_iter().map(|service| service.name).collect();
    for name in ["oprc.DataService", "oprc.OprcFunction", "grpc.health.v1.Health"] {
        assert!(names.contains(name), "{names:?}");
    }
    let symbol = MessageRequest::FileContainingSymbol("oprc.DataService".to_owned());
    let answer = reflect(&server, symbol).await;
    assert!(matches!(answer, MessageResponse::FileDescriptorResponse(_)), "{answer:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_token_that_is_not_valid_is_a_status_and_no_problem_document() {
    let server = Server::start("").await;
    let bearer = MetadataValue::from_static("Bearer nonsense");
    let mut client = HealthClient::with_interceptor(
        server.channel.clone(),
        move |mut request: tonic::Request<()>| {
            request.metadata_mut().insert("authorization", bearer.clone());
            Ok(request)
        },
    );
    let refused = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    assert_eq!(refused.metadata().get("keyloom-code").unwrap(), "unauthenticated");
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_finds_no_place_is_told_to_come_back() {
    let config = Config { requests_max: 0, ..Config::default() };
    let server = Server::with("", config).await;
    let asked = grid::CapabilitiesRequest::default();
    let refused = server.data().capabilities(asked).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    // How the server is, is told.
    let mut client = HealthClient::new(server.channel.clone());
    client.check(HealthCheckRequest::default()).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_service_that_does_not_exist_is_unimplemented() {
    let server = Server::start("").await;
    let mut client = tonic::client::Grpc::new(server.channel.clone());
    client.ready().await.unwrap();
    let path = "/oprc.Nothing/At".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckRequest>::default();
    let request = tonic::Request::new(HealthCheckRequest::default());
    let refused = client.unary(request, path, codec).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_an_argument_error() {
    let server = Server::start(GRID).await;
    // The class is a string that is not UTF-8, is longer than the message, or is a number.
    for message in [&b"\x0a\x01\xff"[..], b"\x0a\x05a", b"\x08\x01"] {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [&[0], &length[..], message].concat();
        let headers = [("content-type", "application/grpc"), ("te", "trailers")];
        let path = "/oprc.DataService/Get";
        let answer = server.send(Method::POST, path, &headers, &body).await;
        assert_eq!(answer.header("grpc-status"), "3", "{message:?}: {answer:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_message_that_is_larger_than_a_body_may_be_exceeds_a_limit() {
    let server = Server::with(GRID, Config { body_bytes_max: 1000, ..Config::default() }).await;
    let value = grid::ValData { data: vec![0; 1001], r#type: 0 };
    let large = grid::SetKeyRequest { value: Some(value), ..grid::SetKeyRequest::default() };
    let refused = server.data().set_value(large).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    server.stop().await;
}

#[tokio::test]
async fn what_a_web_page_can_send_unasked_is_no_call() {
    let server = Server::start(GRID).await;
    for path in ["/oprc.DataService/Capabilities", "/api/class/order/0/invokes/any"] {
        let web = ("content-type", "application/grpc-web");
        for headers in [&[][..], &[("content-type", "text/plain")], &[web]] {
            let answer = server.send(Method::POST, path, headers, b"\0\0\0\0\0").await;
            assert_eq!(answer.problem(), "415 invalid_argument", "{path}");
        }
    }
    server.stop().await;
}

async fn reflect(server: &Server, request: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let mut client = ServerReflectionClient::new(server.channel.clone());
    let answers = client.server_reflection_info(stream::iter([request])).await.unwrap();
    let answer = answers.into_inner().next().await.unwrap().unwrap();
    answer.message_response.unwrap()
}
