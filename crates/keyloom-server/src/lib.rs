//! Keyloom on a network: REST under `/v1`, the change feed, limits, health and metrics.
//!
//! ```text
//! socket ──listen──► edge (id, admission, deadline) ──rest──► Service ──► Engine
//!                                                        │
//!                   asked: wire → engine ◄──────────────┴─────────────► wire, body: engine → wire
//! ```
//!
//! V1: Every door calls [`Service`] with the caller; no handler touches the engine.
//! V2: What a client sends is checked before anything happens, and answered with a problem document
//!     that says what to do.
//! V3: Everything that a client can make the server hold or wait for has a limit.

mod app;
pub mod asked;
mod body;
mod caller;
mod config;
mod connection;
mod dispatch;
mod edge;
mod functions;
mod gathered;
mod grid;
mod grpc;
mod leaving;
pub mod limits;
mod listen;
mod metrics;
pub mod problem;
mod rates;
mod rest;
mod retention;
mod room;
mod service;
mod telemetry;
pub mod times;
mod tls;
mod traces;
pub mod typed;
pub mod wire;
mod zenoh_door;

pub use config::Config;
pub use listen::{Listening, ServeError, bind};
pub use service::{ASYNC, DEPTH, DeletedMany, EntryRead, Invoke, Service};
pub use telemetry::{LogError, LogFormat, log};
pub use tls::TlsFiles;
pub use traces::Traces;
pub use zenoh_door::ZenohEndpoints;
