//! Checks fjall's journals before fjall reads them (J2).
//!
//! fjall ends a journal at the first entry that it cannot read. At the end of the last journal this
//! is right: the process or the machine stopped while the entry was written. Anywhere else
//! acknowledged commits would be lost in silence. Two witnesses find that out: the mark of the
//! folder tells whether the last commit is there, and this check tells whether anything is missing
//! or out of order before it.
//!
//! N1: All journals but the last end cleanly, because they were synced before the next one began.
//! N2: A batch that was finished passes its checksum. fjall checks that too, but not before it has
//!     acted on lengths that may be damaged. Only the very last batch may fail it: if the power
//!     goes while it is written, its end can be on the disk before its middle is. fjall would
//!     refuse to open, so it is cut off here. If it was acknowledged, the mark of the folder tells.
//! N3: The batches of all journals carry growing sequence numbers. fjall's checksums leave these
//!     numbers out, and a changed one would let an old value win over a new one.
//!
//! ```text
//! journal = batch* (zeros | unfinished batch)?        fjall's on-disk format 3, little-endian
//! batch   = 01 items u32 | seqno u64, items × item, 03 checksum u64 | "FJL" 03
//! item    = 02 type u8 | compression u8 | keyspace u64 | key len u16 | value len u32 | stored len
//!           u32 | key | stored value
//!         | 04 keyspace u64
//! ```

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use keyloom_store::StoreError;
use keyloom_store::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// What a row adds to a key and to a value of the contract.
const SPACE_BYTES: usize = 1;
const STAMP_BYTES_MAX: usize = 10;

/// Refuses journals of which something in the middle is missing or out of order, and cuts off a
/// last batch that was torn.
pub(crate) fn check(data: &Path) -> Result<(), StoreError> {
    let journals = journals(data).map_err(|error| unreadable(data, error))?;
    let last = journals.last().cloned();
    let mut seqno = None;
    for path in journals {
        let walked = walk(&path, &mut seqno).map_err(|error| unreadable(&path, error))?;
        match walked {
            Walked::Disordered => {
                return Err(corrupt(&path, "holds a commit that is out of order"));
            }
            Walked::Unfinished if Some(&path) != last.as_ref() => {
                return Err(corrupt(&path, "breaks off in the middle"));
            }
            Walked::Torn { len } if Some(&path) == last.as_ref() => {
                cut(&path, len).map_err(|error| unreadable(&path, error))?;
            }
            Walked::Damaged | Walked::Torn { .. } => {
                return Err(corrupt(&path, "fails the checksum of a commit"));
            }
            Walked::Clean | Walked::Unfinished => {}
        }
    }
    Ok(())
}

/// The journals, oldest first.
fn journals(data: &Path) -> io::Result<Vec<PathBuf>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl"));
        if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals.into_iter().map(|(_, path)| path).collect())
}

#[derive(Debug, PartialEq, Eq)]
enum Walked {
    /// Whole batches up to the end, or up to the space that was reserved for more.
    Clean,
    /// Something that is not a whole batch stands behind the last one.
    Unfinished,
    /// A batch that was finished is not as it was written.
    Damaged,
    /// The same, and nothing is behind it; the bytes before it are whole.
    Torn { len: u64 },
    /// A batch is older than the one before it.
    Disordered,
}

fn walk(path: &Path, seqno: &mut Option<u64>) -> io::Result<Walked> {
    let mut journal = BufReader::new(File::open(path)?);
    loop {
        let len = journal.stream_position()?;
        match batch(&mut journal)? {
            Batch::Whole { seqno: next } if seqno.is_some_and(|last| next <= last) => {
                return Ok(Walked::Disordered);
            }
            Batch::Whole { seqno: next } => *seqno = Some(next),
            Batch::None => return Ok(Walked::Clean),
            Batch::Unfinished => return Ok(Walked::Unfinished),
            Batch::Damaged => {
                let is_last = matches!(batch(&mut journal)?, Batch::None);
                return Ok(if is_last { Walked::Torn { len } } else { Walked::Damaged });
            }
        }
    }
}

/// Leaves the first `len` bytes, for good.
fn cut(path: &Path, len: u64) -> io::Result<()> {
    let journal = File::options().write(true).open(path)?;
    journal.set_len(len)?;
    journal.sync_all()
}

enum Batch {
    Whole { seqno: u64 },
    None,
    Unfinished,
    Damaged,
}

