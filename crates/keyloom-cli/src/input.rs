//! What commands read: one document, schema files, or lines of a file.
//!
//! U1: Nothing is read without a bound: a line or a document that is too long is an error, whatever
//!     is behind it.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use keyloom_engine::limits::DOCUMENT_BYTES_MAX;
use keyloom_engine::schema::Schema;

use crate::limits::{LINE_BYTES_MAX, SCHEMA_FILE_BYTES_MAX};
use crate::output::grouped;
use crate::problem::Failure;

/// Standard input, as an argument.
const STDIN: &str = "-";

/// A file, or standard input, line by line.
pub(crate) struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    number: u64,
    bytes: u64,
    total: Option<u64>,
}

/// The bytes of one document: the argument itself, a file, or standard input.
pub(crate) fn document(argument: &str) -> Result<Vec<u8>, Failure> {
    if is_json(argument) {
        return Ok(argument.as_bytes().to_vec());
    }
    let reader: Box<dyn Read> = match argument {
        STDIN => Box::new(std::io::stdin().lock()),
        path => Box::new(File::open(path).map_err(Failure::file(path))?),
    };
    let data = bounded(reader, name_of(argument), DOCUMENT_BYTES_MAX)?;
    if data.iter().all(u8::is_ascii_whitespace) {
        return Err(Failure::Invalid(format!("{} is empty", name_of(argument))));
    }
    Ok(data)
}

/// The schema of all these files, and of all files in these folders.
pub(crate) fn schema(paths: &[PathBuf]) -> Result<Schema, Failure> {
    let mut schema = Schema::default();
    for path in paths {
        for file in schema_files(path)? {
            let name = file.display().to_string();
            let read = schema_file(&file, &name)?;
            schema.merge(read).map_err(|error| Failure::Engine(error).at(name))?;
        }
    }
    Ok(schema)
}

impl Lines {
    /// Opens a file, standard input for `-`, or the argument itself if it is JSON.
    pub(crate) fn open(argument: &str) -> Result<Lines, Failure> {
        let (reader, total): (Box<dyn BufRead>, _) = match argument {
            lines if is_json(lines) => (Box::new(Cursor::new(lines.to_owned())), None),
            STDIN => (Box::new(std::io::stdin().lock()), None),
            path => {
                let file = File::open(path).map_err(Failure::file(path))?;
                let total = file.metadata().ok().filter(|file| file.is_file());
                (Box::new(BufReader::new(file)), total.map(|file| file.len()))
            }
        };
        Ok(Lines { reader, name: name_of(argument).to_owned(), number: 0, bytes: 0, total })
    }

    /// The next line that is not blank, and its number, counted from one.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, Failure> {
        loop {
            let mut line = Vec::new();
            let mut bounded = (&mut self.reader).take(as_u64(LINE_BYTES_MAX) + 1);
            bounded.read_until(b'\n', &mut line).map_err(Failure::file(&self.name))?;
            if line.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += as_u64(line.len());
            if line.len() > LINE_BYTES_MAX {
                return Err(too_long("the line", LINE_BYTES_MAX).at(self.place(self.number)));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some((self.number, line)));
            }
        }
    }

    /// How many lines were read.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A line of this file, for an error.
    pub(crate) fn place(&self, number: u64) -> String {
        format!("{}, line {number}", self.name)
    }

    /// How much of the file was read, if its size is known.
    pub(crate) fn share(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "shown in percent")]
        self.total.filter(|total| *total > 0).map(|total| self.bytes as f64 / total as f64)
    }
}

/// The files that a path means: itself, or the schemas in the folder.
fn schema_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let name = path.display().to_string();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Failure::file(&name))? {
        let file = entry.map_err(Failure::file(&name))?.path();
        if file.extension().is_some_and(|extension| extension == "toml" || extension == "json") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(Failure::Invalid(format!("{name} holds no .toml or .json files")));
    }
    files.sort();
    Ok(files)
}

fn schema_file(file: &Path, name: &str) -> Result<Schema, Failure> {
    let opened = File::open(file).map_err(Failure::file(name))?;
    let bytes = bounded(opened, name, SCHEMA_FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::Invalid("it is not UTF-8 text".to_owned()).at(name))?;
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    let schema = if is_json { Schema::from_json(&text) } else { Schema::from_toml(&text) };
    schema.map_err(|error| Failure::Engine(error).at(name))
}

fn bounded(reader: impl Read, name: &str, max: usize) -> Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    reader.take(as_u64(max) + 1).read_to_end(&mut data).map_err(Failure::file(name))?;
    if data.len() > max {
        return Err(too_long(name, max));
    }
    Ok(data)
}

fn too_long(what: &str, max: usize) -> Failure {
    Failure::Invalid(format!("{what} is longer than {} bytes", grouped(as_u64(max))))
}

fn is_json(argument: &str) -> bool {
    argument.trim_start().starts_with('{')
}

fn name_of(argument: &str) -> &str {
    match argument {
        STDIN => "standard input",
        json if is_json(json) => "the argument",
        path => path,
    }
}

fn as_u64(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &tempfile::TempDir, content: &[u8]) -> String {
        let path = folder.path().join("lines");
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    #[test]
    fn blank_lines_are_left_out_but_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = Lines::open(&file(&folder, b"{}\n\n  \n{\"a\":1}")).unwrap();
        assert_eq!(lines.next().unwrap(), Some((1, b"{}\n".to_vec())));
        assert_eq!(lines.next().unwrap(), Some((4, b"{\"a\":1}".to_vec())));
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(lines.share(), Some(1.0));
    }

    #[test]
    fn u1_a_line_without_an_end_is_an_error_and_not_a_full_memory() {
        let folder = tempfile::tempdir().unwrap();
        let mut content = b"{}\n".to_vec();
        content.resize(content.len() + LINE_BYTES_MAX + 1, b'x');
        let mut lines = Lines::open(&file(&folder, &content)).unwrap();
        lines.next().unwrap();
        let error = lines.next().unwrap_err().to_string();
        assert!(error.contains("line 2: the line is longer than"), "{error}");
    }

    #[test]
    fn u1_a_document_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let at = file(&folder, &vec![b'1'; DOCUMENT_BYTES_MAX]);
        assert_eq!(document(&at).unwrap().len(), DOCUMENT_BYTES_MAX);
        let above = file(&folder, &vec![b'1'; DOCUMENT_BYTES_MAX + 1]);
        let error = document(&above).unwrap_err().to_string();
        assert!(error.ends_with("is longer than 1,048,576 bytes"), "{error}");
    }

    #[test]
    fn a_document_may_be_the_argument_itself() {
        assert_eq!(document(" {\"a\": 1}").unwrap(), b" {\"a\": 1}");
    }

    #[test]
    fn a_folder_means_the_schemas_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("b.toml", "[collections.b]\nkey = \"{id}\"\n").unwrap();
        write("a.json", r#"{"collections": {"a": {"key": "{id}"}}}"#).unwrap();
        write("notes.md", "not a schema").unwrap();
        let read = schema(&[folder.path().to_owned()]).unwrap();
        assert_eq!(read.collections.keys().collect::<Vec<_>>(), ["a", "b"]);
        let twice = [folder.path().join("b.toml"), folder.path().join("b.toml")];
        let error = schema(&twice).unwrap_err().to_string();
        assert!(error.contains("b.toml: collections.b: declared in two files"), "{error}");
    }

    #[test]
    fn a_folder_without_schemas_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = schema(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.ends_with("holds no .toml or .json files"), "{error}");
    }
}
