//! Who asks, and how often.
//!
//! C1: A request that brings a token is its caller's, or refused: never somebody else's.
//! C2: A token that is refused is refused in one way, whatever is wrong with it.
//! C3: Without any tokens the caller is the administrator if he comes straight from this machine:
//!     the server listens on loopback only, was addressed by a name of loopback (a foreign name
//!     that leads here is a web page's trick), and nobody passed the request on.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, FORWARDED, HOST, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use keyloom_api::Code;
use keyloom_engine::{Actor, Identity};
use percent_encoding::percent_decode_str;

use crate::app::App;
use crate::limits::RETRY_AFTER_SECONDS;
use crate::rates::Counted;
use crate::rest::Refusal;

/// The header by which an administrator asks as a user: his subject, percent-encoded.
const AS: HeaderName = HeaderName::from_static("keyloom-as");

/// Set by those who pass requests on.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What `WWW-Authenticate` says.
pub(crate) const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"keyloom\"");

/// Who asks: every route takes it and hands it to the service.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Identity);

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Caller, Refusal> {
        let identity = match parts.headers.get(AUTHORIZATION) {
            Some(value) => match bearer(value) {
                Some(token) => app.service.authenticate(token).await?.ok_or_else(invalid_token)?,
                None => return Err(invalid_token()),
            },
            None if is_direct(parts, app) && !app.service.has_tokens().await? => {
                Actor::Local.into()
            }
            None => Actor::Anonymous.into(),
        };
        let peer = parts.extensions.get::<Peer>().map(|peer| Counted::Address(peer.0.ip()));
        check_rate(app, &identity.actor, peer)?;
        match parts.headers.get(AS) {
            None => Ok(Caller(identity)),
            Some(user) => speak_for(identity, user).map(Caller),
        }
    }
}

/// Refuses a caller who asks too often, by his name or by where he comes from.
pub(crate) fn check_rate(app: &App, caller: &Actor, from: Option<Counted>) -> Result<(), Refusal> {
    let named = caller.subject().map(|subject| Counted::Subject(subject.to_owned()));
    let (Some(rates), Some(counted)) = (&app.rates, named.or(from)) else { return Ok(()) };
    if rates.allows(&counted) {
        return Ok(());
    }
    let wait = HeaderValue::from(RETRY_AFTER_SECONDS);
    let detail = "you ask more often than this server allows: wait a moment";
    Err(Refusal::new(Code::RateLimited, detail).header(RETRY_AFTER, wait))
}

/// C2
fn invalid_token() -> Refusal {
    let detail = "the token is not valid: it is malformed, unknown, expired or revoked";
    Refusal::new(Code::Unauthenticated, detail).header(WWW_AUTHENTICATE, CHALLENGE)
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// C3
fn is_direct(parts: &Parts, app: &App) -> bool {
    let is_passed_on =
        [FORWARDED, X_FORWARDED_FOR].iter().any(|name| parts.headers.contains_key(name));
    let host = match (parts.uri.authority(), parts.headers.get(HOST)) {
        (Some(authority), _) => Some(authority.as_str()),
        (None, Some(host)) => host.to_str().ok(),
        // Not even HTTP/1.1: no browser speaks so.
        (None, None) => Some("localhost"),
    };
    app.config.listen.ip().is_loopback() && !is_passed_on && host.is_some_and(is_loopback)
}

/// Whether `host:port` is a name of this machine for itself.
pub(crate) fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The user in whose name an administrator asks; he is bound as the user is.
fn speak_for(identity: Identity, user: &HeaderValue) -> Result<Identity, Refusal> {
    if !matches!(identity.actor, Actor::Local | Actor::Admin(_)) {
        let detail = "only administrators ask in the name of others";
        return Err(Refusal::new(Code::Forbidden, detail));
    }
    let text = user.to_str().ok().map(|text| percent_decode_str(text).decode_utf8());
    match text {
        Some(Ok(subject)) if !subject.is_empty() => {
            Ok(Identity { actor: Actor::User(subject.into_owned()), ..identity })
        }
        _ => Err(Refusal::invalid("Keyloom-As is a subject, percent-encoded")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c3_only_names_of_loopback_are_this_machine() {
        for host in ["localhost", "LOCALHOST:7400", "127.0.0.1:7400", "127.9.9.9", "[::1]:7400"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["example.org", "localhost.example.org", "10.0.0.1:7400", "[::2]", "", "[", "::1"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_token_comes_behind_bearer_in_any_case() {
        let read = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(str::to_owned);
        assert_eq!(read("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(read("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(read("Basic abc"), None);
        assert_eq!(read("abc"), None);
    }

    #[test]
    fn only_an_administrator_speaks_for_others() {
        let identity = Identity::from;
        let ann = HeaderValue::from_static("a%20n%C3%A9");
        for actor in [Actor::Local, Actor::Admin("root".to_owned())] {
            let found = speak_for(identity(actor), &ann).unwrap();
            assert_eq!(found.actor, Actor::User("a né".to_owned()));
        }
        for actor in [Actor::Anonymous, Actor::User("bob".to_owned())] {
            assert!(speak_for(identity(actor), &ann).is_err());
        }
        for wrong in ["", "%FF"] {
            assert!(speak_for(identity(Actor::Local), &HeaderValue::from_static(wrong)).is_err());
        }
    }
}
