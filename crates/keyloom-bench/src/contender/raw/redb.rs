//! redb, used by hand: one table, one writer thread, quick repair as Keyloom sets it.

use std::path::Path;
use std::sync::Arc;

use keyloom_store::{Commit, KeyRange, Write};
use redb::{Database, Range, ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::{Group, RawEngine, RawKeys, RawView};
use crate::outcome::Outcome;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

/// Changes lie behind all keys of Keyloom, by position.
const CHANGES: u8 = 0xFF;

type Bytes = &'static [u8];

/// The engine and its writer.
pub(crate) struct RawRedb {
    database: Arc<Database>,
    group: Group<Arc<Commit>>,
}

/// The numbers that a writer keeps in memory.
#[derive(Default)]
struct Counted {
    documents: i64,
    changes: u64,
}

impl RawRedb {
    /// Opens or creates the database with the cache that Keyloom gives it.
    pub(crate) fn open(folder: &Path) -> Outcome<RawRedb> {
        let database = Database::builder()
            .set_cache_size(keyloom_store_redb::CACHE_BYTES)
            .create(folder.join("raw.redb"))?;
        let database = Arc::new(database);
        write(&database, &[], &mut Counted::default())?;
        let mut counted = Counted::default();
        let writer = Arc::clone(&database);
        let group =
            Group::start(move |commits: &[&Arc<Commit>]| write(&writer, commits, &mut counted));
        Ok(RawRedb { database, group })
    }
}

fn write(database: &Database, commits: &[&Arc<Commit>], counted: &mut Counted) -> Outcome<()> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    {
        let mut table = transaction.open_table(ROWS)?;
        let mut counter = None;
        // In the order of keys, which a tree likes best.
        let mut writes: Vec<&Write> = commits.iter().flat_map(|commit| &commit.writes).collect();
        writes.sort_unstable_by_key(|write| write.key());
        for write in writes {
            match write {
                Write::Put { key, value } => {
                    table.insert(key.as_slice(), value.as_slice())?;
                }
                Write::Delete { key } => {
                    table.remove(key.as_slice())?;
                }
                Write::Add { key, delta } => {
                    counted.documents += delta;
                    counter = Some(key);
                }
            }
        }
        if let Some(key) = counter {
            table.insert(key.as_slice(), counted.documents.to_be_bytes().as_slice())?;
        }
        for change in commits.iter().flat_map(|commit| &commit.changes) {
            counted.changes += 1;
            table.insert(change_key(counted.changes).as_slice(), change.as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The key of a change in one map with everything else.
pub(super) fn change_key(position: u64) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = position.to_be_bytes();
    [CHANGES, a, b, c, d, e, f, g, h]
}

impl RawEngine for RawRedb {
    type View = RedbView;

    fn commit(&self, commit: &Arc<Commit>) -> Outcome<()> {
        self.group.write(Arc::clone(commit))
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        self.view()?.get(key)
    }

    fn view(&self) -> Outcome<RedbView> {
        Ok(RedbView { table: self.database.begin_read()?.open_table(ROWS)? })
    }
}

/// A table at one point in time.
pub(crate) struct RedbView {
    table: ReadOnlyTable<Bytes, Bytes>,
}

impl RawView for RedbView {
    type Keys = RedbKeys;

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.table.get(key)?.map(|value| value.value().to_vec()))
    }

    fn keys(&self, range: &KeyRange) -> Outcome<RedbKeys> {
        let range = self.table.range::<&[u8]>(range.from.as_slice()..range.to.as_slice())?;
        Ok(RedbKeys { range })
    }
}

/// A place in a range.
pub(crate) struct RedbKeys {
    range: Range<'static, Bytes, Bytes>,
}

impl RawKeys for RedbKeys {
    fn next<R>(&mut self, copy: impl FnOnce(&[u8]) -> R) -> Outcome<Option<R>> {
        Ok(self.range.next().transpose()?.map(|(key, _)| copy(key.value())))
    }
}
