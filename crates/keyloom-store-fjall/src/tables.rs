//! fjall's tables: in memory, where rows come past fjall's journal, and on their way into files.
//!
//! What is used of fjall for that is hidden in its documentation (the trees of keyspaces and their
//! tables in memory, the counter of sequence numbers, what snapshots see), so a release without it
//! would not compile.
//!
//! T1: All rows of a record have one sequence number, which is larger than all before. A moment is
//!     larger than the number of the last record that is there whole, and not larger than that of
//!     the next one. So nothing of a record is seen while it is being applied, whatever workers of
//!     fjall do meanwhile.
//! T2: Tables in memory of all keyspaces become files together, when they are full together, and
//!     belong to one segment of the journal, or to several whole ones.
//! T3: Who fills tables faster than they are written and merged waits, unless fjall has given up.
//! T4: Tables in memory are kept here until nobody else has them, and are let go by no writer.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fjall::{AbstractTree as _, Database, Keyspace, PersistMode, SeqNo, Snapshot};
use keyloom_store::StoreError;
use keyloom_store::folder::Folder;
use keyloom_store::group::Moment;
use keyloom_store::record::RowsIn;
use lsm_tree::{InternalValue, Memtable, ValueType};

use crate::engine::store_error;
use crate::limits::{MEMTABLE_BYTES, RUNS_MAX, SEALED_MAX};
use crate::parts::Parts;
use crate::settings;

/// How long it is waited before it is looked again whether there is room (T3).
const ROOM_TIME: Duration = Duration::from_millis(1);

/// What has to stay open while anything reads (J4). The fields are dropped in this order.
pub(crate) struct Open {
    pub(crate) parts: Parts,
    pub(crate) database: Database,
    _folder: Folder,
}

/// The tables of an open database.
pub(crate) struct Tables {
    open: Arc<Open>,
    /// The moment behind the last record, and not before the last snapshot (T1).
    now: Moment,
    /// The tables in memory that take rows, one of each keyspace.
    active: Vec<Arc<Memtable>>,
    /// The bytes of the tables in memory.
    bytes: u64,
    /// Tables that are to become files, the oldest first.
    sealed: VecDeque<Sealed>,
    /// Tables that are files, and in memory for as long as fjall or somebody who reads has them.
    left: Vec<Arc<Memtable>>,
    /// How often workers of fjall had merged tables when this was last looked at.
    merges: usize,
}

/// Tables in memory that take no more rows.
struct Sealed {
    /// The segment that their rows are from.
    segment: u64,
    /// The tables, one of each keyspace.
    memtables: Vec<Arc<Memtable>>,
}

impl Tables {
    /// Opens a database that was created.
    pub(crate) fn open(path: &Path, folder: Folder) -> Result<Tables, StoreError> {
        empty_journals(path)?;
        let database = settings::database(path).open().map_err(store_error)?;
        let parts = Parts::open(&database).map_err(store_error)?.map_err(|missing| {
            let detail = format!(
                "{}: the keyspace `{missing}` is missing: put its folder back, or restore a backup",
                path.display()
            );
            StoreError::Corrupt { detail }
        })?;
        // fjall does so, too, unless its journal was removed. A snapshot at number 0 would keep
        // nothing: where there are others, fjall takes it for none.
        for keyspace in parts.all() {
            let next = keyspace.tree.get_highest_persisted_seqno().map_or(1, |last| last + 1);
            database.supervisor.seqno.fetch_max(next);
        }
        let now = Moment(database.supervisor.seqno.get());
        database.supervisor.snapshot_tracker.set(now.0);
        let active = memtables(&parts);
        let open = Arc::new(Open { parts, database, _folder: folder });
        Ok(Tables {
            open,
            now,
            active,
            bytes: 0,
            sealed: VecDeque::new(),
            left: Vec::new(),
            merges: 0,
        })
    }

    /// The moment now.
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// What has to stay open for readers, and what keeps everything that is shown from now on from
    /// being dropped.
    pub(crate) fn snapshot(&mut self) -> (Arc<Open>, Snapshot) {
        let snapshot = self.open.database.snapshot();
        // A worker that has finished a table may have moved it on, and what it shows is only kept
        // from there on.
        self.now = self.now.max(Moment(snapshot.seqno()));
        (Arc::clone(&self.open), snapshot)
    }

