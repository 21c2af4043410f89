//! What readers see of an engine: views, each of which shows one moment or several.
//!
//! ```text
//! writer ──► Published: the last view, and the last moment that it shows ──► Shown: one moment
//! ```
//!
//! An engine for which a view is dear says that the last one lasts. Then a commit is published by
//! telling that view a later moment, which is one number to write; nothing is allocated, and
//! nobody has to be asked whether he still reads.
//!
//! V1: A moment always shows the same: all groups that were written before it, whole, and nothing
//!     of later ones.
//! V2: Who takes a moment waits for nobody, and what he holds keeps showing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::{Direction, StoreError};

/// A point in the life of an open engine: the larger, the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// Rows from `from` (inclusive) to `to` (exclusive), where `from` is below `to`, at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The first row that may be read.
    pub from: &'a [u8],
    /// The first row behind it that may not.
    pub to: &'a [u8],
    /// When.
    pub at: Moment,
}

/// Reads of an engine. It is asked at moments from the one at which it was made up to the last for
/// which the engine said that it lasts; a view that does not last is only asked at its own.
pub trait View: Send + Sync + 'static {
    /// A place in a range of rows.
    type Cursor: Cursor;

    /// Lets `read` see the value of a row at a moment, if there is one.
    fn get<R>(
        &self,
        row: &[u8],
        at: Moment,
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError>;

    /// Opens the rows of a span.
    fn range(&self, span: Span<'_>) -> Result<Self::Cursor, StoreError>;

    /// Lets `read` see the first rows of a span, at most `count`, from the end where this
    /// direction starts. An engine may have a shorter way to that than a cursor that stays.
    fn read_range(
        &self,
        span: Span<'_>,
        direction: Direction,
        count: usize,
        read: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        read_on(&mut self.range(span)?, direction, count, read)
    }
}

/// A place in a range of rows, which it takes from one end.
pub trait Cursor: Send + 'static {
    /// Lets `read` see key and value of the next row from the end where this direction starts.
    fn next<R>(
        &mut self,
        direction: Direction,
        read: impl FnOnce(&[u8], &[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError>;
}

/// Shows the next rows of a range to `read`.
pub(super) fn read_on(
    cursor: &mut impl Cursor,
    direction: Direction,
    count: usize,
    mut read: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for _ in 0..count {
        if cursor.next(direction, &mut read)?.is_none() {
            break;
        }
    }
    Ok(())
}

/// Where the writer leaves what readers find.
pub(super) struct Published<V> {
    last: ArcSwap<Lasting<V>>,
}

/// A view, and the last moment at which it may be asked.
struct Lasting<V> {
    view: V,
    until: AtomicU64,
}

/// What is stored at one moment.
pub(super) struct Shown<V> {
    lasting: Arc<Lasting<V>>,
    moment: Moment,
}

impl<V> Published<V> {
    pub(super) fn new(view: V, moment: Moment) -> Published<V> {
        Published { last: ArcSwap::new(Lasting::new(view, moment)) }
    }

    /// Shows a new view from now on. Only the writer does so.
    pub(super) fn replace(&self, view: V, moment: Moment) {
        self.last.store(Lasting::new(view, moment));
    }

    /// Shows the last view at a later moment from now on. Only the writer does so.
    pub(super) fn prolong(&self, moment: Moment) {
        self.last.load().until.store(moment.0, Ordering::Release);
    }

    /// What was published last.
    pub(super) fn latest(&self) -> Shown<V> {
        let lasting = self.last.load_full();
        let moment = Moment(lasting.until.load(Ordering::Acquire));
        Shown { lasting, moment }
    }
}

impl<V> Lasting<V> {
    fn new(view: V, moment: Moment) -> Arc<Lasting<V>> {
        Arc::new(Lasting { view, until: AtomicU64::new(moment.0) })
    }
}

impl<V> Clone for Shown<V> {
    fn clone(&self) -> Shown<V> {
        Shown { lasting: Arc::clone(&self.lasting), moment: self.moment }
    }
}

impl<V: View> Shown<V> {
    #[cfg(test)]
    pub(super) fn new(view: V, moment: Moment) -> Shown<V> {
        Shown { lasting: Lasting::new(view, moment), moment }
    }

    pub(super) fn moment(&self) -> Moment {
        self.moment
    }

    /// Lets `read` see the value of a row, if there is one.
    pub(super) fn get<R>(
        &self,
        row: &[u8],
        read: impl FnOnce(&[u8]) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        self.lasting.view.get(row, self.moment, read)
    }

    /// Opens the rows from `from` (inclusive) to `to` (exclusive).
    pub(super) fn range(&self, from: &[u8], to: &[u8]) -> Result<V::Cursor, StoreError> {
        self.lasting.view.range(Span { from, to, at: self.moment })
    }

    /// Lets `read` see the first rows of such a range, at most `count`.
    pub(super) fn read_range(
        &self,
        (from, to): (&[u8], &[u8]),
        direction: Direction,
        count: usize,
        read: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let span = Span { from, to, at: self.moment };
        self.lasting.view.read_range(span, direction, count, read)
    }
}
