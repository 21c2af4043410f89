//! Every bound of the engine, with its reason.

use std::time::Duration;

/// The largest document, as JSON bytes. Fits one request of the smallest store (etcd, 1.5 MiB)
/// together with its keys.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// How deep arrays and objects of a document may nest. Far above what people write, far below
/// what a recursive parser stands.
pub const DOCUMENT_DEPTH_MAX: usize = 64;

/// The most members at the top of a document. Members are looked up one by one.
pub const DOCUMENT_FIELDS_MAX: usize = 256;

/// The longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 1024;

/// The longest name of an owner, in bytes. It may stand in a key.
pub const OWNER_BYTES_MAX: usize = 128;

/// The most fields that say whose a document is. Each is a condition of every list.
pub const SUBJECTS_MAX: usize = 4;

/// The most elements of an array field. With an index on its elements each one is a key.
pub const ARRAY_ELEMENTS_MAX: usize = 256;

/// The most operations of one batch. Each brings several keys, and a commit is never split.
pub const BATCH_OPERATIONS_MAX: usize = 1000;

/// The most collections that the scopes of a token name.
pub const TOKEN_SCOPES_MAX: usize = 100;

/// The most keys of one `get many`.
pub const GET_MANY_KEYS_MAX: usize = 1000;

/// The results of a page when the query names no limit.
pub const PAGE_LIMIT_DEFAULT: usize = 100;

/// The most results of one page.
pub const PAGE_LIMIT_MAX: usize = 1000;

/// The most bytes of documents in one page: a page ends early rather than growing beyond.
pub const PAGE_BYTES_MAX: usize = 8 << 20;

/// The most ranges of one plan (`in` lists times unions times shards): all are open at once.
pub const RANGES_MAX: usize = 128;

/// The most keys that a page reads to find a caller's own documents where no key leads with their
/// owner. A page of the usual size costs milliseconds even if none of them is his; it is then empty
/// and says where to go on.
pub const OWN_KEYS_MAX: usize = 5_000;

/// The most keys that an explicit scan may be allowed to read for one page.
pub const SCAN_BUDGET_MAX: usize = 1_000_000;

/// The longest regular expression of the list matcher, in bytes.
pub const MATCHER_BYTES_MAX: usize = 1024;

/// The most memory that one compiled expression may take.
pub const MATCHER_PROGRAM_BYTES_MAX: usize = 1 << 20;

/// The most collections of one store. Their ids are two bytes in every key.
pub const COLLECTIONS_MAX: usize = 1000;

/// The most indexes and unique claims of one collection. Each is at least one key per write.
pub const PATHS_MAX: usize = 32;

/// The most fields that a schema declares for one collection.
pub const SCHEMA_FIELDS_MAX: usize = 128;

/// The largest schema text, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 1 << 20;

/// How often a generated code is drawn again when it is taken.
pub const CODE_ATTEMPTS_MAX: usize = 5;

/// How often a write is planned again because something it depends on, but was not asked to
/// guard, moved in between (a reference, a derived document, the schema). In each round one of the
/// writers that met goes through, so this is also how many may meet.
pub const REPLAN_ATTEMPTS_MAX: usize = 256;

/// How often the outcome of a commit is looked up after its reply was lost.
pub const OUTCOME_ATTEMPTS_MAX: usize = 3;

/// How often a read-modify-write is tried.
pub const UPDATE_ATTEMPTS: u32 = 3;

/// The wait after the first failed attempt of a read-modify-write; it doubles with each further.
pub const UPDATE_DELAY: Duration = Duration::from_millis(100);

/// How many documents one commit of a backfill or a clean-up handles. Small, so that writers are
/// never held up for long.
pub const BACKFILL_DOCUMENTS: usize = 200;

/// The most documents of a set that is replaced as one: all of them are in one commit.
pub const SET_DOCUMENTS_MAX: usize = 1000;

/// The most problems that a check lists. Who has more has one cause for all of them.
pub const CHECK_PROBLEMS_MAX: usize = 1000;

/// The most partitions of a class. Their numbers are two bytes in every key.
pub const PARTITIONS_MAX: u32 = 65_536;

/// The most functions of a class.
pub const FUNCTIONS_MAX: usize = 256;

/// The longest name of a function, in bytes: as long as an identity.
pub const FUNCTION_NAME_BYTES_MAX: usize = 160;

/// The longest address of a function, in bytes: as long as servers take them.
pub const URL_BYTES_MAX: usize = 2048;

/// The longest an invocation may take, in milliseconds.
pub const FUNCTION_TIMEOUT_MS_MAX: u64 = 600_000;

/// The largest value of an entry, in bytes: as large as a document.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// The most entries of an object. It is replaced and deleted in one commit, which is never split.
pub const OBJECT_ENTRIES_MAX: usize = 10_000;

/// The most bytes of all values of an object: half of what the embedded stores take in one commit,
/// so that it can be replaced by another one.
pub const OBJECT_BYTES_MAX: usize = 16 << 20;

/// The most entries that one batch sets and deletes.
pub const ENTRY_BATCH_MAX: usize = 1000;

/// The most functions that one event configuration names.
pub const EVENT_TARGETS_MAX: usize = 256;

/// The most events that one commit writes for delivery.
pub const COMMIT_EVENTS_MAX: usize = 1000;

/// The bytes of their payloads: half of what a commit may hold.
pub const COMMIT_EVENT_BYTES_MAX: usize = 16 << 20;

/// The most keys that a page of objects passes over because they are hidden: beyond that the page
/// is short and says where to go on.
pub const HIDDEN_OBJECTS_MAX: usize = 5_000;

/// How many objects one commit moves out of an older layout. Small, so that writers are never held
/// up for long.
pub const REWRITE_OBJECTS: usize = 20;

/// How many events may lead to one: beyond that it is a loop, and ends as a dead letter.
pub const TRIGGER_DEPTH_MAX: u32 = 8;

/// How often the delivery of an event is tried before it becomes a dead letter.
pub const EVENT_ATTEMPTS_MAX: u32 = 10;

/// The longest id of an invocation, in bytes. It stands in a key.
pub const INVOCATION_ID_BYTES_MAX: usize = 256;

/// The largest result of an invocation that is kept, in bytes.
pub const INVOCATION_BYTES_MAX: usize = 4 << 20;

/// The bytes of a page of events, unless its first one is larger. Each of those who deliver holds
/// such a page.
pub const EVENT_PAGE_BYTES_MAX: usize = 1 << 20;

/// The most events of a partition that wait for delivery: hours of work for one function. Beyond
/// that nobody takes them, and a write that would add one is refused before the disk is full.
pub const OUTBOX_EVENTS_MAX: u64 = 100_000;

/// The most dead letters of a partition; beyond that the oldest go. Who has more has one cause for
/// all of them.
pub const DEAD_LETTERS_MAX: u64 = 10_000;

/// The most characters of an error that an event keeps: enough to find the cause.
pub const ERROR_CHARACTERS_MAX: usize = 512;

/// Counters that one read of statistics takes at a time.
pub const COUNTERS_PAGE: usize = 1000;

/// Keys that a check reads at a time.
pub const CHECK_PAGE: usize = 1000;

/// Large values that are read at a time: a few of the largest fill a page.
pub const LARGE_VALUES_PAGE: usize = 8;

/// From so many entries on, a write reads them in one scan: opening one costs as much as a few
/// single reads.
pub const SCANNED_KEYS_MIN: usize = 8;

/// Most documents that a commit evicts beside those that make room for its own: where a capacity
/// was lowered, so many more with each create.
pub const EVICTED_MAX: u64 = 100;
