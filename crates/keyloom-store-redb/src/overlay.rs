//! Verifies a database file without writing to it.
//!
//! redb verifies all checksums only together with a repair, and a repair may drop the last commits.
//! So it is let loose on an overlay: it reads the file, and what it writes stays in memory.
//!
//! O1: The file is opened for reading only.
//! O2: A read sees the last write of each byte, or the byte of the file below, or zero behind it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use keyloom_store::StoreError;
use redb::{Builder, StorageBackend};

use crate::engine::open_error;

/// A walk through the file reads each page once; it need not keep more than the upper levels.
const CACHE_BYTES: usize = 32 << 20;

const BLOCK_BYTES: usize = 4096;

/// Reads all of the file, and fails if anything in it is not as redb wrote it.
pub(crate) fn verify(path: &Path) -> Result<(), StoreError> {
    let overlay = Overlay::open(path).map_err(|error| StoreError::Unavailable {
        reason: format!("{}: {error}", path.display()),
        source: Some(Box::new(error)),
    })?;
    let mut database = Builder::new()
        .set_cache_size(CACHE_BYTES)
        .create_with_backend(overlay)
        .map_err(open_error)?;
    if database.check_integrity().map_err(open_error)? {
        return Ok(());
    }
    let detail = format!("{} fails the checksums of its pages", path.display());
    Err(StoreError::Corrupt { detail })
}

#[derive(Debug)]
struct Overlay {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// How much of the file still shows.
    file_len: u64,
    len: u64,
    written: BTreeMap<u64, Box<[u8; BLOCK_BYTES]>>,
}

impl Overlay {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        if len == 0 {
            // redb would take an empty file for a new one.
            return Err(Error::new(ErrorKind::UnexpectedEof, "the file is empty"));
        }
        let written = BTreeMap::new();
        Ok(Overlay { state: Mutex::new(State { file, file_len: len, len, written }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this lock")
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.state().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let mut state = self.state();
        if offset + out.len() as u64 > state.len {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        for (place, part) in places(offset, out.len()).zip(split_mut(offset, out)) {
            match state.written.get(&place.block) {
                Some(block) => copy(block.iter().skip(place.start), part),
                None => state.read_file(place.offset(), part)?,
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut state = self.state();
        state.len = state.len.max(offset + data.len() as u64);
        let mut data = data.iter();
        for place in places(offset, data.len()) {
            let mut block = match state.written.remove(&place.block) {
                Some(block) => block,
                None => state.block_of_file(place.block)?,
            };
            for byte in block.iter_mut().skip(place.start).take(place.len) {
                *byte = *data.next().expect("the places are as long as the data");
            }
            state.written.insert(place.block, block);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        let mut state = self.state();
        // What is cut off must read as zero if the file grows again.
        state.file_len = state.file_len.min(len);
        state.written.retain(|block, _| block * (BLOCK_BYTES as u64) < len);
        state.len = len;
        Ok(())
    }

    fn sync_data(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl State {
    /// The bytes of the file, and zeros behind its end.
    fn read_file(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        out.fill(0);
        let left = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(out.len());
        let (head, _) = out.split_at_mut(len);
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(head)
    }

    fn block_of_file(&mut self, block: u64) -> Result<Box<[u8; BLOCK_BYTES]>, Error> {
        let mut bytes = Box::new([0; BLOCK_BYTES]);
        self.read_file(block * BLOCK_BYTES as u64, bytes.as_mut_slice())?;
        Ok(bytes)
    }
}

/// A stretch of bytes within one block.
struct Place {
    block: u64,
    start: usize,
    len: usize,
}

impl Place {
    fn offset(&self) -> u64 {
        self.block * BLOCK_BYTES as u64 + self.start as u64
    }
}

/// The stretches of `len` bytes from `offset`, block by block.
fn places(offset: u64, len: usize) -> impl Iterator<Item = Place> {
    let mut offset = offset;
    let mut left = len;
    std::iter::from_fn(move || {
        let start = (offset % BLOCK_BYTES as u64) as usize;
        let place =
            Place { block: offset / BLOCK_BYTES as u64, start, len: left.min(BLOCK_BYTES - start) };
        offset += place.len as u64;
        left -= place.len;
        (place.len > 0).then_some(place)
    })
}

/// `out`, cut at the borders of the blocks.
fn split_mut(offset: u64, out: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    let to_border = BLOCK_BYTES - (offset % BLOCK_BYTES as u64) as usize;
    let (head, tail) = out.split_at_mut(to_border.min(out.len()));
    std::iter::once(head).chain(tail.chunks_mut(BLOCK_BYTES))
}

fn copy<'a>(from: impl Iterator<Item = &'a u8>, to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
