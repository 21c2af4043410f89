//! Tells the story of the demo and runs its steps.

use std::fmt::Display;

use clap::Parser;

use super::sample::Sample;
use crate::args::Args;
use crate::backend::Backend;
use crate::commands::{Session, execute};
use crate::problem::{Failure, told};

/// Tells and runs.
pub(super) struct Guide<'s, 'o> {
    pub(super) session: &'s mut Session<'o>,
}

impl<'s, 'o> Guide<'s, 'o> {
    pub(super) fn new(session: &'s mut Session<'o>) -> Self {
        Guide { session }
    }

    pub(super) fn opening(&mut self) -> Result<(), Failure> {
        let output = &mut *self.session.output;
        output.bold("Keyloom: every query is a key range")?;
        output.line("")?;
        output.line("You declare how keys are built. Everything below runs as it is shown:")?;
        output.line("what is asked, the ranges it reads, what it finds, and what it has cost.")?;
        output.line("")?;
        let files = "schemas/approvals.toml schemas/reputation.toml schemas/stickers.toml";
        output.dim(format_args!("$ keyloom schema apply {files}"))
    }

    pub(super) fn loaded(&mut self, sample: &Sample) -> Result<(), Failure> {
        self.session.output.line(format_args!("loaded: {}", sample.counts))
    }

    /// Begins a chapter.
    pub(super) fn chapter(&mut self, title: &str, text: &str) -> Result<(), Failure> {
        let output = &mut *self.session.output;
        output.line("")?;
        output.bold(format_args!("━━ {title} ━━"))?;
        output.line(text)
    }

    /// A step that succeeds.
    pub(super) async fn ask(&mut self, words: &str, line: &[&str]) -> Result<(), Failure> {
        self.show(words, line)?;
        self.execute(line).await
    }

    /// A step that is refused, with the error that it gives.
    pub(super) async fn refused(
        &mut self,
        code: &str,
        words: &str,
        line: &[&str],
    ) -> Result<(), Failure> {
        self.show(words, line)?;
        match self.execute(line).await {
            Err(failure) if crate::problem::problem(&failure).code.as_str() == code => {
                self.session.output.line(told(&failure))
            }
            Err(failure) => Err(failure),
            Ok(()) => Err(Failure::Invalid(format!("`{words}` should have been refused"))),
        }
    }

    /// A remark between steps.
    pub(super) fn remark(&mut self, text: impl Display) -> Result<(), Failure> {
        self.session.output.line(text)
    }

    fn show(&mut self, words: &str, line: &[&str]) -> Result<(), Failure> {
        let output = &mut *self.session.output;
        output.line("")?;
        output.bold(format_args!("▸ {words}"))?;
        let quoted: Vec<String> = line.iter().map(|word| quoted(word)).collect();
        output.dim(format_args!("$ keyloom {}", quoted.join(" ")))
    }

    async fn execute(&mut self, line: &[&str]) -> Result<(), Failure> {
        let words = std::iter::once("keyloom").chain(line.iter().copied());
        let args = Args::try_parse_from(words)
            .map_err(|error| Failure::Usage(error.render().to_string()))?;
        if let Backend::Local { actor, .. } = &mut self.session.backend {
            *actor = args.global.actor();
        }
        execute(self.session, args.command).await
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@^%+#".contains(c);
    if !word.is_empty() && !word.starts_with('#') && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_needs_it() {
        assert_eq!(quoted("value.prefix=he"), "value.prefix=he");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("*"), "'*'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
