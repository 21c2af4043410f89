//! Compiles the protobuf files in Rust: nobody needs `protoc` to build Keyloom.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

/// The files, from the folder `proto`.
const FILES: [&str; 2] = ["oprc-data.proto", "oprc-invoke.proto"];

/// How a message is read and written as JSON.
const AS_JSON: &str =
    "#[derive(serde::Serialize, serde::Deserialize)] #[serde(deny_unknown_fields, default)]";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // What reflection shows.
    fs::write(out.join("oprc.bin"), descriptors.encode_to_vec())?;
    // Ordered maps: equal messages are equal bytes. Channels are the business of who calls.
    let mut code = tonic_prost_build::configure().btree_map(".").build_transport(false);
    // What is called when an object changes looks the same as JSON.
    for message in ["ObjectEvent", "FuncTrigger", "DataTrigger", "TriggerTarget"] {
        code = code.message_attribute(message, AS_JSON);
    }
    code.compile_fds(descriptors)?;
    Ok(())
}
