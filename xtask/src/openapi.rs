//! Checks a running server against its own OpenAPI document, with a client that makes up requests.
//!
//! I1: The requests follow from the document alone, so that every run asks the same.
//! I2: The server that is checked is started here and ends here; its demo database is in memory.
//! I3: What the client needs is pinned with hashes in `tests/openapi`, and lives in `target`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::failure::Failure;
use crate::process;

/// The packages of the client.
const REQUIREMENTS: &str = "tests/openapi/requirements.txt";

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

/// A server that is stopped when it is dropped.
struct Server {
    child: Child,
    url: String,
    /// Kept open: a server that cannot say what it wants to say ends.
    _said: BufReader<ChildStdout>,
}

/// Checks the server of this workspace.
pub(super) fn run(root: &Path) -> Result<(), Failure> {
    let client = client(root)?;
    let server = Server::start(root)?;
    let mut command = Command::new(client);
    command.current_dir(root.join("target")).arg("--config-file").arg(root.join(CONFIGURATION));
    command.arg("run").args(ARGUMENTS);
    process::run(command.arg(format!("{}/openapi.json", server.url)))
}

/// The client, installed if it is not there yet.
fn client(root: &Path) -> Result<PathBuf, Failure> {
    let requirements = fs::read_to_string(root.join(REQUIREMENTS))
        .map_err(|error| Failure::Failed(format!("{REQUIREMENTS} cannot be read: {error}")))?;
    let folder = root.join("target/openapi");
    let installed = folder.join("installed.txt");
    let client = folder.join("bin/schemathesis");
    if fs::read_to_string(&installed).is_ok_and(|text| text == requirements) {
        return Ok(client);
    }
    let python = "Python 3.10 or later with venv is needed to check the OpenAPI document";
    let mut command = Command::new("python3");
    command.current_dir(root).args(["-m", "venv", "--clear"]).arg(&folder);
    process::run(&mut command).map_err(|failure| because(python, &failure))?;
    let registry = format!("the packages of {REQUIREMENTS} have to be installed from PyPI");
    let mut command = Command::new(folder.join("bin/pip"));
    command.current_dir(root).args(["install", "--quiet", "--disable-pip-version-check"]);
    command.args(["--require-hashes", "-r", REQUIREMENTS]);
    process::run(&mut command).map_err(|failure| because(&registry, &failure))?;
    fs::write(&installed, requirements)
        .map_err(|error| Failure::Failed(format!("{}: {error}", installed.display())))?;
    Ok(client)
}

fn because(need: &str, failure: &Failure) -> Failure {
    Failure::Failed(format!("{need}: {failure}"))
}

impl Server {
    /// Starts the server with the demo database on any free port, and waits until it says which.
    fn start(root: &Path) -> Result<Server, Failure> {
        let not_started = |what: String| Failure::Failed(format!("`keyloom serve --demo` {what}"));
        // With the profile of the tests, so that what they need is not compiled twice. On Unix the
        // server takes the place of cargo, so that it is our child.
        let cargo = ["run", "--quiet", "--profile=test", "-p", "keyloom-cli", "--"];
        let mut child = process::cargo(root, &cargo)
            .args(["--store", "memory:", "serve", "--demo", "--listen", "127.0.0.1:0"])
            .args(["--log", "error", "--schema"])
            .arg(root.join(SCHEMA))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| not_started(format!("could not be started: {error}")))?;
        let said = child.stdout.take().expect("standard output is piped");
        let mut said = BufReader::new(said);
        let mut line = String::new();
        // What cannot be read is an end, too: there is no address in it.
        let _ = said.read_line(&mut line);
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_default().to_owned();
        let server = Server { child, url, _said: said };
        if server.url.is_empty() {
            return Err(not_started("ended without an address".to_owned()));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which the client has then told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_without_the_list_of_packages_is_told_which_file_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let message = run(root.path()).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{REQUIREMENTS} cannot be read: ")), "{message}");
    }

    #[test]
    fn i3_a_client_that_is_installed_from_this_list_is_not_installed_again() {
        let root = tempfile::tempdir().unwrap();
        for path in [REQUIREMENTS, "target/openapi/installed.txt"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "schemathesis==1\n").unwrap();
        }
        let expected = root.path().join("target/openapi/bin/schemathesis");
        assert_eq!(client(root.path()).unwrap(), expected);
    }

    #[test]
    fn i3_every_package_is_pinned_with_a_hash() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join(REQUIREMENTS)).unwrap();
        let packages = text.lines().filter(|line| line.contains("=="));
        assert!(packages.clone().any(|line| line.starts_with("schemathesis==4.")));
        assert!(packages.clone().all(|line| line.ends_with('\\')), "a line without a hash");
    }

    #[test]
    fn i2_a_server_that_does_not_start_is_told() {
        let root = tempfile::tempdir().unwrap();
        let message = Server::start(root.path()).err().unwrap().to_string();
        assert_eq!(message, "`keyloom serve --demo` ended without an address");
    }
}
