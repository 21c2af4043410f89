//! redb as an ordered map of rows, with a journal in front of it.

use std::error::Error;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use keyloom_store::folder::Folder;
use keyloom_store::group::{Cursor, Engine, Moment, Rows, Settled, Span, View, WriteError};
use keyloom_store::record::Record;
use keyloom_store::{Direction, StoreError};
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, Durability, Range, ReadOnlyTable, ReadableDatabase,
    ReadableTable as _, StorageBackend, StorageError, TransactionError, WriteTransaction,
};

use crate::journal::Journal;
use crate::limits::CACHE_BYTES;
use crate::tree::{self, Bytes, ROWS, unseal};

pub(crate) struct RedbEngine {
    open: Arc<Open>,
    journal: Journal,
    now: Moment,
    /// A buffer that all groups share.
    record: Record,
}

/// What has to stay open while anything reads (E3). The fields are dropped in this order.
struct Open {
    database: Database,
    _folder: Folder,
}

/// Creates a database with its table, so that an opened one always has it.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    create_table(&Database::create(path).map_err(open_error)?)
}

/// Makes sure that a database has its table.
pub(crate) fn create_table(database: &Database) -> Result<(), StoreError> {
    let transaction = begin(database).map_err(unavailable)?;
    transaction.open_table(ROWS).map_err(unavailable)?;
    transaction.commit().map_err(unavailable)
}

/// Opens a database that was created.
pub(crate) fn open(path: &Path) -> Result<Database, StoreError> {
    let opened = Database::builder().set_cache_size(CACHE_BYTES).open(path);
    opened.map_err(|error| named(path, open_error(error)))
}

/// The same error, with the file that it is about.
fn named(path: &Path, error: StoreError) -> StoreError {
    let path = path.display();
    match error {
        StoreError::Corrupt { detail } => {
            StoreError::Corrupt { detail: format!("{path}: {detail}") }
        }
        StoreError::Unavailable { reason, source } => {
            StoreError::Unavailable { reason: format!("{path}: {reason}"), source }
        }
        error => error,
    }
}

/// Creates an empty journal.
pub(crate) fn create_journal(path: &Path) -> Result<(), StoreError> {
    File::create(path).and_then(|file| file.sync_all()).map_err(|error| cannot_open(path, error))
}

/// Opens a journal that was created.
pub(crate) fn open_journal(path: &Path) -> Result<Box<dyn StorageBackend>, StoreError> {
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(|error| cannot_open(path, error))?;
    Ok(Box::new(FileBackend::new(file).map_err(open_error)?))
}

fn cannot_open(path: &Path, error: io::Error) -> StoreError {
    let reason = format!("{} cannot be opened: {error}", path.display());
    StoreError::Unavailable { reason, source: Some(Box::new(error)) }
}

impl RedbEngine {
    /// Brings a database up to date with its journal, in memory. The journal and its generation
    /// stay as they are until it is known that nothing is missing: another copy can be put back.
    pub(crate) fn start(
        database: Database,
        journal: Box<dyn StorageBackend>,
        folder: Folder,
    ) -> Result<Self, StoreError> {
        let mut transaction = begin(&database).map_err(unavailable)?;
        leave_in_memory(&mut transaction)?;
        let generation = tree::generation(&transaction)?;
        let journal = Journal::open(journal, generation, |rows| tree::apply(&transaction, rows))?;
        if !journal.is_empty() {
            transaction.commit().map_err(unavailable)?;
        }
        let open = Arc::new(Open { database, _folder: folder });
        Ok(RedbEngine { open, journal, now: Moment::default(), record: Record::default() })
    }

    /// Writes what is only in memory and in the journal, together with this transaction.
    fn checkpoint(&mut self, transaction: WriteTransaction) -> Result<(), StoreError> {
        // Nobody can foresee it, so no value that was stored can pass for a record of it.
        let generation = RandomState::new().hash_one(());
        tree::set_generation(&transaction, generation)?;
        transaction.commit().map_err(unavailable)?;
        self.journal.restart(generation);
        Ok(())
    }

    /// Makes this transaction durable by its record, and leaves its pages to the next checkpoint.
    fn append(&mut self, mut transaction: WriteTransaction) -> Result<(), WriteError> {
        let not_written = |error| WriteError::NotWritten(error);
        self.journal.reserve(&self.record).map_err(unavailable).map_err(not_written)?;
        leave_in_memory(&mut transaction).map_err(not_written)?;
        let appended = self.journal.append(&mut self.record).map_err(unavailable);
        appended.map_err(WriteError::Unknown)?;
        transaction.commit().map_err(|error| WriteError::Unknown(unavailable(error)))
    }
}

impl Engine for RedbEngine {
    type View = RedbView;

