//! A connection of HTTP/2 that costs its client next to nothing: calls are written as frames, many
//! at a time, and answers are read the same way. The clients share the machine with the server, and
//! a client library takes as much of it for a call as the server does.
//!
//! W1: A call is answered when its message has come and its stream has ended well: a call that is
//!     refused has no message.
//! W2: No more is sent than the server has room for.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::outcome::Outcome;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The kinds of frames that matter here.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What a frame begins with: length, kind, flags, stream.
const HEAD_BYTES: usize = 9;

/// What goes before a message of gRPC: whether it is compressed, and its length.
const MESSAGE_HEAD_BYTES: usize = 5;

/// The largest window there is: nothing that comes has to be acknowledged in one run.
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The window of a connection as it begins.
const WINDOW_FIRST: u32 = 65_535;

const READ_BYTES: usize = 256 << 10;

/// A connection on which calls of one method are made.
pub(super) struct Wire {
    stream: TcpStream,
    /// The header fields of the first call, which the server remembers, and of all others.
    fields: (Vec<u8>, Vec<u8>),
    /// The stream of the next call.
    next: u32,
    /// How many bytes of calls the server has room for.
    window: i64,
    /// Messages that wait for room (W2).
    waiting: VecDeque<Vec<u8>>,
    /// What has come of the answers that are under way.
    open: BTreeMap<u32, Vec<u8>>,
    output: Vec<u8>,
    input: Vec<u8>,
}

/// One frame.
struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
}

impl Wire {
    /// A connection for one method.
    pub(super) fn connect(address: SocketAddr, path: &str) -> Outcome<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut output = PREFACE.to_vec();
        // Each stream may send as much as it likes, and so may all together.
        let setting = [&4_u16.to_be_bytes()[..], &WINDOW_MAX.to_be_bytes()].concat();
        frame(&mut output, SETTINGS, 0, 0, &setting);
        let more = (WINDOW_MAX - WINDOW_FIRST).to_be_bytes();
        frame(&mut output, WINDOW_UPDATE, 0, 0, &more);
        Ok(Wire {
            stream,
            fields: fields(&address.to_string(), path),
            next: 1,
            window: i64::from(WINDOW_FIRST),
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            output,
            input: Vec::with_capacity(READ_BYTES),
        })
    }

    /// How many calls are not answered yet.
    pub(super) fn open(&self) -> usize {
        self.open.len() + self.waiting.len()
    }

    /// Makes a call with this message; it goes out with the next [`Wire::answers`].
    pub(super) fn call(&mut self, message: &[u8]) -> Outcome<()> {
        let mut body = vec![0];
        body.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
        body.extend_from_slice(message);
        self.waiting.push_back(body);
        self.send()
    }

    /// Sends what waits, and hands over the answers that have come.
    pub(super) fn answers(&mut self) -> Outcome<Vec<Vec<u8>>> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        let mut piece = [0; READ_BYTES];
        let read = self.stream.read(&mut piece)?;
        if read == 0 {
            return Err("the server has closed the connection".into());
        }
        self.input.extend_from_slice(piece.get(..read).unwrap_or_default());
        let input = std::mem::take(&mut self.input);
        let (mut rest, mut done) = (input.as_slice(), Vec::new());
        while let Some((frame, behind)) = split(rest) {
            rest = behind;
            done.extend(self.take(&frame)?);
        }
        self.input.extend_from_slice(rest);
        self.send()?;
        Ok(done)
    }

    /// Takes a frame; the message, if an answer is whole with it.
    fn take(&mut self, taken: &Frame<'_>) -> Outcome<Option<Vec<u8>>> {
        match taken.kind {
            DATA | HEADERS => {
                let come = self.open.get_mut(&taken.stream).ok_or("an answer to nothing")?;
                if taken.kind == DATA {
                    come.extend_from_slice(taken.payload);
                }
                if taken.flags & END_STREAM == 0 {
                    return Ok(None);
                }
                let come = self.open.remove(&taken.stream).unwrap_or_default();
                // W1
                let message = come.get(MESSAGE_HEAD_BYTES..).ok_or("a call was refused")?;
                return Ok(Some(message.to_vec()));
            }
            RESET | GO_AWAY => return Err("the server has ended a call".into()),
            SETTINGS if taken.flags & ACK == 0 => frame(&mut self.output, SETTINGS, ACK, 0, b""),
            PING if taken.flags & ACK == 0 => {
                frame(&mut self.output, PING, ACK, 0, taken.payload);
            }
            WINDOW_UPDATE if taken.stream == 0 => {
                let more = taken.payload.try_into().map(u32::from_be_bytes)?;
                self.window += i64::from(more);
            }
            // The windows of streams are larger than a message.
            _ => {}
        }
        Ok(None)
    }

    /// Writes the calls for which there is room (W2).
    fn send(&mut self) -> Outcome<()> {
        while let Some(body) = self.waiting.front() {
            let bytes = i64::try_from(body.len())?;
            if bytes > self.window {
                break;
            }
            self.window -= bytes;
            let fields = if self.next == 1 { &self.fields.0 } else { &self.fields.1 };
            frame(&mut self.output, HEADERS, END_HEADERS, self.next, fields);
            frame(&mut self.output, DATA, END_STREAM, self.next, body);
            self.open.insert(self.next, Vec::new());
            self.next += 2;
            self.waiting.pop_front();
        }
        Ok(())
    }
}

fn frame(output: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("frames are short").to_be_bytes();
    output.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    output.extend_from_slice(&stream.to_be_bytes());
    output.extend_from_slice(payload);
}

/// The first frame, if it is whole, and what is behind it.
fn split(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (head, behind) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [a, b, c, kind, flags, stream @ ..] = *head;
    let length = u32::from_be_bytes([0, a, b, c]);
    let (payload, behind) = behind.split_at_checked(usize::try_from(length).ok()?)?;
    Some((Frame { kind, flags, stream: u32::from_be_bytes(stream), payload }, behind))
}

/// The header fields of the first call, with what the server shall remember, and of those after it,
/// which name what it remembers by number.
fn fields(authority: &str, path: &str) -> (Vec<u8>, Vec<u8>) {
    // `:method: POST` and `:scheme: http` are known to everybody.
    let mut first = vec![0x83, 0x86];
    // Known names, by number, with values to be remembered; and one name that nobody knows.
    for (name, value) in [(0x41, authority), (0x44, path), (0x5f, "application/grpc")] {
        first.push(name);
        string(&mut first, value);
    }
    first.push(0x40);
    string(&mut first, "te");
    string(&mut first, "trailers");
    // What was remembered last has number 62.
    (first, vec![0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62])
}

fn string(fields: &mut Vec<u8>, text: &str) {
    fields.push(u8::try_from(text.len()).expect("names and values are short"));
    fields.extend_from_slice(text.as_bytes());
}
