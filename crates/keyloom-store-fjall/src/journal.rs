//! The journal: where commits are durable before fjall has written them.
//!
//! fjall has a journal of its own. It syncs a file that grows, writes every row by itself, and ends
//! at the first entry that it cannot read, without an error. Here a group of commits is one record
//! of ours; its rows go into fjall's tables in memory, past fjall's journal, which stays empty.
//!
//! ```text
//! journal/1, journal/2, …   segments; each is for the tables in memory of its time
//! journal/first             number of the first segment that is needed u64 | its XXH3-64
//! journal/spare             a segment that was done with, for the next one: it has its space
//! ```
//!
//! N1: A segment is ended when the tables in memory become files, and removed when they are; before
//!     that `first` says so. What is not in the files of fjall is in a segment.
//! N2: Segments follow each other without a gap, in their numbers and in where they end.
//! N3: Records hold rows as they are afterwards, so it does no harm to apply them to tables that
//!     have some of them already.
//! N4: Nothing is appended to what an earlier process has left: what is behind its last whole
//!     record may be records, too. The first commit of a process begins a segment.
//! N5: Only the last record can be torn, and then nobody was told that it is there. If an
//!     acknowledged one is missing at the end, the mark of the folder tells.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use keyloom_store::StoreError;
use keyloom_store::folder::create_file;
use keyloom_store::group::{Durability, WriteError};
use keyloom_store::record::{Record, RowsIn};
use xxhash_rust::xxh3::xxh3_64;

use crate::segment::{self, Found, Segment};

const FIRST: &str = "first";
const SPARE: &str = "spare";

/// A journal that is open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    durability: Durability,
    /// The segment that records are appended to, once there is one (N4).
    active: Option<Segment>,
    /// Its number, or that of the next one.
    number: u64,
    /// Where the segment before it ends.
    before: usize,
    /// The first segment that is there.
    oldest: u64,
}

impl Journal {
    /// Creates an empty journal.
    pub(crate) fn create(folder: &Path) -> Result<(), StoreError> {
        fs::create_dir(folder).map_err(|error| cannot(folder, "cannot be created", error))
    }

    /// Opens a journal, and lets `apply` have the number of each record's segment and its rows.
    pub(crate) fn open(
        folder: &Path,
        durability: Durability,
        mut apply: impl FnMut(u64, RowsIn<'_>) -> Result<(), StoreError>,
    ) -> Result<Journal, StoreError> {
        let numbers = numbers(folder).map_err(|error| cannot(folder, "cannot be read", error))?;
        let needed = read_first(&folder.join(FIRST))?;
        let mut journal = Journal {
            folder: folder.to_owned(),
            durability,
            active: None,
            number: needed,
            before: 0,
            // Some that are not needed may still be there.
            oldest: numbers.first().map_or(needed, |first| needed.min(*first)),
        };
        let last = numbers.last().copied();
        for number in numbers.into_iter().filter(|number| *number >= needed) {
            if number != journal.number {
                let missing = journal.path(journal.number);
                return Err(corrupt(&missing, "is missing: put it back, or restore a backup"));
            }
            let path = journal.path(number);
            let is_first = number == needed;
            let is_last = Some(number) == last;
            match segment::read(&path, number, |rows| apply(number, rows))? {
                Found::Segment { end, before } if is_first || before == journal.before => {
                    if is_last {
                        segment::settle(&path, end)?;
                    }
                    journal.before = end;
                    journal.number = number + 1;
                }
                Found::Segment { .. } => return Err(damaged(&journal.path(number - 1))),
                // The process ended before, so the next one begins it.
                Found::NotBegun if is_last => {}
                Found::NotBegun | Found::Damaged => return Err(damaged(&path)),
            }
        }
        Ok(journal)
    }

    /// Takes the space for a record, in a new segment if there is none.
    pub(crate) fn reserve(&mut self, record: &Record) -> Result<(), StoreError> {
        let reserved = match &mut self.active {
            Some(active) => active.reserve(record),
            none => begin(&self.folder, self.number, self.before)
                .and_then(|segment| none.insert(segment).reserve(record)),
        };
        reserved.map_err(|error| cannot(&self.path(self.number), "cannot be written", error))
    }

    /// Appends a record that has its space, as durably as was promised.
    pub(crate) fn append(&mut self, record: &mut Record) -> Result<(), WriteError> {
        let active = self.active.as_mut().ok_or_else(|| io::Error::from(ErrorKind::NotFound));
        let appended = active.and_then(|active| {
            active.append(record)?;
            match self.durability {
                Durability::Durable => active.sync(),
                Durability::Buffered => Ok(()),
            }
        });
        appended.map_err(|error| {
            let path = self.path(self.number);
            WriteError::Unknown(cannot(&path, "cannot be written", error))
        })
    }

    /// Makes all records durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let synced = self.active.as_ref().map_or(Ok(()), Segment::sync);
        synced.map_err(|error| cannot(&self.path(self.number), "cannot be synced", error))
    }

