//! Which folder is opened, and what is said of folders that cannot be.

use keyloom_store_fjall::{Durability, FjallStore};
use keyloom_store_redb::RedbStore;

use crate::program::{Answer, Database, ENGINES, keyloom, names, schema};

#[test]
fn a_command_on_no_database_says_how_to_make_one_and_makes_none() {
    let database = Database::none();
    for line in [
        &["query", "approvals"][..],
        &["put", "approvals", "{}"],
        &["import", "approvals"],
        &["schema", "show"],
        &["check"],
    ] {
        let error = database.run(line).refused("there is no database in ");
        assert!(error.contains("create one with `keyloom schema apply FILE --data "), "{error}");
        assert!(!database.data().exists(), "{line:?}");
    }
}

#[test]
fn a_folder_in_use_by_another_process_is_named_and_left_alone() {
    for engine in ENGINES {
        let database = Database::new(engine, &["stickers"]);
        // This test is the other process.
        let redb = (engine == "redb").then(|| RedbStore::open(&database.data()).unwrap());
        let fjall = (engine == "fjall")
            .then(|| FjallStore::open(&database.data(), Durability::Durable).unwrap());
        let folder = database.data().display().to_string();
        let words = format!("{folder} is in use by another process: stop it, or choose another");
        let data = r#"{"author": "u1", "file": "f1", "value": "v"}"#;
        database.run(&["put", "sticker_tags", data]).refused(&words);
        database.run(&["query", "sticker_tags"]).refused(&words);
        let problem = database.run(&["check", "--json"]).problem();
        assert_eq!(problem["code"], "unavailable");
        drop((redb, fjall));
        assert_eq!(database.json(&["count", "sticker_tags"])["count"], 0);
    }
}

#[test]
fn a_path_that_is_a_file_or_below_one_is_refused_and_untouched() {
    let database = Database::none();
    let file = database.file("data", "precious");
    for folder in [file.clone(), format!("{file}/below")] {
        for line in [&["schema", "apply", &schema("stickers")][..], &["query", "sticker_tags"]] {
            let answer = keyloom(&[line, &["--data", &folder]].concat(), b"");
            answer.refused(&folder);
        }
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "precious");
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_untouched() {
    let database = Database::none();
    std::fs::create_dir(database.data()).unwrap();
    std::fs::write(database.data().join("letter.txt"), "dear").unwrap();
    let words = "is not empty and not a Keyloom folder";
    database.run(&["schema", "apply", &schema("stickers")]).refused(words);
    database.run(&["query", "sticker_tags"]).refused(words);
    assert_eq!(names(&database.data()), ["letter.txt"]);
}

/// Even the superuser may not create folders there.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_without_permission_is_refused() {
    let folder = "/sys/keyloom-test/data";
    let line = ["schema", "apply", &schema("stickers"), "--data", folder];
    keyloom(&line, b"").refused("/sys/keyloom-test/data: cannot be created: ");
}

#[test]
fn an_existing_folder_is_opened_with_its_own_engine_and_not_with_another() {
    for (engine, other) in [("redb", "fjall"), ("fjall", "redb")] {
        let database = Database::new(engine, &["stickers"]);
        database.run(&["count", "sticker_tags"]).ok();
        let url = format!("embedded:{}?engine={other}", database.data().display());
        let answer = keyloom(&["count", "sticker_tags", "--store", &url], b"");
        let words = format!("holds a {engine} store, opened as {other}: use ?engine={engine}");
        answer.refused(&words);
    }
}

#[test]
fn a_newer_or_damaged_folder_is_not_opened() {
    let database = Database::new("redb", &["stickers"]);
    let manifest = database.data().join("KEYLOOM");
    std::fs::write(&manifest, "engine = \"redb\"\nformat = 99\n").unwrap();
    database.run(&["count", "sticker_tags"]).refused("use a newer Keyloom");
    std::fs::write(&manifest, "engine = \"rocks\"\nformat = 1\n").unwrap();
    database.run(&["count", "sticker_tags"]).refused("the engine `rocks`");
    std::fs::write(&manifest, "???").unwrap();
    database.run(&["count", "sticker_tags"]).refused("stored data is corrupt");
    std::fs::write(&manifest, "engine = \"redb\"\nformat = 1\n").unwrap();
    database.run(&["count", "sticker_tags"]).ok();
}

#[test]
fn a_damaged_database_is_an_error_and_never_a_panic() {
    let database = Database::new("redb", &["stickers"]);
    let data = r#"{"author": "u1", "file": "f1", "value": "v"}"#;
    database.create("sticker_tags", data);
    let file = database.data().join("data.redb");
    let mut bytes = std::fs::read(&file).unwrap();
    for byte in bytes.iter_mut().skip(4096) {
        *byte = !*byte;
    }
    std::fs::write(&file, bytes).unwrap();
    database.run(&["query", "sticker_tags"]).refused("corrupt");
}

#[test]
fn buffered_writes_are_for_fjall_only() {
    let database = Database::none();
    let folder = database.data().display().to_string();
    let apply = |url: &str| keyloom(&["schema", "apply", &schema("stickers"), "--store", url], b"");
    let words = "durability=buffered needs engine=fjall: redb is always durable";
    apply(&format!("embedded:{folder}?durability=buffered")).misused(words);
    assert!(!database.data().exists());
    let is_told = |answer: Answer| {
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(answer.err.starts_with("durability=buffered: "), "{answer:?}");
    };
    is_told(apply(&format!("embedded:{folder}?engine=fjall&durability=buffered")));
    let data = r#"{"author": "u1", "file": "f1", "value": "v"}"#;
    let url = format!("embedded:{folder}?durability=buffered");
    is_told(keyloom(&["put", "sticker_tags", data, "--store", &url], b""));
    assert_eq!(database.json(&["count", "sticker_tags"])["count"], 1);
}

#[test]
fn stores_that_do_not_exist_are_refused_with_those_that_do() {
    for url in ["./data", "postgres://x", "embedded:", "embedded:d?engine=rocks"] {
        keyloom(&["schema", "show", "--store", url], b"").misused("embedded:");
    }
    keyloom(&["schema", "show", "--store", "memory:"], b"").ok();
}