fn batch(journal: &mut impl Read) -> io::Result<Batch> {
    let Some([tag]) = take(journal)? else { return Ok(Batch::None) };
    if tag == 0 {
        let rest = io::copy(journal, &mut Zeros);
        return Ok(if rest.is_ok() { Batch::None } else { Batch::Unfinished });
    }
    let (Some(count), Some(seqno)) = (take(journal)?, take(journal)?) else {
        return Ok(Batch::Unfinished);
    };
    if tag != START {
        return Ok(Batch::Unfinished);
    }
    let mut hasher = Xxh3::new();
    for _ in 0..u32::from_le_bytes(count) {
        match item(journal, &mut hasher)? {
            Item::Whole => {}
            Item::None => return Ok(Batch::Unfinished),
            Item::TooLarge => return Ok(Batch::Damaged),
        }
    }
    let end = (take(journal)?, take(journal)?, take(journal)?);
    let (Some([END]), Some(checksum), Some(TRAILER)) = end else {
        return Ok(Batch::Unfinished);
    };
    if hasher.digest() != u64::from_le_bytes(checksum) {
        return Ok(Batch::Damaged);
    }
    Ok(Batch::Whole { seqno: u64::from_le_bytes(seqno) })
}

enum Item {
    Whole,
    None,
    /// Longer than anything that a store writes; fjall would reserve memory for it.
    TooLarge,
}

/// Passes over one item, and adds it to the checksum.
fn item(journal: &mut impl Read, hasher: &mut Xxh3) -> io::Result<Item> {
    let Some([tag]) = take(journal)? else { return Ok(Item::None) };
    hasher.update(&[tag]);
    match tag {
        CLEAR => {
            let Some(keyspace) = take::<8>(journal)? else { return Ok(Item::None) };
            hasher.update(&keyspace);
            return Ok(Item::Whole);
        }
        ITEM => {}
        _ => return Ok(Item::None),
    }
    let Some(header) = take::<20>(journal)? else { return Ok(Item::None) };
    hasher.update(&header);
    let [.., k0, k1, v0, v1, v2, v3, s0, s1, s2, s3] = header;
    let key_len = usize::from(u16::from_le_bytes([k0, k1]));
    let value_lens = [[v0, v1, v2, v3], [s0, s1, s2, s3]].map(u32::from_le_bytes);
    let too_large = |len: u32| len as usize > VALUE_BYTES_MAX + STAMP_BYTES_MAX;
    if key_len > KEY_BYTES_MAX + SPACE_BYTES || value_lens.into_iter().any(too_large) {
        return Ok(Item::TooLarge);
    }
    let [_, stored_len] = value_lens;
    let len = key_len as u64 + u64::from(stored_len);
    let copied = io::copy(&mut journal.by_ref().take(len), &mut Hashing { hasher })?;
    Ok(if copied == len { Item::Whole } else { Item::None })
}

