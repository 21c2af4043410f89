//! The tasks that hand over to one other program: golden tests, benchmarks, fuzzing.
//!
//! I1: What is missing (a crate, a tool, a target) is named, with the way to get it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::process;

/// How long each fuzz target runs unless told otherwise: long enough to walk through the corpus
/// and some way beyond, short enough to run all targets before a submission.
const FUZZ_SECONDS: u32 = 60;

/// What happens to golden lines that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoldenMode {
    /// They fail the test.
    Check,
    /// They are appended; lines that exist are never edited.
    Add,
}

/// Runs every test that has `golden` in its name.
pub(super) fn golden(root: &Path, mode: GoldenMode) -> Result<(), Failure> {
    process::run(&mut golden_command(root, mode))
}

/// Runs the benchmarks; `arguments` go to them as they are.
pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    process::run(&mut bench_command(root, arguments)?)
}

/// Runs the fuzz targets that `arguments` name, one after the other.
pub(super) fn fuzz(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let Fuzzing { target, seconds } = Fuzzing::parse(arguments)?;
    let targets = chosen(fuzz_targets(root)?, target)?;
    if let Err(failure) = process::output(&mut process::nightly_cargo(root, &["fuzz", "--version"]))
    {
        return Err(Failure::Failed(format!(
            "fuzzing needs the nightly toolchain and cargo-fuzz: \
             `rustup toolchain install nightly && cargo install cargo-fuzz`\n{failure}"
        )));
    }
    let limit = format!("-max_total_time={seconds}");
    for target in &targets {
        println!("fuzz: {target}, {seconds} s");
        let arguments = ["fuzz", "run", "--fuzz-dir", "fuzz", target, "--", &limit];
        process::run(&mut process::nightly_cargo(root, &arguments))?;
    }
    Ok(())
}

fn golden_command(root: &Path, mode: GoldenMode) -> Command {
    // This crate has no golden files, and a runner does not rebuild itself while it runs.
    let arguments = ["test", "--workspace", "--exclude", "xtask", "golden"];
    let mut command = process::cargo(root, &arguments);
    match mode {
        GoldenMode::Check => command.env_remove("KEYLOOM_GOLDEN"),
        GoldenMode::Add => command.env("KEYLOOM_GOLDEN", "add"),
    };
    command
}

fn bench_command(root: &Path, arguments: &[&str]) -> Result<Command, Failure> {
    if !root.join("crates/keyloom-bench/Cargo.toml").is_file() {
        let message = "there are no benchmarks here: crates/keyloom-bench does not exist yet";
        return Err(Failure::Failed(message.to_owned()));
    }
    let mut command = process::cargo(root, &["run", "--release", "-p", "keyloom-bench", "--"]);
    command.args(arguments);
    Ok(command)
}

/// What the command line of `fuzz` asks for.
#[derive(Debug, PartialEq, Eq)]
struct Fuzzing<'a> {
    target: Option<&'a str>,
    seconds: u32,
}

