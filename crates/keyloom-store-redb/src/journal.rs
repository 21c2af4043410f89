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
//!     the next one into redb in the same commit, so records that redb has written are not read
//!     again: their checksums are those of another generation.
//! W2: A record is synced before the next one is appended, so only the last one can be torn, and
//!     then nobody was told that it is there. What is behind it is older.
//! W3: Records hold rows as they are afterwards, so it does no harm to apply them to a database
//!     that has some of them already.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use keyloom_store::StoreError;

use crate::record::{self, Place, Record, RowsIn};

/// Most bytes of the journal. What it holds is in the memory of redb, too, as pages, and is written
/// again when the store is opened after a crash.
pub const JOURNAL_BYTES_MAX: usize = 4 << 20;

/// The space that the file has at first; it doubles as it is needed.
const JOURNAL_BYTES_MIN: usize = 64 << 10;

/// Creates an empty journal.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    File::create(path).and_then(|file| file.sync_all()).map_err(unavailable)
}

/// A journal that is open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// The space of the file.
    space: usize,
    /// Where the next record goes; the file stands there.
    end: usize,
    generation: u64,
}

impl Journal {
    /// Opens the journal of a generation, and lets `apply` have the rows of its records.
    pub(crate) fn open(
        path: &Path,
        generation: u64,
        mut apply: impl FnMut(RowsIn<'_>) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut file = File::options().read(true).write(true).open(path).map_err(unavailable)?;
        let mut bytes = Vec::new();
        // Behind that there is nothing that this program wrote.
        let mut ours = (&mut file).take(JOURNAL_BYTES_MAX as u64);
        ours.read_to_end(&mut bytes).map_err(unavailable)?;
        let mut end = 0;
        while let Some((rows, len)) =
            bytes.get(end..).and_then(|rest| record::read(rest, Place { generation, offset: end }))
        {
            apply(rows)?;
            end += len;
        }
        file.seek(SeekFrom::Start(end as u64)).map_err(unavailable)?;
        Ok(Journal { file, space: bytes.len(), end, generation })
    }

    /// The generation whose records these are.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Whether a record still fits.
    pub(crate) fn has_room(&self, record: &Record) -> bool {
        self.end + record.len() <= JOURNAL_BYTES_MAX
    }

    /// Takes the space for a record that fits, so that a full disk is found before anything is
    /// written, and a sync later has only data to sync.
    pub(crate) fn reserve(&mut self, record: &Record) -> io::Result<()> {
        let end = self.end + record.len();
        if end > self.space {
            let space = end.next_power_of_two().clamp(JOURNAL_BYTES_MIN, JOURNAL_BYTES_MAX);
            self.file.seek(SeekFrom::Start(self.space as u64))?;
            self.file.write_all(&vec![0; space.saturating_sub(self.space)])?;
            self.file.seek(SeekFrom::Start(self.end as u64))?;
            self.space = space;
        }
        Ok(())
    }

    /// Appends a record that has its space, and syncs it (W2).
    pub(crate) fn append(&mut self, record: &mut Record) -> io::Result<()> {
        let place = Place { generation: self.generation, offset: self.end };
        let bytes = record.seal(place).ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.write_all(bytes)?;
        self.file.sync_data()?;
        self.end += bytes.len();
        Ok(())
    }

    /// Begins a new generation, once redb has written the rows of this one (W1).
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        self.generation += 1;
        self.end = 0;
        self.file.rewind()
    }
}

fn unavailable(error: io::Error) -> StoreError {
    let reason = format!("the journal: {error}");
    StoreError::Unavailable { reason, source: Some(Box::new(error)) }
}
