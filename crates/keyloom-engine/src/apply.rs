//! Applies a schema: check the stored documents, put the catalog in force, build what is new.
//!
//! A1: The catalog changes in checked commits; whoever was planning with the old one plans again.
//! A2: An interrupted apply loses nothing: applying the same schema again goes on where it stopped.

use std::collections::BTreeMap;

use keyloom_key::Head;
use keyloom_store::{
    Check, Commit, CommitOutcome, Direction, Entry, Expect, KeyRange, ScanOptions, Snapshot, Write,
};

use crate::catalog::{
    Catalog, CatalogRecord, Collection, Evolution, Path, PathCost, PathState, SchemaChange, Unique,
    catalog_key, compile, evolve, path_costs,
};
use crate::document::{Facts, HeadRecord, Members, Record, document_keys};
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{BACKFILL_DOCUMENTS, REPLAN_ATTEMPTS_MAX};
use crate::read::document_count;
use crate::schema::Schema;
use crate::write::check_rules;

impl Engine {
    /// What a schema would change, without changing it.
    pub async fn plan_schema(&self, schema: &Schema) -> Result<SchemaChange, Error> {
        Ok(self.evolution(schema).await?.1.change)
    }

    /// What each template of a schema costs, by collection.
    pub async fn schema_costs(
        &self,
        schema: &Schema,
    ) -> Result<BTreeMap<String, Vec<PathCost>>, Error> {
        let (_, evolution) = self.evolution(schema).await?;
        let catalog = compile(evolution.record, None, &self.store.limits())?;
        let named = schema.collections.keys().filter_map(|name| {
            let collection = catalog.collections.get(name)?;
            Some((name.clone(), path_costs(collection)))
        });
        Ok(named.collect())
    }

