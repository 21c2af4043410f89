//! Checks a running server against its own OpenAPI document, with a client that makes up requests.
//!
//! I1: The requests follow from the document alone, so that every run asks the same.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::process;
use crate::server::{self, Server};
use crate::venv::{self, Packages};

/// What the client needs.
const PACKAGES: Packages =
    Packages { list: "tests/openapi/requirements.txt", folder: "target/openapi" };

/// What the client asks for.
const CONFIGURATION: &str = "tests/openapi/schemathesis.toml";

/// A collection beside those of the demo.
const SCHEMA: &str = "tests/openapi/notes.toml";

/// How the client is run. No phase that follows links: the document has none.
const ARGUMENTS: &[&str] = &[
    "--phases=examples,coverage,fuzzing",
    "--checks=not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,unsupported_method",
    // Enough to meet every kind of refusal, and done within two minutes on two cores.
    "--max-examples=25",
    "--generation-deterministic",
    "--continue-on-failure",
    "--request-timeout=10",
    "--no-color",
];

/// Checks the server of this workspace.
pub(super) fn run(root: &Path) -> Result<(), Failure> {
    let folder = venv::installed(root, &PACKAGES)?;
    let server = Server::start(&server::program(root)?, &root.join(SCHEMA))?;
    let mut command = Command::new(folder.join("bin/schemathesis"));
    command.current_dir(root.join("target")).arg("--config-file").arg(root.join(CONFIGURATION));
    command.arg("run").args(ARGUMENTS);
    process::run(command.arg(format!("{}/openapi.json", server.url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_without_the_list_of_packages_is_told_which_file_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let message = run(root.path()).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{} cannot be read: ", PACKAGES.list)), "{message}");
    }

    #[test]
    fn every_package_is_pinned_with_a_hash() {
        venv::tests::check_pinned(&PACKAGES, "schemathesis==4.");
    }
}
