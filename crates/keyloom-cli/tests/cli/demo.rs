//! `keyloom demo`: the story runs, leaves nothing behind, and is the same every time.

use crate::program::{Database, command, keyloom, names};

/// The story with everything that differs from run to run made equal.
fn layout(text: &str) -> Vec<String> {
    let words = text.lines().map(|line| {
        // A table is as wide as its widest cell: spaces do not count.
        let words = line.split_whitespace().map(|word| {
            let letters = word.chars().filter(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
            if letters.count() > 5 { "*" } else { word }
        });
        words.collect::<Vec<_>>().join(" ")
    });
    words.collect()
}

fn run(temporary: &std::path::Path) -> String {
    let done = command(&["demo"]).env("TMPDIR", temporary).output().unwrap();
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "");
    assert_eq!(done.status.code(), Some(0));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn the_demo_shows_every_kind_of_query_with_ranges_and_cost_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let story = run(temporary.path());
    let parts = [
        "loaded: 240 approvals, 6 users, 3 tags, 90 votes, 12 sticker tags\n",
        "plan  index:requester  approval:index:requester:ann: .. approval:index:requester:ann:*",
        "3 documents · index:requester · 4 keys read, 3 documents read · 1 range\n",
        "plan  any(index:approver, index:requester)",
        "put  index:requester  approval:index:requester:ann:",
        "keyloom: version conflict on `approval:record:",
        "keyloom: approvals.status: transitions: ",
        "    decided_at = \"approvals:decided_at:{decided_at}:{id}\"\n",
        " · a scan · ",
        "plan  index:top  tag_",
        "delete  index:top ",
        "plan  index:tag_target  tag_",
        "keyloom: no key of `votes` can contain",
        "_usrName_grace_ → usr_",
        "plan  index:value  #hel .. #hel*",
        "first of each group by index:file_value",
        "looked · index:set_author · 1 key read",
        "1 document written, 1 document deleted, in one commit\n",
        ": all agree\n",
    ];
    for part in parts {
        assert!(story.contains(part), "`{part}` is not in the story:\n{story}");
    }
    assert!(names(temporary.path()).is_empty());
}

#[test]
fn the_demo_is_the_same_every_time_but_for_identities_and_times() {
    let temporary = tempfile::tempdir().unwrap();
    let (first, second) = (run(temporary.path()), run(temporary.path()));
    for (first, second) in layout(&first).iter().zip(&layout(&second)) {
        assert_eq!(first, second);
    }
    assert_eq!(first.lines().count(), second.lines().count());
}

#[test]
fn a_demo_that_is_kept_can_be_asked_further() {
    let database = Database::none();
    let folder = database.data().display().to_string();
    let story = keyloom(&["demo", "--keep", &folder], b"").ok();
    assert!(story.ends_with(&format!("add --data {folder} to go on.\n")), "{story}");
    assert_eq!(database.json(&["count", "approvals", "requester=ann"])["count"], 48);
    let words = "holds a database already";
    keyloom(&["demo", "--keep", &folder], b"").refused(words);
    assert_eq!(database.json(&["count", "approvals"])["count"], 240);
}

#[test]
fn the_demo_is_for_people() {
    keyloom(&["demo", "--json"], b"").misused("the demo is for people");
    keyloom(&["demo", "--data", "x"], b"").misused("--keep DIR");
}
