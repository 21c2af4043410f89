//! Progress of long work: one line on standard error, drawn over and over.
//!
//! G1: Only on a terminal; logs and pipes see nothing of it.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::limits::PROGRESS_INTERVAL;
use crate::output::{counted, grouped};

/// Does work that only the server knows the progress of: what is drawn is the time that it takes.
pub(crate) fn while_waiting<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let started = now();
    let (working, done) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            draw_until(&done, &mut std::io::stderr(), || waiting(what, started.elapsed()));
        });
        let answer = work();
        drop(working);
        answer
    })
}

/// Long work under way.
pub(crate) struct Progress {
    what: &'static str,
    terminal: bool,
    started: Instant,
    drawn: Option<Instant>,
    documents: u64,
}

impl Progress {
    /// Work that has just begun.
    pub(crate) fn start(what: &'static str) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { what, terminal, started: now(), drawn: None, documents: 0 }
    }

    /// So many documents are done; of all there is to do, this share, if it is known.
    pub(crate) fn step(&mut self, documents: u64, share: Option<f64>) {
        self.documents = documents;
        let due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= PROGRESS_INTERVAL);
        if !self.terminal || !due {
            return;
        }
        self.drawn = Some(now());
        self.draw(&line(self.what, documents, self.started.elapsed(), share));
    }

    /// Ends the work: the line disappears. The answer is what to say of it at the end.
    pub(crate) fn finish(self) -> String {
        if self.drawn.is_some() {
            self.draw("");
        }
        let elapsed = self.started.elapsed();
        format!("{} in {:.1} s", counted(self.documents, "document"), elapsed.as_secs_f64())
    }

    fn draw(&self, text: &str) {
        // Progress that cannot be drawn is no reason to stop the work.
        let mut terminal = std::io::stderr().lock();
        let _ = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
    }
}

/// Draws a line over and over, and at last takes it away.
fn draw_until(done: &Receiver<()>, terminal: &mut impl Write, line: impl Fn() -> String) {
    let mut drawn = |text: &str| {
        // Progress that cannot be drawn is no reason to stop the work.
        let _ = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
    };
    while done.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        drawn(&line());
    }
    drawn("");
}

fn waiting(what: &str, elapsed: Duration) -> String {
    format!("{what}  the server has worked for {} s", elapsed.as_secs())
}

fn line(what: &str, documents: u64, elapsed: Duration, share: Option<f64>) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    // A rate is read by people: its fraction does not matter.
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive")]
    let rate = (documents as f64 / seconds) as u64;
    let mut text = format!("{what} {}  {}/s", counted(documents, "document"), grouped(rate));
    if let Some(share) = share.filter(|share| *share > 0.0) {
        let left = seconds / share.min(1.0) - seconds;
        text.push_str(&format!("  {:.0} %  {left:.0} s left", share * 100.0));
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "progress is the one thing here that needs a clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_and_the_time_that_is_left() {
        let elapsed = Duration::from_secs(2);
        assert_eq!(line("import", 3000, elapsed, None), "import 3,000 documents  1,500/s");
        assert_eq!(
            line("import", 3000, elapsed, Some(0.25)),
            "import 3,000 documents  1,500/s  25 %  6 s left"
        );
    }

    #[test]
    fn the_time_is_drawn_while_the_server_works_and_is_gone_at_the_end() {
        let (working, done) = mpsc::channel();
        let working = std::cell::Cell::new(Some(working));
        let mut terminal = Vec::new();
        draw_until(&done, &mut terminal, || {
            // The work ends while the first line is drawn.
            drop(working.take());
            waiting("check", Duration::from_secs(61))
        });
        let expected = "\r\x1b[Kcheck  the server has worked for 61 s\r\x1b[K";
        assert_eq!(String::from_utf8(terminal).unwrap(), expected);
    }

    #[test]
    fn the_first_moment_divides_by_nothing() {
        assert_eq!(line("check", 0, Duration::ZERO, Some(0.0)), "check 0 documents  0/s");
    }
}
