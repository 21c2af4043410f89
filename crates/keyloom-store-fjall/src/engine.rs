//! fjall as an ordered map of rows, which lie as they are in its keyspaces (`parts`).
//!
//! fjall checks the checksum of every block that it reads, so rows need none of their own.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use fjall::{Database, Error, LsmError, OwnedWriteBatch, PersistMode, Readable, Snapshot};
use keyloom_store::folder::Folder;
use keyloom_store::group::{Cursor, Durability, Engine, Rows, View, WriteError};
use keyloom_store::{Direction, StoreError};

use crate::parts::{Parts, PartsIter};
use crate::settings;

pub(crate) struct FjallEngine {
    open: Arc<Open>,
    persist: PersistMode,
}

/// What has to stay open while anything reads (J4). The fields are dropped in this order.
struct Open {
    parts: Parts,
    database: Database,
    _folder: Folder,
}

/// Creates a database with its keyspaces, so that an opened one always has them.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    let database = settings::database(path).open().map_err(store_error)?;
    Parts::create(&database).map_err(store_error)?;
    database.persist(PersistMode::SyncAll).map_err(store_error)
}

impl FjallEngine {
    pub(crate) fn open(
        path: &Path,
        folder: Folder,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let database = settings::database(path).open().map_err(store_error)?;
        let parts = Parts::open(&database).map_err(store_error)?.map_err(|missing| {
            let detail = format!(
                "{}: the keyspace `{missing}` is missing: put its folder back, or restore a backup",
                path.display()
            );
            StoreError::Corrupt { detail }
        })?;
        let persist = match durability {
            Durability::Durable => PersistMode::SyncData,
            Durability::Buffered => PersistMode::Buffer,
        };
        Ok(FjallEngine { open: Arc::new(Open { parts, database, _folder: folder }), persist })
    }
}

impl Engine for FjallEngine {
    type View = FjallView;

    fn write(&mut self, rows: &Rows<'_>) -> Result<(), WriteError> {
        let Open { parts, database, .. } = &*self.open;
        let mut batch = OwnedWriteBatch::with_capacity(database.clone(), rows.count())
            .durability(Some(self.persist));
        let collected: Result<(), WriteError> = rows.for_each(|row, value| {
            match value {
                Some(value) => batch.insert(parts.of(row), row, value),
                None => batch.remove(parts.of(row), row),
            }
            Ok(())
        });
        collected?;
        batch.commit().map_err(|error| match error {
            // An earlier failure; this batch was not begun.
            Error::Poisoned => WriteError::NotWritten(store_error(error)),
            // It may be in the journal, and then comes back with the next open.
            error => WriteError::Unknown(store_error(error)),
        })?;
        parts.make_room().map_err(|error| WriteError::Unknown(store_error(error)))
    }

    fn view(&self) -> Result<FjallView, StoreError> {
        Ok(FjallView { snapshot: self.open.database.snapshot(), open: Arc::clone(&self.open) })
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.open.database.persist(PersistMode::SyncAll).map_err(store_error)
    }
}

pub(crate) struct FjallView {
    snapshot: Snapshot,
    open: Arc<Open>,
}

impl View for FjallView {
    type Cursor = FjallCursor;

    fn get<R>(
        &self,
        row: &[u8],
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        match self.snapshot.get(self.open.parts.of(row), row).map_err(store_error)? {
            Some(value) => read(&value).map(Some),
            None => Ok(None),
        }
    }

    fn range(&self, from: &[u8], to: &[u8]) -> Result<FjallCursor, StoreError> {
        Ok(FjallCursor { rows: self.open.parts.range(&self.snapshot, from, to) })
    }
}

pub(crate) struct FjallCursor {
    rows: PartsIter,
}

impl Cursor for FjallCursor {
    fn next<R>(
        &mut self,
        direction: Direction,
        read: impl FnOnce(&[u8], &[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        match self.rows.next(direction) {
            Some(guard) => {
                let (row, value) = guard.into_inner().map_err(store_error)?;
                read(&row, &value).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// Damage, or something in the way.
fn store_error(error: Error) -> StoreError {
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
