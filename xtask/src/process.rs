//! Runs other programs: cargo, and git.
//!
//! I1: The cargo that started us is the cargo that we start (`CARGO`), so that one toolchain does
//!     all the work.
//! I2: git looks at the given folder only, whatever git hook we may have been started from.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// A cargo command in `root` (I1).
pub(super) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    command(root, program, arguments)
}

/// A cargo command of the nightly toolchain in `root`. Only rustup's own `cargo`, which is found by
/// its plain name, understands `+nightly`.
pub(super) fn nightly_cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = command(root, OsString::from("cargo"), &["+nightly"]);
    command.args(arguments);
    command
}

/// A git command in `root` (I2).
pub(super) fn git(root: &Path, arguments: &[&str]) -> Command {
    let mut command = command(root, OsString::from("git"), arguments);
    // A hook sets these, and git would then work on the repository of the hook instead.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command to its end; its output goes to the terminal.
pub(super) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("`{}` failed: {status}", shown(command))))
    }
}

/// Runs a command to its end and hands over what it printed; what it complained about becomes the
/// failure.
pub(super) fn output(command: &mut Command) -> Result<String, Failure> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| not_started(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Failed(format!("`{}` failed: {}", shown(command), complaint.trim())))
}

fn command(root: &Path, program: OsString, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments);
    command
}

fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("`{}` could not be started: {error}", shown(command)))
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_named_in_the_failure() {
        let mut command = cargo(Path::new("."), &["no-such-task-here"]);
        let failure = run(command.stderr(Stdio::null())).unwrap_err();
        let message = failure.to_string();
        assert!(message.starts_with("`cargo no-such-task-here` failed: exit status"), "{message}");
        assert_eq!(failure.exit_code(), 1);
    }

    #[test]
    fn a_program_that_is_missing_is_named_in_the_failure() {
        let mut missing = command(Path::new("."), OsString::from("no-such-program"), &["now"]);
        let message = run(&mut missing).unwrap_err().to_string();
        assert!(message.starts_with("`no-such-program now` could not be started: "), "{message}");
    }

    #[test]
    fn what_a_command_printed_is_handed_over() {
        let printed = output(&mut cargo(Path::new("."), &["--version"])).unwrap();
        assert!(printed.starts_with("cargo "), "{printed}");
    }

    #[test]
    fn what_a_command_complained_about_is_in_the_failure() {
        let message = output(&mut cargo(Path::new("."), &["no-such-task-here"])).unwrap_err();
        assert!(message.to_string().contains("no such command"), "{message}");
    }

    #[test]
    fn git_does_not_work_on_the_repository_of_a_hook() {
        let command = git(Path::new("."), &["status"]);
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            let removed =
                command.get_envs().any(|(name, value)| name == variable && value.is_none());
            assert!(removed, "I2: {variable} is passed on");
        }
    }
}
