//! Opens the database that the command line names.
//!
//! N1: Only what is meant to create a database creates one: a misspelled folder is an error, not an
//!     empty database.
//! N2: An existing folder is opened with the engine it was made with, unless another one is named;
//!     then the store says that it is the wrong one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use keyloom_engine::{Engine, Options};
use keyloom_store::memory::MemoryStore;
use keyloom_store::{OrderedStore, folder};
use keyloom_store_fjall::{Durability, FjallStore};
use keyloom_store_redb::RedbStore;

use crate::problem::Failure;

/// The folder of the database when none is named.
pub(crate) const DATA_DEFAULT: &str = "./keyloom-data";

/// What is said when a store is opened that may lose commits.
const BUFFERED: &str = "durability=buffered: a crash of the program loses nothing, a loss of power \
                        may lose the last commits";

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// In memory, for the time of one command.
    Memory,
    /// In a folder.
    Embedded {
        /// The folder.
        folder: PathBuf,
        /// The engine, if it is named.
        engine: Option<EngineName>,
        /// Whether an acknowledged commit survives a power loss.
        durability: Durability,
    },
}

/// The embedded engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineName {
    /// Quick reads, one file. The default.
    Redb,
    /// Write-heavy use.
    Fjall,
}

/// What happens when there is no database yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is created.
    Create,
    /// It is an error.
    Refuse,
}

impl StoreUrl {
    /// The store in this folder, as it was made.
    pub(crate) fn in_folder(folder: PathBuf) -> StoreUrl {
        StoreUrl::Embedded { folder, engine: None, durability: Durability::Durable }
    }

    /// Whether there is a database.
    pub(crate) fn exists(&self) -> Result<bool, Failure> {
        match self {
            StoreUrl::Memory => Ok(false),
            StoreUrl::Embedded { folder, .. } => Ok(engine_of(folder)?.is_some()),
        }
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreUrl, String> {
        if text == "memory:" {
            return Ok(StoreUrl::Memory);
        }
        let Some(rest) = text.strip_prefix("embedded:") else {
            return Err("a store is embedded:DIR[?engine=fjall][&durability=buffered], or memory:"
                .to_owned());
        };
        let (folder, settings) = rest.split_once('?').unwrap_or((rest, ""));
        if folder.is_empty() {
            return Err("embedded: needs a folder, as in embedded:./keyloom-data".to_owned());
        }
        let (mut engine, mut durability) = (None, Durability::Durable);
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting {
                "engine=redb" => engine = Some(EngineName::Redb),
                "engine=fjall" => engine = Some(EngineName::Fjall),
                "durability=durable" => durability = Durability::Durable,
                "durability=buffered" => durability = Durability::Buffered,
                other => {
                    return Err(format!(
                        "`{other}` is not a setting; there are: engine=redb, engine=fjall, \
                         durability=durable, durability=buffered"
                    ));
                }
            }
        }
        Ok(StoreUrl::Embedded { folder: PathBuf::from(folder), engine, durability })
    }
}

/// Opens a database.
pub(crate) async fn open(
    url: &StoreUrl,
    options: Options,
    missing: Missing,
) -> Result<Engine, Failure> {
    let store: Arc<dyn OrderedStore> = match url {
        StoreUrl::Memory => Arc::new(MemoryStore::new()),
        StoreUrl::Embedded { folder, engine, durability } => {
            open_folder(folder, *engine, *durability, missing)?
        }
    };
    Ok(Engine::open(store, options).await?)
}

fn open_folder(
    folder: &Path,
    engine: Option<EngineName>,
    durability: Durability,
    missing: Missing,
) -> Result<Arc<dyn OrderedStore>, Failure> {
    let found = engine_of(folder)?;
    if found.is_none() && missing == Missing::Refuse {
        return Err(Failure::Absent(format!(
            "there is no database in {0}: create one with `keyloom schema apply FILE --data {0}`, \
             or name another folder",
            folder.display()
        )));
    }
    match (engine.or(found).unwrap_or(EngineName::Redb), durability) {
        (EngineName::Redb, Durability::Durable) => Ok(Arc::new(RedbStore::open(folder)?)),
        (EngineName::Redb, Durability::Buffered) => Err(Failure::Usage(
            "durability=buffered needs engine=fjall: redb is always durable".to_owned(),
        )),
        (EngineName::Fjall, durability) => {
            if durability == Durability::Buffered {
                // If standard error is closed, nobody wants to know.
                let _ = writeln!(std::io::stderr().lock(), "{BUFFERED}");
            }
            Ok(Arc::new(FjallStore::open(folder, durability)?))
        }
    }
}

fn engine_of(path: &Path) -> Result<Option<EngineName>, Failure> {
    match folder::engine_of(path)?.as_deref() {
        None => Ok(None),
        Some(keyloom_store_redb::ENGINE) => Ok(Some(EngineName::Redb)),
        Some(keyloom_store_fjall::ENGINE) => Ok(Some(EngineName::Fjall)),
        Some(other) => Err(Failure::Invalid(format!(
            "{} holds a store of the engine `{other}`, which this program does not have",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_in_full() {
        assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
        let plain = StoreUrl::in_folder(PathBuf::from("./d"));
        assert_eq!("embedded:./d".parse(), Ok(plain));
        let full = StoreUrl::Embedded {
            folder: PathBuf::from("/var/d"),
            engine: Some(EngineName::Fjall),
            durability: Durability::Buffered,
        };
        assert_eq!("embedded:/var/d?engine=fjall&durability=buffered".parse(), Ok(full));
    }

    #[test]
    fn a_wrong_store_is_refused_with_what_there_is() {
        let refusal = |text: &str| text.parse::<StoreUrl>().unwrap_err();
        assert!(refusal("./d").starts_with("a store is embedded:DIR"));
        assert!(refusal("embedded:").starts_with("embedded: needs a folder"));
        let expected = "`engine=rocks` is not a setting; there are: engine=redb";
        assert!(refusal("embedded:d?engine=rocks").starts_with(expected));
    }
}