    /// How many segments there are.
    pub(crate) fn len(&self) -> u64 {
        self.number - self.oldest + u64::from(self.active.is_some())
    }

    /// Ends the segment, and gives its number, or that of the last one.
    pub(crate) fn end(&mut self) -> Result<u64, StoreError> {
        self.sync()?;
        if let Some(active) = self.active.take() {
            self.before = active.end();
            self.number += 1;
        }
        Ok(self.number - 1)
    }

    /// Removes the segments up to this one, whose rows are in files (N1). One of them is kept for
    /// its space.
    pub(crate) fn forget(&mut self, through: u64) -> Result<(), StoreError> {
        if through < self.oldest {
            return Ok(());
        }
        let path = self.folder.join(FIRST);
        create_file(&path, first(through + 1).as_flattened())
            .map_err(|error| cannot(&path, "cannot be written", error))?;
        while self.oldest <= through {
            let path = self.path(self.oldest);
            let removed = fs::rename(&path, self.folder.join(SPARE));
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(cannot(&path, "cannot be removed", error));
                }
                _ => self.oldest += 1,
            }
        }
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }
}

/// Begins a segment in a file that has its space, if there is one.
fn begin(folder: &Path, number: u64, before: usize) -> io::Result<Segment> {
    let path = folder.join(number.to_string());
    match fs::rename(folder.join(SPARE), &path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let segment = Segment::begin(&path, number, before)?;
    // Only Unix lets a program open a folder as a file.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(segment)
}

fn first(number: u64) -> [[u8; 8]; 2] {
    let number = number.to_be_bytes();
    [number, xxh3_64(&number).to_be_bytes()]
}

/// The first segment that is needed.
fn read_first(path: &Path) -> Result<u64, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(1),
        Err(error) => return Err(cannot(path, "cannot be read", error)),
    };
    let number = bytes.first_chunk().map(|number| u64::from_be_bytes(*number));
    let is_whole = |number: &u64| first(*number).as_flattened() == bytes;
    number.filter(is_whole).ok_or_else(|| corrupt(path, "is damaged: restore a backup"))
}

/// The numbers of all segments, in order.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        numbers.extend(number.filter(|number| *name == *number.to_string()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn cannot(path: &Path, what: &str, error: io::Error) -> StoreError {
    let reason = format!("{} {what}: {error}", path.display());
    StoreError::Unavailable { reason, source: Some(Box::new(error)) }
}

fn damaged(path: &Path) -> StoreError {
    corrupt(path, "is damaged: put it back, or restore a backup")
}

