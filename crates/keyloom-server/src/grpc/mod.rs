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

use axum::http::{Request, Response};
use http_body_util::Either;
use hyper::body::Incoming;
use keyloom_api::grid::DESCRIPTORS;
use keyloom_api::grid::data_service_server::DataServiceServer;
use keyloom_api::grid::oprc_function_server::OprcFunctionServer;
use tonic::server::NamedService;
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::app::App;
use data::Data;
use functions::Functions;

/// What a call is answered with: what refuses it before it is one comes from REST.
pub(crate) type Body = Either<axum::body::Body, tonic::body::Body>;

/// The methods of one service.
type Methods = BoxCloneSyncService<Request<Incoming>, Response<tonic::body::Body>, Infallible>;

/// Everything that is answered over gRPC.
///
/// A router for all doors would cost a call as much as finding its entry does: there are four
/// services, and the first part of the path names one of them.
pub(crate) struct Services {
    app: Arc<App>,
    services: [(&'static str, Methods); 4],
}

impl Services {
    pub(crate) fn new(app: Arc<App>) -> Services {
        let (_, health) = tonic_health::server::health_reporter();
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors are those of our own files");
        let data = DataServiceServer::new(Data { app: Arc::clone(&app) })
            .max_decoding_message_size(app.config.body_bytes_max);
        let functions = OprcFunctionServer::new(Functions { app: Arc::clone(&app) })
            .max_decoding_message_size(app.config.body_bytes_max);
        let services = [named(data), named(functions), named(health), named(reflection)];
        Services { app, services }
    }

    /// Answers a request for one of the services, or gives it back.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Request<Incoming>> {
        let asked = service_of(request.uri().path());
        let service = self.services.iter().find(|(name, _)| asked == Some(*name));
        let Some((name, methods)) = service else { return Err(request) };
        Ok(edge::pass(&self.app, name, methods.clone(), request).await)
    }
}

/// A service with the name that it has in paths.
fn named<S>(service: S) -> (&'static str, Methods)
where
    S: Service<Request<Incoming>, Response = Response<tonic::body::Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    (S::NAME, Methods::new(service))
}

/// The service that a path names: `/service/method`.
fn service_of(path: &str) -> Option<&str> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    (!method.is_empty()).then_some(service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_of_a_path_names_the_service() {
        assert_eq!(service_of("/oprc.DataService/Get"), Some("oprc.DataService"));
        assert_eq!(service_of("/oprc.DataService/Get/more"), Some("oprc.DataService"));
        for none in ["", "/", "oprc.DataService/Get", "/oprc.DataService", "/oprc.DataService/"] {
            assert_eq!(service_of(none), None, "{none}");
        }
    }
}
