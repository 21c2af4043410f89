//! The command `keyloom`: documents, queries and schemas on the command line.
//!
//! ```text
//! Args ──open──► Session (engine, actor, output) ──commands──► lines, tables or JSON
//! ```
//!
//! M1: A command that fails changes nothing, says why in one clear line on standard error, and ends
//!     with 1, or with 2 if the command line itself is wrong.
//! M2: A panic is told in the same way.
//! M3: What is printed for machines (`--json`) has the shapes of `keyloom-api`.

mod args;
mod backend;
mod body;
mod client;
mod commands;
mod conditions;
mod input;
mod limits;
mod members;
mod open;
mod output;
mod problem;
mod progress;
mod table;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Parser;

use args::Args;
use output::{Format, Output};
use problem::Failure;

/// A call over the network allocates some hundred times, on one thread, and frees on another: with
/// the allocator of the system that is a sixth of what it costs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the last panic said.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return misused(&error),
    };
    let format = args.global.format();
    let mut output = Output::stdout(format);
    // An embedded engine may panic on a damaged file. The store catches that and makes it an error,
    // which is told below; so the panic itself is only remembered, for the case that it is ours.
    std::panic::set_hook(Box::new(|panic| {
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic.to_string());
    }));
    let run = AssertUnwindSafe(|| {
        pollster::block_on(commands::run(args, &mut output)).and_then(|()| output.flush())
    });
    let done = std::panic::catch_unwind(run).unwrap_or_else(|_| {
        let panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(Failure::Internal(panic.unwrap_or_default()))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was printed before the failure belongs before its line.
            let _ = output.flush();
            problem::report(&failure, format)
        }
    }
}

/// Tells what is wrong with a command line, or prints the help that was asked for.
fn misused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let what = text.split("\n\nUsage").next().unwrap_or_default();
        let what = what.trim_start_matches("error: ").trim().to_owned();
        return problem::report(&Failure::Usage(what), Format::Json);
    }
    // If nobody reads the help any more, that is no error.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
