//! Checks fjall's archives (tables and versions) before fjall reads them.
//!
//! fjall trusts some of what stands in them: a number of entries for which it reserves memory
//! before it compares a checksum, and settings that it asserts. Both would end the process, for
//! after a panic in the middle of its recovery fjall panics once more while it cleans up.
//!
//! ```text
//! archive = sections, toc, "SFA!" version u8 | checksum type u8 | checksum u128 | toc position u64
//!           | toc length u64                                          little-endian
//! toc     = "TOC!" entries u32, entries × (position u64 | length u64 | name length u16 | name)
//! current = version u64 | checksum of the archive v<version> u128 | checksum type u8
//! ```
//!
//! A1: An archive that passes has room for as many entries as it claims.
//! A2: The version that `current` names is as it was written. fjall notes its checksum, but does
//!     not compare it.
//! A3: Every keyspace has a `current`, and so has the one that names the others. fjall deletes a
//!     keyspace without one, and all that are not named.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use keyloom_store::StoreError;
use xxhash_rust::xxh3::xxh3_128;

const CURRENT: &str = "current";
const KEYSPACES: &str = "keyspaces";
/// The keyspace that names the others.
const NAMES: &str = "0";
const TRAILER_BYTES: i64 = 38;
const ENTRY_BYTES_MIN: u64 = 18;

/// Refuses a database whose archives break A1, A2 or A3.
pub(crate) fn check(folder: &Path) -> Result<(), StoreError> {
    check_currents(&folder.join(KEYSPACES))?;
    check_archives(folder)
}

/// A3.
fn check_currents(keyspaces: &Path) -> Result<(), StoreError> {
    let mut folders = vec![keyspaces.join(NAMES)];
    for entry in fs::read_dir(keyspaces).map_err(|error| unreadable(keyspaces, error))? {
        let path = entry.map_err(|error| unreadable(keyspaces, error))?.path();
        folders.extend(path.is_dir().then_some(path));
    }
    let mut currents = folders.iter().map(|folder| folder.join(CURRENT));
    match currents.find(|current| !current.is_file()) {
        Some(missing) => Err(corrupt(&missing, "is missing: put it back, or restore a backup")),
        None => Ok(()),
    }
}

fn check_archives(folder: &Path) -> Result<(), StoreError> {
    let unreadable = |error| unreadable(folder, error);
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            check_archives(&path)?;
        } else if !is_plausible(&path).map_err(unreadable)? {
            return Err(corrupt(&path, "has a damaged table of contents"));
        } else if path.file_name().is_some_and(|name| name == CURRENT) {
            let is_whole = names_a_whole_version(folder, &path).map_err(unreadable)?;
            is_whole.ok_or_else(|| corrupt(&path, "names no version, or one that is damaged"))?;
        }
    }
    Ok(())
}

fn unreadable(folder: &Path, error: io::Error) -> StoreError {
    StoreError::Unavailable {
        reason: format!("{} cannot be read: {error}", folder.display()),
        source: Some(Box::new(error)),
    }
}

/// A2, as `Some`.
fn names_a_whole_version(folder: &Path, current: &Path) -> io::Result<Option<()>> {
    let current = fs::read(current)?;
    let Some((version, rest)) = current.split_first_chunk::<8>() else { return Ok(None) };
    let Some((checksum, _type)) = rest.split_first_chunk::<16>() else { return Ok(None) };
    let version = folder.join(format!("v{}", u64::from_le_bytes(*version)));
    match fs::read(version) {
        Ok(bytes) => Ok((xxh3_128(&bytes) == u128::from_le_bytes(*checksum)).then_some(())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether this is no archive (fjall finds that out by itself) or keeps A1.
fn is_plausible(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    match read_claims(&mut file) {
        Ok(Some(claims)) => Ok(claims.entries <= claims.toc_bytes / ENTRY_BYTES_MIN),
        Ok(None) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(true),
        Err(error) => Err(error),
    }
}

struct Claims {
    entries: u64,
    /// Between the position of the table of contents and the end of the file.
    toc_bytes: u64,
}

fn read_claims(file: &mut File) -> io::Result<Option<Claims>> {
    let file_bytes = file.metadata()?.len();
    if file_bytes < TRAILER_BYTES.unsigned_abs() {
        return Ok(None);
    }
    file.seek(SeekFrom::End(-TRAILER_BYTES))?;
    let magic: [u8; 4] = take(file)?;
    let _version_type_checksum: [u8; 18] = take(file)?;
    let position = u64::from_le_bytes(take(file)?);
    if magic != *b"SFA!" || position > file_bytes {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(position))?;
    let magic: [u8; 4] = take(file)?;
    let entries = u64::from(u32::from_le_bytes(take(file)?));
    Ok((magic == *b"TOC!").then_some(Claims { entries, toc_bytes: file_bytes - position }))
}

fn take<const N: usize>(file: &mut File) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn corrupt(path: &Path, what: &str) -> StoreError {
    StoreError::Corrupt { detail: format!("{} {what}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with this number of entries in a table of contents of this length.
    fn archive(entries: u32, toc_bytes: usize) -> Vec<u8> {
        let mut bytes = b"sections".to_vec();
        let position = bytes.len() as u64;
        let mut toc = [&b"TOC!"[..], &entries.to_le_bytes()].concat();
        toc.resize(toc_bytes, 0);
        bytes.extend(&toc);
        bytes.extend(b"SFA!\x01\x00");
        bytes.extend([0; 16]);
        bytes.extend(position.to_le_bytes());
        bytes.extend((toc.len() as u64).to_le_bytes());
        bytes
    }

    fn message(folder: &Path) -> String {
        check_archives(folder).unwrap_err().to_string()
    }

    #[test]
    fn a1_an_archive_cannot_claim_more_entries_than_fit() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("keyspaces/1/tables");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("7"), archive(3, 100)).unwrap();
        check_archives(folder.path()).unwrap();
        fs::write(deep.join("7"), archive(1_000, 100)).unwrap();
        let message = message(folder.path());
        assert!(message.contains("7 has a damaged table of contents"), "{message}");
    }

    #[test]
    fn what_is_no_archive_is_left_to_fjall() {
        let folder = tempfile::tempdir().unwrap();
        let far = [archive(9_000, 100), vec![0]].concat();
        for bytes in [vec![], vec![0; 37], vec![0; 38], far] {
            fs::write(folder.path().join("x"), bytes).unwrap();
            check_archives(folder.path()).unwrap();
        }
    }

    #[test]
    fn a2_the_current_version_has_to_be_there_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let version = archive(2, 100);
        let current = [&12_u64.to_le_bytes()[..], &xxh3_128(&version).to_le_bytes(), &[0]].concat();
        fs::write(folder.path().join("current"), &current).unwrap();
        assert!(message(folder.path()).contains("names no version"));
        fs::write(folder.path().join("v12"), &version).unwrap();
        check_archives(folder.path()).unwrap();
        for place in 0..version.len() {
            let mut damaged = version.clone();
            damaged[place] ^= 1;
            fs::write(folder.path().join("v12"), damaged).unwrap();
            check_archives(folder.path()).unwrap_err();
        }
        fs::write(folder.path().join("v12"), &version).unwrap();
        for len in 0..24 {
            fs::write(folder.path().join("current"), &current[..len]).unwrap();
            assert!(message(folder.path()).contains("names no version"));
        }
    }
}
