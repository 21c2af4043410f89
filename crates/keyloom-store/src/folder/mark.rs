//! Remembers the last acknowledged commit outside of the engine, so that an engine which silently
//! forgets the end of its history (a truncated journal, an older root) is found out.
//!
//! ```text
//! two slots, at 0 and at 4096:
//! | durable u64 | buffered u64 | boot u64 | checksum u64 |   all big-endian
//! ```
//!
//! K1: The engine has a commit before the mark does, so a mark is never ahead of an honest engine.
//! K2: A slot is written while the other one stays valid, so a torn write loses at most one step.
//! K3: `durable` counts commits that survive power loss. `buffered` counts commits that survive as
//!     long as the machine runs: it is believed only during the boot that `boot` identifies.
//!
//! The mark itself is not synced: it would double the cost of a commit. After power loss it may
//! lag behind, and then it finds out less, but it never raises a false alarm.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{cannot, create_file, write_at};
use crate::StoreError;

/// The slots lie in different pages, because a page is what a crash tears.
const SLOT_BYTES: usize = 4096;
const SLOTS: usize = 2;

/// How many buffered commits one write of the mark stands for: as many may be missing at the end
/// of a damaged journal before it is noticed. They are the ones that loss of power could cost.
const BUFFERED_STEP: u64 = 64;

/// The record of the last acknowledged commit.
#[derive(Debug)]
pub struct Mark {
    path: PathBuf,
    file: File,
    record: Record,
    boot: u64,
    slot: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    durable: u64,
    buffered: u64,
    boot: u64,
}

impl Mark {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_at(path, boot())
    }

    fn open_at(path: &Path, boot: u64) -> Result<Self, StoreError> {
        if !path.exists() {
            let slots = [Record::default().encode(); SLOTS].concat();
            create_file(path, &slots).map_err(|error| cannot(path, "cannot be written", error))?;
        }
        let mut file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| cannot(path, "cannot be opened", error))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| cannot(path, "cannot be read", error))?;
        let slots: Vec<_> = bytes.chunks(SLOT_BYTES).map(Record::decode).collect();
        // What is not believed (K3) must not make a slot the newest.
        let believed = |record: Record| match record.boot == boot && boot != UNKNOWN_BOOT {
            true => record,
            false => Record { buffered: 0, ..record },
        };
        let newest = slots
            .iter()
            .enumerate()
            .filter_map(|(slot, record)| record.map(|record| (slot, believed(record))))
            .max_by_key(|(_, record)| record.durable.max(record.buffered));
        let Some((slot, record)) = newest else {
            let detail = format!(
                "{} is damaged; remove it to go on without proof that no commit is missing",
                path.display()
            );
            return Err(StoreError::Corrupt { detail });
        };
        Ok(Mark { path: path.to_owned(), file, record, boot, slot: (slot + 1) % SLOTS })
    }

    /// Refuses an engine that does not remember the last commit that was acknowledged.
    pub fn check(&self, sequence: u64) -> Result<(), StoreError> {
        let expected = self.record.durable.max(self.record.buffered);
        if sequence >= expected {
            return Ok(());
        }
        let detail = format!(
            "the acknowledged commits {} to {expected} are missing: a file of this folder is \
             damaged, or was not copied with the others; put it back or restore a backup, or \
             remove {} to go on without them",
            sequence + 1,
            self.path.display()
        );
        Err(StoreError::Corrupt { detail })
    }

    /// Notes a commit that survives power loss.
    pub fn record_durable(&mut self, sequence: u64) -> Result<(), StoreError> {
        self.write(Record { durable: sequence, ..self.record })
    }

    /// Notes a commit that survives the end of this process, but not of the machine. Only now and
    /// then is it written, because a call of the system is a good part of a buffered commit.
    pub fn record_buffered(&mut self, sequence: u64) -> Result<(), StoreError> {
        let last = self.record.durable.max(self.record.buffered);
        if sequence < last.saturating_add(BUFFERED_STEP) {
            return Ok(());
        }
        self.write(Record { buffered: sequence, boot: self.boot, ..self.record })
    }

    fn write(&mut self, record: Record) -> Result<(), StoreError> {
        let offset = (self.slot * SLOT_BYTES) as u64;
        write_at(&mut self.file, offset, &record.to_bytes())
            .map_err(|error| cannot(&self.path, "cannot be written", error))?;
        self.record = record;
        self.slot = (self.slot + 1) % SLOTS;
        Ok(())
    }
}

impl Record {
    const BYTES: usize = 32;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let Record { durable, buffered, boot } = self;
        let mut bytes = [0; Self::BYTES];
        let checksum = fnv([durable, buffered, boot].iter().flat_map(|part| part.to_be_bytes()));
        let parts = [durable, buffered, boot, checksum].into_iter().flat_map(u64::to_be_bytes);
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        bytes
    }

    /// A whole slot.
    fn encode(self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        for (byte, part) in slot.iter_mut().zip(self.to_bytes()) {
            *byte = part;
        }
        slot
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let (durable, rest) = slot.split_first_chunk::<8>()?;
        let (buffered, rest) = rest.split_first_chunk::<8>()?;
        let (boot, _) = rest.split_first_chunk::<8>()?;
        let [durable, buffered, boot] = [durable, buffered, boot].map(|it| u64::from_be_bytes(*it));
        let record = Record { durable, buffered, boot };
        slot.starts_with(&record.to_bytes()).then_some(record)
    }
}

