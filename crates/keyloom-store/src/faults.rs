//! A wrapper around any store that fails or delays chosen calls and counts all of them.
//!
//! F1: A call that no rule chooses behaves exactly like the call of the store inside.
//! F2: The calls of one store, its snapshots and its scans are numbered together from one, in the
//!     order in which they begin, so that a test can fail "every store call n" in turn.
//! F3: The same rules on the same order of calls do the same: chance comes from a seed.
//! F4: [`Fault::Before`] and [`Fault::Unwritten`] never reach the store; [`Fault::After`] does.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;

use crate::{
    Change, Commit, CommitOutcome, Entries, Feed, KeyRange, Limits, OrderedStore, Position, Scan,
    ScanOptions, Snapshot, StoreError, Stored, Tally,
};

/// A store that goes wrong on demand. Clones share rules and counts.
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn OrderedStore>,
    plan: Arc<Plan>,
}

/// The calls that can be chosen and are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// [`OrderedStore::snapshot`].
    Snapshot,
    /// [`Snapshot::get`].
    Get,
    /// [`Snapshot::get_many`].
    GetMany,
    /// [`Snapshot::scan`].
    Scan,
    /// [`Scan::next`].
    ScanNext,
    /// [`OrderedStore::commit`].
    Commit,
    /// [`OrderedStore::changes`].
    Changes,
}

/// Which calls a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The n-th call of any kind, counted from one since the last [`FaultStore::reset`].
    Nth(u64),
    /// The n-th call of this kind, counted from one since the last [`FaultStore::reset`].
    NthOf(Call, u64),
    /// Every call of this kind.
    Every(Call),
    /// Each call with this probability (in 1/1000), decided by the seed and the call's number.
    Chance {
        /// What the decisions follow from.
        seed: u64,
        /// Of a thousand calls, about how many.
        per_mille: u16,
    },
    /// As [`When::Chance`], but only calls of one kind.
    ChanceOf {
        /// The kind of call.
        call: Call,
        /// What the decisions follow from.
        seed: u64,
        /// Of a thousand calls of this kind, about how many.
        per_mille: u16,
    },
}

/// What happens to a chosen call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens; the error is `Unavailable` with this reason.
    Before(&'static str),
    /// The call happens and its reply is lost: `OutcomeUnknown` for a commit (also if a check
    /// failed), `Unavailable` for a read.
    After,
    /// Nothing happens, and a commit cannot tell: `OutcomeUnknown`. A read is `Unavailable`.
    Unwritten,
    /// A commit with at least `check + 1` checks answers that this one failed, and writes nothing.
    /// Other calls are left alone.
    Conflict {
        /// The check that is said to have failed.
        check: usize,
    },
}

/// The reason that a full disk gives, for [`Fault::Before`].
pub const NO_SPACE: &str = "no space left on device";

/// How often each call was made, failed ones included, and how many keys were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of [`OrderedStore::snapshot`].
    pub snapshots: u64,
    /// Calls of [`Snapshot::get`].
    pub gets: u64,
    /// Calls of [`Snapshot::get_many`].
    pub get_manys: u64,
    /// Calls of [`Snapshot::scan`].
    pub scans: u64,
    /// Calls of [`Scan::next`].
    pub scan_nexts: u64,
    /// Calls of [`OrderedStore::commit`].
    pub commits: u64,
    /// Calls of [`OrderedStore::changes`].
    pub changes: u64,
    /// Keys asked for by `get` and `get_many`, and entries that scans yielded.
    pub keys_read: u64,
}

impl Counts {
    /// All calls together.
    pub fn calls(&self) -> u64 {
        let Counts { snapshots, gets, get_manys, scans, scan_nexts, commits, changes, .. } = *self;
        snapshots + gets + get_manys + scans + scan_nexts + commits + changes
    }

    /// The calls of one kind.
    pub fn of(&self, call: Call) -> u64 {
        match call {
            Call::Snapshot => self.snapshots,
            Call::Get => self.gets,
            Call::GetMany => self.get_manys,
            Call::Scan => self.scans,
            Call::ScanNext => self.scan_nexts,
            Call::Commit => self.commits,
            Call::Changes => self.changes,
        }
    }

    fn of_mut(&mut self, call: Call) -> &mut u64 {
        match call {
            Call::Snapshot => &mut self.snapshots,
            Call::Get => &mut self.gets,
            Call::GetMany => &mut self.get_manys,
            Call::Scan => &mut self.scans,
            Call::ScanNext => &mut self.scan_nexts,
            Call::Commit => &mut self.commits,
            Call::Changes => &mut self.changes,
        }
    }
}