    /// Puts the rows of a record into the tables in memory (T1).
    pub(crate) fn apply(&mut self, rows: RowsIn<'_>) -> Result<(), StoreError> {
        let Open { parts, database, .. } = &*self.open;
        let seqno = database.supervisor.seqno.next();
        for row in rows {
            let (key, value) = row?;
            let row = match value {
                Some(value) => InternalValue::from_components(key, value, seqno, ValueType::Value),
                None => InternalValue::new_tombstone(key, seqno),
            };
            let memtable = self.active.get(parts.place(key)).expect("every keyspace has one");
            let (bytes, _) = memtable.insert(row);
            self.bytes += bytes;
        }
        database.supervisor.snapshot_tracker.publish(seqno);
        self.now = Moment(seqno + 1);
        Ok(())
    }

    /// Whether the tables in memory are to become files.
    pub(crate) fn are_full(&self) -> bool {
        self.bytes >= MEMTABLE_BYTES
    }

    /// Leaves the tables in memory, which hold everything up to this segment, to become files, and
    /// begins new ones (T2).
    pub(crate) fn seal(&mut self, segment: u64) -> Result<(), StoreError> {
        for keyspace in self.open.parts.all() {
            keyspace.rotate_memtable().map_err(store_error)?;
        }
        self.begin_others(segment);
        self.await_room()
    }

    /// The same, and returns when they are files.
    pub(crate) fn write(&mut self, segment: u64) -> Result<(), StoreError> {
        let oldest = self.open.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
        for keyspace in self.open.parts.all() {
            let written = keyspace.tree.flush_active_memtable(oldest);
            written.map_err(|error| store_error(error.into()))?;
        }
        self.begin_others(segment);
        Ok(())
    }

    /// The last segment whose rows have come into files since this was asked.
    pub(crate) fn take_written(&mut self) -> Option<u64> {
        let keyspaces = self.open.parts.all();
        let none_waits = keyspaces.iter().all(|it| it.tree.sealed_memtable_count() == 0);
        let in_files: Vec<Option<SeqNo>> =
            keyspaces.iter().map(|it| it.tree.get_highest_persisted_seqno()).collect();
        let is_written = |sealed: &&Sealed| {
            let last = sealed.memtables.iter().map(|memtable| memtable.get_highest_seqno());
            none_waits || last.zip(&in_files).all(|(last, in_files)| last <= *in_files)
        };
        let written = self.sealed.iter().take_while(is_written).count();
        let written: Vec<Sealed> = self.sealed.drain(..written).collect();
        let segment = written.last().map(|sealed| sealed.segment);
        self.left.extend(written.into_iter().flat_map(|sealed| sealed.memtables));
        self.drop_left();
        segment
    }

    /// Lets go of the tables that nobody else has (T4). Who does so last pays for it, row by row.
    /// fjall would when it begins a new table: on the writer, while readers wait for it.
    fn drop_left(&mut self) {
        let left = mem::take(&mut self.left).into_iter();
        let (ours, left): (Vec<_>, Vec<_>) = left.partition(|it| Arc::strong_count(it) == 1);
        self.left = left;
        if !ours.is_empty() {
            // If there is no thread for it, it is done here.
            let _ = thread::Builder::new().name("keyloom-drop".into()).spawn(|| drop(ours));
        }
    }

    /// Whether all tables that were left to become files are known to be.
    pub(crate) fn are_written(&self) -> bool {
        self.sealed.is_empty()
    }

    /// Whether workers of fjall have merged nothing since this was asked last, and do not now.
    pub(crate) fn are_merged(&mut self) -> bool {
        let before = mem::replace(&mut self.merges, self.open.database.compactions_completed());
        self.open.database.active_compactions() == 0 && before == self.merges
    }

    fn begin_others(&mut self, segment: u64) {
        let memtables = mem::replace(&mut self.active, memtables(&self.open.parts));
        self.sealed.push_back(Sealed { segment, memtables });
        self.bytes = 0;
    }

    /// An error if a worker of fjall has given up: then nobody writes tables any more.
    pub(crate) fn check_workers(&self) -> Result<(), StoreError> {
        self.open.database.persist(PersistMode::Buffer).map_err(store_error)
    }

