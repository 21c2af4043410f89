//! The folder of an embedded store: who may use it, with which engine, and up to which commit.
//!
//! ```text
//! DIR/KEYLOOM   text: the engine and the version of the layout of this folder
//! DIR/LOCK      locked while a process has the store open
//! DIR/MARK      the last acknowledged commit, see `mark`
//! DIR/...       what the engine keeps
//! ```
//!
//! D1: `KEYLOOM` is durable before the engine writes anything, and is never written again.
//! D2: A file appears under its name complete and durable, or not at all; what a crash may leave
//!     behind carries the suffix `.new` and is replaced by the next attempt.
//! D3: Nothing is written into a folder that holds something else.

mod mark;

use std::error::Error;
use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::StoreError;

pub use mark::Mark;

/// The layout of a new folder. Newer ones are refused; which older ones are read, a store says.
///
/// 1: redb, at first without a journal; fjall with one keyspace. 2: fjall with three. 3: fjall with
/// a journal of ours.
pub const FORMAT: u32 = 3;

const KEYLOOM: &str = "KEYLOOM";
const LOCK: &str = "LOCK";
const MARK: &str = "MARK";
const NEW: &str = "new";

/// A folder that this process has locked; dropping it releases the lock.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    format: u32,
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is just being forked off shares the lock
        // until it runs its own program. If this fails, closing still releases it.
        let _ = self.lock.unlock();
    }
}

impl Folder {
    /// Locks the folder for a store of this engine, and creates it if there is none.
    pub fn open(path: &Path, engine: &str) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(|error| cannot(path, "cannot be created", error))?;
        // Once before the lock file is created, so that a foreign folder stays as it is (D3), and
        // once behind the lock, because another process may just have made a store here.
        read_manifest(path)?;
        let lock = lock(path)?;
        let format = match read_manifest(path)? {
            Some(manifest) => {
                manifest.check(path, engine)?;
                manifest.format
            }
            None => {
                let text = format!("engine = \"{engine}\"\nformat = {FORMAT}\n");
                create_file(&path.join(KEYLOOM), text.as_bytes())
                    .map_err(|error| cannot(path, "cannot be written", error))?;
                FORMAT
            }
        };
        Ok(Folder { path: path.to_owned(), format, lock })
    }

    /// Refuses a folder whose layout is older than what a store still reads.
    pub fn check_format(&self, oldest: u32) -> Result<(), StoreError> {
        if self.format >= oldest {
            return Ok(());
        }
        let reason = format!(
            "has the format {}, which this program does not read any more (it reads {oldest} to \
             {FORMAT}): export it with the Keyloom that wrote it, and import that into a new one",
            self.format
        );
        Err(folder_error(&self.path, reason))
    }

    /// Where the engine keeps its data: a file or folder that it has for itself.
    pub fn data(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens the record of the last acknowledged commit, and creates it for a new store.
    pub fn mark(&self) -> Result<Mark, StoreError> {
        Mark::open(&self.path.join(MARK))
    }

    /// Lets `create` make the engine's data under a temporary name, and then gives it its own name,
    /// so that a crash leaves either nothing or all of it (D2).
    pub fn create_data(
        &self,
        name: &str,
        create: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let finished = self.data(name);
        let unfinished = finished.with_added_extension(NEW);
        let io = |error| cannot(&self.path, "cannot be written", error);
        remove(&unfinished).map_err(io)?;
        create(&unfinished)?;
        fs::rename(&unfinished, &finished).map_err(io)?;
        sync_folder(&self.path).map_err(io)
    }

    /// An error about this folder.
    pub fn error(&self, reason: &str, source: impl Error + Send + Sync + 'static) -> StoreError {
        cannot(&self.path, reason, source)
    }
}

/// Which engine the store in this folder uses; `None` if there is no store yet.
pub fn engine_of(path: &Path) -> Result<Option<String>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    Ok(read_manifest(path)?.map(|manifest| manifest.engine))
}

struct Manifest {
    engine: String,
    format: u32,
}

