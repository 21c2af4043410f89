//! Rows in redb's tree.
//!
//! ```text
//! table "rows":    row key → checksum u32 big-endian | value
//! table "journal": () → the generation of the journal whose records are not in the tree yet
//! ```
//! The checksum is the low half of XXH3-64 of the value, seeded with the XXH3-64 of the row key. It
//! hardly shows in a scan, while a CRC made scans of short rows a quarter slower.
//!
//! T1: New rows that lie next to each other, as documents with growing identities do, are inserted
//!     as one run: redb then fills their pages. One by one it would split a page in two halves for
//!     each that is full, and both would stay half empty.

use std::ops::Bound;

use keyloom_store::StoreError;
use keyloom_store::record::{RowsAhead, RowsIn};
use redb::{CursorError, ReadableTable, Table, TableDefinition, WriteTransaction};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::engine::{storage_error, unavailable};

pub(crate) const ROWS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("rows");

const GENERATION: TableDefinition<'_, (), u64> = TableDefinition::new("journal");

pub(crate) type Bytes = &'static [u8];

/// How many bytes of their keys the rows of one family share: a space, and the head of a key.
const FAMILY_BYTES: usize = 6;

/// Applies rows, which come in the order of their keys.
pub(crate) fn apply(transaction: &WriteTransaction, rows: RowsIn<'_>) -> Result<(), StoreError> {
    let mut table = transaction.open_table(ROWS).map_err(unavailable)?;
    let mut rows = rows.peekable();
    let mut sealed = Vec::new();
    let mut family = None;
    while let Some(row) = rows.next() {
        let (key, value) = row?;
        let Some(value) = value else {
            table.remove(key).map_err(storage_error)?;
            continue;
        };
        seal(key, value, &mut sealed);
        // One look for each family: where its first rows do not lie next to each other, the
        // others hardly will.
        let is_first = family.replace(family_of(key)) != Some(family_of(key));
        if is_first && insert_run(&mut table, key, &mut sealed, &mut rows)? {
            continue;
        }
        table.insert(key, sealed.as_slice()).map_err(storage_error)?;
    }
    Ok(())
}

/// Inserts a row and those that follow it, as long as nothing lies between them (T1). Does nothing
/// if not even the next one lies there.
fn insert_run(
    table: &mut Table<'_, Bytes, Bytes>,
    first: &[u8],
    sealed: &mut Vec<u8>,
    rows: &mut RowsAhead<'_>,
) -> Result<bool, StoreError> {
    let Some(second) = put_of_family(rows, first).map(|(key, _)| key) else { return Ok(false) };
    let mut cursor = table.lower_bound_mut(Bound::Included(first)).map_err(storage_error)?;
    let between = cursor.peek_next().map_err(storage_error)?;
    if between.is_some_and(|(key, _)| key.value() <= second) {
        return Ok(false);
    }
    cursor.insert_before(first, sealed.as_slice()).map_err(cursor_error)?;
    while let Some((key, value)) = put_of_family(rows, first) {
        seal(key, value, sealed);
        match cursor.insert_before(key, sealed.as_slice()) {
            Ok(()) => rows.next(),
            Err(CursorError::UnorderedKey) => break,
            Err(error) => return Err(cursor_error(error)),
        };
    }
    cursor.close().map_err(storage_error)?;
    Ok(true)
}

/// The next row, if it is put and of the same family as this key.
fn put_of_family<'a>(rows: &mut RowsAhead<'a>, family: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    match rows.peek() {
        Some(Ok((key, Some(value)))) if family_of(key) == family_of(family) => Some((key, value)),
        _ => None,
    }
}

fn family_of(key: &[u8]) -> &[u8] {
    key.get(..FAMILY_BYTES).unwrap_or(key)
}

/// The generation of the journal whose records are not in the tree yet.
pub(crate) fn generation(transaction: &WriteTransaction) -> Result<Option<u64>, StoreError> {
    let table = transaction.open_table(GENERATION).map_err(unavailable)?;
    let found = table.get(()).map_err(storage_error)?;
    Ok(found.map(|number| number.value()))
}

/// Notes the generation whose records are not in the tree yet.
pub(crate) fn set_generation(
    transaction: &WriteTransaction,
    generation: u64,
) -> Result<(), StoreError> {
    let mut table = transaction.open_table(GENERATION).map_err(unavailable)?;
    table.insert((), generation).map_err(storage_error)?;
    Ok(())
}

