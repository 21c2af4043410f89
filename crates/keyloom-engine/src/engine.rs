//! The engine: one store, the catalog in force, and what is handed in from outside.
//!
//! G1: The engine holds no lock over data: every race is settled by the checks of a commit.
//! G2: Every commit that writes documents, objects or their keys checks that the catalog is still
//!     the one it was planned with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use keyloom_key::{Ulid, UlidGenerator};
use keyloom_store::{OrderedStore, Snapshot, Tally};

use crate::access::Reach;
use crate::catalog::{Catalog, CatalogRecord, PathState, catalog_key, compile};
use crate::error::Error;
use crate::limits::{UPDATE_ATTEMPTS, UPDATE_DELAY};
use crate::schema::CollectionSchema;
use crate::system::{RealSystem, System};
use crate::token::TokensKnown;

/// A database: documents, indexes and changes in one store.
pub struct Engine {
    pub(crate) store: Arc<dyn OrderedStore>,
    pub(crate) options: Options,
    catalog: ArcSwap<Catalog>,
    /// The last version that this engine gave out.
    last_version: AtomicU64,
    ulids: Mutex<UlidGenerator>,
    pub(crate) tokens_known: TokensKnown,
    /// How often a write was planned again.
    pub(crate) replans: AtomicU64,
    /// How often an object was found in an older layout.
    pub(crate) legacy_reads: AtomicU64,
    /// How many dead letters made room for others.
    pub(crate) letters_dropped: AtomicU64,
}

/// What an engine and its store have done since they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineTally {
    /// What the store has done.
    pub store: Tally,
    /// How often a write was planned again because something it depends on had moved.
    pub replans: u64,
    /// How often an object was found in an older layout.
    pub legacy_reads: u64,
    /// How many dead letters made room for others.
    pub letters_dropped: u64,
}

/// How an engine is opened.
#[derive(Clone)]
pub struct Options {
    /// Time and randomness.
    pub system: Arc<dyn System>,
    /// Whether rules for production are in force.
    pub mode: Mode,
    /// How a read-modify-write is tried again.
    pub retry: RetryPolicy,
}

/// Whether rules that a schema states for production are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Development and tests.
    Development,
    /// Production.
    Production,
}

/// How often and after which waits a read-modify-write is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often it is tried in all.
    pub attempts: u32,
    /// The wait after the first failed attempt; it doubles with each further one.
    pub delay: Duration,
}

/// On whose behalf something is read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The administrator on this machine, whom rules about callers do not bind. What he creates has
    /// no owner.
    Local,
    /// An administrator with a subject, who becomes the owner of what he creates.
    Admin(String),
    /// A user with a subject, who becomes the owner of what he creates.
    User(String),
    /// Nobody in particular: reads and writes what is public. What he creates has no owner.
    Anonymous,
}

/// What there is to know of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionInfo {
    /// Its name.
    pub name: String,
    /// Its schema.
    pub schema: CollectionSchema,
    /// How many documents it holds; `None` for a caller who may not read all of them.
    pub documents: Option<u64>,
    /// Its indexes and unique claims.
    pub indexes: Vec<IndexInfo>,
}

/// What there is to know of an index or a unique claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexInfo {
    /// `index:name` or `unique:name`.
    pub path: String,
    /// Its key template.
    pub template: String,
    /// `ready`, or `building` while older documents are still missing.
    pub state: &'static str,
}

impl Actor {
    /// Who it is, if that is known.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Actor::Admin(subject) | Actor::User(subject) => Some(subject),
            Actor::Local | Actor::Anonymous => None,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            system: Arc::new(RealSystem),
            mode: Mode::Development,
            retry: RetryPolicy { attempts: UPDATE_ATTEMPTS, delay: UPDATE_DELAY },
        }
    }
}

