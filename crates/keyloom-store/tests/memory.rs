//! The memory store obeys the contract, and so does a wrapper that injects no fault.

use std::path::Path;
use std::sync::Arc;

use keyloom_store::OrderedStore;
use keyloom_store::memory::MemoryStore;

fn open(_folder: &Path) -> Arc<dyn OrderedStore> {
    Arc::new(MemoryStore::new())
}

keyloom_store::conformance_tests!(open);

/// F1: a wrapper without rules changes nothing.
mod through_an_idle_fault_store {
    use super::*;
    use keyloom_store::faults::FaultStore;

    fn open(folder: &Path) -> Arc<dyn OrderedStore> {
        Arc::new(FaultStore::new(super::open(folder)))
    }

    keyloom_store::conformance_tests!(open);
}