fn corrupt(path: &Path, what: &str) -> StoreError {
    StoreError::Corrupt { detail: format!("{} {what}", path.display()) }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Keys with the segments that they are in.
    type Keys = Vec<(u64, Vec<u8>)>;

    fn open(folder: &Path) -> Result<(Journal, Keys), StoreError> {
        let mut found = Vec::new();
        let journal = Journal::open(folder, Durability::Durable, |segment, rows| {
            for row in rows {
                found.push((segment, row?.0.to_vec()));
            }
            Ok(())
        })?;
        Ok((journal, found))
    }

    fn append(journal: &mut Journal, key: &str) {
        let mut record = Record::of([(key.as_bytes(), Some(&b"value"[..]))]);
        journal.reserve(&record).unwrap();
        journal.append(&mut record).unwrap();
    }

    /// A journal with segments 1, 2 and 3, of which each holds two records.
    fn three() -> (TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, found) = open(folder.path()).unwrap();
        assert_eq!(found, []);
        for number in 1..=3 {
            for half in ["a", "b"] {
                append(&mut journal, &format!("{number}{half}"));
            }
            assert_eq!(journal.end().unwrap(), number);
        }
        (folder, journal)
    }

    fn keys(found: &[(u64, Vec<u8>)]) -> String {
        let key = |(segment, key): &(u64, Vec<u8>)| format!("{segment}:{}", key.escape_ascii());
        found.iter().map(key).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn records_are_found_in_their_order_with_the_segments_that_they_are_in() {
        let (folder, journal) = three();
        assert_eq!(journal.len(), 3);
        let (journal, found) = open(folder.path()).unwrap();
        assert_eq!(keys(&found), "1:1a 1:1b 2:2a 2:2b 3:3a 3:3b");
        assert_eq!((journal.len(), journal.number), (3, 4));
    }

    #[cfg(unix)]
    #[test]
    fn what_cannot_be_synced_is_not_acknowledged_if_it_should_be_durable() {
        let folder = tempfile::tempdir().unwrap();
        for (durability, is_synced) in [(Durability::Durable, true), (Durability::Buffered, false)]
        {
            let mut journal = Journal::open(folder.path(), durability, |_, _| Ok(())).unwrap();
            journal.active = Some(segment::tests::without_sync());
            let mut record = Record::of([(&b"key"[..], None)]);
            journal.reserve(&record).unwrap();
            let appended = journal.append(&mut record);
            assert_eq!(matches!(appended, Err(WriteError::Unknown(_))), is_synced);
            assert_eq!(appended.is_ok(), !is_synced);
            // What is ended or left at rest is durable in any case.
            assert!(journal.sync().is_err());
            assert!(journal.end().is_err());
        }
        // Nor is a segment begun whose head is not durable.
        let path = folder.path().join("1");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(Segment::begin(&path, 1, 0).is_err());
        assert!(segment::settle(&path, 0).is_err());
    }

    #[test]
    fn n1_what_is_forgotten_is_not_read_again_and_lends_its_file() {
        let (folder, mut journal) = three();
        journal.forget(2).unwrap();
        assert_eq!(numbers(folder.path()).unwrap(), [3]);
        assert!(folder.path().join(SPARE).exists());
        append(&mut journal, "4a");
        assert!(!folder.path().join(SPARE).exists());
        // Whatever the file held before is behind what it holds now, and is not read.
        let (journal, found) = open(folder.path()).unwrap();
        assert_eq!(keys(&found), "3:3a 3:3b 4:4a");
        assert_eq!(journal.len(), 2);
    }

    #[test]
    fn n1_segments_that_a_crash_kept_from_being_removed_do_no_harm() {
        let (folder, mut journal) = three();
        let before: Vec<_> =
            [1, 2].map(|number| fs::read(journal.path(number)).unwrap()).into_iter().collect();
        journal.forget(2).unwrap();
        for (number, bytes) in (1..).zip(before) {
            fs::write(journal.path(number), bytes).unwrap();
        }
        let (mut journal, found) = open(folder.path()).unwrap();
        assert_eq!(keys(&found), "3:3a 3:3b");
        journal.forget(3).unwrap();
        assert_eq!(numbers(folder.path()).unwrap(), []);
    }

    #[test]
    fn a_note_of_what_is_needed_that_is_damaged_or_gone_is_noticed() {
        let (folder, mut journal) = three();
        journal.forget(1).unwrap();
        let path = folder.path().join(FIRST);
        let bytes = fs::read(&path).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            let error = open(folder.path()).unwrap_err().to_string();
            assert!(error.contains("first is damaged"), "{error}");
        }
        for len in 0..bytes.len() {
            fs::write(&path, &bytes[..len]).unwrap();
            open(folder.path()).unwrap_err();
        }
        fs::remove_file(&path).unwrap();
        let error = open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("1 is missing"), "{error}");
        fs::write(&path, bytes).unwrap();
        assert_eq!(keys(&open(folder.path()).unwrap().1), "2:2a 2:2b 3:3a 3:3b");
    }

    #[test]
    fn n2_a_segment_that_ends_elsewhere_than_the_next_one_says_is_damaged() {
        let (folder, journal) = three();
        let path = journal.path(2);
        let bytes = fs::read(&path).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for cut in [0, 20, 4096, end - 30, end - 1] {
            let mut damaged = bytes.clone();
            damaged[cut..].fill(0);
            fs::write(&path, damaged).unwrap();
            let error = open(folder.path()).unwrap_err();
            assert!(matches!(error, StoreError::Corrupt { .. }), "cut at {cut}: {error}");
            assert!(error.to_string().contains("2 is damaged"), "cut at {cut}: {error}");
        }
    }

    #[test]
    fn s2_a_segment_grows_in_steps_and_keeps_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(folder.path()).unwrap();
        let value = vec![7; 100_000];
        for number in 0..30_u8 {
            let mut record = Record::of([(&[number][..], Some(value.as_slice()))]);
            journal.reserve(&record).unwrap();
            let space = fs::metadata(journal.path(1)).unwrap().len();
            journal.append(&mut record).unwrap();
            assert_eq!(fs::metadata(journal.path(1)).unwrap().len(), space, "it had its space");
        }
        assert_eq!(open(folder.path()).unwrap().1.len(), 30);
    }
}
