//! `import` and `export`.

use std::io::{BufRead, BufReader};

use serde_json::{Value as Json, json};

use crate::program::{Answer, Database, command, keyloom, text};

fn sticker(file: &str) -> String {
    format!("{{\"author\":\"u1\",\"file\":\"{file}\",\"value\":\"v\"}}\n")
}

fn import(database: &Database, lines: &str, more: &[&str]) -> Answer {
    let line = [&["import", "sticker_tags", "-"][..], more].concat();
    database.run_with(&line, lines.as_bytes())
}

fn files(database: &Database) -> Vec<String> {
    let exported = database.run(&["export", "sticker_tags"]).ok();
    let lines = exported.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    lines.map(|document| text(&document, "/data/file").to_owned()).collect()
}

#[test]
fn what_one_engine_exports_the_other_imports() {
    let source = Database::new("redb", &["approvals"]);
    for (owner, wish) in [("carl", "one"), ("dora", "two"), ("dora", "three")] {
        let data = json!({ "requester": owner, "approver": "bob", "description": wish });
        let line = ["put", "approvals", &data.to_string(), "--as", owner, "--description", wish];
        source.run(&line).ok();
    }
    let data = r#"{ "requester": "ann", "approver" : "bob" }"#;
    source.create("approvals", data);
    let exported = source.run(&["export", "approvals"]).ok();
    assert_eq!(exported.lines().count(), 4);

    let target = Database::new("fjall", &["approvals"]);
    let file = target.file("approvals.ndjson", &exported);
    assert!(
        target.run(&["import", "approvals", &file]).ok().starts_with("imported 4 documents in")
    );
    let again = target.run(&["export", "approvals"]).ok();
    let kept = |lines: &str| {
        let lines = lines.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        lines
            .map(|document| {
                ["key", "owner", "description", "data"].map(|name| document[name].to_string())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(&again), kept(&exported));
}

#[test]
fn data_alone_is_imported_and_blank_lines_are_left_out() {
    let database = Database::new("redb", &["stickers"]);
    let lines = format!("{}\n   \n{}", sticker("a"), sticker("b").trim_end());
    let told = import(&database, &lines, &["--json"]).ok();
    assert_eq!(told, "{\"imported\":2}\n");
    assert_eq!(files(&database), ["a", "b"]);
}

#[test]
fn a_bad_line_stops_the_import_and_everything_before_it_is_in() {
    let good = |name: &str| sticker(name);
    let cases = [
        ("{\"author\":\n", "line 3: "),
        ("[1]\n", "line 3: "),
        ("{\"author\":\"u1\",\"file\":\"x\"}\n", "line 3: sticker_tags.value: required"),
        ("{\"author\":\"u1\",\"file\":\"x\",\"value\":7}\n", "line 3: sticker_tags.value: type"),
        (&good("a"), "line 3: key `u1#a#v` is taken in `sticker_tags`"),
        (
            "{\"key\":\"u1#x#w\",\"data\":{\"author\":\"u1\",\"file\":\"x\",\"value\":\"v\"}}\n",
            "line 3: key `u1#x#w` is not the key of the data, which is `u1#x#v`",
        ),
    ];
    for (bad, words) in cases {
        let database = Database::new("redb", &["stickers"]);
        let lines = good("a") + &good("b") + bad + &good("c");
        let error = import(&database, &lines, &[]).refused(words);
        assert!(error.contains("standard input, line 3: "), "{error}");
        let hint = "2 documents imported before it; to go on, mend the line and add --skip 2";
        assert!(error.contains(hint), "{error}");
        assert_eq!(files(&database), ["a", "b"], "{bad}");

        let mended = good("a") + &good("b") + &good("x") + &good("c");
        import(&database, &mended, &["--skip", "2"]).ok();
        assert_eq!(files(&database), ["a", "b", "c", "x"]);
    }
}

#[test]
fn a_bad_first_line_imports_nothing() {
    let database = Database::new("redb", &["stickers"]);
    let line = ["import", "sticker_tags", "-"];
    let error = database.refuses_input(&line, b"nonsense\n", "line 1: ");
    assert!(error.contains("0 documents imported before it") && !error.contains("--skip"));
}

#[test]
fn a_line_of_many_megabytes_is_refused_without_reading_it_all() {
    let database = Database::new("redb", &["stickers"]);
    let lines = sticker("a") + &"x".repeat(4 << 20);
    import(&database, &lines, &[]).refused("line 2: the line is longer than 1,114,112 bytes");
    assert_eq!(files(&database), ["a"]);
}

#[test]
fn a_problem_document_of_an_import_has_the_code_of_what_is_wrong() {
    let database = Database::new("redb", &["stickers"]);
    let lines = sticker("a") + &sticker("a");
    let problem = import(&database, &lines, &["--json"]).problem();
    assert_eq!(text(&problem, "/code"), "unique_violation");
    assert_eq!(text(&problem, "/claim"), "key");
}

#[test]
fn more_documents_than_one_commit_takes_are_imported_and_exported_in_order() {
    let database = Database::new("redb", &["stickers"]);
    let names: Vec<String> = (0..1200).map(|number| format!("f{number:04}")).collect();
    let lines: String = names.iter().map(|name| sticker(name)).collect();
    let file = database.file("many.ndjson", lines);
    database.run(&["import", "sticker_tags", &file]).ok();
    assert_eq!(files(&database), names);

    // A reader that has seen enough closes the pipe, and that is no error.
    let data = database.data().display().to_string();
    let mut child = command(&["export", "sticker_tags", "--data", &data]).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("u1#f0000#v"), "{first}");
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stderr), (Some(0), Vec::new()));
}

#[test]
fn a_missing_file_and_an_unknown_collection_are_named() {
    let database = Database::new("redb", &["stickers"]);
    let missing = database.path("nope.ndjson").display().to_string();
    database.refuses(&["import", "sticker_tags", &missing], "nope.ndjson: No such file");
    for line in [&["import", "tags", "-"][..], &["export", "tags"]] {
        database.refuses(line, "there is no collection `tags`; there are: sticker_tags");
    }
}

#[test]
fn an_import_into_memory_is_checked_and_forgotten() {
    let answer = keyloom(&["import", "a", "-", "--store", "memory:"], b"{}");
    answer.refused("there is no collection `a`");
}