/// FNV-1a: it tells a torn or rotten slot from a whole one, and needs no dependency.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

const UNKNOWN_BOOT: u64 = 0;

/// Identifies the current boot of the machine, where the system can tell (Linux).
fn boot() -> u64 {
    match fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => fnv(id.into_iter()),
        Err(_) => UNKNOWN_BOOT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: u64 = 7;

    fn fresh() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("MARK");
        (folder, path)
    }

    fn refuses(path: &Path, boot: u64, sequence: u64) -> bool {
        Mark::open_at(path, boot).unwrap().check(sequence).is_err()
    }

    #[test]
    fn a_new_mark_is_content_with_everything() {
        let (_folder, path) = fresh();
        Mark::open(&path).unwrap().check(0).unwrap();
    }

    #[test]
    fn an_engine_that_forgot_an_acknowledged_commit_is_refused() {
        let (_folder, path) = fresh();
        let mut mark = Mark::open(&path).unwrap();
        for sequence in 1..=5 {
            mark.record_durable(sequence).unwrap();
        }
        let error = Mark::open(&path).unwrap().check(3).unwrap_err().to_string();
        assert!(error.contains("the acknowledged commits 4 to 5 are missing"), "{error}");
        assert!(refuses(&path, BOOT, 4));
        assert!(!refuses(&path, BOOT, 5));
        assert!(!refuses(&path, BOOT, 6));
    }

    #[test]
    fn k2_a_torn_slot_costs_one_step_and_the_mark_goes_on() {
        for sequence in [4, 5] {
            let (_folder, path) = fresh();
            let mut mark = Mark::open(&path).unwrap();
            for sequence in 1..=sequence {
                mark.record_durable(sequence).unwrap();
            }
            let torn = (mark.slot + 1) % SLOTS;
            let mut bytes = fs::read(&path).unwrap();
            bytes[torn * SLOT_BYTES + 7] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            assert!(!refuses(&path, BOOT, sequence - 1));
            assert!(refuses(&path, BOOT, sequence - 2));
            let mut mark = Mark::open(&path).unwrap();
            mark.record_durable(9).unwrap();
            assert!(refuses(&path, BOOT, 8));
        }
    }

    #[test]
    fn k3_what_an_earlier_boot_buffered_hides_nothing_that_was_durable_since() {
        let (_folder, path) = fresh();
        let mut mark = Mark::open_at(&path, BOOT).unwrap();
        mark.record_durable(500).unwrap();
        mark.record_buffered(1000).unwrap();
        let mut mark = Mark::open_at(&path, BOOT + 1).unwrap();
        mark.check(500).unwrap();
        mark.record_durable(501).unwrap();
        assert!(refuses(&path, BOOT + 1, 500));
        assert!(!refuses(&path, BOOT + 1, 501));
    }

    #[test]
    fn a_mark_without_a_whole_slot_is_damage() {
        let (_folder, path) = fresh();
        drop(Mark::open(&path).unwrap());
        for bytes in [vec![], vec![0; 8192], vec![1; 100], vec![0xFF; 8192]] {
            fs::write(&path, bytes).unwrap();
            let error = Mark::open(&path).unwrap_err();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        }
    }

    #[test]
    fn k3_buffered_commits_are_expected_until_the_machine_restarts() {
        let (_folder, path) = fresh();
        let mut mark = Mark::open_at(&path, BOOT).unwrap();
        mark.record_durable(3).unwrap();
        let last = 3 + 2 * BUFFERED_STEP;
        for sequence in 4..last + BUFFERED_STEP {
            mark.record_buffered(sequence).unwrap();
        }
        assert!(refuses(&path, BOOT, last - 1));
        assert!(!refuses(&path, BOOT, last));
        assert!(!refuses(&path, BOOT + 1, 3));
        assert!(refuses(&path, BOOT + 1, 2));
    }

    #[test]
    fn k3_without_a_known_boot_only_durable_commits_are_expected() {
        let (_folder, path) = fresh();
        let mut mark = Mark::open_at(&path, UNKNOWN_BOOT).unwrap();
        mark.record_durable(3).unwrap();
        mark.record_buffered(3 + BUFFERED_STEP).unwrap();
        assert!(!refuses(&path, UNKNOWN_BOOT, 3));
    }

    #[test]
    fn the_bytes_of_a_slot_are_fixed() {
        let record = Record { durable: 1, buffered: 2, boot: 3 };
        let bytes = record.to_bytes();
        assert_eq!(
            bytes[..24],
            [[0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 3]].concat()
        );
        assert_eq!(bytes[24..], fnv(bytes[..24].iter().copied()).to_be_bytes());
        assert_eq!(fnv(b"a".iter().copied()), 0xAF63_DC4C_8601_EC8C);
    }
}