impl Manifest {
    fn check(&self, path: &Path, engine: &str) -> Result<(), StoreError> {
        let Manifest { engine: found, format } = self;
        if *format > FORMAT {
            let reason = format!(
                "has the format {format}, this program knows formats up to {FORMAT}: use a newer \
                 Keyloom"
            );
            return Err(folder_error(path, reason));
        }
        if found != engine {
            let reason = format!("holds a {found} store, opened as {engine}: use ?engine={found}");
            return Err(folder_error(path, reason));
        }
        Ok(())
    }
}

/// The content of `KEYLOOM`; `None` if the folder is empty or was only just begun.
fn read_manifest(path: &Path) -> Result<Option<Manifest>, StoreError> {
    match fs::read_to_string(path.join(KEYLOOM)) {
        Ok(text) => match parse_manifest(&text) {
            Some(manifest) => Ok(Some(manifest)),
            None => Err(StoreError::Corrupt {
                detail: format!("{} is not readable", path.join(KEYLOOM).display()),
            }),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            refuse_foreign(path)?;
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(StoreError::Corrupt {
            detail: format!("{} is not text", path.join(KEYLOOM).display()),
        }),
        Err(error) => Err(cannot(path, "cannot be read", error)),
    }
}

fn parse_manifest(text: &str) -> Option<Manifest> {
    let (mut engine, mut format) = (None, None);
    for line in text.lines() {
        let (name, value) = line.split_once('=')?;
        match name.trim() {
            "engine" => engine = Some(value.trim().strip_prefix('"')?.strip_suffix('"')?),
            "format" => format = Some(value.trim().parse().ok()?),
            // A newer format may say more; that it is newer is the better answer.
            _ => {}
        }
    }
    Some(Manifest { engine: engine?.to_owned(), format: format? })
}

/// Without `KEYLOOM`, a folder may hold only what the creation of a store leaves behind.
fn refuse_foreign(path: &Path) -> Result<(), StoreError> {
    let ours = [Path::new(LOCK).into(), Path::new(KEYLOOM).with_added_extension(NEW)];
    let entries = fs::read_dir(path).map_err(|error| cannot(path, "cannot be read", error))?;
    for entry in entries {
        let entry = entry.map_err(|error| cannot(path, "cannot be read", error))?;
        if !ours.contains(&PathBuf::from(entry.file_name())) {
            let reason = "is not empty and not a Keyloom folder: choose another one";
            return Err(folder_error(path, reason.into()));
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.join(LOCK))
        .map_err(|error| cannot(path, "cannot be written", error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::Locked { folder: path.display().to_string() })
        }
        Err(TryLockError::Error(error)) => Err(cannot(path, "cannot be locked", error)),
    }
}

/// Creates or replaces a file with this content, complete and durable (D2).
pub fn create_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let unfinished = path.with_added_extension(NEW);
    let mut file = File::create(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    match path.parent() {
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Writes bytes at a place of a file. One call of the system where there is one for it: this is on
/// the way of every commit.
#[cfg(unix)]
pub fn write_at(file: &mut File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Writes bytes at a place of a file.
#[cfg(not(unix))]
pub fn write_at(file: &mut File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::{Seek as _, SeekFrom};

    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Makes the names in a folder durable, and the name of the folder itself.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    // Only Unix lets a program open a folder as a file; elsewhere the rename has to suffice.
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
        if let Some(parent) = path.canonicalize()?.parent() {
            File::open(parent)?.sync_all()?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn cannot(path: &Path, reason: &str, source: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Folder {
        folder: path.display().to_string(),
        reason: format!("{reason}: {source}"),
        source: Some(Box::new(source)),
    }
}

fn folder_error(path: &Path, reason: String) -> StoreError {
    StoreError::Folder { folder: path.display().to_string(), reason, source: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
        result.unwrap_err().to_string()
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_missing_folder_is_created_and_says_what_it_is() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("deep/er");
        assert_eq!(engine_of(&path).unwrap(), None);
        let folder = Folder::open(&path, "redb").unwrap();
        assert_eq!(
            fs::read_to_string(path.join("KEYLOOM")).unwrap(),
            "engine = \"redb\"\nformat = 3\n"
        );
        assert_eq!(engine_of(&path).unwrap().as_deref(), Some("redb"));
        drop(folder);
        Folder::open(&path, "redb").unwrap();
    }

    #[test]
    fn a_folder_is_used_by_one_at_a_time() {
        let temporary = tempfile::tempdir().unwrap();
        let first = Folder::open(temporary.path(), "redb").unwrap();
        let error = Folder::open(temporary.path(), "redb").unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        assert!(error.to_string().contains("in use by another process"), "{error}");
        drop(first);
        Folder::open(temporary.path(), "redb").unwrap();
    }

    #[test]
    fn the_other_engine_is_named() {
        let temporary = tempfile::tempdir().unwrap();
        Folder::open(temporary.path(), "fjall").unwrap();
        let message = message(Folder::open(temporary.path(), "redb"));
        let expected = "holds a fjall store, opened as redb: use ?engine=fjall";
        assert!(message.ends_with(expected), "{message}");
    }

    #[test]
    fn a_newer_format_asks_for_a_newer_program() {
        let temporary = tempfile::tempdir().unwrap();
        let text = "engine = \"other\"\nshape = \"new\"\nformat = 4\n";
        fs::write(temporary.path().join("KEYLOOM"), text).unwrap();
        let message = message(Folder::open(temporary.path(), "redb"));
        assert!(
            message.ends_with(
                "has the format 4, this program knows formats up to 3: use a newer Keyloom"
            ),
            "{message}"
        );
    }

    #[test]
    fn an_older_format_is_taken_and_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let (path, text) = (temporary.path().join("KEYLOOM"), "engine = \"redb\"\nformat = 1\n");
        fs::write(&path, text).unwrap();
        let folder = Folder::open(temporary.path(), "redb").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), text);
        folder.check_format(1).unwrap();
        let message = message(folder.check_format(2));
        assert!(message.contains("has the format 1"), "{message}");
        assert!(message.contains("reads 2 to 3): export it"), "{message}");
    }

    #[test]
    fn an_unreadable_manifest_is_damage() {
        for content in [
            &b""[..],
            b"engine = \"redb\"\n",
            b"format = x\nengine = \"redb\"",
            b"\xFF\xFE",
            b"engine = redb\nformat = 1",
        ] {
            let temporary = tempfile::tempdir().unwrap();
            fs::write(temporary.path().join("KEYLOOM"), content).unwrap();
            let error = Folder::open(temporary.path(), "redb").unwrap_err();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        }
    }

    #[test]
    fn d3_a_foreign_folder_is_refused_and_left_alone() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("letter.txt"), "dear").unwrap();
        let message = message(Folder::open(temporary.path(), "redb"));
        assert!(message.contains("is not empty and not a Keyloom folder"), "{message}");
        assert_eq!(names(temporary.path()), ["letter.txt"]);
        assert!(engine_of(temporary.path()).is_err());
    }

    #[test]
    fn a_path_that_is_a_file_or_lies_below_one_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("file");
        fs::write(&file, "content").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = Folder::open(&path, "redb").unwrap_err();
            assert!(matches!(error, StoreError::Folder { .. }), "{error}");
            assert!(error.to_string().contains("cannot be created"), "{error}");
        }
        assert_eq!(fs::read_to_string(file).unwrap(), "content");
    }

    #[test]
    fn d2_a_creation_that_was_cut_short_is_begun_again() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("LOCK"), "").unwrap();
        fs::write(temporary.path().join("KEYLOOM.new"), "engi").unwrap();
        assert_eq!(engine_of(temporary.path()).unwrap(), None);
        let folder = Folder::open(temporary.path(), "redb").unwrap();
        fs::create_dir_all(folder.data("data.new/half")).unwrap();
        folder
            .create_data("data", |path| {
                fs::create_dir(path).unwrap();
                Ok(())
            })
            .unwrap();
        assert_eq!(names(temporary.path()), ["KEYLOOM", "LOCK", "data"]);
        assert_eq!(names(&temporary.path().join("data")), [""; 0]);
    }

    #[test]
    fn d2_data_whose_creation_fails_does_not_appear() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path(), "redb").unwrap();
        let failed = folder.create_data("data", |path| {
            fs::write(path, "half").unwrap();
            Err(StoreError::Unavailable { reason: "no space".into(), source: None })
        });
        assert!(failed.is_err());
        assert!(!folder.data("data").exists());
    }
}
