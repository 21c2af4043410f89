//! Damaged files are reported, or do no harm: a store never panics over them, and never returns
//! anything but what was written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollster::block_on;

use super::{Random, add, delete, everything, put};
use crate::{
    Commit, Direction, OrderedStore, Position, ScanOptions, Snapshot, StoreError, Stored, Write,
};

/// How a law opens a store that may be damaged.
pub type TryOpen = fn(&Path) -> Result<Arc<dyn OrderedStore>, StoreError>;

const ROUNDS: u16 = 60;

/// Damages one file after the other in every way, `trials` times, and looks at the store each time.
/// `padding` is written in front, so that an engine with a memory of its own has to use its files.
pub fn damaged_files_are_reported_or_do_no_harm(open: TryOpen, padding: usize, trials: usize) {
    let mut random = Random::from_environment();
    let original = tempfile::tempdir().unwrap();
    let expected = fill(open, original.path(), padding);
    let mut reported = 0;
    for trial in 0..trials {
        let folder = tempfile::tempdir().unwrap();
        copy(original.path(), folder.path());
        let files = files(folder.path());
        let what = damage(&files[trial % files.len()], &mut random);
        let place = format!("trial {trial}: {what}; {random}");
        match open(folder.path()) {
            Ok(store) => reported += usize::from(!expected.matches(&*store, &place)),
            Err(error) => {
                assert!(!error.to_string().is_empty(), "{place}");
                reported += 1;
            }
        }
    }
    // Some damage does no harm (a lock file, unused pages), but if none is ever found, the damage
    // was not done or nobody looked.
    assert!(reported > trials / 4, "only {reported} of {trials} were reported; {random}");
}

/// What the undamaged store holds.
struct Expected {
    keys: BTreeMap<Vec<u8>, Stored>,
    feed: Vec<Vec<u8>>,
}

impl Expected {
    /// Whether all reads succeed; what they return is compared in any case.
    fn matches(&self, store: &dyn OrderedStore, place: &str) -> bool {
        let Ok(snapshot) = block_on(store.snapshot()) else { return false };
        let mut whole = true;
        for (key, stored) in &self.keys {
            match block_on(snapshot.get(key)) {
                Ok(found) => assert!(found.as_ref() == Some(stored), "{place}: get {key:?}"),
                Err(_) => whole = false,
            }
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            whole &= self.scan_matches(&*snapshot, direction, place);
        }
        match block_on(store.changes(Position::default(), usize::MAX)) {
            Ok(found) => {
                let found: Vec<_> = found.into_iter().map(|change| change.bytes).collect();
                assert!(found == self.feed, "{place}: the feed");
            }
            Err(_) => whole = false,
        }
        whole
    }

    fn scan_matches(&self, snapshot: &dyn Snapshot, direction: Direction, place: &str) -> bool {
        let mut expected: Vec<_> = self.keys.iter().collect();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        let mut expected = expected.into_iter();
        let options = ScanOptions { direction, limit: usize::MAX };
        let Ok(mut scan) = block_on(snapshot.scan(&everything(), options)) else { return false };
        loop {
            let Ok(page) = block_on(scan.next(1)) else { return false };
            let Some(entry) = page.into_iter().next() else { break };
            let same = expected.next() == Some((&entry.key, &entry.stored));
            assert!(same, "{place}: {direction:?} scan at {:?}", entry.key);
        }
        assert!(expected.next().is_none(), "{place}: the {direction:?} scan ends early");
        true
    }
}

/// Writes, overwrites and deletes over several lives of the store.
fn fill(open: TryOpen, folder: &Path, padding: usize) -> Expected {
    let mut random = Random::new(1);
    let mut feed = Vec::new();
    let mut written = 0;
    let mut store = open(folder).unwrap();
    for round in 0..ROUNDS {
        if round % 20 == 19 {
            drop(store);
            store = open(folder).unwrap();
        }
        let pad = if written < padding { 1 << 20 } else { 100 };
        written += pad;
        let mut writes: Vec<Write> = (0..8_u16)
            .map(|key| put([first(key), (key * 13 + round % 7) as u8], random.bytes(50)))
            .collect();
        writes.push(put(padding_key(round), random.bytes(pad)));
        writes.push(delete(padding_key(round.saturating_sub(9))));
        writes.push(add("count", 1));
        if round < 9 {
            writes.remove(9);
        }
        let changes = vec![round.to_be_bytes().to_vec()];
        feed.extend(changes.clone());
        block_on(store.commit(Arc::new(Commit { writes, changes, ..Commit::default() }))).unwrap();
    }
    let snapshot = block_on(store.snapshot()).unwrap();
    let entries = super::scan(&*snapshot, &everything(), Direction::Forward);
    Expected { keys: entries.into_iter().map(|entry| (entry.key, entry.stored)).collect(), feed }
}

/// The first byte of a key: an engine may keep keys with different ones in different files.
fn first(number: u16) -> u8 {
    if number.is_multiple_of(2) { 0x02 } else { b'k' }
}

fn padding_key(round: u16) -> Vec<u8> {
    [&[first(round)], &b"pad"[..], &round.to_be_bytes()].concat()
}

/// Damages one file, and says how.
fn damage(path: &Path, random: &mut Random) -> String {
    let mut bytes = fs::read(path).unwrap();
    // Space that was only reserved is not worth damaging.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    if used == 0 {
        fs::remove_file(path).unwrap();
        return format!("removed {}", path.display());
    }
    let place = random.below(used);
    let how = match random.below(8) {
        0 => {
            fs::remove_file(path).unwrap();
            return format!("removed {}", path.display());
        }
        1 | 2 => {
            bytes.truncate(place);
            "cut off"
        }
        3 => {
            let sector = place / 512 * 512;
            let end = (sector + 512).min(bytes.len());
            bytes[sector..end].fill(0);
            "zeroed a sector"
        }
        _ => {
            bytes[place] ^= 1 << random.below(8);
            "flipped a bit"
        }
    };
    fs::write(path, bytes).unwrap();
    format!("{how} at {place} of {used} in {}", path.display())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().is_some_and(|name| !name.eq_ignore_ascii_case("lock")) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
