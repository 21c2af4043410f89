//! The object grid on the wire: the messages and services of `proto/`, as they are compiled.
//!
//! G1: Numbers of fields are never given to anything else; `tests/grid.rs` holds them.

#![expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "the code is made from the files in `proto`, which say what everything is"
)]

tonic::include_proto!("oprc");

/// The files that this is made from, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/oprc.bin"));
