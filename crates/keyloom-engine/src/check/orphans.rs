//! Keys that follow from no document.

use keyloom_key::Space;
use keyloom_store::{Check, Direction, Entry, Expect, KeyRange, ScanOptions, Write};

use super::{CheckRun, Seen, head_bytes, readable, role};
use crate::catalog::{Collection, Path};
use crate::document::{Facts, index_key_of, path_keys};
use crate::error::Error;
use crate::limits::BACKFILL_DOCUMENTS;
use crate::pause::pause;
use crate::read::key_from_claim;

impl CheckRun<'_> {
    /// No key stands under a path that does not follow from a document. Only keys that were found
    /// to be right count, so that a missing one cannot hide an orphan.
    pub(super) async fn check_orphans(
        &mut self,
        collection: &Collection,
        path: &Path,
        seen: &Seen,
    ) -> Result<(), Error> {
        let right = seen.right.get(&head_bytes(path)).copied().unwrap_or(0);
        if self.count(path).await? == right {
            return Ok(());
        }
        let (mut from, to) = path.head.whole();
        loop {
            let page = self.page(from, to.clone()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            from = [last.key.as_slice(), &[0]].concat();
            for entry in page.into_iter().filter(|entry| !seen.wrong.contains(&entry.key)) {
                self.check_key(collection, path, entry).await?;
            }
        }
    }

    async fn count(&mut self, path: &Path) -> Result<u64, Error> {
        let (from, to) = path.head.whole();
        let options = ScanOptions { direction: Direction::Forward, limit: usize::MAX };
        let mut scan = self.snapshot.scan(&KeyRange { from, to }, options).await?;
        let mut count = 0;
        loop {
            pause().await;
            let page = scan.next(BACKFILL_DOCUMENTS).await?;
            if page.is_empty() {
                self.report.keys += count;
                return Ok(count);
            }
            count += page.len() as u64;
        }
    }

    async fn page(&self, from: Vec<u8>, to: Vec<u8>) -> Result<Vec<Entry>, Error> {
        pause().await;
        let options = ScanOptions { direction: Direction::Forward, limit: BACKFILL_DOCUMENTS };
        let mut scan = self.snapshot.scan(&KeyRange { from, to }, options).await?;
        Ok(scan.next(BACKFILL_DOCUMENTS).await?.into_iter().collect())
    }

    async fn check_key(
        &mut self,
        collection: &Collection,
        path: &Path,
        entry: Entry,
    ) -> Result<(), Error> {
        let document = match self.named_document(collection, path, &entry) {
            Ok(document) => document,
            Err(_) => {
                self.problem(
                    collection,
                    &role(collection, &entry.key),
                    &entry.key,
                    "it is damaged",
                );
                let expect = Expect::At(entry.stored.stamp);
                let checks = vec![Check { key: entry.key.clone(), expect }];
                return self.mend(checks, vec![Write::Delete { key: entry.key }]).await;
            }
        };
        let (follows, check) = match self.snapshot.get(&document).await? {
            None => (false, Expect::Absent),
            Some(stored) => {
                // What the document is, nobody can tell, and so neither what its keys are.
                let Some((head, record)) = readable(collection, &stored.value) else {
                    return Ok(());
                };
                let indexed = collection.indexes.iter().find(|index| index.path.head == path.head);
                let covered = indexed.is_none_or(|index| record.satisfies(&index.when));
                let keys = path_keys(path, &record, &Facts::from(head))?;
                (covered && keys.contains(&entry.key), Expect::At(stored.stamp))
            }
        };
        if follows {
            return Ok(());
        }
        self.problem(collection, &role(collection, &entry.key), &entry.key, "no document has it");
        let checks = vec![
            Check { key: document, expect: check },
            Check { key: entry.key.clone(), expect: Expect::At(entry.stored.stamp) },
        ];
        self.mend(checks, vec![Write::Delete { key: entry.key }]).await
    }

    /// The packed key of the document that an index key or a claim names.
    fn named_document(
        &self,
        collection: &Collection,
        path: &Path,
        entry: &Entry,
    ) -> Result<Vec<u8>, Error> {
        let values = path.unpack(&entry.key)?;
        if path.head.space == Space::Claim {
            let key = key_from_claim(collection, &entry.stored.value);
            collection.key.unpack(&key)?;
            return Ok(key);
        }
        let index = collection.indexes.iter().find(|index| index.path.head == path.head);
        let index = index.ok_or_else(|| Error::corrupt("a key of an unknown index"))?;
        collection.key.pack(&index_key_of(index, &values))
    }
}
