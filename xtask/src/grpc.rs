//! Checks a running server with a client that another implementation of gRPC has generated.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::process;
use crate::server::Server;
use crate::venv::{self, Packages};

/// What the client needs.
const PACKAGES: Packages = Packages { list: "tests/grpc/requirements.txt", folder: "target/grpc" };

/// The client.
const CLIENT: &str = "tests/grpc/client.py";

/// The class that it works on.
const SCHEMA: &str = "tests/grpc/grid.toml";

/// Checks the server of this workspace.
pub(super) fn run(root: &Path) -> Result<(), Failure> {
    let folder = venv::installed(root, &PACKAGES)?;
    let server = Server::start(root, SCHEMA)?;
    let mut command = Command::new(folder.join("bin/python"));
    process::run(command.current_dir(root).arg(CLIENT).arg(&server.url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_with_a_hash() {
        venv::tests::check_pinned(&PACKAGES, "grpcio==1.");
    }
}