    /// T3.
    #[expect(clippy::disallowed_methods, reason = "fjall tells nobody that it has made room")]
    fn await_room(&self) -> Result<(), StoreError> {
        let has_many_runs = |keyspace: &&Keyspace| keyspace.tree.l0_run_count() >= RUNS_MAX;
        let is_behind = |keyspace: &Keyspace| {
            keyspace.tree.sealed_memtable_count() >= SEALED_MAX || has_many_runs(&keyspace)
        };
        let keyspaces = self.open.parts.all();
        while keyspaces.iter().any(is_behind) {
            self.check_workers()?;
            // fjall merges when a table was written, but not once more if a merge that was under
            // way then was in its way; and no table is written while everybody waits here.
            for keyspace in keyspaces.iter().filter(has_many_runs) {
                let oldest = self.open.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
                let strategy = Arc::clone(&keyspace.config.compaction_strategy);
                let merged = keyspace.tree.compact(strategy, oldest);
                merged.map_err(|error| store_error(error.into()))?;
            }
            thread::sleep(ROOM_TIME);
        }
        Ok(())
    }
}

/// The tables in memory that take rows, one of each keyspace.
fn memtables(parts: &Parts) -> Vec<Arc<Memtable>> {
    parts.all().iter().map(|keyspace| keyspace.tree.active_memtable()).collect()
}