    /// What fails after the record or the pages were written may come back with the next open.
    fn write(&mut self, rows: &Rows<'_>) -> Result<(), WriteError> {
        let not_written = |error| WriteError::NotWritten(error);
        self.record.fill(rows).map_err(not_written)?;
        let transaction = begin(&self.open.database).map_err(unavailable).map_err(not_written)?;
        tree::apply(&transaction, self.record.rows()).map_err(not_written)?;
        if self.journal.has_room(&self.record) {
            self.append(transaction)?;
        } else {
            self.checkpoint(transaction).map_err(WriteError::Unknown)?;
        }
        self.now.0 += 1;
        Ok(())
    }

    fn now(&self) -> Moment {
        self.now
    }

    fn view(&mut self) -> Result<(RedbView, Moment), StoreError> {
        let transaction = self.open.database.begin_read().map_err(unavailable)?;
        let table = transaction.open_table(ROWS).map_err(unavailable)?;
        Ok((RedbView { table, _open: Arc::clone(&self.open) }, self.now))
    }

    fn sync(&mut self) -> Result<Settled, StoreError> {
        if !self.journal.is_empty() {
            let transaction = begin(&self.open.database).map_err(unavailable)?;
            self.checkpoint(transaction)?;
        }
        Ok(Settled::All)
    }
}

/// A transaction that is durable when it is committed.
fn begin(database: &Database) -> Result<WriteTransaction, TransactionError> {
    let mut transaction = database.begin_write()?;
    // Opening after a crash then takes milliseconds instead of a walk through the whole file.
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Lets a transaction be seen once it is committed, and be written by the next checkpoint.
fn leave_in_memory(transaction: &mut WriteTransaction) -> Result<(), StoreError> {
    transaction.set_quick_repair(false);
    transaction.set_durability(Durability::None).map_err(unavailable)
}

/// What a read transaction shows: the moment at which it began.
pub(crate) struct RedbView {
    table: ReadOnlyTable<Bytes, Bytes>,
    _open: Arc<Open>,
}

impl View for RedbView {
    type Cursor = RedbCursor;

    fn get<R>(
        &self,
        row: &[u8],
        _at: Moment,
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        match self.table.get(row).map_err(storage_error)? {
            Some(sealed) => read(unseal(row, sealed.value())?).map(Some),
            None => Ok(None),
        }
    }

    fn range(&self, span: Span<'_>) -> Result<RedbCursor, StoreError> {
        let range = self.table.range::<&[u8]>(span.from..span.to).map_err(storage_error)?;
        Ok(RedbCursor { range })
    }

    /// A range of redb keeps its bounds, and looks whether its ends meet at each step.
    fn read_range(
        &self,
        Span { from, to, at: _ }: Span<'_>,
        direction: Direction,
        count: usize,
        mut read: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let cursor = match direction {
            Direction::Forward => self.table.lower_bound(Bound::Included(from)),
            Direction::Reverse => self.table.upper_bound(Bound::Excluded(to)),
        };
        let mut cursor = cursor.map_err(storage_error)?;
        for _ in 0..count {
            let next = match direction {
                Direction::Forward => cursor.next(),
                Direction::Reverse => cursor.prev(),
            };
            let Some((row, sealed)) = next.map_err(storage_error)? else { break };
            let row = row.value();
            let is_inside = match direction {
                Direction::Forward => row < to,
                Direction::Reverse => from <= row,
            };
            if !is_inside {
                break;
            }
            read(row, unseal(row, sealed.value())?)?;
        }
        Ok(())
    }
}

pub(crate) struct RedbCursor {
    range: Range<'static, Bytes, Bytes>,
}

impl Cursor for RedbCursor {
    fn next<R>(
        &mut self,
        direction: Direction,
        read: impl FnOnce(&[u8], &[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        let next = match direction {
            Direction::Forward => self.range.next(),
            Direction::Reverse => self.range.next_back(),
        };
        match next {
            Some(Ok((row, sealed))) => {
                let row = row.value();
                read(row, unseal(row, sealed.value())?).map(Some)
            }
            Some(Err(error)) => Err(storage_error(error)),
            None => Ok(None),
        }
    }
}

pub(crate) fn storage_error(error: StorageError) -> StoreError {
    match error {
        StorageError::Corrupted(detail) => StoreError::Corrupt { detail },
        error => unavailable(error),
    }
}

/// What went wrong while opening a file: damage, or something in the way.
pub(crate) fn open_error(error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::Storage(StorageError::Io(error))
            if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            StoreError::Corrupt { detail: format!("the database file: {error}") }
        }
        DatabaseError::Storage(error) => storage_error(error),
        DatabaseError::RepairAborted => {
            StoreError::Corrupt { detail: "the database file could not be repaired".into() }
        }
        error => unavailable(error),
    }
}

pub(crate) fn unavailable(error: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable { reason: error.to_string(), source: Some(Box::new(error)) }
}