/// The next bytes; `None` if the file ends before.
fn take<const N: usize>(journal: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match journal.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds what is written to it to a checksum.
struct Hashing<'a> {
    hasher: &'a mut Xxh3,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes zeros and nothing else.
struct Zeros;

impl Write for Zeros {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| *byte == 0) {
            Ok(bytes.len())
        } else {
            Err(ErrorKind::InvalidData.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn corrupt(path: &Path, what: &str) -> StoreError {
    StoreError::Corrupt { detail: format!("{} {what}", path.display()) }
}

fn unreadable(path: &Path, error: io::Error) -> StoreError {
    StoreError::Unavailable {
        reason: format!("{} cannot be read: {error}", path.display()),
        source: Some(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch as fjall writes it, with one item for each key.
    fn whole(seqno: u64, keys: &[&str]) -> Vec<u8> {
        let mut items = Vec::new();
        for key in keys {
            items.extend([ITEM, 0, 0]);
            items.extend(1_u64.to_le_bytes());
            items.extend(u16::try_from(key.len()).unwrap().to_le_bytes());
            items.extend(5_u32.to_le_bytes());
            items.extend(5_u32.to_le_bytes());
            items.extend(key.as_bytes());
            items.extend(b"value");
        }
        items.push(CLEAR);
        items.extend(9_u64.to_le_bytes());
        let mut batch = vec![START];
        batch.extend(u32::try_from(keys.len() + 1).unwrap().to_le_bytes());
        batch.extend(seqno.to_le_bytes());
        batch.extend(&items);
        batch.push(END);
        batch.extend(xxhash_rust::xxh3::xxh3_64(&items).to_le_bytes());
        batch.extend(TRAILER);
        batch
    }

    /// Checks a database with these journals, numbered from 9 so that text order would be wrong.
    fn check_journals(journals: &[Vec<u8>]) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        for (number, bytes) in journals.iter().enumerate() {
            fs::write(folder.path().join(format!("{}.jnl", number + 9)), bytes).unwrap();
        }
        fs::write(folder.path().join("version"), "FJL").unwrap();
        check(folder.path()).map_err(|error| {
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
            error.to_string()
        })
    }

    #[test]
    fn whole_journals_pass_with_and_without_reserved_space() {
        let first = [whole(1, &["a"]), whole(2, &["b", "c"])].concat();
        let second = [whole(5, &[]), vec![0; 5000]].concat();
        assert_eq!(check_journals(&[first.clone(), second, vec![]]), Ok(()));
        assert_eq!(check_journals(&[first, vec![0; 10]]), Ok(()));
        assert_eq!(check_journals(&[]), Ok(()));
    }

    #[test]
    fn n1_only_the_last_journal_may_break_off() {
        let last = whole(2, &["b", "c"]);
        for len in 1..last.len() {
            let broken = [whole(1, &["a"]), last[..len].to_vec()].concat();
            assert_eq!(check_journals(std::slice::from_ref(&broken)), Ok(()), "at {len}");
            let padded = [broken.clone(), vec![0; 100]].concat();
            assert_eq!(check_journals(std::slice::from_ref(&padded)), Ok(()), "at {len}");
            let error = check_journals(&[broken, whole(3, &[])]).unwrap_err();
            assert!(error.contains("9.jnl breaks off in the middle"), "{error}");
        }
    }

    #[test]
    fn n2_a_changed_bit_never_passes_as_a_whole_batch() {
        let batches = [whole(1, &["a"]), whole(2, &["b"])].concat();
        for bit in 0..batches.len() * 8 {
            let mut journal = batches.clone();
            journal[bit / 8] ^= 1 << (bit % 8);
            // A sequence number alone may grow: the order of the batches is the same.
            let start = bit / 8 % whole(1, &["a"]).len();
            let checked = check_journals(&[journal, whole(1 << 63, &[])]);
            assert!(checked.is_err() || (5..13).contains(&start), "bit {bit}");
        }
    }

    #[test]
    fn n2_a_last_batch_that_was_torn_is_cut_off() {
        let (first, mut torn) = (whole(1, &["a"]), whole(2, &["b"]));
        let value = torn.len() - TRAILER.len() - 8 - 1 - 9 - 1;
        torn[value] ^= 1;
        for reserved in [0, 5000] {
            let folder = tempfile::tempdir().unwrap();
            let [older, last] = ["8.jnl", "9.jnl"].map(|name| folder.path().join(name));
            fs::write(&older, whole(0, &[])).unwrap();
            fs::write(&last, [first.clone(), torn.clone(), vec![0; reserved]].concat()).unwrap();
            check(folder.path()).unwrap();
            assert!(fs::read(&last).unwrap() == first);
            check(folder.path()).unwrap();
        }
        for behind in [whole(3, &["c"]), vec![START], vec![0, 0, 7]] {
            let error = check_journals(&[[torn.clone(), behind].concat()]).unwrap_err();
            assert!(error.contains("fails the checksum of a commit"), "{error}");
        }
        let error = check_journals(&[torn, whole(3, &[])]).unwrap_err();
        assert!(error.contains("9.jnl fails the checksum of a commit"), "{error}");
    }

    #[test]
    fn n2_a_length_beyond_all_limits_is_damage_even_at_the_end() {
        let mut journal = whole(1, &["a"]);
        let value_len = 1 + 4 + 8 + 3 + 8 + 2;
        journal[value_len + 3] = 0x80;
        let error = check_journals(&[journal]).unwrap_err();
        assert!(error.contains("fails the checksum of a commit"), "{error}");
    }

    #[test]
    fn n3_batches_out_of_order_are_refused_within_and_across_journals() {
        for (first, second) in [(2, 1), (2, 2)] {
            let batches = [whole(first, &["a"]), whole(second, &["a"])];
            for journals in [vec![batches.concat()], batches.to_vec()] {
                let error = check_journals(&journals).unwrap_err();
                assert!(error.contains("out of order"), "{error}");
            }
        }
    }
}
