//! The program under test, a database for it, and what it answers.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use keyloom_store::{Commit, Direction, KeyRange, OrderedStore, ScanOptions, Write};
use keyloom_store_redb::RedbStore;
use serde_json::Value as Json;
use tempfile::TempDir;

/// The embedded engines; what holds on one holds on the other.
pub(crate) const ENGINES: [&str; 2] = ["redb", "fjall"];

/// A database in a temporary folder.
pub(crate) struct Database {
    folder: TempDir,
}

/// How the program ended and what it said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A schema file of the repository.
pub(crate) fn schema(name: &str) -> String {
    format!("{}/../../schemas/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the program as it is.
pub(crate) fn keyloom(line: &[&str], input: &[u8]) -> Answer {
    let mut child = command(line).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // On a thread of its own, and a program that does not read its input is no failure.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let done = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Answer { code: done.status.code().unwrap(), out: text(done.stdout), err: text(done.stderr) }
}

/// The program with its arguments, its answers caught.
pub(crate) fn command(line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyloom"));
    command.args(line).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Database {
    /// A folder without a database.
    pub(crate) fn none() -> Database {
        Database { folder: tempfile::tempdir().unwrap() }
    }

    /// A database with schemas of the repository.
    pub(crate) fn new(engine: &str, schemas: &[&str]) -> Database {
        let database = Database::none();
        let url = format!("embedded:{}?engine={engine}", database.data().display());
        let files: Vec<String> = schemas.iter().map(|name| schema(name)).collect();
        let mut line = vec!["--store", &url, "schema", "apply"];
        line.extend(files.iter().map(String::as_str));
        keyloom(&line, b"").ok();
        database
    }

    /// The folder of the database.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A file beside the database.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// A path beside the database.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the program on this database.
    pub(crate) fn run(&self, line: &[&str]) -> Answer {
        self.run_with(line, b"")
    }

    /// Runs the program on this database, with an input.
    pub(crate) fn run_with(&self, line: &[&str], input: &[u8]) -> Answer {
        let data = self.data().display().to_string();
        keyloom(&[line, &["--data", &data]].concat(), input)
    }

    /// The JSON document that a command answers.
    pub(crate) fn json(&self, line: &[&str]) -> Json {
        serde_json::from_str(&self.run(&[line, &["--json"]].concat()).ok()).unwrap()
    }

    /// Creates a document; the answer is how it is stored.
    pub(crate) fn create(&self, collection: &str, data: &str) -> Json {
        self.json(&["put", collection, data])
    }

    /// Renames stored keys without the engine: to what `rename` says, if it says anything.
    pub(crate) fn damage(&self, rename: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        let store = RedbStore::open(&self.data()).unwrap();
        pollster::block_on(async {
            let range = KeyRange { from: Vec::new(), to: vec![0xFF; 8] };
            let options = ScanOptions { direction: Direction::Forward, limit: 1000 };
            let snapshot = store.snapshot().await.unwrap();
            let mut scan = snapshot.scan(&range, options).await.unwrap();
            let entries = scan.next(1000).await.unwrap();
            let mut writes = Vec::new();
            for entry in entries {
                if let Some(key) = rename(&entry.key) {
                    writes.push(Write::Put { key, value: entry.stored.value });
                    writes.push(Write::Delete { key: entry.key });
                }
            }
            assert!(!writes.is_empty(), "there is nothing to damage");
            let commit = Commit { checks: Vec::new(), writes, changes: Vec::new() };
            store.commit(commit.into()).await.unwrap();
        });
    }

    /// Everything that can be seen of the database: schema, counts, and all that was ever written.
    pub(crate) fn state(&self) -> String {
        let schema = self.run(&["schema", "show", "--json"]).ok();
        let changes = self.run(&["changes", "--limit", "1000", "--json"]).ok();
        schema + &changes
    }

    /// A command that is refused with these words, with exit code 1, and changes nothing. The
    /// answer is the whole error.
    pub(crate) fn refuses(&self, line: &[&str], words: &str) -> String {
        self.refuses_input(line, b"", words)
    }

    /// A command with an input that is refused with these words.
    pub(crate) fn refuses_input(&self, line: &[&str], input: &[u8], words: &str) -> String {
        let before = self.state();
        let error = self.run_with(line, input).refused(words);
        assert_eq!(self.state(), before, "{line:?} is refused, but it changed something");
        error
    }
}

impl Answer {
    /// What was printed by a command that succeeds.
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "it should succeed: {}", self.out);
        self.out
    }

    /// The error of a command that fails with these words: one clear line for people.
    pub(crate) fn refused(self, words: &str) -> String {
        assert_eq!(self.code, 1, "it should fail: {self:?}");
        assert!(self.err.starts_with("keyloom: "), "{}", self.err);
        assert!(self.err.contains(words), "`{words}` is not in: {}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }

    /// The problem document of a command that fails.
    pub(crate) fn problem(self) -> Json {
        assert_eq!(self.code, 1, "it should fail: {self:?}");
        serde_json::from_str(&self.err).unwrap()
    }

    /// The error of a command line that makes no sense.
    pub(crate) fn misused(self, words: &str) {
        assert_eq!(self.code, 2, "{self:?}");
        assert!(self.err.contains(words), "`{words}` is not in: {}", self.err);
    }
}

/// A text member of a JSON object.
pub(crate) fn text<'j>(json: &'j Json, pointer: &str) -> &'j str {
    json.pointer(pointer).and_then(Json::as_str).unwrap_or_else(|| panic!("{pointer} of {json}"))
}

/// The values of one member of all items of a page, in their order.
pub(crate) fn column(page: &Json, field: &str) -> Vec<String> {
    let items = page["items"].as_array().unwrap();
    items.iter().map(|item| text(item, &format!("/data/{field}")).to_owned()).collect()
}

/// The names in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
