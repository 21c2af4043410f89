//! The redb store obeys the contract, also across restarts.

use std::path::Path;
use std::sync::Arc;

use keyloom_store::OrderedStore;
use keyloom_store_redb::RedbStore;

fn open(folder: &Path) -> Arc<dyn OrderedStore> {
    Arc::new(RedbStore::open(folder).expect("the store opens"))
}

keyloom_store::conformance_tests!(open);
keyloom_store::conformance_reopen_tests!(open);
