//! One file of the journal.
//!
//! ```text
//! segment: | head, 4096 bytes with its zeros | record | record | … | older records or zeros |
//! head:    | "KEYLOOMJ" | number u64 | generation u64 | end of the one before u64 | checksum u64 |
//! ```
//!
//! Numbers are big-endian; the checksum is the XXH3-64 of what stands before it. Records are those
//! of `keyloom_store::record`.
//!
//! S1: The generation is drawn at random when a segment is begun, so nothing that an older one has
//!     left in the same file is read as a record of this one.
//! S2: A record is written into space that the file has already: a sync then has only data to
//!     sync, and a full disk is found before anything is written.
//! S3: A segment says where the one before it ended, so records that are lost in between are
//!     noticed.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::path::Path;

use keyloom_store::StoreError;
use keyloom_store::record::{self, Place, Record, RowsIn};
use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{SEGMENT_BYTES_MAX, SPACE_BYTES_MAX, SPACE_BYTES_MIN};

const MAGIC: u64 = u64::from_be_bytes(*b"KEYLOOMJ");

/// A page of its own, so that writing a record does not touch the head.
const HEAD_BYTES: usize = 4096;

/// Space that nothing was written into.
const ZEROS: [u8; 16 << 10] = [0; 16 << 10];

/// A segment that is open for appending.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    generation: u64,
    /// The space of the file.
    space: usize,
    /// Where the next record goes.
    end: usize,
}

/// What a segment was found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where its records end.
    pub(crate) end: usize,
    /// Where it says that those of the segment before end; none if that was never begun.
    pub(crate) before: usize,
}

impl Segment {
    /// Begins a segment in this file, whatever it holds, or in a new one.
    pub(crate) fn begin(path: &Path, number: u64, before: usize) -> io::Result<Segment> {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        let space = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        // Nobody can foresee it, so no value that was stored can pass for a record of it (S1).
        let generation = RandomState::new().hash_one(number);
        let mut segment = Segment { file, generation, space, end: 0 };
        segment.take_space(HEAD_BYTES)?;
        segment.write(&head(number, generation, before))?;
        segment.end = HEAD_BYTES;
        segment.file.sync_all()?;
        Ok(segment)
    }

    /// Takes the space for a record (S2).
    pub(crate) fn reserve(&mut self, record: &Record) -> io::Result<()> {
        self.take_space(self.end + record.len())
    }

    /// Appends a record that has its space.
    pub(crate) fn append(&mut self, record: &mut Record) -> io::Result<()> {
        let place = Place { generation: self.generation, offset: self.end };
        let bytes = record.seal(place).ok_or(io::ErrorKind::FileTooLarge)?;
        self.write(bytes)?;
        self.end += bytes.len();
        Ok(())
    }

    /// Makes all records durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Where the records end.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    fn take_space(&mut self, end: usize) -> io::Result<()> {
        if end > self.space {
            let step = end.next_power_of_two().clamp(SPACE_BYTES_MIN, SPACE_BYTES_MAX);
            let space = end.next_multiple_of(step);
            // In small pieces: the system keeps what comes at once together, and then looks at all
            // of it whenever a part is written.
            while self.space < space {
                let piece = ZEROS.get(..space - self.space).unwrap_or(&ZEROS);
                write_at(&mut self.file, self.space, piece)?;
                self.space += piece.len();
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_at(&mut self.file, self.end, bytes)
    }
}

/// Reads the segment with this number, lets `apply` have the rows of its records, and makes what
/// was read durable. `None` if this file was never begun as that segment.
pub(crate) fn read(
    path: &Path,
    number: u64,
    mut apply: impl FnMut(RowsIn<'_>) -> Result<(), StoreError>,
) -> Result<Option<Found>, StoreError> {
    let bytes = read_all(path).map_err(|error| unreadable(path, error))?;
    let Some((generation, before)) = read_head(&bytes, number) else { return Ok(None) };
    let mut end = HEAD_BYTES;
    let next = |end| record::read(bytes.get(end..)?, Place { generation, offset: end });
    while let Some((rows, len)) = next(end) {
        apply(rows)?;
        end += len;
    }
    Ok(Some(Found { end, before }))
}

fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).write(true).open(path)?;
    // What is read may be in the memory of the system only, and more is going to rest on it.
    file.sync_data()?;
    let mut bytes = Vec::new();
    file.take(SEGMENT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn head(number: u64, generation: u64, before: usize) -> [u8; 40] {
    let mut head = [0; 40];
    let parts = [MAGIC, number, generation, before as u64].map(u64::to_be_bytes);
    let checksum = xxh3_64(parts.as_flattened()).to_be_bytes();
    for (byte, part) in head.iter_mut().zip(parts.as_flattened().iter().chain(&checksum)) {
        *byte = *part;
    }
    head
}

/// The generation, and where the segment before ended.
fn read_head(bytes: &[u8], number: u64) -> Option<(u64, usize)> {
    let mut parts =
        bytes.chunks_exact(8).filter_map(|it| it.try_into().ok().map(u64::from_be_bytes));
    let [magic, own, generation, before, checksum] = [(); 5].map(|()| parts.next());
    let before = usize::try_from(before?).ok()?;
    let is_whole = bytes.get(..32).map(xxh3_64) == checksum;
    (is_whole && magic == Some(MAGIC) && own == Some(number)).then_some((generation?, before))
}

fn unreadable(path: &Path, error: io::Error) -> StoreError {
    let reason = format!("{} cannot be read: {error}", path.display());
    StoreError::Unavailable { reason, source: Some(Box::new(error)) }
}

/// One call of the system where there is one for it: this is on the way of every commit.
#[cfg(unix)]
fn write_at(file: &mut File, offset: usize, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset as u64)
}

#[cfg(not(unix))]
fn write_at(file: &mut File, offset: usize, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Seek as _, SeekFrom, Write as _};

    file.seek(SeekFrom::Start(offset as u64))?;
    file.write_all(bytes)
}
