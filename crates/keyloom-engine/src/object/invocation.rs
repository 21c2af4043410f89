//! Results of asynchronous invocations, kept until they are fetched or expire.
//!
//! ```text
//! [0B][class u16][partition u16] <invocation>   01 | expires u64, milliseconds since 1970 | result
//! ```
//!
//! What a result is, is up to who invokes: the engine keeps its bytes.

use keyloom_key::{Head, Space};
use keyloom_store::{Commit, Direction, Entry, KeyRange, ScanOptions, Write};

use super::outbox::OutboxAt;
use super::record::check_format;
use crate::catalog::Class;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{BACKFILL_DOCUMENTS, INVOCATION_BYTES_MAX, INVOCATION_ID_BYTES_MAX};

const FORMAT: u8 = 1;

impl Engine {
    /// Keeps the result of an invocation until a time in milliseconds since 1970; an earlier one
    /// goes.
    pub async fn put_invocation(
        &self,
        at: OutboxAt<'_>,
        invocation: &str,
        expires: u64,
        result: &[u8],
    ) -> Result<(), Error> {
        if result.len() > INVOCATION_BYTES_MAX {
            let (what, found) = ("bytes of a result".to_owned(), result.len());
            return Err(Error::LimitExceeded { what, found, max: INVOCATION_BYTES_MAX });
        }
        let key = invocation_key(self.catalog().class(at.class)?, at.partition, invocation)?;
        let value = [&[FORMAT][..], &expires.to_be_bytes(), result].concat();
        self.store.commit(commit(Write::Put { key, value })).await?;
        Ok(())
    }

    /// The result of an invocation; `None` if there is none, or no longer.
    pub async fn invocation(
        &self,
        at: OutboxAt<'_>,
        invocation: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = invocation_key(self.catalog().class(at.class)?, at.partition, invocation)?;
        let Some(stored) = self.store.snapshot().await?.get(&key).await? else { return Ok(None) };
        let (expires, result) = read_invocation(&stored.value)?;
        let is_over = expires <= self.options.system.now_micros() / 1000;
        Ok(if is_over { None } else { Some(result.to_vec()) })
    }

    /// Forgets the result of an invocation; no effect if there is none.
    pub async fn delete_invocation(&self, at: OutboxAt<'_>, invocation: &str) -> Result<(), Error> {
        let key = invocation_key(self.catalog().class(at.class)?, at.partition, invocation)?;
        self.store.commit(commit(Write::Delete { key })).await?;
        Ok(())
    }

    /// Forgets all results that have expired, and says how many those were.
    pub async fn expire_invocations(&self) -> Result<u64, Error> {
        let head = |collection| Head { space: Space::Invocation, collection, template: 0 };
        let mut range = KeyRange { from: head(0).whole().0, to: vec![Space::Invocation as u8 + 1] };
        let mut expired = 0;
        loop {
            let options = ScanOptions { direction: Direction::Forward, limit: BACKFILL_DOCUMENTS };
            let mut scan = self.store.snapshot().await?.scan(&range, options).await?;
            let page = scan.next(BACKFILL_DOCUMENTS).await?;
            let Some(last) = page.last() else { return Ok(expired) };
            range.from = [&last.key[..], &[0]].concat();
            let now = self.options.system.now_micros() / 1000;
            let mut writes = Vec::new();
            for Entry { key, stored } in page {
                if read_invocation(&stored.value)?.0 <= now {
                    writes.push(Write::Delete { key });
                }
            }
            if writes.is_empty() {
                crate::pause::pause().await;
                continue;
            }
            expired += writes.len() as u64;
            self.store.commit(Commit { writes, ..Commit::default() }.into()).await?;
        }
    }
}

fn commit(write: Write) -> std::sync::Arc<Commit> {
    Commit { writes: vec![write], ..Commit::default() }.into()
}

fn invocation_key(class: &Class, partition: u16, invocation: &str) -> Result<Vec<u8>, Error> {
    class.partition(u32::from(partition)).map_err(Error::invalid)?;
    if invocation.is_empty() || invocation.len() > INVOCATION_ID_BYTES_MAX {
        let max = INVOCATION_ID_BYTES_MAX;
        return Err(Error::invalid(format!("the id of an invocation has 1 to {max} bytes")));
    }
    let head = Head { space: Space::Invocation, collection: class.id, template: partition };
    Ok([&head.whole().0[..], invocation.as_bytes()].concat())
}

fn read_invocation(bytes: &[u8]) -> Result<(u64, &[u8]), Error> {
    let rest = check_format(bytes)?.split_first_chunk();
    let (expires, result) = rest.ok_or_else(|| Error::corrupt("a result is cut off"))?;
    Ok((u64::from_be_bytes(*expires), result))
}
