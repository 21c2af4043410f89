//! The one task runner: `cargo xtask <task>`.
//!
//! I1: The exit code is 0 if the task is done, 1 if it failed, 2 if it was not understood.
//! I2: A failure is one message that says what went wrong and what to do.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to the person at the terminal"
)]

mod ci;
mod failure;
mod grpc;
mod openapi;
mod process;
mod server;
mod tasks;
mod tidy;
mod venv;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use failure::Failure;
use tasks::GoldenMode;

const HELP: &str = "\
The tasks of this repository: cargo xtask <task>

  ci                           every check of a submission: fmt, tidy, clippy, test, doc, openapi,
                               grpc
  tidy                         the house rules that rustc, rustfmt and clippy do not know
  grpc                         a server with a client of the object grid in Python; needs Python
  openapi                      a demo server against its own OpenAPI document; needs Python
  golden [--add]               the golden tests; --add appends the lines that are missing
  bench [ARGUMENT...]          the benchmarks, in release mode; `bench core` is the main table
  fuzz [TARGET] [--seconds N]  one fuzz target or all of them, N seconds each (60)
  help                         this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&root(), &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(root: &Path, arguments: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        ["ci"] => ci::run(root),
        ["tidy"] => tidy::run(root),
        ["grpc"] => grpc::run(root),
        ["openapi"] => openapi::run(root),
        ["golden"] => tasks::golden(root, GoldenMode::Check),
        ["golden", "--add"] => tasks::golden(root, GoldenMode::Add),
        ["bench", rest @ ..] => tasks::bench(root, rest),
        ["fuzz", rest @ ..] => tasks::fuzz(root, rest),
        [task @ ("ci" | "tidy" | "grpc" | "openapi" | "golden"), rest @ ..] => {
            Err(Failure::Usage(format!("`{task}` does not take `{}`\n\n{HELP}", rest.join(" "))))
        }
        [task, ..] => Err(Failure::Usage(format!("there is no task `{task}`\n\n{HELP}"))),
    }
}

/// The root of the repository: the folder above this crate, or where we stand if cargo did not
/// start us.
fn root() -> PathBuf {
    env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|manifest| Path::new(&manifest).parent().map(Path::to_path_buf))
        .unwrap_or_else(|| PathBuf::from("."))
}

#[cfg(test)]
mod tests;
