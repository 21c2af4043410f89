//! Checks fjall's journals before fjall reads them (J2).
//!
//! fjall ends a journal at the first entry that it cannot read. At the end of the last journal this
//! is right: the process or the machine stopped while the entry was written. Anywhere else
//! acknowledged commits would be lost in silence. Two witnesses find that out: the mark of the
//! folder tells whether the last commit is there, and this check tells whether anything is missing
//! or out of order before it.
//!
//! N1: All journals but the last end cleanly, because they were synced before the next one began.
//! N2: The batches of all journals carry growing sequence numbers. fjall's checksums leave these
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
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use keyloom_store::StoreError;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// Refuses journals of which something in the middle is missing or out of order.
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
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let (Some(number), Some("jnl")) = (number, path.extension().and_then(|it| it.to_str())) {
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
    /// A batch is older than the one before it.
    Disordered,
}

fn walk(path: &Path, seqno: &mut Option<u64>) -> io::Result<Walked> {
    let mut journal = BufReader::new(File::open(path)?);
    loop {
        match batch(&mut journal)? {
            Batch::Whole { seqno: next } if seqno.is_some_and(|last| next <= last) => {
                return Ok(Walked::Disordered);
            }
            Batch::Whole { seqno: next } => *seqno = Some(next),
            Batch::None => return Ok(Walked::Clean),
            Batch::Broken => return Ok(Walked::Unfinished),
        }
    }
}

enum Batch {
    Whole { seqno: u64 },
    None,
    Broken,
}

fn batch(journal: &mut BufReader<File>) -> io::Result<Batch> {
    let tag = match take::<1>(journal)? {
        None => return Ok(Batch::None),
        Some([tag]) => tag,
    };
    if tag == 0 {
        let rest = io::copy(&mut journal.take(u64::MAX), &mut Zeros);
        return Ok(if rest.is_ok() { Batch::None } else { Batch::Broken });
    }
    let (Some(items), Some(seqno)) = (take::<4>(journal)?, take::<8>(journal)?) else {
        return Ok(Batch::Broken);
    };
    if tag != START {
        return Ok(Batch::Broken);
    }
    for _ in 0..u32::from_le_bytes(items) {
        if !skip_item(journal)? {
            return Ok(Batch::Broken);
        }
    }
    let end = (take::<1>(journal)?, take::<8>(journal)?, take::<4>(journal)?);
    match end {
        (Some([END]), Some(_checksum), Some(TRAILER)) => {
            Ok(Batch::Whole { seqno: u64::from_le_bytes(seqno) })
        }
        _ => Ok(Batch::Broken),
    }
}

/// Passes over one item; `false` if there is none. fjall checks what is in it.
fn skip_item(journal: &mut BufReader<File>) -> io::Result<bool> {
    match take::<1>(journal)? {
        Some([CLEAR]) => return Ok(take::<8>(journal)?.is_some()),
        Some([ITEM]) => {}
        _ => return Ok(false),
    }
    let _type_compression_keyspace = take::<10>(journal)?;
    let key_len = take::<2>(journal)?.map(u16::from_le_bytes);
    let _value_len = take::<4>(journal)?;
    let stored_len = take::<4>(journal)?.map(u32::from_le_bytes);
    let (Some(key_len), Some(stored_len)) = (key_len, stored_len) else { return Ok(false) };
    let len = u64::from(key_len) + u64::from(stored_len);
    Ok(io::copy(&mut journal.take(len), &mut io::sink())? == len)
}

/// The next bytes; `None` if the file ends before.
fn take<const N: usize>(journal: &mut BufReader<File>) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match journal.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes zeros and nothing else.
struct Zeros;

impl io::Write for Zeros {
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
