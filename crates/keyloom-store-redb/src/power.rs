//! Power cuts and full disks: the files as they may be when what was not synced is lost in part.
//!
//! Both files are kept in memory, as they were at their last sync, with the writes since then. A
//! cut keeps some of those, in no order; a write that is kept may be torn between sectors. It is
//! cut during every sync, and after commits were acknowledged.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use keyloom_store::conformance::Random;
use keyloom_store::folder::Folder;
use keyloom_store::group::{Durability, GroupStore};
use keyloom_store::{
    Commit, Direction, KeyRange, OrderedStore, Position, ScanOptions, StoreError, Write,
};
use pollster::block_on;
use redb::{Database, StorageBackend};
use tempfile::TempDir;

use crate::engine::{self, RedbEngine};
use crate::limits::JOURNAL_BYTES_MIN;

const SECTOR_BYTES: usize = 512;
const LIVES: usize = 20;
const GROUPS_MAX: usize = 12;
/// So small that redb has to write pages long before they are committed for good.
const CACHE_BYTES: usize = 256 << 10;

const DATA: usize = 0;
const JOURNAL: usize = 1;

/// What the files of a store lie on.
struct Machine {
    folder: PathBuf,
    files: [File; 2],
    /// How many groups were acknowledged.
    groups: usize,
    /// What a cut during each sync would have left behind.
    cuts: Vec<Left>,
    /// The most bytes of the journal that there is space for.
    space: usize,
    random: Random,
}

#[derive(Clone, Default)]
struct File {
    synced: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// What is left after a cut.
struct Left {
    files: [Vec<u8>; 2],
    folder: TempDir,
    groups: usize,
}

impl Change {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Change::Resize(len) => file.resize(*len, 0),
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                file.resize(file.len().max(end), 0);
                file[*offset..end].copy_from_slice(bytes);
            }
        }
    }
}

impl File {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    /// The file after a cut.
    fn cut(&self, random: &mut Random) -> Vec<u8> {
        let mut file = self.synced.clone();
        for change in &self.unsynced {
            match (change, random.below(4)) {
                (_, 0) => {}
                (Change::Write { offset, bytes }, 1) => {
                    let sectors = random.below(bytes.len() / SECTOR_BYTES + 1);
                    let bytes = bytes[..sectors * SECTOR_BYTES].to_vec();
                    Change::Write { offset: *offset, bytes }.apply(&mut file);
                }
                _ => change.apply(&mut file),
            }
        }
        file
    }
}

impl Machine {
    fn new(left: Left, random: &mut Random) -> Arc<Mutex<Self>> {
        let Left { files, folder, groups } = left;
        let file =
            |bytes: Vec<u8>| File { synced: bytes.clone(), current: bytes, unsynced: Vec::new() };
        Arc::new(Mutex::new(Machine {
            folder: folder.keep(),
            files: files.map(file),
            groups,
            cuts: Vec::new(),
            space: usize::MAX,
            random: Random::new(random.next_u64()),
        }))
    }

    /// What a cut in this moment leaves behind.
    fn cut(&mut self) -> Left {
        let folder = tempfile::tempdir().unwrap();
        for name in ["KEYLOOM", "MARK"] {
            fs::copy(self.folder.join(name), folder.path().join(name)).unwrap();
        }
        let files = self.files.clone().map(|file| file.cut(&mut self.random));
        Left { files, folder, groups: self.groups }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// One file of a machine.
struct Disk(Arc<Mutex<Machine>>, usize);

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Disk").field(&self.1).finish()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.0.lock().unwrap().files[self.1].current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let machine = self.0.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        match machine.files[self.1].current.get(offset..offset + out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => return Err(Error::from(ErrorKind::UnexpectedEof)),
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        let change = Change::Resize(usize::try_from(len).unwrap());
        self.0.lock().unwrap().files[self.1].change(change);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), Error> {
        let mut machine = self.0.lock().unwrap();
        if machine.folder.join("MARK").exists() {
            let left = machine.cut();
            machine.cuts.push(left);
        }
        let file = &mut machine.files[self.1];
        file.synced = file.current.clone();
        file.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut machine = self.0.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        if self.1 == JOURNAL && offset + data.len() > machine.space {
            return Err(Error::from(ErrorKind::StorageFull));
        }
        machine.files[self.1].change(Change::Write { offset, bytes: data.to_vec() });
        Ok(())
    }
}

fn start(machine: &Arc<Mutex<Machine>>) -> GroupStore<RedbEngine> {
    let disk = |file| Disk(Arc::clone(machine), file);
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let database = builder.create_with_backend(disk(DATA)).unwrap();
    engine::create_table(&database).unwrap();
    let path = machine.lock().unwrap().folder.clone();
    let folder = Folder::open(&path, "redb").unwrap();
    let mark = folder.mark().unwrap();
    let engine = RedbEngine::start(database, Box::new(disk(JOURNAL)), folder).unwrap();
    GroupStore::start(engine, mark, Durability::Durable).unwrap()
}

