//! A short run of everything through the program itself. That all contenders give the same answers
//! and that costs do not grow is checked by every run: it fails otherwise.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::tempdir;

fn bench(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keyloom-bench"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program was built for this test")
}

#[test]
fn a_short_run_fills_the_whole_table_writes_it_to_the_docs_and_leaves_no_data() {
    let folder = tempdir().unwrap();
    let document = folder.path().join("docs/benchmarks.md");
    fs::create_dir(folder.path().join("docs")).unwrap();
    let marks = include_str!("../../../docs/benchmarks.md");
    fs::write(&document, marks).unwrap();
    let run = ["core", "--documents", "5000", "--rounds", "1", "--write-docs"];
    let output = bench(folder.path(), &run);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<&str> = report.lines().filter(|line| line.starts_with("| ")).collect();
    for (title, empty) in [
        ("bulk load", 0),
        ("durable create, 1 writer,", 0),
        ("durable create, 16 writers", 0),
        ("durable create, 64 writers", 0),
        // Keyloom on redb, raw redb, and the two ratios of redb.
        ("buffered create, 1 writer,", 4),
        ("buffered create, 16 writers", 4),
        ("durable update", 0),
        ("get by key", 0),
        ("lookup by code", 0),
        ("20 newest of a requester", 0),
        ("the same, covering", 0),
        ("20 newest as requester or approver", 0),
        ("resident memory", 0),
        // The memory store.
        ("on disk", 1),
    ] {
        let row = rows.iter().find(|row| row.starts_with(&format!("| {title}"))).unwrap();
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 11, "{row}");
        assert_eq!(cells.iter().filter(|cell| **cell == "–").count(), empty, "{row}");
    }
    assert!(fs::read_to_string(&document).unwrap().contains(report.trim()));
    assert_eq!(fs::read_dir(folder.path().join("target")).unwrap().count(), 0);
}

#[test]
fn a_short_load_on_the_server_is_reported_and_written_to_the_docs() {
    let folder = tempdir().unwrap();
    let document = folder.path().join("docs/benchmarks.md");
    fs::create_dir(folder.path().join("docs")).unwrap();
    fs::write(&document, include_str!("../../../docs/benchmarks.md")).unwrap();
    let run = [
        "server",
        "--documents",
        "5000",
        "--rounds",
        "1",
        "--watch",
        "1",
        "--turn",
        "1",
        "--write-docs",
    ];
    let output = bench(folder.path(), &run);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8(output.stdout).unwrap();
    for row in ["| get by key", "| 20 newest", "| sustained", "| overloaded", "| at the end"] {
        let found = report.lines().find(|line| line.starts_with(row));
        assert!(found.is_some_and(|line| !line.contains('–')), "{row}: {report}");
    }
    assert!(fs::read_to_string(&document).unwrap().contains(report.trim()));
    assert_eq!(fs::read_dir(folder.path().join("target")).unwrap().count(), 0);
}

#[test]
fn too_few_documents_are_refused() {
    let folder = tempdir().unwrap();
    let output = bench(folder.path(), &["core", "--documents", "100"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("at least 5000 documents"));
}

#[test]
fn a_short_run_of_the_grid_is_reported_and_written_to_the_docs() {
    let folder = tempdir().unwrap();
    let document = folder.path().join("docs/benchmarks.md");
    fs::create_dir(folder.path().join("docs")).unwrap();
    fs::write(&document, include_str!("../../../docs/benchmarks.md")).unwrap();
    let run = ["grid", "--objects", "100", "--rounds", "1", "--turn", "1", "--write-docs"];
    let output = bench(folder.path(), &run);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8(output.stdout).unwrap();
    for row in ["| normalize, 8 bytes", "| lookup by name", "| GetValue", "| SetValue", "| Get,"] {
        let found = report.lines().find(|line| line.starts_with(row));
        assert!(found.is_some_and(|line| !line.contains(" 0.00 ")), "{row}: {report}");
    }
    assert!(fs::read_to_string(&document).unwrap().contains(report.trim()));
    assert_eq!(fs::read_dir(folder.path().join("target")).unwrap().count(), 0);
}
