//! SQLite as an application would use it: one table, the same indexes, prepared statements.
//!
//! Q1: It gets the better of what is open to it: a lone writer uses its connection directly, many
//!     share a writer thread with one transaction for all that wait; write-ahead log, as
//!     much cache as Keyloom has altogether, identities as 16 bytes.
//! Q2: It keeps no change feed and no counter, so it writes less than Keyloom does.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keyloom_store::limits::{PAGES_BYTES_MAX, ROWS_BYTES_MAX};
use rusqlite::{CachedStatement, Connection, Row, Statement, ToSql, Transaction, params};

use super::raw::Group;
use super::{Contender, LOAD_BATCH, LOAD_THREADS, Promise, writers};
use crate::outcome::Outcome;
use crate::probe::Probe;
use crate::workload::{Approval, LIST_LIMIT, Reading, code, id, user};

const TABLE: &str = "
CREATE TABLE IF NOT EXISTS approvals (
    id BLOB PRIMARY KEY, version INTEGER NOT NULL, code TEXT NOT NULL, requester TEXT NOT NULL,
    approver TEXT NOT NULL, status TEXT NOT NULL, created_at INTEGER NOT NULL,
    decided_at INTEGER, data TEXT NOT NULL) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS code ON approvals (code);
CREATE INDEX IF NOT EXISTS requester ON approvals (requester, created_at DESC, id);
CREATE INDEX IF NOT EXISTS approver ON approvals (approver, created_at DESC, id);
CREATE INDEX IF NOT EXISTS status ON approvals (status, created_at DESC, id);
CREATE INDEX IF NOT EXISTS pending ON approvals (created_at, id) WHERE status = 'pending';";

const INSERT: &str = "INSERT INTO approvals (id, version, code, requester, approver, status, \
    created_at, decided_at, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const UPDATE: &str = "UPDATE approvals SET version = version + 1, status = ?2, decided_at = ?3, \
    data = ?4 WHERE id = ?1";

const GET: &str = "SELECT data FROM approvals WHERE id = ?1";
const LOOKUP: &str = "SELECT data FROM approvals WHERE code = ?1";
const NEWEST: &str = "SELECT data FROM approvals WHERE requester = ?1 \
    ORDER BY created_at DESC, id LIMIT 20";
const COVERED: &str = "SELECT created_at, id FROM approvals WHERE requester = ?1 \
    ORDER BY created_at DESC, id LIMIT 20";
const MERGED: &str = "SELECT a.data FROM (\
    SELECT id, created_at FROM (SELECT id, created_at FROM approvals WHERE requester = ?1 \
        ORDER BY created_at DESC, id LIMIT 20) \
    UNION SELECT id, created_at FROM (SELECT id, created_at FROM approvals WHERE approver = ?1 \
        ORDER BY created_at DESC, id LIMIT 20) \
    ORDER BY created_at DESC, id LIMIT 20) AS k \
    JOIN approvals AS a ON a.id = k.id ORDER BY k.created_at DESC, k.id";

// What the statements say.
const _: () = assert!(LIST_LIMIT == 20);

/// A database file with one connection that writes.
pub(super) struct Sqlite {
    /// Kept, with what it has cached.
    reader: Mutex<Connection>,
    writer: Arc<Mutex<Connection>>,
    group: Group<Arc<Job>>,
}

/// One write.
enum Job {
    Insert(Approval),
    Update(Approval),
}

impl Sqlite {
    pub(super) fn open(folder: &Path, promise: Promise) -> Outcome<Sqlite> {
        let path = folder.join("approvals.sqlite");
        let connection = connect(&path)?;
        let synchronous = match promise {
            Promise::Durable => "FULL",
            Promise::Buffered => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.execute_batch(TABLE)?;
        let writer = Arc::new(Mutex::new(connection));
        let of_group = Arc::clone(&writer);
        let group = Group::start(move |jobs: &[&Arc<Job>]| {
            write(&of_group, jobs.iter().map(|job| job.as_ref()))
        });
        Ok(Sqlite { reader: Mutex::new(connect(&path)?), writer, group })
    }

    fn write_each(&self, jobs: Vec<Job>, writers: usize) -> Outcome<Duration> {
        let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
        if writers == 1 {
            return writers::run(1, &jobs, |job| write(&self.writer, [job.as_ref()].into_iter()));
        }
        writers::run(writers, &jobs, |job| self.group.write(Arc::clone(job)))
    }
}

impl Contender for Sqlite {
    fn load(&self, approvals: &[Approval]) -> Outcome<Duration> {
        let batches: Vec<Vec<Job>> = approvals
            .chunks(LOAD_BATCH)
            .map(|batch| batch.iter().cloned().map(Job::Insert).collect())
            .collect();
        writers::run(LOAD_THREADS, &batches, |batch| write(&self.writer, batch.iter()))
    }

