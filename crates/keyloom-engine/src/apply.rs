//! Applies a schema: check the stored documents, put the catalog in force, build what is new.
//!
//! A1: The catalog changes in checked commits; whoever was planning with the old one plans again.
//! A2: An interrupted apply loses nothing: applying the same schema again goes on where it stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_key::Head;
use keyloom_store::limits::commit_bytes;
use keyloom_store::{
    Check, Commit, CommitOutcome, Direction, Entry, Expect, KeyRange, Limits, ScanOptions, Sharing,
    Snapshot, Write,
};

use crate::catalog::{
    Catalog, CatalogRecord, Collection, CollectionRecord, Evolution, Path, PathCost, PathState,
    RetiredPath, SchemaChange, Unique, catalog_key, compile, evolve, path_costs,
};
use crate::document::{Facts, HeadRecord, Members, Record, document_keys};
use crate::engine::{Engine, Mode};
use crate::error::Error;
use crate::limits::{BACKFILL_DOCUMENTS, REPLAN_ATTEMPTS_MAX};
use crate::object::{has_objects, uncreated};
use crate::pause::pause;
use crate::read::{counter_key, document_count};
use crate::schema::Schema;
use crate::write::{check_defaults, check_rules};

impl Engine {
    /// What a schema would change, without changing it.
    pub async fn plan_schema(&self, schema: &Schema) -> Result<SchemaChange, Error> {
        Ok(self.propose(schema).await?.evolution.change)
    }

