//! Every check of a submission, in the order of what they cost: `cargo xtask ci`.
//!
//! I1: The first step that fails ends the run and is named; no later step starts.
//! I2: The steps need nothing but the Rust toolchain, and Python for those that check the server
//!     from outside, so that a fresh clone can run them.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::failure::Failure;
use crate::grpc;
use crate::openapi;
use crate::process;
use crate::tidy;

const STEPS: &[Step] = &[
    Step { name: "fmt", work: Work::Command(fmt) },
    Step { name: "tidy", work: Work::Task(tidy::run) },
    Step { name: "clippy", work: Work::Command(clippy) },
    Step { name: "test", work: Work::Command(test) },
    Step { name: "doc", work: Work::Command(doc) },
    Step { name: "openapi", work: Work::Task(openapi::run) },
    Step { name: "grpc", work: Work::Task(grpc::run) },
];

/// Runs all steps and prints how long each took.
pub(super) fn run(root: &Path) -> Result<(), Failure> {
    run_steps(root, STEPS)
}

struct Step {
    name: &'static str,
    work: Work,
}

/// What a step does in the root of the repository.
enum Work {
    /// Starts a program.
    Command(fn(&Path) -> Command),
    /// Runs another task.
    Task(fn(&Path) -> Result<(), Failure>),
}

fn run_steps(root: &Path, steps: &[Step]) -> Result<(), Failure> {
    let started = now();
    for Step { name, work } in steps {
        println!("ci: {name}");
        let step_started = now();
        let outcome = match work {
            Work::Command(command) => process::run(&mut command(root)),
            Work::Task(task) => task(root),
        };
        let seconds = step_started.elapsed().as_secs_f32();
        if let Err(failure) = outcome {
            let message = format!("{failure}\nci: {name} failed after {seconds:.1} s");
            return Err(Failure::Failed(message));
        }
        println!("ci: {name} passed in {seconds:.1} s");
    }
    println!("ci: all {} steps passed in {} s", steps.len(), started.elapsed().as_secs());
    Ok(())
}

fn fmt(root: &Path) -> Command {
    process::cargo(root, &["fmt", "--all", "--check"])
}

fn clippy(root: &Path) -> Command {
    process::cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn test(root: &Path) -> Command {
    process::cargo(root, &["test", "--workspace", "--no-fail-fast"])
}

fn doc(root: &Path) -> Command {
    let mut command = process::cargo(root, &["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

#[expect(clippy::disallowed_methods, reason = "durations are printed for people, nothing else")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::{LAWS, LAWS_TEXT, LIB, LIB_TEXT, build, workspace, write};

    #[test]
    fn the_first_step_that_fails_is_named_and_ends_the_run() {
        let root = tempfile::tempdir().unwrap();
        let steps = [step("one", leave_a_mark), step("two", fail), step("three", never)];
        let failure = run_steps(root.path(), &steps).unwrap_err();
        let message = failure.to_string();
        assert!(message.starts_with("the reason\nci: two failed after "), "{message}");
        assert_eq!(failure.exit_code(), 1);
        assert!(root.path().join("mark").exists(), "the step before did not run");
    }

    #[test]
    fn steps_that_all_pass_pass() {
        let root = tempfile::tempdir().unwrap();
        run_steps(root.path(), &[step("one", leave_a_mark)]).unwrap();
    }

    #[test]
    fn a_good_workspace_passes_every_step_and_each_fault_breaks_the_step_that_is_for_it() {
        let root = workspace();
        assert_eq!(first_failing(root.path()), None);
        for (step, path, text) in [
            ("fmt", LIB, LIB_TEXT.replace("    1", "  1")),
            ("tidy", LIB, LIB_TEXT.replace("//! Keys.\n\n", "")),
            ("clippy", LIB, LIB_TEXT.replace("    1", "    return 1;")),
            ("test", LAWS, LAWS_TEXT.replace(", 1)", ", 2)")),
            ("doc", LIB, LIB_TEXT.replace("One.", "One, see [`two`].")),
        ] {
            write(root.path(), path, &text);
            assert_eq!(first_failing(root.path()), Some(step));
            write(root.path(), LIB, LIB_TEXT);
            write(root.path(), LAWS, LAWS_TEXT);
        }
    }

    /// The steps that need the server, and Python.
    const OUTSIDE: [&str; 2] = ["openapi", "grpc"];

    /// As [`run`], without its output, and without the server that a small workspace has not.
    fn first_failing(root: &Path) -> Option<&'static str> {
        let mut steps = STEPS.iter().filter(|step| !OUTSIDE.contains(&step.name));
        let failing = steps.find(|step| match step.work {
            Work::Command(command) => build(root, command(root)).is_err(),
            Work::Task(task) => task(root).is_err(),
        });
        failing.map(|step| step.name)
    }

    fn step(name: &'static str, task: fn(&Path) -> Result<(), Failure>) -> Step {
        Step { name, work: Work::Task(task) }
    }

    fn leave_a_mark(root: &Path) -> Result<(), Failure> {
        fs::write(root.join("mark"), "").map_err(|error| Failure::Failed(error.to_string()))
    }

    fn fail(_: &Path) -> Result<(), Failure> {
        Err(Failure::Failed("the reason".to_owned()))
    }

    fn never(_: &Path) -> Result<(), Failure> {
        panic!("I1: a step ran after one had failed");
    }
}
