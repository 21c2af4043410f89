//! Runs every `console` block of the README, as a newcomer would type it, in one fresh folder, and
//! applies every schema of the reference.
//!
//! What a command prints must be what the README shows. `…` stands for anything within a line, and
//! runs of spaces count as one, because columns move with the ids.

#![expect(clippy::unwrap_used, reason = "a failed test is a panic")]

use std::path::Path;
use std::process::Command;

#[test]
fn every_example_of_the_readme_does_what_it_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    copy_schemas(&root.join("schemas"), &folder.path().join("schemas"));
    let examples = examples(&readme);
    assert!(examples.len() >= 7, "the README shows a session, found {}", examples.len());
    for (command, expected) in examples {
        let printed = run(&command, folder.path());
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), expected.len(), "$ {command}\n{printed}");
        for (line, pattern) in lines.iter().zip(&expected) {
            assert!(matches(line, pattern), "$ {command}\nprinted  {line}\nexpected {pattern}");
        }
    }
}

#[test]
fn every_schema_of_the_reference_is_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let reference = std::fs::read_to_string(root.join("docs/SCHEMA.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let blocks = reference.split("```toml\n").skip(1);
    let schemas: Vec<&str> = blocks.map(|block| block.split("```").next().unwrap()).collect();
    assert!(schemas.len() >= 5, "the reference shows schemas, found {}", schemas.len());
    for (number, schema) in schemas.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{number}.toml")), schema).unwrap();
        let printed =
            run(&format!("keyloom schema apply {number}.toml --data data"), folder.path());
        assert!(printed.ends_with("is in force\n"), "{schema}\n{printed}");
    }
}

#[test]
fn the_patterns_of_this_test_can_fail() {
    assert!(matches("created x:1 now", "created …:1 now"));
    assert!(matches("a   b", "a b"));
    assert!(!matches("created x:2 now", "created …:1 now"));
    assert!(!matches("a b c", "a b"));
}

/// Commands and the lines that each prints, from all `console` blocks.
fn examples(readme: &str) -> Vec<(String, Vec<String>)> {
    let mut examples: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, _) => match line.strip_prefix("$ ") {
                Some(command) => examples.push((command.to_owned(), Vec::new())),
                None => examples.last_mut().unwrap().1.push(line.to_owned()),
            },
            (false, _) => {}
        }
    }
    examples
}

/// Everything that a command prints, on both channels.
fn run(command: &str, folder: &Path) -> String {
    let keyloom = Path::new(env!("CARGO_BIN_EXE_keyloom")).parent().unwrap();
    let path = format!("{}:{}", keyloom.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a line has the parts of the pattern in order, from its beginning to its end.
fn matches(line: &str, pattern: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, pattern) = (squeeze(line), squeeze(pattern));
    let parts: Vec<&str> = pattern.split('…').collect();
    let [first, between @ .., last] = parts.as_slice() else { return line == pattern };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in between {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

fn copy_schemas(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
