//! The canonical encoding of changes of objects.

use std::fs;
use std::path::PathBuf;

use keyloom_key::{EntryKey, EntryStep, ObjectId, ObjectStep, Touched};
use proptest::prelude::*;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/changes.txt")
}

fn id(text: &str) -> ObjectId {
    ObjectId::string(text, 500).unwrap()
}

fn entry(kind: Touched, text: &str) -> EntryStep {
    EntryStep { kind, key: EntryKey::string(text, 500).unwrap() }
}

fn numbered(kind: Touched, number: u32) -> EntryStep {
    EntryStep { kind, key: EntryKey::Numeric(number) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Every kind, both variants of identities and keys, and the edges of each length.
fn cases() -> Vec<ObjectStep> {
    use Touched::{Created, Deleted, Updated};
    let step = |kind, id, entries| ObjectStep {
        kind,
        class: 0x0102,
        partition: 0xFFFE,
        version: 1_700_000_000_000_001,
        id,
        entries,
    };
    vec![
        step(Created, ObjectId::Numeric(0), vec![]),
        step(Updated, ObjectId::Numeric(u64::MAX), vec![numbered(Created, 0)]),
        step(Deleted, id("42"), vec![numbered(Deleted, u32::MAX)]),
        step(Created, id("a"), vec![entry(Created, "b")]),
        step(Updated, id("User-ABC_01"), vec![numbered(Updated, 7), entry(Deleted, "7")]),
        step(Updated, id("e\u{301}"), vec![entry(Created, "\u{e9}"), entry(Updated, "\u{10FFFF}")]),
        step(Deleted, id("18446744073709551616"), vec![]),
        step(Created, id(&"x".repeat(127)), vec![entry(Created, &"y".repeat(128))]),
        step(Created, id(&"x".repeat(128)), vec![entry(Created, &"y".repeat(127))]),
        step(Created, id(&"x".repeat(500)), vec![entry(Created, &"y".repeat(500))]),
    ]
}

/// `KEYLOOM_GOLDEN=add cargo test -p keyloom-key golden` appends the lines that are missing.
#[test]
fn o19_golden_changes_stay_as_they_are() {
    let mut golden = fs::read_to_string(path()).unwrap();
    let lines = |golden: &str| -> Vec<String> {
        let lines = golden.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    if std::env::var("KEYLOOM_GOLDEN").as_deref() == Ok("add") {
        for case in cases().iter().skip(lines(&golden).len()) {
            golden.push_str(&hex(&case.write()));
            golden.push('\n');
        }
        fs::write(path(), &golden).unwrap();
    }
    let lines = lines(&golden);
    assert_eq!(lines.len(), cases().len());
    for (line, case) in lines.iter().zip(cases()) {
        assert_eq!(ObjectStep::read(&bytes(line)), Ok(case.clone()), "{line}");
        assert_eq!(hex(&case.write()), *line);
    }
}

#[test]
fn o19_a_change_is_laid_out_as_the_register_says() {
    let step = ObjectStep {
        kind: Touched::Updated,
        class: 1,
        partition: 2,
        version: 3,
        id: id("ab"),
        entries: vec![numbered(Touched::Created, 4), entry(Touched::Deleted, "c")],
    };
    let expected = [
        &[3, 2, 0, 1, 0, 2][..],
        &[0, 0, 0, 0, 0, 0, 0, 3],
        &[1, 2, b'a', b'b'],
        &[1, 0, 0, 0, 0, 4],
        &[3, 1, 1, b'c'],
    ];
    assert_eq!(step.write(), expected.concat());
}

#[test]
fn o19_what_is_not_canonical_is_refused() {
    let good = bytes("030200010002000000000000000301026162010000000004030101");
    assert!(ObjectStep::read(&good).is_err(), "a key is missing");
    let head = [3, 2, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3];
    let read = |rest: &[u8]| ObjectStep::read(&[&head[..], rest].concat());
    assert!(read(&[1, 2, b'a', b'b']).is_ok());
    for (rest, problem) in [
        (&[1, 2, b'4', b'2'][..], "a number is spelled as a text"),
        (&[1, 2, b'A', b'b'], "not in its normal form"),
        (&[1, 1, 0xFF], "not UTF-8"),
        (&[1, 0], "not in its normal form"),
        (&[1, 0x81, 0, b'a'], "more bytes than it needs"),
        (&[2, 1, b'a'], "variant"),
        (&[1, 1, b'a', 9, 0, 0, 0, 0, 1], "kind is unknown"),
        (&[1, 1, b'a', 1, 2], "variant"),
        (&[1, 1, b'a', 1, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 1], "not in order"),
        (&[1, 1, b'a', 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1], "not in order"),
        (&[1, 1, b'a', 1, 1, 1, b'b', 1, 0, 0, 0, 0, 1], "not in order"),
        (&[0, 1], "cut off"),
        (&[], "cut off"),
    ] {
        let error = read(rest).unwrap_err().to_string();
        assert!(error.contains(problem), "{rest:?}: {error}");
    }
}

fn any_step() -> impl Strategy<Value = ObjectStep> {
    let touched =
        || prop::sample::select(vec![Touched::Created, Touched::Updated, Touched::Deleted]);
    let text = || prop_oneof!["[a-c0-9]{1,4}", "[A-Za-z0-9._:-]{1,140}", "\\PC{1,9}"];
    let id = prop_oneof![
        any::<u64>().prop_map(ObjectId::Numeric),
        text().prop_map(|text| ObjectId::string(&text, 500).unwrap()),
    ];
    let key = prop_oneof![
        any::<u32>().prop_map(EntryKey::Numeric),
        text().prop_map(|text| EntryKey::string(&text, 500).unwrap()),
    ];
    let entries = prop::collection::btree_map(key, touched(), 0..6).prop_map(|entries| {
        entries.into_iter().map(|(key, kind)| EntryStep { kind, key }).collect::<Vec<_>>()
    });
    (touched(), any::<(u16, u16, u64)>(), id, entries).prop_map(
        |(kind, (class, partition, version), id, entries)| ObjectStep {
            kind,
            class,
            partition,
            version,
            id,
            entries,
        },
    )
}

proptest! {
    #[test]
    fn o19_a_change_survives_its_encoding_and_two_changes_never_share_one(
        one in any_step(), two in any_step(),
    ) {
        prop_assert_eq!(ObjectStep::read(&one.write()), Ok(one.clone()));
        prop_assert_eq!(one.write() == two.write(), one == two);
    }

    #[test]
    fn o19_every_mutation_of_a_change_is_another_change_or_refused(
        step in any_step(), place: usize, flip in 1_u8.., length: usize,
    ) {
        let written = step.write();
        let mut mutated = written.clone();
        let place = place % mutated.len();
        mutated[place] ^= flip;
        if let Ok(read) = ObjectStep::read(&mutated) {
            prop_assert_eq!(read.write(), mutated);
        }
        let cut = &written[..length % written.len()];
        if let Ok(read) = ObjectStep::read(cut) {
            prop_assert_eq!(read.write(), cut);
        }
    }

    #[test]
    fn o19_any_bytes_are_a_change_or_refused(raw in prop::collection::vec(any::<u8>(), 0..40)) {
        let framed = [&[3, 1][..], &raw].concat();
        for raw in [&raw, &framed] {
            if let Ok(read) = ObjectStep::read(raw) {
                prop_assert_eq!(&read.write(), raw);
            }
        }
    }
}
