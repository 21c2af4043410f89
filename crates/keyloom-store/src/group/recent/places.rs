//! Places for what is read again, by a hash, in a bounded space.
//!
//! ```text
//! what is kept = moment u64 | length of the key u16 | key | content        in one allocation
//! ```
//!
//! P1: There is one place for each class of hashes, with a bounded number of bytes. Four classes
//!     share their places: what is hot of one class finds room beside each other.
//! P2: Something is kept where nothing lies yet; in place of something else only when it is read
//!     again before anything else of its class is. So who reads everything once pushes out nothing
//!     that is read again. What gives way was not found for longer than what lies beside it.
//!     What was kept and is not the same any more is kept again when it is read; what is not the
//!     same any more when it is read, from an older snapshot, is not kept.
//! P3: Nobody waits for anybody: who finds a place in use reads from the engine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use crate::StoreError;
use crate::group::Moment;

/// Places, as many as there are classes.
pub(super) struct Places {
    places: Box<[Place]>,
    /// Apart from the places and small, so that the caches of the processor hold them: who looks
    /// for what is not kept need not look any further.
    marks: Box<[Marks]>,
    /// Most bytes in one place.
    bytes_max: usize,
}

/// What can be kept.
pub(super) trait Content: Sized {
    /// How many bytes it takes.
    fn bytes(&self) -> usize;

    /// Writes it as so many bytes.
    fn write(&self, bytes: &mut Vec<u8>);

    /// Reads what was written.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// Names it.
    pub(super) key: &'a [u8],
    /// The hash of the key.
    pub(super) hash: u64,
    /// The hash by which commits note that it is not the same any more.
    pub(super) noted: u64,
    /// The moment at which it is read.
    pub(super) at: Moment,
}

/// What is known of one class. It never lies in two cache lines: what is kept is found with two
/// looks into the memory, here and at the bytes.
#[derive(Default)]
#[repr(align(32))]
struct Place {
    /// The last moment that was noted for this class.
    noted: AtomicU64,
    kept: Mutex<Option<Box<[u8]>>>,
}

/// What stands in front of what is kept.
const MOMENT_BYTES: usize = 8;
const KEY_LEN_BYTES: usize = 2;

/// Further bits of two hashes; [`NONE`] of nothing.
#[derive(Default)]
struct Marks {
    /// Of what is kept here, with [`FOUND`] if it was found lately.
    kept: AtomicU16,
    /// Of what was read last of this class.
    read: AtomicU16,
}

const NONE: u16 = 0;

/// It was found since what lies beside it was looked through for something to give way (P2).
const FOUND: u16 = 1;

/// In every mark, which is then never [`NONE`].
const MARKED: u16 = 2;

/// How many classes share their places. Their marks lie in one cache line.
pub(super) const WAYS: usize = 4;

impl Places {
    /// So many empty places, a power of two, for so many bytes each.
    pub(super) fn new(count: usize, bytes_max: usize) -> Places {
        assert!(count.is_power_of_two() && count >= WAYS, "a class is found by a mask");
        let places = (0..count).map(|_| Place::default()).collect();
        let marks = (0..count).map(|_| Marks::default()).collect();
        Places { places, marks, bytes_max }
    }

    /// What is asked for, as it was at that moment; `look` finds it in the engine.
    pub(super) fn get<T: Content>(
        &self,
        asked: Asked<'_>,
        look: impl FnOnce() -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mark = mark(asked.hash);
        let mut known = None;
        for (marks, place) in self.around(asked.hash) {
            if !marks.is_of(mark) {
                continue;
            }
            if let Some(found) = place.find(asked, || self.noted(asked.noted)) {
                marks.note_found(mark);
                return Ok(Some(found));
            }
            known = Some((marks, place));
        }
        let found = look()?;
        let may_be_found = || self.noted(asked.noted) <= Some(asked.at);
        if let Some(content) = found.as_ref().filter(|_| may_be_found()) {
            let free = || self.around(asked.hash).find(|(marks, _)| marks.is_of(NONE));
            let other = || {
                let is_read_again = self.is_read_again(asked.hash, mark);
                if is_read_again { self.gives_way(asked.hash, mark) } else { None }
            };
            if let Some((marks, place)) = known.or_else(free).or_else(other)
                && place.keep(asked, content, self.bytes_max)
            {
                marks.kept.store(mark, Ordering::Relaxed);
            }
        }
        Ok(found)
    }

