//! How a server is run.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use keyloom_engine::Retention;

use crate::limits;
use crate::tls::TlsFiles;
use crate::zenoh_door::ZenohEndpoints;

/// How a server is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where it listens. Port 0 takes any free one.
    pub listen: SocketAddr,
    /// The largest body.
    pub body_bytes_max: usize,
    /// The time in which a body has to arrive.
    pub body_timeout: Duration,
    /// The bodies and answers that are held at once, all together.
    pub room_bytes_max: usize,
    /// The time in which a client has to take another piece of a large answer.
    pub answer_timeout: Duration,
    /// The time in which the head of a request has to arrive.
    pub head_timeout: Duration,
    /// The time after which a request is given up.
    pub deadline: Duration,
    /// The same for work that reads everything: applying a schema, and the check.
    pub long_deadline: Duration,
    /// The requests that are worked on at once.
    pub requests_max: usize,
    /// The connections that are open at once.
    pub connections_max: usize,
    /// How long requests may still run once the server was told to stop.
    pub shutdown_timeout: Duration,
    /// How often a quiet follower of the feed hears that the connection lives.
    pub heartbeat: Duration,
    /// Those who follow the feed at once.
    pub readers_max: usize,
    /// Which changes are kept.
    pub retention: Retention,
    /// Certificate and key; without them, plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Pages of these origins may ask; `*` is any.
    pub cors_origins: Vec<String>,
    /// Where Zenoh listens and whom it connects to; without it, there is no Zenoh.
    pub zenoh: Option<ZenohEndpoints>,
    /// The requests of one caller in a second; without it, as many as he likes.
    pub rate_limit: Option<NonZeroU32>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7400),
            body_bytes_max: limits::BODY_BYTES_MAX,
            body_timeout: limits::BODY_TIMEOUT,
            room_bytes_max: limits::ROOM_BYTES_MAX,
            answer_timeout: limits::ANSWER_TIMEOUT,
            head_timeout: limits::HEAD_TIMEOUT,
            deadline: limits::DEADLINE,
            long_deadline: limits::LONG_DEADLINE,
            requests_max: limits::REQUESTS_MAX,
            connections_max: limits::CONNECTIONS_MAX,
            shutdown_timeout: limits::SHUTDOWN_TIMEOUT,
            heartbeat: limits::HEARTBEAT,
            readers_max: limits::READERS_MAX,
            retention: Retention::Count(limits::CHANGES_KEPT),
            tls: None,
            cors_origins: Vec::new(),
            zenoh: None,
            rate_limit: None,
        }
    }
}
