//! Every bound of the server, with its reason. Those that an operator may want to move are the
//! defaults of [`Config`](crate::Config).

use std::time::Duration;

/// The largest body. Eight of the largest documents; more is an import, which is many requests.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// The time in which a body has to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The bodies and answers that are held at once, all together; one more is told to come back: 64 of
/// the largest bodies or pages.
pub const ROOM_BYTES_MAX: usize = 512 << 20;

/// Bodies and answers up to this size always find room.
pub const SMALL_BYTES_MAX: usize = 4 << 10;

/// How much of an answer is handed out at once.
pub const ANSWER_PIECE_BYTES: usize = 64 << 10;

/// How much of what is said on a connection is sent at once.
pub const GATHERED_BYTES_MAX: usize = 64 << 10;

/// The time in which a client has to take another piece of a large answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The requests that one connection of HTTP/2 may have under way.
pub const STREAMS_MAX: u32 = 128;

/// The time in which the head of a request has to arrive, so that silent connections go away.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which a request is given up.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The time after which long work is given up: indexes that are built for a new schema, a check of
/// everything. Both read all that is stored, and both can be repeated.
pub const LONG_DEADLINE: Duration = Duration::from_secs(3600);

/// The requests that are worked on at once; one more is told to come back. Commits that wait for
/// the writer are most of them, and a group takes them all.
pub const REQUESTS_MAX: usize = 512;

/// The connections that are open at once; one more is told to come back, and closed.
pub const CONNECTIONS_MAX: usize = 4096;

/// After how many seconds a refused client should try again: a group of commits takes milliseconds.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// How long requests may still run once the server was told to stop.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a connection on which nothing is under way may outlive the stop: for the last bytes.
pub const STOP_GRACE: Duration = Duration::from_millis(500);

/// The longest request id that is taken over from a client.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// The wait after a failed accept: the process is out of file handles, which takes time to mend.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Those who follow the feed at once; each holds a connection and at most one page.
pub const READERS_MAX: usize = 1024;

/// How often a quiet follower hears that the connection lives: below the usual limits of proxies.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// The most changes that one page of the feed looks at to find those that were asked for.
pub const CHANGES_READ_MAX: usize = 100_000;

/// The changes that are kept if nothing else is said: some 100 MB at most, days for most.
pub const CHANGES_KEPT: u64 = 1_000_000;

/// How often changes that need not be kept are forgotten.
pub const TRIM_INTERVAL: Duration = Duration::from_secs(30);

/// The time in which a client has to say hello over TLS.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The objects or entries of a page if a client does not say how many.
pub const LIST_LIMIT: usize = 100;

/// The time in which a function has to answer, if its class does not say another.
pub const FUNCTION_TIMEOUT: Duration = Duration::from_secs(25);

/// The time in which a function has to be reached.
pub const FUNCTION_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest message to or from a function: as large as a body.
pub const FUNCTION_BYTES_MAX: usize = BODY_BYTES_MAX;

/// How long the result of an asynchronous invocation is kept for whoever asks for it.
pub const INVOCATION_KEPT: Duration = Duration::from_secs(3600);

/// How long beyond its time a function may seem to run.
pub const INVOCATION_SLACK: Duration = Duration::from_secs(10);

/// The functions that run at once.
pub const INVOCATIONS_MAX: usize = 256;

/// How often a quiet connection of HTTP/2 is asked whether it is still there.
pub const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The events of a partition that are read at once: the payloads of a page are held in memory.
pub const DISPATCH_PAGE: usize = 32;

/// How often the whole outbox is looked at without a reason: the reply to a commit that has filled
/// it may have been lost.
pub const DISPATCH_INTERVAL: Duration = Duration::from_secs(30);

/// The wait after the first failed delivery; each further one is twice as long.
pub const RETRY_WAIT_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between two deliveries.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// The changes that Zenoh publishes at once; those of documents are passed over.
pub const ZENOH_CHANGES_PAGE: usize = 256;

/// How long the changes that Zenoh publishes rest after the feed could not be read.
pub const ZENOH_PAUSE: Duration = Duration::from_secs(1);

/// The smallest answer that is compressed: below it, the work is worth more than the bytes.
pub const COMPRESSED_BYTES_MIN: u64 = 1024;

/// How long a browser may remember what it was allowed.
pub const CORS_MAX_AGE: Duration = Duration::from_secs(3600);

/// How often callers that were quiet are forgotten by the rate limit.
pub const RATE_SWEEP: Duration = Duration::from_secs(60);

/// How often a delete by filter is tried when others change what it found.
pub const DELETE_ATTEMPTS: u32 = 3;

/// The spans that wait for a collector; one more is dropped, and counted.
pub const TRACES_WAITING_MAX: usize = 2048;

/// The time in which a collector has to take a batch of traces; until then the next ones wait.
pub const TRACES_SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of the program waits for a collector to take the last traces.
pub const TRACES_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The partitions whose events are delivered at once; each holds a page of them. Those that wait
/// before another attempt are none of them.
pub const COURIERS_MAX: usize = 64;

/// How long deliveries of a partition rest after the store has failed.
pub const DISPATCH_PAUSE: Duration = Duration::from_secs(1);
