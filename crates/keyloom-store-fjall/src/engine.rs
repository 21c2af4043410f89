//! fjall as an ordered map of rows, which lie as they are in its keyspaces (`parts`), with a
//! journal in front of it.
//!
//! fjall checks the checksum of every block that it reads, so rows need none of their own.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use fjall::{Error, LsmError, PersistMode, Snapshot};
use keyloom_store::folder::Folder;
use keyloom_store::group::{
    Cursor, Durability, Engine, Moment, Rows, Settled, Span, View, WriteError,
};
use keyloom_store::record::Record;
use keyloom_store::{Direction, StoreError};
use lsm_tree::Guard as _;

use crate::journal::Journal;
use crate::limits::{SEGMENTS_MAX, VIEW_BYTES_MAX};
use crate::parts::{Parts, PartsIter};
use crate::settings;
use crate::tables::{Open, Tables};

pub(crate) struct FjallEngine {
    tables: Tables,
    journal: Journal,
    /// How many bytes were written since the last view.
    since_view: usize,
    /// A buffer that all groups share.
    record: Record,
}

/// Creates a database with its keyspaces, so that an opened one always has them.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    let database = settings::database(path).open().map_err(store_error)?;
    Parts::create(&database).map_err(store_error)?;
    database.persist(PersistMode::SyncAll).map_err(store_error)
}

impl FjallEngine {
    /// Opens a database and brings it up to date with its journal, in memory.
    pub(crate) fn open(
        data: &Path,
        journal: &Path,
        folder: Folder,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let mut tables = Tables::open(data, folder)?;
        let mut last = 0;
        let journal = Journal::open(journal, durability, |segment, rows| {
            if segment != last && tables.are_full() {
                tables.seal(last)?;
            }
            last = segment;
            tables.apply(rows)
        })?;
        let mut engine = FjallEngine { tables, journal, since_view: 0, record: Record::default() };
        engine.clear_away()?;
        Ok(engine)
    }

    /// Begins new tables in memory and a new segment of the journal if the present ones are full,
    /// or if there are too many.
    fn make_room(&mut self) -> Result<(), StoreError> {
        if self.journal.len() > SEGMENTS_MAX {
            let segment = self.journal.end()?;
            self.tables.write(segment)?;
        } else if self.tables.are_full() {
            let segment = self.journal.end()?;
            self.tables.seal(segment)?;
        } else {
            return Ok(());
        }
        self.clear_away()
    }

    /// Removes segments that are not needed any more.
    fn clear_away(&mut self) -> Result<(), StoreError> {
        match self.tables.take_written() {
            Some(segment) => self.journal.forget(segment),
            None => Ok(()),
        }
    }
}

impl Engine for FjallEngine {
    type View = FjallView;

    fn write(&mut self, rows: &Rows<'_>) -> Result<(), WriteError> {
        self.record.fill(rows).map_err(WriteError::NotWritten)?;
        self.journal.reserve(&self.record).map_err(WriteError::NotWritten)?;
        // From here on it may be in the journal, and then comes back with the next open.
        self.journal.append(&mut self.record)?;
        self.tables.apply(self.record.rows()).map_err(WriteError::Unknown)?;
        self.since_view += self.record.len();
        self.make_room().map_err(WriteError::Unknown)
    }

    fn now(&self) -> Moment {
        self.tables.now()
    }

    fn view(&mut self) -> Result<(FjallView, Moment), StoreError> {
        let (open, snapshot) = self.tables.snapshot();
        self.since_view = 0;
        Ok((FjallView { snapshot: Arc::new(snapshot), open }, self.tables.now()))
    }

    fn view_lasts(&self) -> bool {
        self.since_view < VIEW_BYTES_MAX
    }

    fn sync(&mut self) -> Result<Settled, StoreError> {
        self.journal.sync()?;
        self.clear_away()?;
        // What is merged is only read from where it lies then at a later moment, so the view that
        // comes after this has to wait for it.
        if self.tables.are_merged() && self.tables.are_written() {
            return Ok(Settled::All);
        }
        self.tables.check_workers()?;
        Ok(Settled::NotYet)
    }
}

/// Shows every moment from its own on: what was there then is kept, and so is what came later (J5).
pub(crate) struct FjallView {
    snapshot: Arc<Snapshot>,
    open: Arc<Open>,
}

impl View for FjallView {
    type Cursor = FjallCursor;

    fn get<R>(
        &self,
        row: &[u8],
        at: Moment,
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        match self.open.parts.get(row, at).map_err(store_error)? {
            Some(value) => read(&value).map(Some),
            None => Ok(None),
        }
    }

    fn range(&self, span: Span<'_>) -> Result<FjallCursor, StoreError> {
        let rows = self.open.parts.range(span);
        Ok(FjallCursor { rows, _snapshot: Arc::clone(&self.snapshot) })
    }
}

pub(crate) struct FjallCursor {
    rows: PartsIter,
    _snapshot: Arc<Snapshot>,
}

impl Cursor for FjallCursor {
    fn next<R>(
        &mut self,
        direction: Direction,
        read: impl FnOnce(&[u8], &[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        match self.rows.next(direction) {
            Some(guard) => {
                let (row, value) = guard.into_inner().map_err(|error| store_error(error.into()))?;
                read(&row, &value).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// Damage, or something in the way.
pub(crate) fn store_error(error: Error) -> StoreError {
    match &error {
        Error::Io(cause) | Error::Storage(LsmError::Io(cause))
            if !matches!(cause.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            StoreError::Unavailable { reason: cause.to_string(), source: Some(Box::new(error)) }
        }
        Error::Poisoned | Error::Locked => {
            StoreError::Unavailable { reason: error.to_string(), source: Some(Box::new(error)) }
        }
        _ => StoreError::Corrupt { detail: error.to_string() },
    }
}
