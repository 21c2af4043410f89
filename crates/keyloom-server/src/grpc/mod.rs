//! gRPC, on the port of REST: the services of the object grid, health, and reflection.
//!
//! R1: What refuses a call is a status of gRPC, from the table that every door uses; no call is
//!     answered with a problem document.

mod call;
mod data;
mod edge;
mod functions;
mod status;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::middleware::from_fn_with_state;
use keyloom_api::grid::DESCRIPTORS;
use keyloom_api::grid::data_service_server::DataServiceServer;
use keyloom_api::grid::oprc_function_server::OprcFunctionServer;
use tonic::server::NamedService;
use tower::Service;

use crate::app::App;
use data::Data;
use edge::{Passage, pass};
use functions::Functions;

/// Everything that is answered over gRPC.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let (_, health) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors are those of our own files");
    let data = DataServiceServer::new(Data { app: Arc::clone(app) })
        .max_decoding_message_size(app.config.body_bytes_max);
    let functions = OprcFunctionServer::new(Functions { app: Arc::clone(app) })
        .max_decoding_message_size(app.config.body_bytes_max);
    Router::new()
        .merge(service(app, data))
        .merge(service(app, functions))
        .merge(service(app, health))
        .merge(service(app, reflection))
}

/// The methods of one service.
fn service<S>(app: &Arc<App>, server: S) -> Router
where
    S: Service<Request<Body>, Response = Response<tonic::body::Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let passage = Passage { app: Arc::clone(app), service: S::NAME };
    Router::new()
        .route_service(&format!("/{}/{{*method}}", S::NAME), server)
        .layer(from_fn_with_state(passage, pass))
}
