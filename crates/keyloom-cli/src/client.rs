//! A server that is asked over HTTP.
//!
//! H1: A token comes from a file or the environment, never from the command line, where other
//!     people on the machine could read it; it is not printed by `Debug`.
//! H2: What the server refuses is told as if this process had refused it.

use std::path::Path;
use std::time::Duration;

use keyloom_api::{Code, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::{Method, Request};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::body::escape;
use crate::limits::{ANSWER_BYTES_MAX, CONNECT_TIMEOUT};
use crate::problem::Failure;

/// The environment variable that holds a token.
const TOKEN_VARIABLE: &str = "KEYLOOM_TOKEN";

/// A server.
pub(crate) struct Client {
    agent: Agent,
    /// Without a `/` at its end.
    url: String,
    token: Option<String>,
    /// In whose name an administrator asks.
    user: Option<String>,
}

impl Client {
    /// The server at an address; nothing is asked yet.
    pub(crate) fn new(
        url: &str,
        token_file: Option<&Path>,
        tls_ca: Option<&Path>,
        user: Option<String>,
    ) -> Result<Client, Failure> {
        let connect: Duration = CONNECT_TIMEOUT;
        let tls = match tls_ca {
            Some(file) => TlsConfig::builder().root_certs(authority(file)?).build(),
            None => TlsConfig::default(),
        };
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .timeout_connect(Some(connect))
            .max_redirects(0)
            .user_agent(concat!("keyloom/", env!("CARGO_PKG_VERSION")))
            .build();
        let token = match token_file {
            Some(file) => {
                let place = file.display().to_string();
                Some(std::fs::read_to_string(file).map_err(Failure::file(place))?)
            }
            None => std::env::var(TOKEN_VARIABLE).ok(),
        };
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        let url = url.trim_end_matches('/').to_owned();
        Ok(Client { agent: config.new_agent(), url, token, user })
    }

    /// Whether the server can know who asks.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The address of a collection.
    pub(crate) fn collection(name: &str) -> String {
        format!("/v1/collections/{}", escape(name))
    }

    /// The path of a class.
    pub(crate) fn class(name: &str) -> String {
        format!("/api/class/{}", escape(name))
    }

    /// An answer.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.send(Method::GET, path, None)?)
    }

    /// A document that may be absent.
    pub(crate) fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.send(Method::GET, path, None) {
            Ok(bytes) => read(&bytes).map(Some),
            // A collection that is unknown is an error, a document that is absent is an answer.
            Err(Failure::Remote(problem))
                if problem.code == Code::NotFound && problem.details.key.is_some() =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A question about a collection.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        collection: &str,
        question: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.post(&format!("{}/{question}", Client::collection(collection)), body)
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        read(&self.send(Method::POST, path, Some(write(body)?))?)
    }

    pub(crate) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        read(&self.send(Method::PUT, path, Some(write(body)?))?)
    }

    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.send(Method::DELETE, path, None)?)
    }

    /// An answer of one JSON document per line.
    pub(crate) fn lines<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Failure> {
        let bytes = self.send_accepting("application/x-ndjson", Method::GET, path, None)?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(read).collect()
    }

    fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Vec<u8>, Failure> {
        self.send_accepting("application/json", method, path, body)
    }

    fn send_accepting(
        &self,
        accept: &str,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("accept", accept);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(user) = &self.user {
            request = request.header("keyloom-as", escape(user));
        }
        let answer = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body);
                self.agent.run(request.map_err(|error| self.malformed(&error))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| self.malformed(&error))?),
        };
        let mut answer = answer.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unreachable(&error))?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(Failure::Remote(Box::new(problem))),
            Err(_) => Err(Failure::Unreachable(format!(
                "{} answered with {status}, and not as Keyloom does",
                self.url
            ))),
        }
    }

    fn malformed(&self, error: &ureq::http::Error) -> Failure {
        let hint =
            if self.url.contains("://") { "" } else { "; it begins with http:// or https://" };
        Failure::Usage(format!("--url {}, or the token: {error}{hint}", self.url))
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        if let ureq::Error::BadUri(_) | ureq::Error::Http(_) = error {
            return Failure::Usage(format!("--url {}: {error}", self.url));
        }
        let (url, error) = (&self.url, error.to_string());
        if error.contains("invalid peer certificate") {
            return Failure::Unreachable(format!(
                "the certificate of {url} is not trusted ({error}): name the file of its authority \
                 with --tls-ca"
            ));
        }
        if error.contains("http parse fail") {
            let what = format!("{url} does not answer in HTTP ({error}): if it speaks TLS, https");
            return Failure::Unreachable(format!("{what} has to stand in --url"));
        }
        Failure::Unreachable(format!(
            "no server answers at {url} ({error}): start one with `keyloom serve`, name another \
             with --url, or open a database with --data DIR"
        ))
    }
}

/// The authority whose certificates are trusted.
fn authority(file: &Path) -> Result<RootCerts, Failure> {
    let place = file.display().to_string();
    let pem = std::fs::read(file).map_err(Failure::file(place.clone()))?;
    let wrong = |reason: String| Failure::Invalid(format!("{place}: {reason}"));
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        match item.map_err(|error| wrong(error.to_string()))? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            _ => return Err(wrong("it holds more than certificates".to_owned())),
        }
    }
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate in PEM".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

fn write(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|error| Failure::Invalid(error.to_string()))
}

fn read<T: DeserializeOwned>(bytes: impl AsRef<[u8]>) -> Result<T, Failure> {
    serde_json::from_slice(bytes.as_ref()).map_err(|error| {
        Failure::Unreachable(format!("the server's answer cannot be read: {error}"))
    })
}
