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
use keyloom_store::folder::write_at;
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

/// What a file was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The segment that it should be.
    Segment {
        /// Where its records end.
        end: usize,
        /// Where it says that those of the segment before end.
        before: usize,
    },
    /// Empty, or still another segment: it was about to be begun.
    NotBegun,
    /// Something that was never written.
    Damaged,
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
        let end = self.end + record.len();
        // More would not be read.
        if end > SEGMENT_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.take_space(end)
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
                write_at(&mut self.file, self.space as u64, piece)?;
                self.space += piece.len();
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_at(&mut self.file, self.end as u64, bytes)
    }
}

/// Reads the segment with this number, and lets `apply` have the rows of its records.
pub(crate) fn read(
    path: &Path,
    number: u64,
    mut apply: impl FnMut(RowsIn<'_>) -> Result<(), StoreError>,
) -> Result<Found, StoreError> {
    let bytes = read_bytes(path, SEGMENT_BYTES_MAX).map_err(|error| unreadable(path, error))?;
    let (generation, before) = match read_head(&bytes) {
        Some(head) if head.number == number => (head.generation, head.before),
        Some(_) => return Ok(Found::NotBegun),
        None if bytes.iter().take(HEAD_BYTES).all(|byte| *byte == 0) => return Ok(Found::NotBegun),
        None => return Ok(Found::Damaged),
    };
    let mut end = HEAD_BYTES;
    let next = |end| record::read(bytes.get(end..)?, Place { generation, offset: end });
    while let Some((rows, len)) = next(end) {
        apply(rows)?;
        end += len;
    }
    Ok(Found::Segment { end, before })
}

/// Makes what was read of a segment durable: more is going to rest on it. It may be in the memory
/// of the system only, and if a sync has failed before, the system may take it for written.
pub(crate) fn settle(path: &Path, end: usize) -> Result<(), StoreError> {
    let settled = read_bytes(path, end).and_then(|bytes| {
        let mut file = File::options().write(true).open(path)?;
        write_at(&mut file, 0, &bytes)?;
        file.sync_data()
    });
    settled.map_err(|error| unreadable(path, error))
}

fn read_bytes(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a segment says of itself.
struct Head {
    number: u64,
    generation: u64,
    before: usize,
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

fn read_head(bytes: &[u8]) -> Option<Head> {
    let mut parts =
        bytes.chunks_exact(8).filter_map(|it| it.try_into().ok().map(u64::from_be_bytes));
    let [magic, number, generation, before, checksum] = [(); 5].map(|()| parts.next());
    let before = usize::try_from(before?).ok()?;
    let is_whole = magic == Some(MAGIC) && bytes.get(..32).map(xxh3_64) == checksum;
    is_whole.then_some(Head { number: number?, generation: generation?, before })
}

fn unreadable(path: &Path, error: io::Error) -> StoreError {
    let reason = format!("{} cannot be read: {error}", path.display());
    StoreError::Unavailable { reason, source: Some(Box::new(error)) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A segment that takes everything, and whose syncs fail: the system has nothing to sync there.
    #[cfg(unix)]
    pub(crate) fn without_sync() -> Segment {
        let file = File::options().write(true).open("/dev/null").unwrap();
        Segment { file, generation: 7, space: SEGMENT_BYTES_MAX, end: HEAD_BYTES }
    }

    #[test]
    fn the_last_byte_of_a_segment_is_taken_and_one_more_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut segment = Segment::begin(&folder.path().join("1"), 1, 0).unwrap();
        let record = Record::of([(&b"key"[..], None)]);
        (segment.space, segment.end) = (SEGMENT_BYTES_MAX, SEGMENT_BYTES_MAX - record.len());
        segment.reserve(&record).unwrap();
        segment.end += 1;
        let error = segment.reserve(&record).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn the_bytes_of_a_head_are_fixed() {
        let head = head(2, 3, 4096);
        assert_eq!(&head[..8], b"KEYLOOMJ");
        assert_eq!(
            &head[8..32],
            [[0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 3], [0, 0, 0, 0, 0, 0, 16, 0]]
                .as_flattened()
        );
        assert_eq!(head[32..], xxh3_64(&head[..32]).to_be_bytes());
    }

    #[test]
    fn whatever_is_changed_in_a_head_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7");
        drop(Segment::begin(&path, 7, 5000).unwrap());
        let whole = std::fs::read(&path).unwrap();
        let found = || read(&path, 7, |_| panic!("it has no records")).unwrap();
        assert_eq!(found(), Found::Segment { end: HEAD_BYTES, before: 5000 });
        for bit in 0..8 * 40 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(found(), Found::Damaged, "bit {bit}");
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(read(&path, 8, |_| Ok(())).unwrap(), Found::NotBegun);
        for len in [0, 30] {
            std::fs::write(&path, vec![0; len]).unwrap();
            assert_eq!(found(), Found::NotBegun);
        }
    }
}
