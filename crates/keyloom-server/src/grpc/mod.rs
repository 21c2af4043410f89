//! gRPC, on the port of REST: the services of the object grid, health, and reflection.
//!
//! R1: What refuses a call is a status of gRPC, from the table that every door uses; no call is
//!     answered with a problem document.

mod call;
mod data;
mod edge;
mod functions;
mod status;
mod streams;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use keyloom_api::grid::DESCRIPTORS;
use keyloom_api::grid::data_service_server::DataServiceServer;
use keyloom_api::grid::oprc_function_server::OprcFunctionServer;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::app::App;
use data::Data;
use functions::Functions;

/// What a call is answered with: what refuses it before it is one comes from REST.
pub(crate) type Body = Either<axum::body::Body, tonic::body::Body>;

/// What a service is handed: a message that has arrived, or a stream of them.
type Asked = Either<Full<Bytes>, Incoming>;

/// The methods of one service.
type Methods = BoxCloneSyncService<Request<Asked>, Response<tonic::body::Body>, Infallible>;

/// One service.
#[derive(Clone)]
struct Named {
    /// What it is called in paths.
    name: &'static str,
    methods: Methods,
    /// Whether its messages come and go as long as the client likes. Such services tell about the
    /// server, and are answered however much there is to do.
    is_stream: bool,
}

/// Everything that is answered over gRPC.
///
/// A router for all doors would cost a call as much as finding its entry does: there are four
/// services, and the first part of the path names one of them.
pub(crate) struct Services {
    app: Arc<App>,
    health: HealthReporter,
    services: [Named; 4],
}

impl Services {
    pub(crate) async fn new(app: Arc<App>) -> Services {
        let health = HealthReporter::new();
        let healths = HealthServer::new(HealthService::from_health_reporter(health.clone()));
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors are those of our own files");
        let data = DataServiceServer::new(Data { app: Arc::clone(&app) })
            .max_decoding_message_size(app.config.body_bytes_max);
        let functions = OprcFunctionServer::new(Functions { app: Arc::clone(&app) })
            .max_decoding_message_size(app.config.body_bytes_max);
        let services = [
            named(data),
            named(functions),
            streaming(named(healths)),
            streaming(named(reflection)),
        ];
        let services = Services { app, health, services };
        services.tell(ServingStatus::Serving).await;
        services
    }

    /// Tells those who ask or watch that the server stops.
    pub(crate) async fn stop(&self) {
        self.tell(ServingStatus::NotServing).await;
    }

    async fn tell(&self, status: ServingStatus) {
        // The empty name is the server as a whole.
        let names = self.services.iter().filter(|service| !service.is_stream);
        for name in names.map(|service| service.name).chain([""]) {
            self.health.set_service_status(name, status).await;
        }
    }

    /// Answers a request for one of the services, or gives it back.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Request<Incoming>> {
        let asked = service_of(request.uri().path());
        let service = self.services.iter().find(|service| asked == Some(service.name));
        let Some(service) = service else { return Err(request) };
        Ok(edge::pass(&self.app, service, request).await)
    }
}

/// A service of which each call is one message, and each answer one or a page.
fn named<S>(service: S) -> Named
where
    S: Service<Request<Asked>, Response = Response<tonic::body::Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Named { name: S::NAME, methods: Methods::new(service), is_stream: false }
}

/// The same service, with streams of messages.
fn streaming(service: Named) -> Named {
    Named { is_stream: true, ..service }
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
