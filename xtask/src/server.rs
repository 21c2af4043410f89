//! The server of this workspace, for the tasks that check it from outside.
//!
//! I1: The server that is checked is started here and ends here; its demo database is in memory.
//! I2: What the tests were built with is not compiled again.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::failure::Failure;
use crate::process;

/// A server that is stopped when it is dropped.
pub(super) struct Server {
    child: Child,
    /// Where it listens.
    pub(super) url: String,
    /// Kept open: a server that cannot say what it wants to say ends.
    _said: BufReader<ChildStdout>,
}

/// The program, built if it is not there yet (I2): a test of the command line brings it along.
pub(super) fn program(root: &Path) -> Result<PathBuf, Failure> {
    let cargo = ["test", "--quiet", "--workspace", "--no-run", "--test", "readme"];
    process::run(&mut process::cargo(root, &cargo))?;
    Ok(root.join("target/debug/keyloom"))
}

impl Server {
    /// Starts the server with the demo database and one more schema on any free port, and waits
    /// until it says which.
    pub(super) fn start(program: &Path, schema: &Path) -> Result<Server, Failure> {
        let not_started = |what: String| Failure::Failed(format!("`keyloom serve --demo` {what}"));
        let mut child = Command::new(program)
            .args(["--store", "memory:", "serve", "--demo", "--listen", "127.0.0.1:0"])
            .args(["--log", "error", "--schema"])
            .arg(schema)
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
    fn i1_a_server_that_does_not_start_is_told() {
        let start = |program: &str| {
            Server::start(Path::new(program), Path::new("none.toml")).err().unwrap().to_string()
        };
        assert_eq!(start("true"), "`keyloom serve --demo` ended without an address");
        let missing = start("/no/such/program");
        assert!(missing.starts_with("`keyloom serve --demo` could not be started: "), "{missing}");
    }
}
