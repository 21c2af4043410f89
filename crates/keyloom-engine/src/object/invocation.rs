//! Results of asynchronous invocations, kept until they are fetched or expire.
//!
//! ```text
//! [0B][class u16][partition u16] <invocation>   01 | expires u64, milliseconds since 1970 | result
//! [0B][0000][0000] <expires u64> <class u16> <partition u16> <invocation>               no value
//! ```
//!
//! What a result is, is up to who invokes: the engine keeps its bytes. An empty one is the place of
//! a result that is still to come.
//!
//! I1: A result is written, replaced and deleted together with its row among those that expire, so
//!     those that are due are found without looking at the others. There is no class 0.
//! I2: An id that is in use is not given out again until its result was fetched, or has expired.

use std::sync::Arc;
use std::time::Duration;

use keyloom_key::{Head, Space};
use keyloom_store::{
    Check, Commit, CommitOutcome, Direction, Expect, KeyRange, ScanOptions, Stored, Write,
};

use super::outbox::OutboxAt;
use super::record::check_format;
use crate::catalog::Class;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{
    BACKFILL_DOCUMENTS, INVOCATION_BYTES_MAX, INVOCATION_ID_BYTES_MAX, REPLAN_ATTEMPTS_MAX,
};
use crate::pause::pause;

const FORMAT: u8 = 1;

impl Engine {
    /// An id for an invocation that nobody guesses.
    pub fn invocation_id(&self) -> String {
        let mut bytes = [0; 16];
        self.options.system.random(&mut bytes);
        format!("{:032x}", u128::from_be_bytes(bytes))
    }

    /// Keeps the place of a result for as long as the function may run. An id that is in use is
    /// refused (I2).
    pub async fn begin_invocation(
        &self,
        at: OutboxAt<'_>,
        invocation: &str,
        time: Duration,
    ) -> Result<(), Error> {
        self.put_invocation(at, invocation, time, &[]).await
    }

    /// Keeps a result for some time, in its place.
    pub async fn finish_invocation(
        &self,
        at: OutboxAt<'_>,
        invocation: &str,
        time: Duration,
        result: &[u8],
    ) -> Result<(), Error> {
        if result.len() > INVOCATION_BYTES_MAX {
            let (what, found) = ("bytes of a result".to_owned(), result.len());
            return Err(Error::LimitExceeded { what, found, max: INVOCATION_BYTES_MAX });
        }
        self.put_invocation(at, invocation, time, result).await
    }

    /// The result of an invocation, empty while it runs; `None` if there is none, or no longer.
    pub async fn invocation(
        &self,
        at: OutboxAt<'_>,
        invocation: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        let row = Row::new(self.catalog().class(at.class)?, at.partition, invocation)?;
        let Some(stored) = self.store.snapshot().await?.get(&row.key()).await? else {
            return Ok(None);
        };
        let (expires, result) = read_invocation(&stored.value)?;
        Ok(if expires <= self.now_millis() { None } else { Some(result.to_vec()) })
    }

