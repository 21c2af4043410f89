//! The object grid through real sockets: gRPC and REST on one port, Zenoh beside them.
//!
//! Test names begin with the row of the behaviour that they show, where there is one.

#[cfg(test)]
mod edge;
#[cfg(test)]
mod function;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod rest;
#[cfg(test)]
mod server;
#[cfg(test)]
mod triggers;
#[cfg(test)]
mod upgrade;
#[cfg(test)]
mod zenoh;
