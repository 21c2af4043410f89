//! Power cuts: redb's file as it may be when what was not synced is lost in part.
//!
//! The file is kept in memory, as it was at the last sync, with the writes since then. A cut keeps
//! some of those, in no order; a write that is kept may be torn between sectors. It is cut during
//! every sync, and after commits were acknowledged. What the journal holds then was synced.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use keyloom_store::conformance::Random;
use keyloom_store::folder::Folder;
use keyloom_store::group::{Durability, GroupStore};
use keyloom_store::{Commit, Direction, KeyRange, OrderedStore, Position, ScanOptions, Write};
use pollster::block_on;
use redb::{Database, StorageBackend};
use tempfile::TempDir;

use crate::engine::{self, RedbEngine};
use crate::journal;

const SECTOR_BYTES: usize = 512;
const LIVES: usize = 20;
const GROUPS_MAX: usize = 12;
/// So small that redb has to write pages long before they are committed for good.
const CACHE_BYTES: usize = 256 << 10;

#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<Image>>);

#[derive(Debug)]
struct Image {
    folder: PathBuf,
    synced: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<Change>,
    /// How many groups were acknowledged.
    groups: usize,
    /// What a cut during each sync would have left behind.
    cuts: Vec<Left>,
    random: Random,
}

/// What is left after a cut.
#[derive(Debug)]
struct Left {
    file: Vec<u8>,
    folder: TempDir,
    groups: usize,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
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

impl Image {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    /// What a cut in this moment leaves behind.
    fn cut(&mut self) -> Left {
        let mut file = self.synced.clone();
        for change in &self.unsynced {
            match (change, self.random.below(4)) {
                (_, 0) => {}
                (Change::Write { offset, bytes }, 1) => {
                    let sectors = self.random.below(bytes.len() / SECTOR_BYTES + 1);
                    let bytes = bytes[..sectors * SECTOR_BYTES].to_vec();
                    Change::Write { offset: *offset, bytes }.apply(&mut file);
                }
                _ => change.apply(&mut file),
            }
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["KEYLOOM", "MARK", "journal"] {
            fs::copy(self.folder.join(name), folder.path().join(name)).unwrap();
        }
        Left { file, folder, groups: self.groups }
    }
}

impl Disk {
    fn new(file: Vec<u8>, folder: &Path, groups: usize, random: &mut Random) -> Self {
        Disk(Arc::new(Mutex::new(Image {
            folder: folder.to_owned(),
            synced: file.clone(),
            current: file,
            unsynced: Vec::new(),
            groups,
            cuts: Vec::new(),
            random: Random::new(random.next_u64()),
        })))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.0.lock().unwrap().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let image = self.0.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        match image.current.get(offset..offset + out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => return Err(Error::from(ErrorKind::UnexpectedEof)),
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.0.lock().unwrap().change(Change::Resize(usize::try_from(len).unwrap()));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), Error> {
        let mut image = self.0.lock().unwrap();
        if image.groups > 0 {
            let left = image.cut();
            image.cuts.push(left);
        }
        image.synced = image.current.clone();
        image.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let offset = usize::try_from(offset).unwrap();
        self.0.lock().unwrap().change(Change::Write { offset, bytes: data.to_vec() });
        Ok(())
    }
}

/// A store over a disk that can be cut off, with its journal in a folder.
fn start(disk: Disk, folder: &Path) -> GroupStore<RedbEngine> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let database = builder.create_with_backend(disk).unwrap();
    engine::create_table(&database).unwrap();
    let folder = Folder::open(folder, "redb").unwrap();
    let path = folder.data("journal");
    if !path.exists() {
        journal::create(&path).unwrap();
    }
    let mark = folder.mark().unwrap();
    let engine = RedbEngine::start(database, &path, folder).unwrap();
    GroupStore::start(engine, mark, Durability::Durable).unwrap()
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
    let changes = vec![group.to_be_bytes().into()];
    block_on(store.commit(Arc::new(Commit { writes, changes, ..Commit::default() }))).unwrap();
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

#[test]
fn acknowledged_commits_survive_power_cuts() {
    let mut random = Random::from_environment();
    // What the store holds after so many groups.
    let mut states = vec![Vec::new()];
    let (mut file, mut folder, mut verified) = (Vec::new(), tempfile::tempdir().unwrap(), 0);
    for life in 0..LIVES {
        let disk = Disk::new(file, folder.path(), states.len() - 1, &mut random);
        let store = start(disk.clone(), folder.path());
        for _ in 0..random.below(GROUPS_MAX) {
            write(&store, states.len(), &mut random);
            states.push(contents(&store));
            disk.0.lock().unwrap().groups += 1;
        }
        let left = disk.0.lock().unwrap().cut();
        drop(store);
        let cuts = std::mem::take(&mut disk.0.lock().unwrap().cuts);
        for Left { file, folder, groups } in cuts {
            let found =
                contents(&start(Disk::new(file, folder.path(), 0, &mut random), folder.path()));
            let place = format!("life {life}, a sync after {groups} groups; {random}");
            // The one that was not acknowledged yet is there whole, or not at all.
            assert!(states.iter().skip(groups).take(2).any(|state| *state == found), "{place}");
            verified += 1;
        }
        (file, folder) = (left.file, left.folder);
        states.truncate(left.groups + 1);
        let found =
            contents(&start(Disk::new(file.clone(), folder.path(), 0, &mut random), folder.path()));
        assert!(states.last() == Some(&found), "life {life}; {random}");
    }
    assert!(states.len() > LIVES && verified > LIVES, "{verified} cuts in syncs; {random}");
}