impl FaultStore {
    /// Wraps a store; nothing fails until a rule says so.
    pub fn new(inner: Arc<dyn OrderedStore>) -> Self {
        FaultStore { inner, plan: Arc::default() }
    }

    /// Adds a rule. Of several rules that choose one call, the first decides.
    pub fn inject(&self, when: When, fault: Fault) {
        self.plan.script().rules.push(Rule { when, action: Action::Fail(fault) });
    }

    /// Adds a hook that runs before the chosen calls reach the store (or fail): a place to delay
    /// them, or to let another writer in. Calls that the hook itself makes are counted too, so
    /// choose by [`When::NthOf`], or give the hook the store inside.
    pub fn hook(&self, when: When, run: impl Fn() + Send + Sync + 'static) {
        self.plan.script().rules.push(Rule { when, action: Action::Run(Arc::new(run)) });
    }

    /// What was called since the last reset.
    pub fn counts(&self) -> Counts {
        self.plan.script().counts
    }

    /// Forgets all rules and counts.
    pub fn reset(&self) {
        *self.plan.script() = Script::default();
    }
}

#[derive(Default)]
struct Plan {
    script: Mutex<Script>,
}

#[derive(Default)]
struct Script {
    rules: Vec<Rule>,
    counts: Counts,
}

struct Rule {
    when: When,
    action: Action,
}

#[derive(Clone)]
enum Action {
    Fail(Fault),
    Run(Arc<dyn Fn() + Send + Sync>),
}

impl Plan {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("no code panics while it holds this lock")
    }

    /// Counts a call, runs its hooks and says how it is to fail.
    fn begin(&self, call: Call) -> Option<Fault> {
        let mut hooks = Vec::new();
        let mut fault = None;
        {
            let mut script = self.script();
            *script.counts.of_mut(call) += 1;
            for rule in &script.rules {
                match &rule.action {
                    _ if !rule.when.chooses(call, &script.counts) => {}
                    Action::Fail(found) => fault = fault.or_else(|| Some(found.clone())),
                    Action::Run(hook) => hooks.push(Arc::clone(hook)),
                }
            }
        }
        // Without the lock: a hook may call the store.
        for hook in hooks {
            hook();
        }
        fault
    }

    /// Begins a read: it either fails before it happens, or goes on and may lose its reply.
    fn begin_read(&self, call: Call) -> Result<Reply, StoreError> {
        match self.begin(call) {
            Some(Fault::Before(reason)) => Err(unavailable(reason)),
            Some(Fault::Unwritten) => Err(unavailable(LOST)),
            Some(Fault::After) => Ok(Reply::Lost),
            Some(Fault::Conflict { .. }) | None => Ok(Reply::Kept),
        }
    }

    fn count_keys(&self, count: usize) {
        self.script().counts.keys_read += count as u64;
    }
}

impl When {
    /// Whether the call that was just counted is chosen.
    fn chooses(&self, call: Call, counts: &Counts) -> bool {
        match *self {
            When::Nth(number) => counts.calls() == number,
            When::NthOf(kind, number) => kind == call && counts.of(kind) == number,
            When::Every(kind) => kind == call,
            When::Chance { seed, per_mille } => chance(seed, counts.calls(), per_mille),
            When::ChanceOf { call: kind, seed, per_mille } => {
                kind == call && chance(seed, counts.of(kind), per_mille)
            }
        }
    }
}

/// Whether call `number` is hit. A hash of seed and number (the finalizer of SplitMix64) instead of
/// a generator with state, so that one call more or less does not shift all later decisions.
fn chance(seed: u64, number: u64, per_mille: u16) -> bool {
    let mut mixed = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)) % 1000 < u64::from(per_mille)
}

const LOST: &str = "injected: the reply was lost";

enum Reply {
    Kept,
    Lost,
}

impl Reply {
    fn of<T>(self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match self {
            Reply::Kept => result,
            Reply::Lost => Err(unavailable(LOST)),
        }
    }
}

fn unavailable(reason: &str) -> StoreError {
    StoreError::Unavailable { reason: reason.to_owned(), source: None }
}

fn outcome_unknown() -> StoreError {
    StoreError::OutcomeUnknown { reason: LOST.to_owned(), source: None }
}

