//! A running server and a client that sends whatever it is told.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::Value as Json;
use tempfile::TempDir;
use ureq::http::{Method, Request};

use crate::program::{Answer, keyloom};

/// A server on a database in a temporary folder; it ends with the test.
pub(crate) struct Server {
    folder: TempDir,
    child: Child,
    pub(crate) url: String,
    /// What it prints behind the line with its address.
    said: Receiver<String>,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Json,
    pub(crate) challenge: Option<String>,
}

impl Server {
    /// A server with this schema.
    pub(crate) fn start(schema: &str) -> Server {
        Server::start_with(schema, &[])
    }

    /// A server with this schema and further options.
    pub(crate) fn start_with(schema: &str, options: &[&str]) -> Server {
        Server::start_in(&[], schema, options)
    }

    /// A server with variables in its environment.
    pub(crate) fn start_in(environment: &[(&str, &str)], schema: &str, options: &[&str]) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("schema.toml");
        std::fs::write(&file, schema).unwrap();
        let (data, file) = (folder.path().join("data"), file.display().to_string());
        let options = [&["--schema", &file], options].concat();
        let (child, url, said) = serve(environment, &data, &options);
        Server { folder, child, url, said }
    }

    /// The folder of the database.
    pub(crate) fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// A file beside the database.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// What it prints behind its address, up to a line with these words.
    pub(crate) fn said_until(&self, words: &str) -> Vec<String> {
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.contains(words)) {
            said.push(self.said.recv().expect("the server says more"));
        }
        said
    }

    /// Ends the server; the database can then be opened.
    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to end, as the system does; it may still work.
    pub(crate) fn terminate(&self) {
        let id = self.child.id().to_string();
        // The shell has `kill` built in, on every machine.
        let sent = Command::new("sh").args(["-c", "kill -TERM $0", &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the server has ended; the answer is its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Runs the program on this server.
    pub(crate) fn run(&self, line: &[&str]) -> Answer {
        keyloom(&[line, &["--url", &self.url]].concat(), b"")
    }

    /// Makes a token with REST, as whoever this token is for.
    pub(crate) fn token(&self, by: Option<&str>, body: &Json) -> String {
        let reply = self.send("POST", "/v1/tokens", by, Some(body));
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.body["token"].as_str().unwrap().to_owned()
    }

    /// Sends a request.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&Json>,
    ) -> Reply {
        self.send_with((method, path), token, &[], body)
    }

    /// Sends a request with headers.
    pub(crate) fn send_with(
        &self,
        (method, path): (&str, &str),
        token: Option<&str>,
        headers: &[(&str, &str)],
        body: Option<&Json>,
    ) -> Reply {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let reply = match body {
            None => agent.run(request.body(()).unwrap()),
            Some(body) => {
                let request = request.header("content-type", "application/json");
                agent.run(request.body(body.to_string()).unwrap())
            }
        };
        let mut reply = reply.unwrap();
        let challenge = reply.headers().get("www-authenticate");
        let challenge = challenge.map(|value| value.to_str().unwrap().to_owned());
        let text = reply.body_mut().read_to_string().unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Json::String(text));
        Reply { status: reply.status().as_u16(), body, challenge }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the program and waits for the line with its address.
fn serve(
    environment: &[(&str, &str)],
    data: &std::path::Path,
    options: &[&str],
) -> (Child, String, Receiver<String>) {
    let data = data.display().to_string();
    let line = ["serve", "--listen", "127.0.0.1:0", "--data", &data];
    let mut child = Command::new(env!("CARGO_BIN_EXE_keyloom"))
        .args(line)
        .args(options)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        line.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned)
    });
    // What else it prints is read, so that it never waits for a reader.
    let (sender, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines {
            // Most tests do not listen.
            let _ = sender.send(line.unwrap());
        }
    });
    (child, address.expect("the server says where it is"), said)
}
