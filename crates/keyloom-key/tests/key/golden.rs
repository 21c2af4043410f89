//! Keys in both spellings, kept in a file that other programs read too.
//!
//! I1: A line of the file is never edited: what was stored once stays readable.
//! I2: Every case below has its line. `KEYLOOM_GOLDEN=add cargo test -p keyloom-key golden` appends
//!     the lines that are missing.

use std::fs;
use std::path::PathBuf;

use crate::generate::{packed, template};

/// Template, fields and text of a key.
type Case = (&'static str, &'static str, &'static str);

const VOTES: &str = "usr_{usr_key}_tag_{tag_key}_tar_{tar_key}_key_{vote_key}";
const VOTES_FIELDS: &str = "usr_key:ulid,tag_key:ulid,tar_key:ulid,vote_key:ulid";
const REQUESTER: &str = "approval:index:requester:{requester}:{created_at desc}:{id}";
const REQUESTER_FIELDS: &str = "requester:id,created_at:millis,id:ulid";
const TAGS: &str = "tag:{author}#{file}";
const TAGS_FIELDS: &str = "author:text,file:text";

const CASES: &[Case] = &[
    ("k:{id}", "id:ulid", "k:00000000000000000000000000"),
    ("k:{id}", "id:ulid", "k:01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ("k:{id}", "id:ulid", "k:7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
    ("k:{id desc}", "id:ulid", "k:01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    (
        "USR={usr}_TAG={tag}",
        "usr:uuid,tag:uuid",
        "USR=67e5504410b1426f9247bb680e5fe0c8_TAG=00000000000040008000000000000000",
    ),
    ("k:{id desc}", "id:uuid", "k:67e5504410b1426f9247bb680e5fe0c8"),
    (
        "usr_{usr_key}_usrName_{name}_",
        "usr_key:ulid,name:name",
        "usr_01ARZ3NDEKTSV4RRFFQ69G5FAV_usrName_johndoe_",
    ),
    ("n:{name desc}", "name:name", "n:user1-test2"),
    (
        VOTES,
        VOTES_FIELDS,
        "usr_01ARZ3NDEKTSV4RRFFQ69G5FAV_tag_01ARZ3NDEKTSV4RRFFQ69G5FAW\
      _tar_01ARZ3NDEKTSV4RRFFQ69G5FAX_key_01ARZ3NDEKTSV4RRFFQ69G5FAY",
    ),
    (
        REQUESTER,
        REQUESTER_FIELDS,
        "approval:index:requester:u1:8299999999999:01ARZ3NDEKTSV4RRFFQ69G5FAV",
    ),
    (
        REQUESTER,
        REQUESTER_FIELDS,
        "approval:index:requester:u10:8299999999999:01ARZ3NDEKTSV4RRFFQ69G5FAV",
    ),
    (
        REQUESTER,
        REQUESTER_FIELDS,
        "approval:index:requester:a%3Ab:9999999999999:01ARZ3NDEKTSV4RRFFQ69G5FAV",
    ),
    ("i:{ref desc}:{ref}", "ref:id", "i:Zoë#50%25:x"),
    ("t:{at}", "at:millis", "t:0000000000000"),
    ("t:{at}", "at:millis", "t:-1"),
    ("t:{at}", "at:millis", "t:1700000000000"),
    ("t:{at}", "at:millis", "t:9999999999999"),
    ("t:{at}", "at:millis", "t:10000000000000"),
    ("t:{at}", "at:millis", "t:9223372036854775807"),
    ("t:{at}", "at:millis", "t:-9223372036854775808"),
    ("t:{at desc}", "at:millis", "t:9999999999999"),
    ("t:{at desc}", "at:millis", "t:10000000000000"),
    ("t:{at desc}", "at:millis", "t:8299999999999"),
    ("t:{at desc}", "at:millis", "t:0000000000000"),
    ("t:{at desc}", "at:millis", "t:-1"),
    ("t:{at desc}", "at:millis", "t:-9223362036854775808"),
    ("t:{at desc}", "at:millis", "t:9223382036854775807"),
    ("u:{n}", "n:u64", "u:0"),
    ("u:{n}", "n:u64", "u:255"),
    ("u:{n}", "n:u64", "u:256"),
    ("u:{n}", "n:u64", "u:18446744073709551615"),
    ("u:{n desc}", "n:u64", "u:18446744073709551615"),
    ("i:{n}", "n:i64", "i:0"),
    ("i:{n}", "n:i64", "i:-1"),
    ("i:{n}", "n:i64", "i:-255"),
    ("i:{n}", "n:i64", "i:-256"),
    ("i:{n}", "n:i64", "i:9223372036854775807"),
    ("i:{n}", "n:i64", "i:-9223372036854775808"),
    ("i:{n desc}", "n:i64", "i:-9223372036854775808"),
    ("b:{flag}:{flag desc}", "flag:bool", "b:true:false"),
    (
        "s:{status}:{id}",
        "status:enum(pending|approved|denied|canceled),id:ulid",
        "s:pending:01ARZ3NDEKTSV4RRFFQ69G5FAV",
    ),
    ("s:{status desc}", "status:enum(on|off-line|o.n_2)", "s:o.n_2"),
    (TAGS, TAGS_FIELDS, "tag:a%23b#c"),
    (TAGS, TAGS_FIELDS, "tag:a#b#c"),
    (TAGS, TAGS_FIELDS, "tag:#"),
    (TAGS, TAGS_FIELDS, "tag:%01%0A%1F%7F%25#hello wörld 🙂"),
    ("t:{value desc}:{id}", "value:text,id:ulid", "t:he%3Al:01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ("t:{value desc}", "value:text", "t:"),
    ("v:{value prefix 5}:{id}", "value:text,id:u64", "v:hello:7"),
    ("v:{value prefix 3 desc}", "value:text", "v:äöü"),
    ("tags:{tags[]}:{id}", "tags:text,id:u64", "tags:red:7"),
    ("b:{id shard 16}:{id}", "id:ulid", "b:15:01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ("o:{@owner}:{@created_at desc}", "@owner:id,@created_at:millis", "o:u1:8299999999999"),
    (
        "{a}{b}7{c}",
        "a:ulid,b:uuid,c:bool",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV67e5504410b1426f9247bb680e5fe0c87true",
    ),
];

#[test]
fn golden_keys_stay_as_they_were_stored() {
    let mut content = fs::read_to_string(path()).unwrap();
    let missing: Vec<String> =
        CASES.iter().map(line_of).filter(|line| !lines(&content).any(|own| own == line)).collect();
    if !missing.is_empty() {
        content = with_added(content, &missing);
        fs::write(path(), &content).unwrap();
    }
    for line in lines(&content) {
        let [text, fields, key, hex]: [&str; 4] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let template = template(text, fields);
        let values = template.parse(key).unwrap();
        assert_eq!(to_hex(&packed(&template, &values)), hex, "{line}");
        assert_eq!(template.unpack(&from_hex(hex)), Ok(values.clone()), "{line}");
        assert_eq!(template.render(&values).as_deref(), Ok(key), "{line}");
    }
}

/// Lines are added when they are asked for, and only for keys that have none (I1).
fn with_added(content: String, missing: &[String]) -> String {
    let listed = missing.join("\n");
    let adds = std::env::var("KEYLOOM_GOLDEN").is_ok_and(|value| value == "add");
    assert!(adds, "these lines are missing, KEYLOOM_GOLDEN=add appends them:\n{listed}");
    let key_of = |line: &str| line.rsplit_once('\t').unwrap().0.to_owned();
    for line in missing {
        let is_edit = lines(&content).any(|own| key_of(own) == key_of(line));
        assert!(!is_edit, "the bytes of a golden key have changed:\n{line}");
    }
    format!("{content}{listed}\n")
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/keys.txt")
}

fn lines(content: &str) -> impl Iterator<Item = &str> {
    content.lines().filter(|line| line.contains('\t'))
}

fn line_of(&(text, fields, key): &Case) -> String {
    let template = template(text, fields);
    let hex = to_hex(&packed(&template, &template.parse(key).unwrap()));
    [text, fields, key, &hex].join("\t")
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap();
    let byte = |pair: &[u8]| u8::try_from(16 * digit(&pair[0]) + digit(&pair[1])).unwrap();
    hex.as_bytes().chunks(2).map(byte).collect()
}
