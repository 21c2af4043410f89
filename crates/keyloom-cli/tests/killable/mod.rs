//! The program as something that can be killed and started again on the same data.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running program; it is killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: String,
}

impl Program {
    /// Starts the program on any free port, on the data in a folder with a store such as
    /// `engine=redb`, and waits for the line that says which port.
    pub(crate) fn start(folder: &Path, store: &str, schema: &str) -> Program {
        let file = folder.join("schema.toml");
        std::fs::write(&file, schema).unwrap();
        let store = format!("embedded:{}?{store}", folder.join("data").display());
        let mut child = Command::new(env!("CARGO_BIN_EXE_keyloom"))
            .args(["--store", &store, "serve", "--listen", "127.0.0.1:0", "--log", "error"])
            .arg("--schema")
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).expect("the address is printed").trim();
        Program { address: address.to_owned(), child }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may be dead already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