fn fresh() -> Left {
    Left { files: [Vec::new(), Vec::new()], folder: tempfile::tempdir().unwrap(), groups: 0 }
}

fn commit(store: &dyn OrderedStore, writes: Vec<Write>, change: usize) -> Result<(), StoreError> {
    let changes = vec![change.to_be_bytes().into()];
    let commit = Arc::new(Commit { writes, changes, ..Commit::default() });
    block_on(store.commit(commit)).map(|_| ())
}

/// Scattered keys and growing ones, some of them deleted again.
fn write(store: &dyn OrderedStore, group: usize, random: &mut Random) {
    let mut writes: Vec<Write> = (0..20)
        .map(|row| Write::Put {
            key: format!("grows{group:05}{row:02}").into(),
            value: random.bytes(400),
        })
        .collect();
    writes.extend((0..20).map(|row| Write::Put {
        key: format!("lies{:016x}{row}", random.next_u64()).into(),
        value: group.to_be_bytes().into(),
    }));
    if let Some(old) = group.checked_sub(3) {
        let key = |row| format!("grows{old:05}{row:02}").into();
        writes.extend((0..10).map(|row| Write::Delete { key: key(row) }));
    }
    commit(store, writes, group).unwrap();
}

/// Everything that a store holds.
fn contents(store: &dyn OrderedStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    let snapshot = block_on(store.snapshot()).unwrap();
    let range = KeyRange { from: vec![0], to: vec![0xFF] };
    let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
    let mut scan = block_on(snapshot.scan(&range, options)).unwrap();
    let entries = block_on(scan.next(usize::MAX)).unwrap();
    let changes = block_on(store.changes(Position::default(), usize::MAX)).unwrap();
    let entries = entries.into_iter().map(|entry| (entry.key, entry.stored.value));
    entries.chain(changes.into_iter().map(|it| (b"feed".to_vec(), it.bytes))).collect()
}

fn copy(path: &Path, files: &[Vec<u8>; 2], groups: usize) -> Left {
    let folder = tempfile::tempdir().unwrap();
    for name in ["KEYLOOM", "MARK"] {
        fs::copy(path.join(name), folder.path().join(name)).unwrap();
    }
    Left { files: files.clone(), folder, groups }
}

#[test]
fn acknowledged_commits_survive_power_cuts() {
    let mut random = Random::from_environment();
    // What the store holds after so many groups.
    let mut states = vec![Vec::new()];
    let (mut left, mut verified) = (fresh(), 0);
    for life in 0..LIVES {
        let machine = Machine::new(left, &mut random);
        let store = start(&machine);
        for _ in 0..random.below(GROUPS_MAX) {
            write(&store, states.len(), &mut random);
            states.push(contents(&store));
            machine.lock().unwrap().groups += 1;
        }
        left = machine.lock().unwrap().cut();
        drop(store);
        let cuts = std::mem::take(&mut machine.lock().unwrap().cuts);
        for cut in cuts {
            let place = format!("life {life}, a sync after {} groups; {random}", cut.groups);
            // The one that was not acknowledged yet is there whole, or not at all.
            let mut possible = states.iter().skip(cut.groups).take(2);
            let found = contents(&start(&Machine::new(cut, &mut random)));
            assert!(possible.any(|state| *state == found), "{place}");
            verified += 1;
        }
        let again = copy(left.folder.path(), &left.files, left.groups);
        let found = contents(&start(&Machine::new(again, &mut random)));
        assert!(states.last() == Some(&found), "life {life}; {random}");
    }
    assert!(states.len() > LIVES && verified > LIVES, "{verified} cuts in syncs; {random}");
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_and_loses_nothing() {
    let mut random = Random::new(1);
    let machine = Machine::new(fresh(), &mut random);
    let store = start(&machine);
    let put = |key: &str, bytes: usize| {
        let value = vec![b'v'; bytes];
        commit(&store, vec![Write::Put { key: key.into(), value }], 0)
    };
    // The first write of a process is a checkpoint, and the second takes space for more.
    put("first", 1).unwrap();
    put("second", 1).unwrap();
    machine.lock().unwrap().space = JOURNAL_BYTES_MIN;
    let error = put("large", JOURNAL_BYTES_MIN).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    put("third", 1).unwrap();
    machine.lock().unwrap().space = usize::MAX;
    put("fourth", JOURNAL_BYTES_MIN).unwrap();
    let expected = contents(&store);
    assert_eq!(expected.len(), 8);
    let left = machine.lock().unwrap().cut();
    assert_eq!(contents(&start(&Machine::new(left, &mut random))), expected);
}