#[async_trait]
impl OrderedStore for FaultStore {
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let reply = self.plan.begin_read(Call::Snapshot)?;
        let inner = reply.of(self.inner.snapshot().await)?;
        Ok(Box::new(FaultSnapshot { inner, plan: Arc::clone(&self.plan) }))
    }

    async fn commit(&self, commit: Arc<Commit>) -> Result<CommitOutcome, StoreError> {
        match self.plan.begin(Call::Commit) {
            Some(Fault::Before(reason)) => Err(unavailable(reason)),
            Some(Fault::Unwritten) => Err(outcome_unknown()),
            Some(Fault::Conflict { check }) if check < commit.checks.len() => {
                Ok(CommitOutcome::Conflict { check })
            }
            Some(Fault::After) => {
                self.inner.commit(commit).await?;
                Err(outcome_unknown())
            }
            Some(Fault::Conflict { .. }) | None => self.inner.commit(commit).await,
        }
    }

    async fn changes(&self, after: Position, limit: usize) -> Result<Vec<Change>, StoreError> {
        let reply = self.plan.begin_read(Call::Changes)?;
        reply.of(self.inner.changes(after, limit).await)
    }

    async fn feed(&self) -> Result<Feed, StoreError> {
        self.inner.feed().await
    }

    async fn trim(&self, through: Position) -> Result<(), StoreError> {
        self.inner.trim(through).await
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn tally(&self) -> Tally {
        self.inner.tally()
    }
}

struct FaultSnapshot {
    inner: Box<dyn Snapshot>,
    plan: Arc<Plan>,
}

#[async_trait]
impl Snapshot for FaultSnapshot {
    async fn get(&self, key: &[u8]) -> Result<Option<Stored>, StoreError> {
        let reply = self.plan.begin_read(Call::Get)?;
        self.plan.count_keys(1);
        reply.of(self.inner.get(key).await)
    }

    async fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Stored>>, StoreError> {
        let reply = self.plan.begin_read(Call::GetMany)?;
        self.plan.count_keys(keys.len());
        reply.of(self.inner.get_many(keys).await)
    }

    async fn scan(
        &self,
        range: &KeyRange,
        options: ScanOptions,
    ) -> Result<Box<dyn Scan>, StoreError> {
        let reply = self.plan.begin_read(Call::Scan)?;
        let inner = reply.of(self.inner.scan(range, options).await)?;
        Ok(Box::new(FaultScan { inner, plan: Arc::clone(&self.plan) }))
    }
}

struct FaultScan {
    inner: Box<dyn Scan>,
    plan: Arc<Plan>,
}