impl Engine {
    /// Opens the database that `store` holds; an empty store is an empty database.
    pub async fn open(store: Arc<dyn OrderedStore>, options: Options) -> Result<Engine, Error> {
        let catalog = load_catalog(&*store).await?;
        let engine = Engine {
            store,
            options,
            catalog: ArcSwap::from_pointee(catalog),
            last_version: AtomicU64::new(0),
            ulids: Mutex::new(UlidGenerator::new()),
            tokens_known: TokensKnown::default(),
            replans: AtomicU64::new(0),
            legacy_reads: AtomicU64::new(0),
            letters_dropped: AtomicU64::new(0),
        };
        engine.take_back_announced().await?;
        Ok(engine)
    }

    /// The names of all collections.
    pub fn collections(&self) -> Vec<String> {
        self.catalog().collections.keys().cloned().collect()
    }

    /// What was done since the engine was opened.
    pub fn tally(&self) -> EngineTally {
        EngineTally {
            store: self.store.tally(),
            replans: self.replans.load(Ordering::Relaxed),
            legacy_reads: self.legacy_reads.load(Ordering::Relaxed),
            letters_dropped: self.letters_dropped.load(Ordering::Relaxed),
        }
    }

    /// The schema of one collection.
    pub fn schema(&self, name: &str) -> Result<Arc<CollectionSchema>, Error> {
        Ok(Arc::clone(&self.catalog().collection(name)?.schema))
    }

    /// What there is to know of one collection.
    pub async fn collection(&self, actor: &Actor, name: &str) -> Result<CollectionInfo, Error> {
        let catalog = self.catalog();
        let collection = catalog.collection(name)?;
        let snapshot = self.store.snapshot().await?;
        let documents = match collection.readable(actor) {
            Reach::All => Some(crate::read::document_count(&*snapshot, collection).await?),
            Reach::Own(_) | Reach::Nothing => None,
        };
        let info = |role: &str, path: &crate::catalog::Path| IndexInfo {
            path: format!("{role}:{}", path.name),
            template: path.template.text().to_owned(),
            state: match path.state {
                PathState::Ready => "ready",
                PathState::Building => "building",
            },
        };
        let uniques = collection.uniques.iter().map(|unique| info("unique", &unique.path));
        let indexes = collection.indexes.iter().map(|index| info("index", &index.path));
        Ok(CollectionInfo {
            name: name.to_owned(),
            schema: collection.schema.as_ref().clone(),
            documents,
            indexes: uniques.chain(indexes).collect(),
        })
    }

    /// The catalog in force.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Reads the catalog again, after somebody else may have changed it.
    pub(crate) async fn reload_catalog(&self) -> Result<Arc<Catalog>, Error> {
        let catalog = Arc::new(load_catalog(&*self.store).await?);
        self.catalog.store(Arc::clone(&catalog));
        Ok(catalog)
    }

    /// A version above all that this engine gave out and, unless the clock stepped back, above all
    /// there ever were: microseconds since 1970.
    pub(crate) fn next_version(&self) -> u64 {
        let now = self.options.system.now_micros();
        let step = |last: u64| Some(now.max(last.saturating_add(1)));
        let previous = self.last_version.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        match previous {
            Ok(last) | Err(last) => now.max(last.saturating_add(1)),
        }
    }

    /// A new ULID, above all earlier ones of this engine.
    pub(crate) fn next_ulid(&self) -> Result<Ulid, Error> {
        let now = self.options.system.now_micros() / 1000;
        let mut random = |bytes: &mut [u8]| self.options.system.random(bytes);
        // A poisoned generator is still a generator: it holds the last ULID and nothing else.
        let mut ulids = self.ulids.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ulids.next(now, &mut random).map_err(|error| Error::invalid(error.to_string()))
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("collections", &self.collections()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("mode", &self.mode)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

async fn load_catalog(store: &dyn OrderedStore) -> Result<Catalog, Error> {
    let snapshot: Box<dyn Snapshot> = store.snapshot().await?;
    let limits = store.limits();
    match snapshot.get(&catalog_key()).await? {
        None => compile(CatalogRecord::default(), None, &limits),
        Some(stored) => {
            let record = CatalogRecord::decode(&stored.value)?;
            compile(record, Some(stored.stamp), &limits)
        }
    }
}
