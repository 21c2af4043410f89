//! Where answers go: standard output, as text for people or JSON for machines.
//!
//! O1: A reader that closes the pipe (`keyloom export … | head`) ends the command quietly.
//! O2: Styles and the cut to the width of the terminal are for terminals only: what goes into a
//!     file or another program is plain and complete.

use std::fmt::Display;
use std::io::{BufWriter, IsTerminal, Write};

use serde::Serialize;

use crate::problem::Failure;
use crate::table::Table;

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// People.
    Text,
    /// Machines.
    Json,
}

/// Where answers go.
pub(crate) struct Output {
    sink: Box<dyn Write>,
    format: Format,
    style: Style,
    width: Option<usize>,
}

/// Whether text may be emphasized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Plain,
    Terminal,
}

const DIM: &str = "2";
const BOLD: &str = "1";

impl Output {
    /// Standard output.
    pub(crate) fn stdout(format: Format) -> Output {
        let stdout = std::io::stdout();
        let terminal = stdout.is_terminal();
        let colored = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let size = terminal_size::terminal_size_of(&stdout).filter(|_| terminal);
        Output {
            sink: Box::new(BufWriter::new(stdout.lock())),
            format,
            style: if colored { Style::Terminal } else { Style::Plain },
            width: size.map(|(width, _)| usize::from(width.0)),
        }
    }

    /// Whom answers are for.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Cuts lines to `width` columns where no terminal says how wide it is.
    pub(crate) fn set_default_width(&mut self, width: usize) {
        self.width = self.width.or(Some(width));
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        writeln!(self.sink, "{text}").map_err(Failure::Output)
    }

    /// Prints a line that matters less.
    pub(crate) fn dim(&mut self, text: impl Display) -> Result<(), Failure> {
        self.styled(DIM, text)
    }

    /// Prints a line that matters more.
    pub(crate) fn bold(&mut self, text: impl Display) -> Result<(), Failure> {
        self.styled(BOLD, text)
    }

    /// Prints a table; nothing if it has no rows.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        let mut lines = table.lines(self.width).into_iter();
        if let Some(header) = lines.next() {
            self.dim(header)?;
        }
        lines.try_for_each(|line| self.line(line))
    }

    /// Prints one JSON document on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.sink, value)
            .map_err(|error| Failure::Output(error.into()))?;
        self.line("")
    }

    /// Hands over what is still kept back.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.sink.flush().map_err(Failure::Output)
    }

    fn styled(&mut self, code: &str, text: impl Display) -> Result<(), Failure> {
        match self.style {
            Style::Plain => self.line(text),
            Style::Terminal => self.line(format_args!("\x1b[{code}m{text}\x1b[0m")),
        }
    }
}

/// A number with its thing: `1 key`, `2 keys`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(count))
}

/// A number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text that a terminal shows as it is: control characters are escaped.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_things_counted() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(123), "123");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "key"), "1 key");
        assert_eq!(counted(0, "key"), "0 keys");
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(visible("a\x1b[2Jb\nc é"), "a\\u{1b}[2Jb\\nc é");
    }
}
