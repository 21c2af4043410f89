//! Every bound of the command line, with its reason.

use std::time::Duration;

use keyloom_engine::limits::{BATCH_OPERATIONS_MAX, DOCUMENT_BYTES_MAX};

/// The longest line of an import: the largest document, its key and its description.
pub(crate) const LINE_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + (64 << 10);

/// The most documents that one commit of an import creates. More would not be faster, but whatever
/// is wrong with one of them would undo more work.
pub(crate) const IMPORT_DOCUMENTS: usize = BATCH_OPERATIONS_MAX / 2;

/// The most bytes of documents in one commit of an import: with their keys they fit the commit of
/// every embedded store several times.
pub(crate) const IMPORT_BYTES: usize = 4 << 20;

/// The largest answer of a server that is read: a page of documents and what is around them.
pub(crate) const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// How long a server may take to accept a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest file of schemas that is read.
pub(crate) const SCHEMA_FILE_BYTES_MAX: usize = keyloom_engine::limits::SCHEMA_BYTES_MAX;

/// How often progress is drawn: smooth for the eye, and no load.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The changes that are shown when no limit is given.
pub(crate) const CHANGES_DEFAULT: usize = 100;
