//! The fjall store obeys the contract in both modes, also across restarts.

use std::path::Path;
use std::sync::Arc;

use keyloom_store::OrderedStore;
use keyloom_store_fjall::{Durability, FjallStore};

mod durable {
    use super::*;

    fn open(folder: &Path) -> Arc<dyn OrderedStore> {
        Arc::new(FjallStore::open(folder, Durability::Durable).expect("the store opens"))
    }

    keyloom_store::conformance_tests!(open);
    keyloom_store::conformance_reopen_tests!(open);
}

mod buffered {
    use super::*;

    fn open(folder: &Path) -> Arc<dyn OrderedStore> {
        Arc::new(FjallStore::open(folder, Durability::Buffered).expect("the store opens"))
    }

    keyloom_store::conformance_tests!(open);
    keyloom_store::conformance_reopen_tests!(open);
}