    fn create(&self, approvals: &[Approval], writers: usize) -> Outcome<Duration> {
        self.write_each(approvals.iter().cloned().map(Job::Insert).collect(), writers)
    }

    fn update(&self, changes: &[(Approval, Approval)], writers: usize) -> Outcome<Duration> {
        self.write_each(changes.iter().map(|(_, new)| Job::Update(new.clone())).collect(), writers)
    }

    fn read(&self, reading: Reading, questions: &[u64], probe: &mut Probe) -> Outcome<()> {
        let connection = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let prepare = |sql| connection.prepare(sql);
        match reading {
            Reading::Get => {
                read_documents(&mut prepare(GET)?, questions, |it| id(it).to_bytes(), probe)
            }
            Reading::Lookup => read_documents(&mut prepare(LOOKUP)?, questions, code, probe),
            Reading::Newest => read_documents(&mut prepare(NEWEST)?, questions, user, probe),
            Reading::Merged => read_documents(&mut prepare(MERGED)?, questions, user, probe),
            Reading::Covered => read_covered(&mut prepare(COVERED)?, questions, probe),
        }
    }
}

fn connect(path: &Path) -> Outcome<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let cache_bytes = keyloom_store_redb::CACHE_BYTES + ROWS_BYTES_MAX + PAGES_BYTES_MAX;
    let cache_kib = i64::try_from(cache_bytes / 1024)?;
    connection.pragma_update(None, "cache_size", -cache_kib)?;
    Ok(connection)
}

/// Writes all jobs in one transaction.
fn write<'a>(writer: &Mutex<Connection>, jobs: impl Iterator<Item = &'a Job>) -> Outcome<()> {
    let mut connection = writer.lock().unwrap_or_else(PoisonError::into_inner);
    let transaction = connection.transaction()?;
    for job in jobs {
        write_one(&transaction, job)?;
    }
    transaction.commit()?;
    Ok(())
}

fn write_one(transaction: &Transaction<'_>, job: &Job) -> Outcome<()> {
    let changed = match job {
        Job::Insert(new) => {
            let mut insert: CachedStatement<'_> = transaction.prepare_cached(INSERT)?;
            insert.execute(params![
                new.id.to_bytes(),
                1,
                new.code,
                new.requester,
                new.approver,
                new.status,
                new.created_at,
                new.decided_at,
                new.json
            ])?
        }
        Job::Update(new) => {
            let mut update = transaction.prepare_cached(UPDATE)?;
            update.execute(params![new.id.to_bytes(), new.status, new.decided_at, new.json])?
        }
    };
    if changed == 1 { Ok(()) } else { Err(format!("{changed} rows were written").into()) }
}

fn read_documents<Q: ToSql>(
    statement: &mut Statement<'_>,
    questions: &[u64],
    prepare: impl Fn(u64) -> Q,
    probe: &mut Probe,
) -> Outcome<()> {
    probe.ask_each(
        questions,
        |number| Ok(prepare(number)),
        |question| {
            let rows = statement.query_map((question,), |row: &Row<'_>| row.get(0))?;
            Ok(rows.collect::<Result<Vec<String>, _>>()?)
        },
        |documents, digest| {
            documents.iter().for_each(|document| digest.row(document.as_bytes()));
            if documents.is_empty() { Err("a document is missing".into()) } else { Ok(()) }
        },
    )
}

fn read_covered(
    statement: &mut Statement<'_>,
    questions: &[u64],
    probe: &mut Probe,
) -> Outcome<()> {
    probe.ask_each(
        questions,
        |number| Ok(user(number)),
        |user| {
            let rows = statement.query_map((user,), |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<Vec<(i64, [u8; 16])>, _>>()?)
        },
        |rows, digest| {
            for (created_at, id) in rows {
                let id = keyloom_key::Ulid::from_bytes(*id).to_string();
                digest.covered(*created_at, &id);
            }
            Ok(())
        },
    )
}
