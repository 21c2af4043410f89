//! redb as an ordered map of rows.
//!
//! ```text
//! table "rows": row key → checksum u32 big-endian | value
//! ```
//! The checksum is the low half of XXH3-64 of the value, seeded with the XXH3-64 of the row key. It
//! hardly shows in a scan, while a CRC made scans of short rows a quarter slower.

use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use keyloom_store::folder::Folder;
use keyloom_store::group::{Cursor, Engine, Rows, View, WriteError};
use keyloom_store::{Direction, StoreError};
use redb::{
    Database, DatabaseError, Range, ReadOnlyTable, ReadableDatabase, StorageError, TableDefinition,
    WriteTransaction,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::CACHE_BYTES;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

type Key = &'static [u8];
type Value = &'static [u8];

pub(crate) struct RedbEngine {
    open: Arc<Open>,
}

/// What has to stay open while anything reads (E3). The fields are dropped in this order.
struct Open {
    database: Database,
    _folder: Folder,
}

/// Creates a database with its table, so that an opened one always has it.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    let database = Database::create(path).map_err(open_error)?;
    let transaction = begin(&database).map_err(unavailable)?;
    transaction.open_table(ROWS).map_err(unavailable)?;
    transaction.commit().map_err(unavailable)
}

impl RedbEngine {
    pub(crate) fn open(path: &Path, folder: Folder) -> Result<Self, StoreError> {
        let database =
            Database::builder().set_cache_size(CACHE_BYTES).open(path).map_err(open_error)?;
        Ok(RedbEngine { open: Arc::new(Open { database, _folder: folder }) })
    }
}

impl Engine for RedbEngine {
    type View = RedbView;

    fn write(&mut self, rows: &Rows<'_>) -> Result<(), WriteError> {
        let not_written = |error| WriteError::NotWritten(error);
        let transaction = begin(&self.open.database).map_err(unavailable).map_err(not_written)?;
        insert(&transaction, rows).map_err(not_written)?;
        // A commit that fails may have reached the disk, and then comes back with the next open.
        transaction.commit().map_err(|error| WriteError::Unknown(unavailable(error)))
    }

    fn view(&self) -> Result<RedbView, StoreError> {
        let transaction = self.open.database.begin_read().map_err(unavailable)?;
        let table = transaction.open_table(ROWS).map_err(unavailable)?;
        Ok(RedbView { table, _open: Arc::clone(&self.open) })
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // Every commit was durable already.
        Ok(())
    }
}

fn begin(database: &Database) -> Result<WriteTransaction, redb::TransactionError> {
    let mut transaction = database.begin_write()?;
    // Opening after a crash then takes milliseconds instead of a walk through the whole file. A
    // lone commit takes twice as long for it; in a group it is nearly free.
    transaction.set_quick_repair(true);
    Ok(transaction)
}

fn insert(transaction: &WriteTransaction, rows: &Rows<'_>) -> Result<(), StoreError> {
    let mut table = transaction.open_table(ROWS).map_err(unavailable)?;
    let mut sealed = Vec::new();
    rows.for_each(|row, value| {
        match value {
            Some(value) => {
                seal(row, value, &mut sealed);
                table.insert(row, sealed.as_slice()).map_err(storage_error)?;
            }
            None => {
                table.remove(row).map_err(storage_error)?;
            }
        }
        Ok(())
    })
}

pub(crate) struct RedbView {
    table: ReadOnlyTable<Key, Value>,
    _open: Arc<Open>,
}

impl View for RedbView {
    type Cursor = RedbCursor;

    fn get<R>(
        &self,
        row: &[u8],
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        match self.table.get(row).map_err(storage_error)? {
            Some(sealed) => read(unseal(row, sealed.value())?).map(Some),
            None => Ok(None),
        }
    }

    fn range(&self, from: &[u8], to: &[u8]) -> Result<RedbCursor, StoreError> {
        let range = self.table.range::<&[u8]>(from..to).map_err(storage_error)?;
        Ok(RedbCursor { range })
    }
}

pub(crate) struct RedbCursor {
    range: Range<'static, Key, Value>,
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
        match next.transpose().map_err(storage_error)? {
            Some((row, sealed)) => {
                let row = row.value();
                read(row, unseal(row, sealed.value())?).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// Puts the checksum in front of a value (E1).
fn seal(row: &[u8], value: &[u8], sealed: &mut Vec<u8>) {
    sealed.clear();
    sealed.extend_from_slice(&checksum(row, value));
    sealed.extend_from_slice(value);
}

fn unseal<'a>(row: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], StoreError> {
    match sealed.split_first_chunk::<4>() {
        Some((found, value)) if *found == checksum(row, value) => Ok(value),
        _ => Err(StoreError::Corrupt {
            detail: format!("the row {} fails its checksum", row.escape_ascii()),
        }),
    }
}

fn checksum(row: &[u8], value: &[u8]) -> [u8; 4] {
    let [_, _, _, _, low @ ..] = xxh3_64_with_seed(value, xxh3_64(row)).to_be_bytes();
    low
}

fn storage_error(error: StorageError) -> StoreError {
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

fn unavailable(error: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Unavailable { reason: error.to_string(), source: Some(Box::new(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_sealed_row_are_fixed() {
        let mut sealed = Vec::new();
        seal(b"\x01key", b"\x07value", &mut sealed);
        assert_eq!(sealed, b"\x51\x23\x7A\xD9\x07value");
        assert_eq!(unseal(b"\x01key", &sealed).unwrap(), b"\x07value");
    }

    #[test]
    fn e1_a_bit_that_flips_in_key_or_value_is_found() {
        let row = b"row".to_vec();
        let mut sealed = Vec::new();
        seal(&row, b"value", &mut sealed);
        for bit in 0..8 * sealed.len() {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(unseal(&row, &damaged), Err(StoreError::Corrupt { .. })));
        }
        for bit in 0..8 * row.len() {
            let mut damaged = row.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&damaged, &sealed).is_err());
        }
        assert!(unseal(&row, b"abc").is_err());
    }
}