    /// Notes that something of the class of a hash is not the same from this moment on.
    pub(super) fn note(&self, hash: u64, at: Moment) {
        if let Some(place) = self.places.get(self.class(hash)) {
            place.noted.store(at.0, Ordering::Release);
        }
    }

    fn noted(&self, hash: u64) -> Option<Moment> {
        self.places.get(self.class(hash)).map(|place| Moment(place.noted.load(Ordering::Acquire)))
    }

    pub(super) fn class(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    /// Whether this is what was read last of its class; from now on it is.
    fn is_read_again(&self, hash: u64, mark: u16) -> bool {
        let marks = self.marks.get(self.class(hash));
        marks.is_some_and(|marks| marks.read.swap(mark, Ordering::Relaxed) == mark)
    }

    /// What was not found for long.
    fn gives_way(&self, hash: u64, mark: u16) -> Option<(&Marks, &Place)> {
        let around = || self.around(hash);
        around().find(|(marks, _)| !marks.was_found()).or_else(|| {
            // All of them were: what is not found from now on gives way next.
            around().for_each(|(marks, _)| marks.forget_found());
            around().nth(usize::from(mark / (2 * MARKED)) % WAYS)
        })
    }

    /// Uses the place of a class until what is returned is dropped.
    #[cfg(test)]
    pub(super) fn in_use(&self, hash: u64) -> impl Drop + '_ {
        self.places[self.class(hash)].kept.lock().unwrap()
    }

    /// Where it may be: in its class, or in one of those beside it.
    fn around(&self, hash: u64) -> impl Iterator<Item = (&Marks, &Place)> {
        let places = (0..WAYS).map(move |way| self.class(hash) ^ way);
        places.filter_map(|place| Some((self.marks.get(place)?, self.places.get(place)?)))
    }
}

fn mark(hash: u64) -> u16 {
    (hash >> 48) as u16 & !FOUND | MARKED
}

impl Marks {
    fn is_of(&self, mark: u16) -> bool {
        self.kept.load(Ordering::Relaxed) & !FOUND == mark
    }

    fn was_found(&self) -> bool {
        self.kept.load(Ordering::Relaxed) & FOUND != 0
    }

    /// Only the first one who finds it writes, and not if something else has come meanwhile.
    fn note_found(&self, mark: u16) {
        if !self.was_found() {
            let (relaxed, found) = (Ordering::Relaxed, mark | FOUND);
            let _ = self.kept.compare_exchange(mark, found, relaxed, relaxed);
        }
    }

    fn forget_found(&self) {
        self.kept.fetch_and(!FOUND, Ordering::Relaxed);
    }
}

impl Place {
    /// What is asked for, if it is here and nothing was noted since the moment at which it was
    /// read or the one that is asked about, whichever is earlier.
    fn find<T: Content>(
        &self,
        asked: Asked<'_>,
        noted: impl FnOnce() -> Option<Moment>,
    ) -> Option<T> {
        let kept = self.kept.try_lock().ok()?;
        let (at, rest) = kept.as_deref()?.split_first_chunk()?;
        let (key_len, rest) = rest.split_first_chunk()?;
        let (key, content) = rest.split_at_checked(u16::from_be_bytes(*key_len).into())?;
        let is_shown =
            key == asked.key && noted()? <= Moment(u64::from_be_bytes(*at)).min(asked.at);
        if is_shown { T::read(content) } else { None }
    }

    /// Keeps something, unless it is too large or the place is in use.
    fn keep(&self, asked: Asked<'_>, content: &impl Content, bytes_max: usize) -> bool {
        let Ok(key_len) = u16::try_from(asked.key.len()) else { return false };
        let len = MOMENT_BYTES + KEY_LEN_BYTES + asked.key.len() + content.bytes();
        if len > bytes_max {
            return false;
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&asked.at.0.to_be_bytes());
        bytes.extend_from_slice(&key_len.to_be_bytes());
        bytes.extend_from_slice(asked.key);
        content.write(&mut bytes);
        match self.kept.try_lock() {
            Ok(mut kept) => *kept = Some(bytes.into_boxed_slice()),
            Err(_) => return false,
        }
        true
    }
}
