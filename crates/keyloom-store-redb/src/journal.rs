//! The journal: where a group of commits is durable before redb has written it.
//!
//! redb makes a commit durable by writing every page that it has changed, and the ones above, to
//! other places of its file, and by syncing twice. To append the rows to a file that has its space
//! already takes one sync and a small part of the bytes. So redb keeps what is committed in its
//! memory, and writes it when the journal is full, when nobody commits for a while, or when the
//! store is closed: a checkpoint.
//!
//! ```text
//! journal: | record | record | … | what is left of older generations, or zeros |
//! ```
//!
//! W1: A generation is what was appended since a checkpoint. The checkpoint writes the number of
//!     the next one, which is drawn at random, into redb in the same commit, so records that redb
//!     has written are not read again: their checksums are those of another generation.
//! W2: A record is synced before the next one is appended, so only the last one can be torn, and
//!     then nobody was told that it is there. Storage that loses power while it writes a sector
//!     leaves the bytes in it that were there before, as all journals that append rely on.
//! W3: Records hold rows as they are afterwards, so it does no harm to apply them to a database
//!     that has some of them already.
//! W4: Nothing is appended to what an earlier process has left: what is behind its last whole
//!     record may be records, too. The first write of a process is a checkpoint.

use std::io;

use keyloom_store::StoreError;
use keyloom_store::record::{self, Place, Record, RowsIn};
use redb::StorageBackend;

use crate::limits::{JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN, JOURNAL_ROWS_MAX};

/// A journal that is open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Box<dyn StorageBackend>,
    /// The space of the file.
    space: usize,
    /// Where the next record goes.
    end: usize,
    /// How many rows there are.
    rows: usize,
    /// The generation that records are appended to; none before the first checkpoint (W4).
    generation: Option<u64>,
}

impl Journal {
    /// Opens a journal, and lets `apply` have the rows of the records of a generation.
    pub(crate) fn open(
        file: Box<dyn StorageBackend>,
        generation: Option<u64>,
        mut apply: impl FnMut(RowsIn<'_>) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let bytes = read(&*file).map_err(unavailable)?;
        let mut end = 0;
        let next = |end| {
            let place = Place { generation: generation?, offset: end };
            record::read(bytes.get(end..)?, place)
        };
        while let Some((rows, len)) = next(end) {
            apply(rows)?;
            end += len;
        }
        Ok(Journal { file, space: bytes.len(), end, rows: 0, generation: None })
    }

    /// Whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Whether a record can be appended.
    pub(crate) fn has_room(&self, record: &Record) -> bool {
        self.generation.is_some()
            && self.end + record.len() <= JOURNAL_BYTES_MAX
            && self.rows + record.count() <= JOURNAL_ROWS_MAX
    }

    /// Takes the space for a record that fits, so that a full disk is found before anything is
    /// written, and a sync later has only data to sync.
    pub(crate) fn reserve(&mut self, record: &Record) -> io::Result<()> {
        let end = self.end + record.len();
        if end > self.space {
            let space = end.next_power_of_two().clamp(JOURNAL_BYTES_MIN, JOURNAL_BYTES_MAX);
            self.file.set_len(space as u64)?;
            self.file.write(self.space as u64, &vec![0; space.saturating_sub(self.space)])?;
            self.space = space;
        }
        Ok(())
    }

    /// Appends a record that has its space, and syncs it (W2).
    pub(crate) fn append(&mut self, record: &mut Record) -> io::Result<()> {
        let generation = self.generation.ok_or(io::ErrorKind::InvalidInput)?;
        self.rows += record.count();
        let place = Place { generation, offset: self.end };
        let bytes = record.seal(place).ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.write(self.end as u64, bytes)?;
        self.file.sync_data()?;
        self.end += bytes.len();
        Ok(())
    }

    /// Begins a new generation, once redb has written its number and the rows of this one (W1).
    pub(crate) fn restart(&mut self, generation: u64) {
        self.generation = Some(generation);
        (self.end, self.rows) = (0, 0);
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Releases the lock now: a process that is just being forked off shares the file.
        let _ = self.file.close();
    }
}

/// All that may be records; behind that there is nothing that this program wrote.
fn read(file: &dyn StorageBackend) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len.min(JOURNAL_BYTES_MAX)];
    file.read(0, &mut bytes)?;
    Ok(bytes)
}

fn unavailable(error: io::Error) -> StoreError {
    let reason = format!("the journal cannot be read: {error}");
    StoreError::Unavailable { reason, source: Some(Box::new(error)) }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    fn journal() -> Journal {
        Journal::open(Box::new(InMemoryBackend::new()), Some(7), |_| panic!("it is empty")).unwrap()
    }

    fn append(journal: &mut Journal, record: &mut Record) {
        journal.reserve(record).unwrap();
        journal.append(record).unwrap();
    }

    #[test]
    fn w4_nothing_is_appended_before_there_is_a_new_generation() {
        let (mut journal, record) = (journal(), Record::of([(&b"key"[..], None)]));
        assert!(!journal.has_room(&record));
        journal.restart(8);
        assert!(journal.has_room(&record));
    }

    #[test]
    fn bytes_and_rows_are_bounded_and_the_last_place_is_taken() {
        let rows = vec![(&b"k"[..], None); JOURNAL_ROWS_MAX / 2];
        let half = JOURNAL_BYTES_MAX / 2;
        let value = vec![0; half - Record::of([(&b"k"[..], Some(&b""[..]))]).len()];
        for mut record in [Record::of(rows), Record::of([(&b"k"[..], Some(value.as_slice()))])] {
            let mut journal = journal();
            for _ in 0..2 {
                // A checkpoint makes room again.
                journal.restart(8);
                for _ in 0..2 {
                    assert!(journal.has_room(&record));
                    append(&mut journal, &mut record);
                }
                assert!(!journal.has_room(&Record::of([(&b"k"[..], None)])));
            }
            assert!(journal.file.len().unwrap() <= JOURNAL_BYTES_MAX as u64);
        }
    }
}
