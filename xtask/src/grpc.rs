//! Checks the object grid with a client that another implementation of gRPC has generated. It
//! starts the server itself, since it also kills it.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::process;
use crate::server;
use crate::venv::{self, Packages};

/// What the client needs.
const PACKAGES: Packages = Packages { list: "tests/grpc/requirements.txt", folder: "target/grpc" };

/// The client.
const CLIENT: &str = "tests/grpc/client.py";

/// Checks the server of this workspace.
pub(super) fn run(root: &Path) -> Result<(), Failure> {
    let folder = venv::installed(root, &PACKAGES)?;
    let mut command = Command::new(folder.join("bin/python"));
    process::run(command.current_dir(root).arg(CLIENT).arg(server::program(root)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_with_a_hash() {
        venv::tests::check_pinned(&PACKAGES, "grpcio==1.");
    }
}