#[async_trait]
impl Scan for FaultScan {
    async fn next(&mut self, count: usize) -> Result<Entries, StoreError> {
        let reply = self.plan.begin_read(Call::ScanNext)?;
        let page = self.inner.next(count).await?;
        self.plan.count_keys(page.len());
        reply.of(Ok(page))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use pollster::block_on;

    use super::*;
    use crate::memory::MemoryStore;
    use crate::{Check, Direction, Expect, Write};

    fn wrapped() -> (Arc<MemoryStore>, FaultStore) {
        let inner = Arc::new(MemoryStore::new());
        (Arc::clone(&inner), FaultStore::new(inner))
    }

    fn create(key: &str) -> Commit {
        Commit {
            checks: vec![Check { key: key.into(), expect: Expect::Absent }],
            writes: vec![Write::Put { key: key.into(), value: b"1".into() }],
            changes: vec![key.into()],
        }
    }

    fn commit(store: &FaultStore, key: &str) -> Result<CommitOutcome, StoreError> {
        block_on(store.commit(Arc::new(create(key))))
    }

    fn exists(store: &MemoryStore, key: &str) -> bool {
        let found = block_on(async { store.snapshot().await?.get(key.as_bytes()).await });
        found.unwrap().is_some()
    }

    /// A small session of every kind of call; stops at the first error.
    async fn session(store: &FaultStore) -> Result<(), StoreError> {
        store.commit(Arc::new(create("a"))).await?;
        let snapshot = store.snapshot().await?;
        snapshot.get(b"a").await?;
        snapshot.get_many(&[b"a".to_vec(), b"b".to_vec()]).await?;
        let range = KeyRange { from: b"a".into(), to: b"z".into() };
        let options = ScanOptions { direction: Direction::Forward, limit: 10 };
        let mut scan = snapshot.scan(&range, options).await?;
        scan.next(5).await?;
        scan.next(5).await?;
        store.changes(Position::default(), 10).await?;
        Ok(())
    }

    #[test]
    fn every_call_is_counted_and_so_is_every_key() {
        let (_, store) = wrapped();
        block_on(session(&store)).unwrap();
        let counts = Counts {
            snapshots: 1,
            gets: 1,
            get_manys: 1,
            scans: 1,
            scan_nexts: 2,
            commits: 1,
            changes: 1,
            keys_read: 4,
        };
        assert_eq!(store.counts(), counts);
        assert_eq!(counts.calls(), 8);
        store.reset();
        assert_eq!(store.counts(), Counts::default());
    }

    #[test]
    fn every_store_call_can_be_made_to_fail_in_turn() {
        for number in 1..=8 {
            for fault in [Fault::Before(NO_SPACE), Fault::After, Fault::Unwritten] {
                let (_, store) = wrapped();
                store.inject(When::Nth(number), fault.clone());
                let error = block_on(session(&store)).unwrap_err();
                let unknown = matches!(error, StoreError::OutcomeUnknown { .. });
                let commit_without_answer = number == 1 && !matches!(fault, Fault::Before(_));
                assert_eq!(unknown, commit_without_answer, "call {number}, {fault:?}: {error}");
                assert_eq!(store.counts().calls(), number);
            }
        }
        let (_, store) = wrapped();
        store.inject(When::Nth(9), Fault::Before(NO_SPACE));
        block_on(session(&store)).unwrap();
    }

    #[test]
    fn f4_only_a_commit_that_fails_after_it_happened_leaves_a_trace() {
        let (inner, store) = wrapped();
        for (number, fault) in
            [Fault::Before(NO_SPACE), Fault::Unwritten, Fault::After, Fault::Conflict { check: 0 }]
                .into_iter()
                .enumerate()
        {
            store.inject(When::NthOf(Call::Commit, number as u64 + 1), fault);
        }
        let before = commit(&store, "before").unwrap_err();
        assert_eq!(before.to_string(), "store unavailable: no space left on device");
        let unwritten = commit(&store, "unwritten").unwrap_err();
        assert!(matches!(unwritten, StoreError::OutcomeUnknown { .. }));
        let after = commit(&store, "after").unwrap_err();
        assert!(matches!(after, StoreError::OutcomeUnknown { .. }));
        let conflict = commit(&store, "conflict").unwrap();
        assert_eq!(conflict, CommitOutcome::Conflict { check: 0 });
        let left = ["before", "unwritten", "after", "conflict"].map(|key| exists(&inner, key));
        assert_eq!(left, [false, false, true, false]);
        assert!(matches!(commit(&store, "next"), Ok(CommitOutcome::Committed { .. })));
    }

    #[test]
    fn a_conflict_is_forced_only_on_a_check_that_the_commit_has() {
        let (inner, store) = wrapped();
        store.inject(When::Every(Call::Commit), Fault::Conflict { check: 1 });
        assert!(matches!(commit(&store, "a"), Ok(CommitOutcome::Committed { .. })));
        assert!(exists(&inner, "a"));
    }

    #[test]
    fn f3_chance_follows_from_the_seed_and_hits_about_as_often_as_asked() {
        let hits = |seed: u64| -> Vec<bool> {
            let (_, store) = wrapped();
            let when = When::ChanceOf { call: Call::Snapshot, seed, per_mille: 250 };
            store.inject(when, Fault::Before(NO_SPACE));
            (0..1000).map(|_| block_on(store.snapshot()).is_err()).collect()
        };
        assert_eq!(hits(7), hits(7));
        assert_ne!(hits(7), hits(8));
        let count = hits(7).iter().filter(|hit| **hit).count();
        assert!((200..300).contains(&count), "{count} of 1000");
    }

    #[test]
    fn a_hook_runs_before_its_call_and_may_use_the_store() {
        let (inner, store) = wrapped();
        let seen = Arc::new(AtomicU64::new(0));
        let (other, ran) = (Arc::clone(&inner), Arc::clone(&seen));
        store.hook(When::NthOf(Call::Commit, 2), move || {
            block_on(other.commit(Arc::new(create("b")))).unwrap();
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert!(matches!(commit(&store, "a"), Ok(CommitOutcome::Committed { .. })));
        assert_eq!(commit(&store, "b").unwrap(), CommitOutcome::Conflict { check: 0 });
        assert!(matches!(commit(&store, "c"), Ok(CommitOutcome::Committed { .. })));
        assert_eq!(seen.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_first_rule_that_chooses_a_call_decides() {
        let (_, store) = wrapped();
        store.inject(When::Nth(1), Fault::Before("first"));
        store.inject(When::Every(Call::Commit), Fault::Before("second"));
        assert_eq!(commit(&store, "a").unwrap_err().to_string(), "store unavailable: first");
        assert_eq!(commit(&store, "a").unwrap_err().to_string(), "store unavailable: second");
    }
}
