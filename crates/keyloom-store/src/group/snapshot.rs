//! Reads at one point in time: single keys and ranges, which may be kept beside the engine.

use std::sync::Arc;

use async_trait::async_trait;

use super::recent::{Range, Recent};
use super::view::read_on;
use super::{Shown, View, guarded, rows};
use crate::limits::KEY_BYTES_MAX;
use crate::{Direction, Entries, KeyRange, Scan, ScanOptions, Snapshot, StoreError, Stored};

/// How many entries of a page get their space before they are read.
const PAGE_RESERVED: usize = 32;

/// What readers hold.
pub(super) struct GroupSnapshot<V> {
    pub(super) shown: Shown<V>,
    pub(super) recent: Arc<Recent>,
}

impl<V: View> GroupSnapshot<V> {
    /// `row` is a buffer that many reads share.
    fn read(&self, key: &[u8], row: &mut Vec<u8>) -> Result<Option<Stored>, StoreError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        self.recent.row(key, self.shown.moment(), || {
            rows::value_key(key, row);
            guarded(|| self.shown.get(row, rows::decode_stored))
        })
    }
}

#[async_trait]
impl<V: View> Snapshot for GroupSnapshot<V> {
    async fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        self.read(key, &mut Vec::new())
    }

    async fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Stored>>, StoreError> {
        let mut row = Vec::new();
        keys.iter().map(|key| self.read(key, &mut row)).collect()
    }

    async fn scan(
        &self,
        range: &KeyRange,
        options: ScanOptions,
    ) -> Result<Box<dyn Scan>, StoreError> {
        let [from, to] = [&range.from, &range.to].map(|key| {
            let mut row = Vec::with_capacity(key.len() + 1);
            rows::value_key(key, &mut row);
            row
        });
        Ok(Box::new(GroupScan {
            shown: self.shown.clone(),
            recent: Arc::clone(&self.recent),
            from,
            to,
            cursor: None,
            direction: options.direction,
            left: if range.is_empty() { 0 } else { options.limit },
        }))
    }
}

struct GroupScan<V: View> {
    /// Before the view, so that it is dropped first.
    cursor: Option<V::Cursor>,
    shown: Shown<V>,
    recent: Arc<Recent>,
    from: Vec<u8>,
    to: Vec<u8>,
    direction: Direction,
    left: usize,
}

#[async_trait]
impl<V: View> Scan for GroupScan<V> {
    async fn next(&mut self, count: usize) -> Result<Entries, StoreError> {
        let count = count.min(self.left);
        if count == 0 {
            return Ok(Entries::default());
        }
        let entries = if self.cursor.is_none() && count == self.left {
            self.whole(count)?
        } else {
            self.part(count)?
        };
        // A short page is the end: asking the engine again could only read on in vain.
        self.left = if entries.len() < count { 0 } else { self.left - count };
        Ok(entries)
    }
}

impl<V: View> GroupScan<V> {
    /// All that is wanted of the range.
    fn whole(&self, count: usize) -> Result<Entries, StoreError> {
        let [from, to] = [&self.from, &self.to].map(|row| rows::decode_value_key(row));
        let range = Range { from: from?, to: to?, direction: self.direction, count };
        self.recent.page(range, self.shown.moment(), || {
            let range = (&self.from[..], &self.to[..]);
            entries(count, |read| self.shown.read_range(range, self.direction, count, read))
        })
    }

    /// What comes next of the range.
    fn part(&mut self, count: usize) -> Result<Entries, StoreError> {
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            None => self.cursor.insert(guarded(|| self.shown.range(&self.from, &self.to))?),
        };
        entries(count, |read| read_on(cursor, self.direction, count, read))
    }
}

/// What is shown rows.
type Read<'r> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'r;

/// The entries of the rows that `show` shows.
fn entries(
    count: usize,
    show: impl FnOnce(&mut Read<'_>) -> Result<(), StoreError>,
) -> Result<Entries, StoreError> {
    let mut entries = Entries::with_capacity(count.min(PAGE_RESERVED));
    let mut read = |row: &[u8], bytes: &[u8]| {
        entries.push(rows::decode_value_key(row)?, rows::decode_stored(bytes)?);
        Ok(())
    };
    guarded(|| show(&mut read))?;
    Ok(entries)
}