/// Puts the checksum in front of a value (E1).
fn seal(row: &[u8], value: &[u8], sealed: &mut Vec<u8>) {
    sealed.clear();
    sealed.extend_from_slice(&checksum(row, value));
    sealed.extend_from_slice(value);
}

/// The value behind a checksum that holds (E1).
pub(crate) fn unseal<'a>(row: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], StoreError> {
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

fn cursor_error(error: CursorError) -> StoreError {
    match error {
        CursorError::Storage(error) => storage_error(error),
        error => unavailable(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use keyloom_store::conformance::Random;
    use redb::{Database, ReadableDatabase, ReadableTableMetadata};

    use super::*;
    use keyloom_store::record::Record;

    #[test]
    fn the_bytes_of_a_sealed_row_are_fixed() {
        let mut sealed = Vec::new();
        seal(b"\x01key", b"\x07value", &mut sealed);
        assert_eq!(sealed, b"\x51\x23\x7A\xD9\x07value");
        assert_eq!(unseal(b"\x01key", &sealed).unwrap(), b"\x07value");
    }

    /// A tree of its own in memory.
    fn tree(apply: impl Fn(&WriteTransaction)) -> Database {
        let backend = redb::backends::InMemoryBackend::new();
        let database = Database::builder().create_with_backend(backend).unwrap();
        let transaction = database.begin_write().unwrap();
        apply(&transaction);
        transaction.commit().unwrap();
        database
    }

    fn record(rows: &[(String, Option<String>)]) -> Record {
        let bytes = |(key, value): &(String, Option<String>)| {
            (key.clone().into_bytes(), value.clone().map(String::into_bytes))
        };
        let rows: Vec<_> = rows.iter().map(bytes).collect();
        Record::of(rows.iter().map(|(key, value)| (key.as_slice(), value.as_deref())))
    }

    fn contents(database: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
        let table = database.begin_read().unwrap().open_table(ROWS).unwrap();
        let rows = table.range::<&[u8]>(..).unwrap().map(|row| {
            let (key, sealed) = row.unwrap();
            (key.value().to_vec(), unseal(key.value(), sealed.value()).unwrap().to_vec())
        });
        rows.collect()
    }

    #[test]
    fn t1_new_rows_next_to_each_other_fill_their_pages() {
        let documents = (0..2000).map(|row| (format!("docs00{row:08}"), Some("d".repeat(400))));
        let groups: Vec<_> = documents.collect::<Vec<_>>().chunks(50).map(record).collect();
        let behind = record(&[("zzzz".into(), Some("behind all documents".into()))]);
        let database = tree(|transaction| {
            apply(transaction, behind.rows()).unwrap();
            groups.iter().for_each(|group| apply(transaction, group.rows()).unwrap());
        });
        assert_eq!(contents(&database).len(), 2001);
        let transaction = database.begin_write().unwrap();
        let stats = transaction.open_table(ROWS).unwrap().stats().unwrap();
        let unused = stats.fragmented_bytes() * 100 / stats.stored_bytes();
        assert!(unused < 30, "{unused} % of what is stored are unused");
    }

    #[test]
    fn rows_are_applied_whether_they_lie_together_or_not() {
        let mut random = Random::from_environment();
        let mut expected = BTreeMap::new();
        let groups: Vec<Record> = (0..200)
            .map(|_| {
                let mut rows = BTreeMap::new();
                let start = random.below(5000);
                for step in 0..random.below(30) {
                    let family = ["docs", "index", "long"][random.below(3)];
                    // Some follow each other, some replace others, some lie anywhere.
                    let number =
                        if random.below(3) == 0 { random.below(5000) } else { start + step };
                    let value = (random.below(5) > 0).then(|| format!("{}", random.next_u64()));
                    rows.insert(format!("{family}{number:06}"), value);
                }
                expected.extend(rows.clone());
                record(&rows.into_iter().collect::<Vec<_>>())
            })
            .collect();
        let database = tree(|transaction| {
            groups.iter().for_each(|group| apply(transaction, group.rows()).unwrap());
        });
        let expected = expected
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key.into_bytes(), value.into_bytes())));
        assert!(contents(&database) == expected.collect::<Vec<_>>(), "{random}");
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