impl<'a> Fuzzing<'a> {
    fn parse(arguments: &[&'a str]) -> Result<Self, Failure> {
        let (target, rest) = match arguments {
            [target, rest @ ..] if !target.starts_with("--") => (Some(*target), rest),
            rest => (None, rest),
        };
        let seconds = match rest {
            [] => Some(FUZZ_SECONDS),
            ["--seconds", number] => number.parse().ok().filter(|seconds| *seconds > 0),
            _ => None,
        };
        match seconds {
            Some(seconds) => Ok(Fuzzing { target, seconds }),
            None => Err(Failure::Usage(format!(
                "`{}` is not what `fuzz` takes: cargo xtask fuzz [TARGET] [--seconds N], N from 1",
                arguments.join(" ")
            ))),
        }
    }
}

/// The names of all fuzz targets, sorted.
fn fuzz_targets(root: &Path) -> Result<Vec<String>, Failure> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|error| {
        Failure::Failed(format!("there are no fuzz targets in fuzz/fuzz_targets: {error}"))
    })?;
    let paths = entries.flatten().map(|entry| entry.path());
    let sources = paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let mut names: Vec<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn chosen(targets: Vec<String>, wanted: Option<&str>) -> Result<Vec<String>, Failure> {
    match wanted {
        None => Ok(targets),
        Some(name) if targets.iter().any(|target| target == name) => Ok(vec![name.to_owned()]),
        Some(name) => Err(Failure::Usage(format!(
            "there is no fuzz target `{name}`; there are: {}",
            targets.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{LAWS, build, workspace, write};

    #[test]
    fn golden_runs_the_golden_tests_and_tells_them_whether_to_add() {
        let root = workspace();
        let test = "//! Golden.\n\n#[test]\nfn golden_lines_are_added() {\n    \
                    assert_eq!(std::env::var(\"KEYLOOM_GOLDEN\").as_deref(), Ok(\"add\"));\n}\n\n\
                    #[test]\nfn another() {\n    panic!(\"not a golden test\");\n}\n";
        write(root.path(), LAWS, test);
        let run = |mode| build(root.path(), golden_command(root.path(), mode));
        let printed = run(GoldenMode::Add).unwrap();
        assert!(printed.contains("test golden_lines_are_added ... ok"), "{printed}");
        run(GoldenMode::Check).unwrap_err();
    }

    #[test]
    fn bench_hands_its_arguments_to_the_benchmarks() {
        let root = workspace();
        let manifest = "[package]\nname = \"keyloom-bench\"\nedition = \"2024\"\n";
        write(root.path(), "crates/keyloom-bench/Cargo.toml", manifest);
        let text = "fn main() {\n    for word in std::env::args().skip(1) {\n        \
                    println!(\"{word}\");\n    }\n}\n";
        write(root.path(), "crates/keyloom-bench/src/main.rs", text);
        let command = bench_command(root.path(), &["core", "--rounds", "5"]).unwrap();
        assert_eq!(build(root.path(), command).unwrap(), "core\n--rounds\n5\n");
    }

    #[test]
    fn without_arguments_every_target_is_fuzzed_for_a_minute() {
        assert_eq!(Fuzzing::parse(&[]).unwrap(), Fuzzing { target: None, seconds: 60 });
    }

    #[test]
    fn a_target_and_a_time_can_be_chosen() {
        let wanted = Fuzzing { target: Some("key_parse"), seconds: 5 };
        assert_eq!(Fuzzing::parse(&["key_parse", "--seconds", "5"]).unwrap(), wanted);
        let wanted = Fuzzing { target: None, seconds: 5 };
        assert_eq!(Fuzzing::parse(&["--seconds", "5"]).unwrap(), wanted);
    }

    #[test]
    fn a_time_that_is_no_time_is_refused() {
        // Zero would mean "for ever" to the fuzzer.
        for words in [&["--seconds", "0"][..], &["--seconds", "x"], &["--seconds"], &["a", "b"]] {
            assert_eq!(Fuzzing::parse(words).unwrap_err().exit_code(), 2, "{words:?}");
        }
    }

    #[test]
    fn fuzz_targets_are_the_sources_in_their_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("fuzz/fuzz_targets");
        fs::create_dir_all(&folder).unwrap();
        for name in ["locate.rs", "key_parse.rs", "notes.txt"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(fuzz_targets(root.path()).unwrap(), ["key_parse", "locate"]);
    }

    #[test]
    fn an_unknown_fuzz_target_is_refused_with_the_list() {
        let targets = vec!["key_parse".to_owned(), "locate".to_owned()];
        assert_eq!(chosen(targets.clone(), Some("locate")).unwrap(), ["locate"]);
        assert_eq!(chosen(targets.clone(), None).unwrap(), targets);
        let failure = chosen(targets, Some("parse")).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().ends_with("there are: key_parse, locate"), "{failure}");
    }
}