    /// What each template of a schema costs, by collection.
    pub async fn schema_costs(
        &self,
        schema: &Schema,
    ) -> Result<BTreeMap<String, Vec<PathCost>>, Error> {
        let Proposal { evolution, .. } = self.propose(schema).await?;
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
            let Proposal { mut base, empty, evolution } = self.propose(schema).await?;
            let Evolution { mut record, recheck, mut change } = evolution;
            if !recheck.is_empty() {
                let checked = self.check_stored(&base, &record, &recheck, progress).await?;
                let Some(announced) = checked else { continue };
                base = announced;
            }
            if base.record != record {
                record.version = base.record.version + 1;
                change.version = record.version;
                if self.store_catalog(&base, record, empty).await?.is_none() {
                    continue;
                }
            }
            self.finish_building(schema, progress).await?;
            return Ok(change);
        }
        Err(Error::exhausted())
    }

    /// What the schema makes of the catalog in force; the result compiles.
    async fn propose(&self, schema: &Schema) -> Result<Proposal, Error> {
        let base = self.reload_catalog().await?;
        let snapshot = self.store.snapshot().await?;
        let derived_from = schema.collections.values().filter_map(|c| c.derive.as_ref());
        let sources: Vec<&String> = derived_from.map(|derive| &derive.from).collect();
        let (mut documents, mut empty) = (BTreeMap::new(), Vec::new());
        for collection in base.collections.values() {
            let count = document_count(&*snapshot, collection).await?;
            documents.insert(collection.id, count);
            let name = &collection.name;
            if count == 0 && (schema.collections.contains_key(name) || sources.contains(&name)) {
                let key = counter_key(collection.id);
                let stored = snapshot.get(&key).await?;
                let expect = stored.map_or(Expect::Absent, |stored| Expect::At(stored.stamp));
                empty.push(Check { key, expect });
            }
        }
        let mut current = base.record.clone();
        // Rules that an interrupted apply left behind are decided anew.
        forget_announced(&mut current);
        if current.secret == [0; 16] {
            self.options.system.random(&mut current.secret);
        }
        if current.next_collection == 0 {
            current.next_collection = 1;
        }
        for (name, class) in &schema.classes {
            empty.extend(self.check_partitions(&base, &*snapshot, name, class.partitions).await?);
        }
        let evolution = evolve(&current, schema, &documents)?;
        let compiled = compile(evolution.record.clone(), None, &self.store.limits())?;
        compiled.collections.values().try_for_each(|collection| check_defaults(collection))?;
        Ok(Proposal { base, empty, evolution })
    }

    /// Where `auto` finds an object follows from the number of partitions, so it stays once there
    /// are objects. What tells that there are none yet has to hold when the schema is stored.
    async fn check_partitions(
        &self,
        base: &Catalog,
        snapshot: &dyn Snapshot,
        name: &str,
        partitions: u32,
    ) -> Result<Vec<Check>, Error> {
        let Ok(class) = base.class(name) else { return Ok(Vec::new()) };
        let stored = class.schema.partitions;
        if stored == partitions {
            return Ok(Vec::new());
        }
        let refused = |detail: String| {
            Err(Error::Schema { at: format!("classes.{name}.partitions"), detail })
        };
        // Older objects may not be counted.
        if has_objects(snapshot, class.id).await? {
            return refused(format!(
                "there are objects, which `auto` finds by the number of partitions: it stays \
                 {stored}"
            ));
        }
        let checks = uncreated(snapshot, class).await?;
        if checks.len() > self.store.limits().commit_operations_max / 2 {
            return refused(format!("{stored} are more than one commit can check: it stays"));
        }
        Ok(checks)
    }

    /// Stores a record if the catalog is still `base` and `checks` hold, and gives the catalog that
    /// is then in force; `None` if somebody else was first, or right behind.
    async fn store_catalog(
        &self,
        base: &Catalog,
        record: CatalogRecord,
        checks: Vec<Check>,
    ) -> Result<Option<Arc<Catalog>>, Error> {
        let mut commit = Commit {
            checks,
            writes: vec![Write::Put { key: catalog_key(), value: record.encode() }],
            changes: Vec::new(),
        };
        commit.checks.push(catalog_check(base));
        let outcome = self.store.commit(commit.into()).await?;
        let stored = self.reload_catalog().await?;
        let committed = matches!(outcome, CommitOutcome::Committed { .. });
        Ok(Some(stored).filter(|stored| committed && stored.record == record))
    }

    /// Takes back rules that a process announced which ended before they were in force. Nobody else
    /// applies a schema to a store that this process owns.
    pub(crate) async fn take_back_announced(&self) -> Result<(), Error> {
        let catalog = self.catalog();
        let mut restored = catalog.record.clone();
        forget_announced(&mut restored);
        if self.store.limits().sharing == Sharing::Exclusive && restored != catalog.record {
            restored.version += 1;
            self.store_catalog(&catalog, restored, Vec::new()).await?;
        }
        Ok(())
    }

    /// Makes the new rules binding for writers, then checks every stored document against them.
    /// Gives the catalog with the announcement; `None` if somebody else changed it meanwhile.
    async fn check_stored(
        &self,
        base: &Catalog,
        target: &CatalogRecord,
        recheck: &[String],
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Option<Arc<Catalog>>, Error> {
        let mut announced = base.record.clone();
        announced.version += 1;
        for collection in &mut announced.collections {
            let next = target.collections.iter().find(|next| next.name == collection.name);
            if let Some(next) = next.filter(|next| recheck.contains(&next.name)) {
                collection.next_schema = Some(Box::new(next.schema.clone()));
            }
        }
        let Some(announced) = self.store_catalog(base, announced, Vec::new()).await? else {
            return Ok(None);
        };
        for name in recheck {
            let checked = self.check_collection(announced.collection(name)?, progress).await;
            if let Err(error) = checked {
                // The old rules stay in force, alone again.
                let mut restored = announced.record.clone();
                restored.version += 1;
                forget_announced(&mut restored);
                self.store_catalog(&announced, restored, Vec::new()).await?;
                return Err(error);
            }
        }
        Ok(Some(announced))
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
                let members = Members::parse_for(fields, head.data)?;
                let checked = Record::read(collection, &members)
                    .and_then(|record| check_rules(collection, &members, &record));
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

    /// Builds every index of the schema's collections that is not complete, and deletes the keys of
    /// those that are gone.
    async fn finish_building(
        &self,
        schema: &Schema,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Error> {
        for name in schema.collections.keys() {
            self.finish_paths(name, progress).await?;
            let catalog = self.catalog();
            let stored = catalog.record.collections.iter().find(|stored| stored.name == *name);
            let Some(stored) = stored.filter(|stored| !stored.retired.is_empty()) else { continue };
            for retired in &stored.retired {
                let (space, collection) = (retired.role.space(), stored.id);
                self.delete_all(Head { space, collection, template: retired.id }).await?;
            }
            self.forget_retired(name, &stored.retired).await?;
        }
        Ok(())
    }

    async fn finish_paths(
        &self,
        name: &str,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let catalog = self.catalog();
            let building = building(catalog.collection(name)?);
            if building.is_empty() {
                return Ok(());
            }
            if self.backfill(&catalog, name, progress).await? {
                self.mark_ready(name, &building).await?;
            } else {
                self.reload_catalog().await?;
            }
        }
        Err(Error::exhausted())
    }

    /// Writes the missing keys of all documents, in small commits that check the catalog and each
    /// document; `false` if the catalog changed meanwhile.
    async fn backfill(
        &self,
        catalog: &Catalog,
        name: &str,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<bool, Error> {
        let (collection, mode) = (catalog.collection(name)?, self.options.mode);
        let Limits { commit_operations_max, commit_bytes_max, .. } = self.store.limits();
        let is_full = |commit: &Commit| {
            commit.checks.len() + commit.writes.len() > commit_operations_max / 2
                || commit_bytes(commit) > commit_bytes_max / 2
        };
        let (mut from, mut size, mut conflicts): (Option<Vec<u8>>, _, _) =
            (None, BACKFILL_DOCUMENTS, 0);
        let mut contradiction = None;
        loop {
            let snapshot = self.store.snapshot().await?;
            let mut page = documents_page(&*snapshot, collection, from.as_deref()).await?;
            page.truncate(size);
            let mut commit = Commit { checks: vec![catalog_check(catalog)], ..Commit::default() };
            let (mut handled, mut held) = (0, None);
            for entry in &page {
                if is_full(&commit) {
                    break;
                }
                let by_another =
                    backfill_document(&*snapshot, (collection, mode), entry, &mut commit).await?;
                held = held.or(by_another);
                handled += 1;
            }
            let Some(last) = page.get(..handled).and_then(<[Entry]>::last) else {
                // Only now, so that what one of the holders claims is taken for whoever writes.
                return contradiction.map_or(Ok(true), Err);
            };
            match self.store.commit(commit.into()).await? {
                CommitOutcome::Committed { .. } => {
                    progress(handled as u64);
                    contradiction = contradiction.or(held);
                    (from, size, conflicts) = (Some(last.key.clone()), BACKFILL_DOCUMENTS, 0);
                }
                CommitOutcome::Conflict { check: 0 } => return Ok(false),
                // A document changed since it was read. Fewer at a time meet fewer writers.
                CommitOutcome::Conflict { .. } if conflicts < REPLAN_ATTEMPTS_MAX => {
                    conflicts += 1;
                    size = (size / 2).max(1);
                }
                CommitOutcome::Conflict { .. } => return Err(Error::exhausted()),
            }
        }
    }

    /// Marks the templates that were built, and no others: somebody may have added one meanwhile.
    async fn mark_ready(&self, collection: &str, built: &[u16]) -> Result<(), Error> {
        self.edit_collection(collection, &|stored| {
            let paths = stored.paths.iter_mut().filter(|path| built.contains(&path.id));
            paths.for_each(|path| path.state = PathState::Ready);
        })
        .await
    }

    async fn forget_retired(&self, collection: &str, gone: &[RetiredPath]) -> Result<(), Error> {
        self.edit_collection(collection, &|stored| {
            stored.retired.retain(|path| !gone.contains(path));
        })
        .await
    }

    /// Changes what is stored of one collection, whatever others change beside.
    async fn edit_collection(
        &self,
        collection: &str,
        edit: &(dyn Fn(&mut CollectionRecord) + Sync),
    ) -> Result<(), Error> {
        self.edit_catalog(&|record| {
            record.collections.iter_mut().filter(|stored| stored.name == collection).for_each(edit);
        })
        .await
    }

    /// Changes a part of the catalog, whatever others change beside.
    pub(crate) async fn edit_catalog(
        &self,
        edit: &(dyn Fn(&mut CatalogRecord) + Sync),
    ) -> Result<(), Error> {
        for _ in 0..REPLAN_ATTEMPTS_MAX {
            let current = self.reload_catalog().await?;
            let mut record = current.record.clone();
            edit(&mut record);
            if record == current.record {
                return Ok(());
            }
            record.version += 1;
            if self.store_catalog(&current, record, Vec::new()).await?.is_some() {
                return Ok(());
            }
        }
        Err(Error::exhausted())
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
            self.store.commit(Arc::new(Commit { writes, ..Commit::default() })).await?;
        }
    }
}

/// A catalog and what a schema makes of it.
struct Proposal {
    base: Arc<Catalog>,
    /// That the collections and classes which were found empty still are: what is safe without
    /// documents and objects is decided by that.
    empty: Vec<Check>,
    evolution: Evolution,
}

/// That a catalog is still in force.
pub(crate) fn catalog_check(catalog: &Catalog) -> Check {
    let expect = catalog.stamp.map_or(Expect::Absent, Expect::At);
    Check { key: catalog_key(), expect }
}

fn forget_announced(record: &mut CatalogRecord) {
    record.collections.iter_mut().for_each(|collection| collection.next_schema = None);
}

/// The numbers of the templates that are not complete.
fn building(collection: &Collection) -> Vec<u16> {
    let paths = collection.further_paths().filter(|path| path.state == PathState::Building);
    paths.map(|path| path.head.template).collect()
}

/// The next documents of a collection behind a key. Each page begins with a pause, so that whoever
/// limits the time of long work is asked.
pub(crate) async fn documents_page(
    snapshot: &dyn Snapshot,
    collection: &Collection,
    after: Option<&[u8]>,
) -> Result<Vec<Entry>, Error> {
    pause().await;
    let (first, to) = collection.key.head.whole();
    let from = match after {
        None => first,
        // The smallest key behind `after`: the same bytes and a zero.
        Some(after) => [after, &[0]].concat(),
    };
    let options = ScanOptions { direction: Direction::Forward, limit: BACKFILL_DOCUMENTS };
    let mut scan = snapshot.scan(&KeyRange { from, to }, options).await?;
    Ok(scan.next(BACKFILL_DOCUMENTS).await?.into_iter().collect())
}

/// Adds the keys that a stored document has under paths that are being built.
async fn backfill_document(
    snapshot: &dyn Snapshot,
    (collection, mode): (&Collection, Mode),
    entry: &Entry,
    commit: &mut Commit,
) -> Result<Option<Error>, Error> {
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
    let mut contradiction = None;
    for (key, place) in keys.claims {
        let unique = collection.uniques.get(place).filter(|unique| building(&unique.path));
        let Some(unique) = unique.filter(|unique| unique.in_force(mode)) else { continue };
        let held = snapshot.get(&key).await?.map(|stored| stored.value);
        let claimed = commit.writes.iter().any(|write| write.key() == key);
        match held {
            None if !claimed => {
                commit.checks.push(Check { key: key.clone(), expect: Expect::Absent });
                commit.writes.push(Write::Put { key, value: packed.to_vec() });
            }
            Some(held) if held == packed => {}
            _ => contradiction = Some(duplicate(collection, unique, &key)),
        }
    }
    Ok(contradiction)
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
