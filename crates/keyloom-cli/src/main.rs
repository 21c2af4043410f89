//! The command `keyloom`: documents, queries and schemas on the command line.
//!
//! ```text
//! Args ──open──► Session (engine, actor, output) ──commands──► lines, tables or JSON
//! ```
//!
//! M1: A command that fails changes nothing, says why in one clear line on standard error, and ends
//!     with 1, or with 2 if the command line itself is wrong.
//! M2: What is printed for machines (`--json`) has the shapes of `keyloom-api`.

mod args;
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
mod times;
mod typed;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use args::Args;
use output::Output;

fn main() -> ExitCode {
    let args = Args::parse();
    let format = args.global.format();
    let mut output = Output::stdout(format);
    let done = pollster::block_on(commands::run(args, &mut output));
    match done.and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was printed before the failure belongs before its line.
            let _ = output.flush();
            problem::report(&failure, format)
        }
    }
}