    /// Forgets the result of an invocation; no effect if there is none.
    pub async fn delete_invocation(&self, at: OutboxAt<'_>, invocation: &str) -> Result<(), Error> {
        let row = Row::new(self.catalog().class(at.class)?, at.partition, invocation)?;
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let stored = self.store.snapshot().await?.get(&row.key()).await?;
            let Some(stored) = stored else { return Ok(()) };
            let checks = vec![Check { key: row.key(), expect: Expect::At(stored.stamp) }];
            let expiry = row.expiry(read_invocation(&stored.value)?.0);
            let writes = vec![Write::Delete { key: row.key() }, Write::Delete { key: expiry }];
            let commit = Commit { checks, writes, changes: Vec::new() };
            if is_committed(&self.store.commit(Arc::new(commit)).await?) {
                return Ok(());
            }
        }
        Err(Error::exhausted())
    }

    /// Forgets all results that have expired, and says how many those were. It reads those only
    /// (I1).
    pub async fn expire_invocations(&self) -> Result<u64, Error> {
        let head = expiry_head();
        let due = self.now_millis().saturating_add(1).to_be_bytes();
        let range = KeyRange { to: [&head[..], &due].concat(), from: head };
        let (mut expired, mut conflicts) = (0, 0);
        while conflicts < REPLAN_ATTEMPTS_MAX {
            pause().await;
            let options = ScanOptions { direction: Direction::Forward, limit: BACKFILL_DOCUMENTS };
            let mut scan = self.store.snapshot().await?.scan(&range, options).await?;
            let page = scan.next(BACKFILL_DOCUMENTS).await?;
            if page.is_empty() {
                return Ok(expired);
            }
            let (mut commit, count) = (Commit::default(), page.len() as u64);
            for entry in page {
                let row = entry.key.get(Head::BYTES + 8..).unwrap_or_default();
                commit
                    .writes
                    .push(Write::Delete { key: [&[Space::Invocation as u8], row].concat() });
                let expect = Expect::At(entry.stored.stamp);
                commit.checks.push(Check { key: entry.key.clone(), expect });
                commit.writes.push(Write::Delete { key: entry.key });
            }
            match is_committed(&self.store.commit(Arc::new(commit)).await?) {
                true => expired += count,
                // One of them was fetched meanwhile, or has got its result.
                false => conflicts += 1,
            }
        }
        Err(Error::exhausted())
    }

    /// Gives results that were kept before there were rows for those that expire such a row; how
    /// many. Once after an upgrade is enough.
    pub async fn adopt_invocations(&self) -> Result<u64, Error> {
        let first = Head { space: Space::Invocation, collection: 1, template: 0 };
        let range = KeyRange { from: first.whole().0, to: vec![Space::Invocation as u8 + 1] };
        let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
        let snapshot = self.store.snapshot().await?;
        let mut scan = snapshot.scan(&range, options).await?;
        let mut adopted = 0;
        // One at a time: a result may be large.
        while let Some(entry) = scan.next(1).await?.into_iter().next() {
            pause().await;
            let row = entry.key.get(1..).unwrap_or_default();
            let expiry = expiry_key(read_invocation(&entry.stored.value)?.0, row);
            if snapshot.get(&expiry).await?.is_some() {
                continue;
            }
            let checks = vec![Check { key: entry.key, expect: Expect::At(entry.stored.stamp) }];
            let writes = vec![Write::Put { key: expiry, value: Vec::new() }];
            let commit = Commit { checks, writes, changes: Vec::new() };
            adopted += u64::from(is_committed(&self.store.commit(Arc::new(commit)).await?));
        }
        Ok(adopted)
    }

    async fn put_invocation(
        &self,
        at: OutboxAt<'_>,
        invocation: &str,
        time: Duration,
        result: &[u8],
    ) -> Result<(), Error> {
        let row = Row::new(self.catalog().class(at.class)?, at.partition, invocation)?;
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let now = self.now_millis();
            let stored = self.store.snapshot().await?.get(&row.key()).await?;
            let before =
                stored.as_ref().map(|stored| read_invocation(&stored.value)).transpose()?;
            // A result only takes the place that was kept for it (I2).
            let is_free = before.is_none_or(|(expires, old)| {
                expires <= now || (old.is_empty() && !result.is_empty())
            });
            if !is_free {
                return Err(Error::UniqueViolation {
                    collection: at.class.to_owned(),
                    claim: "invocation".to_owned(),
                    value: invocation.to_owned(),
                });
            }
            let expires = now.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            let old = before.map(|(expires, _)| expires).filter(|old| *old != expires);
            let commit = row.commit(stored.as_ref(), old, expires, result);
            if is_committed(&self.store.commit(Arc::new(commit)).await?) {
                return Ok(());
            }
        }
        Err(Error::exhausted())
    }

    fn now_millis(&self) -> u64 {
        self.options.system.now_micros() / 1000
    }
}

/// Where a result lies, behind the space: class, partition and id.
struct Row(Vec<u8>);

impl Row {
    fn new(class: &Class, partition: u16, invocation: &str) -> Result<Row, Error> {
        class.partition(u32::from(partition)).map_err(Error::invalid)?;
        if invocation.is_empty() || invocation.len() > INVOCATION_ID_BYTES_MAX {
            let max = INVOCATION_ID_BYTES_MAX;
            return Err(Error::invalid(format!("the id of an invocation has 1 to {max} bytes")));
        }
        let (class, partition) = (class.id.to_be_bytes(), partition.to_be_bytes());
        Ok(Row([&class[..], &partition, invocation.as_bytes()].concat()))
    }

    fn key(&self) -> Vec<u8> {
        [&[Space::Invocation as u8], &self.0[..]].concat()
    }

    fn expiry(&self, expires: u64) -> Vec<u8> {
        expiry_key(expires, &self.0)
    }

    /// Writes a result over what was stored (I1).
    fn commit(
        &self,
        stored: Option<&Stored>,
        old_expires: Option<u64>,
        expires: u64,
        result: &[u8],
    ) -> Commit {
        let expect = stored.map_or(Expect::Absent, |stored| Expect::At(stored.stamp));
        let value = [&[FORMAT][..], &expires.to_be_bytes(), result].concat();
        let mut writes = vec![
            Write::Put { key: self.key(), value },
            Write::Put { key: self.expiry(expires), value: Vec::new() },
        ];
        writes.extend(old_expires.map(|old| Write::Delete { key: self.expiry(old) }));
        let checks = vec![Check { key: self.key(), expect }];
        Commit { checks, writes, changes: Vec::new() }
    }
}

fn expiry_head() -> Vec<u8> {
    Head { space: Space::Invocation, collection: 0, template: 0 }.whole().0
}

fn expiry_key(expires: u64, row: &[u8]) -> Vec<u8> {
    [&expiry_head()[..], &expires.to_be_bytes(), row].concat()
}

fn is_committed(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Committed { .. })
}

fn read_invocation(bytes: &[u8]) -> Result<(u64, &[u8]), Error> {
    let rest = check_format(bytes)?.split_first_chunk();
    let (expires, result) = rest.ok_or_else(|| Error::corrupt("a result is cut off"))?;
    Ok((u64::from_be_bytes(*expires), result))
}