    /// Puts a schema in force. Stored documents are checked against changed rules first; new
    /// indexes are built before this returns, while others go on writing. `progress` hears how many
    /// documents were handled.
    pub async fn apply_schema(
        &self,
        schema: &Schema,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<SchemaChange, Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let (current, evolution) = self.evolution(schema).await?;
            let Evolution { record, recheck, change } = evolution;
            if !recheck.is_empty()
                && !self.check_stored(&current, &record, &recheck, progress).await?
            {
                continue;
            }
            let current = self.reload_catalog().await?;
            let unchanged = current.record == record;
            if unchanged || self.store_catalog(&current, record).await? {
                self.finish_building(progress).await?;
                return Ok(change);
            }
        }
        Err(Error::RetriesExhausted { attempts: u32::try_from(REPLAN_ATTEMPTS_MAX).unwrap_or(0) })
    }

    /// The catalog in force and what the schema makes of it; the result compiles.
    async fn evolution(
        &self,
        schema: &Schema,
    ) -> Result<(std::sync::Arc<Catalog>, Evolution), Error> {
        let catalog = self.reload_catalog().await?;
        let snapshot = self.store.snapshot().await?;
        let mut documents = BTreeMap::new();
        for collection in catalog.collections.values() {
            documents.insert(collection.id, document_count(&*snapshot, collection).await?);
        }
        let mut current = catalog.record.clone();
        // Rules that an interrupted apply left behind are decided anew.
        current.collections.iter_mut().for_each(|collection| collection.next_schema = None);
        if current.secret == [0; 16] {
            self.options.system.random(&mut current.secret);
        }
        if current.next_collection == 0 {
            current.next_collection = 1;
        }
        let evolution = evolve(&current, schema, &documents)?;
        compile(evolution.record.clone(), None, &self.store.limits())?;
        Ok((catalog, evolution))
    }

    /// Stores a record if the catalog is still `current`; `false` if somebody else was first.
    async fn store_catalog(&self, current: &Catalog, record: CatalogRecord) -> Result<bool, Error> {
        let expect = current.stamp.map_or(Expect::Absent, Expect::At);
        let commit = Commit {
            checks: vec![Check { key: catalog_key(), expect }],
            writes: vec![Write::Put { key: catalog_key(), value: record.encode() }],
            changes: Vec::new(),
        };
        let outcome = self.store.commit(commit).await?;
        self.reload_catalog().await?;
        Ok(matches!(outcome, CommitOutcome::Committed { .. }))
    }

    /// Makes the new rules binding for writers, then checks every stored document against them.
    async fn check_stored(
        &self,
        current: &Catalog,
        target: &CatalogRecord,
        recheck: &[String],
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<bool, Error> {
        let mut announced = current.record.clone();
        announced.version += 1;
        for collection in &mut announced.collections {
            let next = target.collections.iter().find(|next| next.name == collection.name);
            if let Some(next) = next.filter(|next| recheck.contains(&next.name)) {
                collection.next_schema = Some(Box::new(next.schema.clone()));
            }
        }
        if !self.store_catalog(current, announced).await? {
            return Ok(false);
        }
        let catalog = self.catalog();
        for name in recheck {
            let checked = self.check_collection(catalog.collection(name)?, progress).await;
            if let Err(error) = checked {
                // The old rules stay in force, alone again.
                let restored =
                    CatalogRecord { version: catalog.record.version + 1, ..current.record.clone() };
                self.store_catalog(&catalog, restored).await?;
                return Err(error);
            }
        }
        Ok(true)
    }

    async fn check_collection(
        &self,
        collection: &Collection,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Error> {
        let Some(fields) = &collection.next_fields else { return Ok(()) };
        let snapshot = self.store.snapshot().await?;
        let mut from = None;
        loop {
            let page = documents_page(&*snapshot, collection, from.as_deref()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            from = Some(last.key.clone());
            for entry in &page {
                let head = HeadRecord::decode(&entry.stored.value)?;
                let members = Members::parse(head.data)?;
                let checked = Record::read(collection, fields, &members)
                    .and_then(|record| check_rules(collection, fields, &members, &record));
                if let Err(error) = checked {
                    let key = collection.key.render(&collection.key.unpack(&entry.key)?)?;
                    return Err(Error::Schema {
                        at: format!("collections.{}", collection.name),
                        detail: format!("the stored document `{key}` contradicts it: {error}"),
                    });
                }
            }
            progress(page.len() as u64);
        }
    }

    /// Builds every index that is not complete and deletes the keys of those that are gone.
    async fn finish_building(&self, progress: &mut (dyn FnMut(u64) + Send)) -> Result<(), Error> {
        let catalog = self.catalog();
        for collection in catalog.collections.values() {
            if collection.further_paths().any(|path| path.state == PathState::Building) {
                self.backfill(collection, progress).await?;
                self.mark_ready(&collection.name).await?;
            }
        }
        for stored in &catalog.record.collections {
            for retired in &stored.retired {
                let head = Head {
                    space: retired.role.space(),
                    collection: stored.id,
                    template: retired.id,
                };
                self.delete_all(head).await?;
            }
            if !stored.retired.is_empty() {
                self.forget_retired(&stored.name).await?;
            }
        }
        Ok(())
    }

    /// Writes the missing keys of all documents, in small commits that check each document.
    async fn backfill(
        &self,
        collection: &Collection,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Error> {
        let operations_max = self.store.limits().commit_operations_max / 2;
        let mut from: Option<Vec<u8>> = None;
        loop {
            let snapshot = self.store.snapshot().await?;
            let page = documents_page(&*snapshot, collection, from.as_deref()).await?;
            let mut commit = Commit::default();
            let mut handled = 0;
            for entry in &page {
                if commit.checks.len() + commit.writes.len() > operations_max {
                    break;
                }
                backfill_document(&*snapshot, collection, entry, &mut commit).await?;
                handled += 1;
            }
            let Some(last) = page.get(..handled).and_then(<[Entry]>::last) else { return Ok(()) };
            // A conflict means that a document changed since it was read: the page is read again.
            if let CommitOutcome::Committed { .. } = self.store.commit(commit).await? {
                progress(handled as u64);
                from = Some(last.key.clone());
            }
        }
    }

    async fn mark_ready(&self, collection: &str) -> Result<(), Error> {
        self.edit_catalog(collection, &|stored| {
            stored.paths.iter_mut().for_each(|path| path.state = PathState::Ready);
        })
        .await
    }

    async fn forget_retired(&self, collection: &str) -> Result<(), Error> {
        self.edit_catalog(collection, &|stored| stored.retired.clear()).await
    }

    /// Changes what is stored of one collection, whatever others change beside.
    async fn edit_catalog(
        &self,
        collection: &str,
        edit: &(dyn Fn(&mut crate::catalog::CollectionRecord) + Sync),
    ) -> Result<(), Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let current = self.reload_catalog().await?;
            let mut record = current.record.clone();
            record.version += 1;
            record.collections.iter_mut().filter(|stored| stored.name == collection).for_each(edit);
            if self.store_catalog(&current, record).await? {
                return Ok(());
            }
        }
        Err(Error::RetriesExhausted { attempts: u32::try_from(REPLAN_ATTEMPTS_MAX).unwrap_or(0) })
    }

    async fn delete_all(&self, head: Head) -> Result<(), Error> {
        let (from, to) = head.whole();
        loop {
            let snapshot = self.store.snapshot().await?;
            let range = KeyRange { from: from.clone(), to: to.clone() };
            let options = ScanOptions { direction: Direction::Forward, limit: BACKFILL_DOCUMENTS };
            let page = snapshot.scan(&range, options).await?.next(BACKFILL_DOCUMENTS).await?;
            if page.is_empty() {
                return Ok(());
            }
            let writes = page.into_iter().map(|entry| Write::Delete { key: entry.key }).collect();
            self.store.commit(Commit { writes, ..Commit::default() }).await?;
        }
    }
}

/// The next documents of a collection behind a key.
pub(crate) async fn documents_page(
    snapshot: &dyn Snapshot,
    collection: &Collection,
    after: Option<&[u8]>,
) -> Result<Vec<Entry>, Error> {
    let (first, to) = collection.key.head.whole();
    let from = match after {
        None => first,
        // The smallest key behind `after`: the same bytes and a zero.
        Some(after) => [after, &[0]].concat(),
    };
    let options = ScanOptions { direction: Direction::Forward, limit: BACKFILL_DOCUMENTS };
    let mut scan = snapshot.scan(&KeyRange { from, to }, options).await?;
    Ok(scan.next(BACKFILL_DOCUMENTS).await?)
}

/// Adds the keys that a stored document has under paths that are being built.
async fn backfill_document(
    snapshot: &dyn Snapshot,
    collection: &Collection,
    entry: &Entry,
    commit: &mut Commit,
) -> Result<(), Error> {
    let head = HeadRecord::decode(&entry.stored.value)?;
    let record = Record::stored(collection, head.data)?;
    let keys = document_keys(collection, &record, &Facts::from(head), head.data)?;
    let building = |path: &Path| path.state == PathState::Building;
    commit.checks.push(Check { key: entry.key.clone(), expect: Expect::At(entry.stored.stamp) });
    for (key, value) in keys.indexes {
        let index = collection.indexes.iter().find(|index| starts_with(&key, index.path.head));
        if index.is_some_and(|index| building(&index.path)) {
            commit.writes.push(Write::Put { key, value });
        }
    }
    let (_, packed) = Head::read(&entry.key).map_err(|e| Error::corrupt(e.to_string()))?;
    for (key, place) in keys.claims {
        let unique = collection.uniques.get(place).filter(|unique| building(&unique.path));
        let Some(unique) = unique else { continue };
        let held = snapshot.get(&key).await?.map(|stored| stored.value);
        let claimed = commit.writes.iter().any(|write| write.key() == key);
        match held {
            None if !claimed => {
                commit.checks.push(Check { key: key.clone(), expect: Expect::Absent });
                commit.writes.push(Write::Put { key, value: packed.to_vec() });
            }
            Some(held) if held == packed => {}
            _ => return Err(duplicate(collection, unique, &key)),
        }
    }
    Ok(())
}

fn duplicate(collection: &Collection, unique: &Unique, key: &[u8]) -> Error {
    let value = unique.path.unpack(key).and_then(|values| unique.path.render(&values));
    Error::Schema {
        at: format!("collections.{}.unique.{}", collection.name, unique.path.name),
        detail: format!(
            "two stored documents hold `{}`: change one of them, then apply again",
            value.unwrap_or_default()
        ),
    }
}

fn starts_with(key: &[u8], head: Head) -> bool {
    Head::read(key).is_ok_and(|(found, _)| found == head)
}
