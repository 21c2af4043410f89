//! Who asks.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use keyloom_engine::Actor;

use crate::app::App;

/// Who asks: every route takes it and hands it to the service.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Actor);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Infallible;

    /// Without tokens the server listens on loopback only, and whoever reaches it is the
    /// administrator.
    async fn from_request_parts(_: &mut Parts, _: &Arc<App>) -> Result<Caller, Infallible> {
        Ok(Caller(Actor::Local))
    }
}