/// Makes sure that fjall finds nothing in its own journal: nothing was ever written there, so
/// whatever it holds is damage.
fn empty_journals(data: &Path) -> Result<(), StoreError> {
    let emptied = fs::read_dir(data).and_then(|entries| {
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "jnl") {
                File::options().write(true).open(path)?.set_len(0)?;
            }
        }
        Ok(())
    });
    emptied.map_err(|error| StoreError::Unavailable {
        reason: format!("{} cannot be read: {error}", data.display()),
        source: Some(Box::new(error)),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use keyloom_store::group::guarded;
    use keyloom_store::record::Record;
    use tempfile::TempDir;

    use super::*;
    use crate::engine::create;

    fn tables() -> (Tables, TempDir) {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path(), "fjall").unwrap();
        let data = folder.data("data");
        create(&data).unwrap();
        (Tables::open(&data, folder).unwrap(), temporary)
    }

    /// One row in each keyspace.
    fn put(tables: &mut Tables, number: u64) {
        let number = number.to_be_bytes();
        let keys =
            [[0x01, 0x01], [0x01, 0x04], [0x02, 0x00]].map(|key| [&key[..], &number].concat());
        let record = Record::of(keys.iter().map(|key| (key.as_slice(), Some(&b"value"[..]))));
        tables.apply(record.rows()).unwrap();
    }

    const KEY: &[u8] = &[0x01, 0x04];

    /// Writes one row, and returns the moment from which on it is seen.
    fn set(tables: &mut Tables, value: u64) -> Moment {
        let value = value.to_be_bytes();
        tables.apply(Record::of([(KEY, Some(&value[..]))]).rows()).unwrap();
        tables.now()
    }

    fn seen(tables: &Tables, at: Moment) -> Option<u64> {
        let value = tables.open.parts.get(KEY, at).unwrap()?;
        Some(u64::from_be_bytes((*value).try_into().unwrap()))
    }

    /// Writes all tables into files and merges them, with everything dropped that may be.
    fn merge(tables: &mut Tables, segment: u64) {
        // A table that only waits for a worker lets fjall count what is still seen.
        tables.open.parts.all().iter().for_each(|it| _ = it.rotate_memtable().unwrap());
        tables.begin_others(segment);
        while !tables.open.parts.all().iter().all(|it| it.tree.sealed_memtable_count() == 0) {
            tables.check_workers().unwrap();
            thread::yield_now();
        }
        for keyspace in tables.open.parts.all() {
            keyspace.major_compact().unwrap();
        }
    }

    #[test]
    fn t1_a_snapshot_keeps_every_moment_from_its_own_on() {
        let (mut tables, _folder) = tables();
        let mut moments = Vec::new();
        let mut kept = None;
        for value in 0..40 {
            moments.push((set(&mut tables, value), value));
            match value {
                10 => kept = Some(tables.snapshot()),
                20 | 25 | 30 | 35 => merge(&mut tables, value),
                _ => {}
            }
        }
        for (moment, value) in moments.iter().skip(10) {
            assert_eq!(seen(&tables, *moment), Some(*value));
        }
        // Without it, what was replaced is dropped, and fjall gives up where it looks for it.
        drop(kept);
        merge(&mut tables, 40);
        let lost = guarded(|| Ok(seen(&tables, moments[15].0)));
        assert_ne!(lost.ok(), Some(Some(15)));
        assert_eq!(seen(&tables, tables.now()), Some(39));
    }

    #[test]
    fn t1_a_table_that_becomes_a_file_shows_nothing_of_a_record_that_is_being_applied() {
        let (mut tables, _folder) = tables();
        let before = set(&mut tables, 1);
        let half = tables.open.database.supervisor.seqno.next();
        let row = InternalValue::from_components(KEY, [0; 8], half, ValueType::Value);
        tables.active[1].insert(row);
        // This moves on what fjall would show, over the number of the half record.
        for keyspace in tables.open.parts.all() {
            keyspace.tree.flush_active_memtable(0).unwrap();
        }
        assert!(tables.open.database.supervisor.snapshot_tracker.get() > half);
        assert_eq!(seen(&tables, before), Some(1));
        assert_eq!(tables.now(), before);
    }

    #[test]
    fn t1_a_moment_is_none_from_before_the_snapshot_that_keeps_it() {
        let (mut tables, _folder) = tables();
        for value in 1..4 {
            set(&mut tables, value);
            tables.write(value).unwrap();
        }
        let before = tables.now();
        let (_, snapshot) = tables.snapshot();
        assert!(before < Moment(snapshot.seqno()), "a table that became a file has moved it on");
        assert_eq!(tables.now(), Moment(snapshot.seqno()));
        merge(&mut tables, 4);
        assert_eq!(seen(&tables, tables.now()), Some(3));
    }

    #[test]
    fn t4_a_table_that_somebody_has_read_is_let_go_by_no_writer() {
        let (mut tables, _folder) = tables();
        put(&mut tables, 1);
        let reading = tables.snapshot();
        let read: Vec<Weak<Memtable>> = tables.active.iter().map(Arc::downgrade).collect();
        let owners = || read.iter().map(Weak::strong_count).max().unwrap();
        merge(&mut tables, 1);
        assert_eq!(tables.take_written(), Some(1));
        assert!(owners() > 1, "fjall keeps it for who reads");
        drop(reading);
        for segment in 2..4 {
            put(&mut tables, segment);
            merge(&mut tables, segment);
        }
        assert_eq!(owners(), 1, "fjall has let it go, which cost it nothing");
        assert_eq!(tables.take_written(), Some(3));
        let mut looks = 0;
        while owners() > 0 {
            looks += 1;
            assert!(looks < 2_000_000, "nobody has let it go");
            thread::yield_now();
        }
    }

    fn runs(tables: &Tables) -> usize {
        tables.open.parts.all().iter().map(|it| it.tree.l0_run_count()).max().unwrap()
    }

    #[test]
    fn t3_who_waits_for_room_merges_if_nobody_else_does() {
        let (mut tables, _folder) = tables();
        // Tables that are written here do not make fjall merge; they overlap, or would be one run.
        for segment in 1..=RUNS_MAX as u64 {
            put(&mut tables, 0);
            put(&mut tables, segment);
            tables.write(segment).unwrap();
        }
        assert_eq!(runs(&tables), RUNS_MAX);
        tables.await_room().unwrap();
        assert!(runs(&tables) < RUNS_MAX);
        assert_eq!(tables.open.parts.all()[0].len().unwrap(), RUNS_MAX + 1);
    }

    #[test]
    fn t2_segments_are_written_in_their_order_and_told_once() {
        let (mut tables, _folder) = tables();
        assert_eq!(tables.take_written(), None);
        for segment in [1, 2] {
            put(&mut tables, segment);
            tables.write(segment).unwrap();
        }
        assert!(!tables.are_written());
        assert_eq!(tables.take_written(), Some(2));
        assert!(tables.are_written());
        assert_eq!(tables.take_written(), None);
    }

    #[test]
    fn t2_what_is_sealed_is_told_when_it_is_in_files() {
        let (mut tables, _folder) = tables();
        put(&mut tables, 1);
        tables.seal(1).unwrap();
        put(&mut tables, 2);
        let mut written = None;
        while written.is_none() {
            tables.check_workers().unwrap();
            written = tables.take_written();
            thread::yield_now();
        }
        assert_eq!(written, Some(1));
        let in_files = tables.open.parts.all().iter().map(|it| it.tree.table_count());
        assert!(in_files.into_iter().all(|tables| tables > 0));
    }
}
