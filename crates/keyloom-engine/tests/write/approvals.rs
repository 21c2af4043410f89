//! Approvals: record, code and index keys together or not at all.

use keyloom_engine::{Actor, Document, Error, Precondition, Written};
use keyloom_key::{Head, Space};
use keyloom_store::faults::{Call, Fault, NO_SPACE, When};
use pollster::block_on;
use regex::Regex;
use serde_json::{Value as Json, json};

use crate::support::{
    APPROVALS, Database, Seconds, action, at_every_call, code, every_fault, operation,
};

fn approvals() -> Database {
    Database::new(APPROVALS)
}

fn request() -> Json {
    json!({"requester": "ann", "approver": "bob", "description": "a door"})
}

fn data(document: &Document) -> Json {
    serde_json::from_slice(&document.data).unwrap()
}

fn code_of(document: &Document) -> String {
    data(document)["code"].as_str().unwrap().to_owned()
}

/// How many keys stand in each index, in the order of their names.
fn index_sizes(database: &Database) -> Vec<usize> {
    let heads: Vec<u16> =
        database.keys(Space::Index).iter().map(|key| Head::read(key).unwrap().0.template).collect();
    // Claims and indexes are numbered together: the claim of the code is the first.
    (2..6).map(|template| heads.iter().filter(|head| **head == template).count()).collect()
}

#[test]
fn p01_a_create_is_visible_whole_or_not_at_all_whatever_store_call_fails() {
    for fault in every_fault() {
        at_every_call(
            &fault,
            approvals,
            |database| database.create("approvals", &request()),
            |database, result| {
                let documents = database.count("approvals");
                let claims = database.keys(Space::Claim).len() as u64;
                let sizes = index_sizes(database);
                assert!(documents <= 1, "{fault:?}");
                assert_eq!(claims, documents, "{fault:?}");
                assert!(sizes.iter().all(|size| *size as u64 == documents), "{fault:?}: {sizes:?}");
                match result {
                    Ok(created) => {
                        assert_eq!(database.get("approvals", &created.key), Some(created.clone()));
                        let found = database.lookup("approvals", "code", &code_of(&created));
                        assert_eq!(found, Some(created));
                        assert_eq!(database.feed().len(), 1, "{fault:?}");
                    }
                    Err(Error::Unavailable(_)) => assert_eq!(documents, 0, "{fault:?}"),
                    Err(Error::OutcomeUnknown(_)) => {}
                    Err(other) => panic!("{fault:?}: {other}"),
                }
            },
        );
    }
}

#[test]
fn p01_a_decision_is_visible_whole_or_not_at_all_whatever_store_call_fails() {
    let fresh = || {
        let database = approvals();
        database.create("approvals", &request()).unwrap();
        database
    };
    let decide = json!({"status": "approved", "decided_at": 7});
    for fault in every_fault() {
        at_every_call(
            &fault,
            fresh,
            |database| {
                let pending = block_on(database.engine.changes(Default::default(), 1))?.remove(0);
                let pending = pending.into_document().unwrap();
                let patch = action::patch(&pending.key, Precondition::Any, &decide);
                database.execute("approvals", patch)
            },
            |database, result| {
                let pending = index_sizes(database)[1];
                let stored = database.changes(Default::default(), 9);
                let stored = database.get("approvals", &stored[0].key).unwrap();
                let approved = data(&stored)["status"] == "approved";
                assert_eq!(pending, usize::from(!approved), "{fault:?}");
                match result {
                    Ok(written) => assert_eq!(written.into_document(), Some(stored), "{fault:?}"),
                    Err(Error::Unavailable(_)) => assert!(!approved, "{fault:?}"),
                    Err(Error::OutcomeUnknown(_)) => {}
                    Err(other) => panic!("{fault:?}: {other}"),
                }
            },
        );
    }
}

#[test]
fn p02_a_code_leads_to_its_document_with_two_reads_and_an_id_with_one() {
    let database = approvals();
    let created = database.create("approvals", &request()).unwrap();
    let reads = |run: &dyn Fn() -> Option<Document>| {
        database.faults.reset();
        let found = run();
        (found, database.faults.counts().keys_read)
    };
    let by_code = |code: &str| database.lookup("approvals", "code", code);
    let found = reads(&|| by_code(&code_of(&created)));
    assert_eq!(found, (Some(created.clone()), 2));
    let found = reads(&|| database.get("approvals", &created.key));
    assert_eq!(found, (Some(created.clone()), 1));
    assert_eq!(reads(&|| by_code("A-222222")), (None, 1));
    let unknown = "approval:record:01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_eq!(reads(&|| database.get("approvals", unknown)), (None, 1));
    let lookup = |values: &[Json]| {
        code(block_on(database.engine.lookup(&Actor::Local, "approvals", "code", values)))
    };
    assert!(lookup(&[json!("")]).starts_with("invalid_argument: `code`: \"\" is not an id"));
    assert!(lookup(&[json!(7)]).starts_with("invalid_argument: `code`: 7 is not an id"));
    let count = "invalid_argument: claim `code` takes 1 values: code";
    assert_eq!([lookup(&[]), lookup(&[json!("a"), json!("b")])], [count, count]);
    let wrong = block_on(database.engine.lookup(&Actor::Local, "approvals", "cod", &[json!("a")]));
    assert_eq!(code(wrong), "invalid_argument: `approvals` has no unique claim `cod`");
    assert!(
        code(block_on(database.engine.get(&Actor::Local, "approvals", "")))
            .starts_with("invalid_argument")
    );
}

#[test]
fn p03_codes_stay_unique_when_many_create_at_once_and_draw_the_same_codes() {
    const WRITERS: u64 = 4;
    const CREATES: u64 = 2500;
    let database = approvals();
    let code = |number: u64| std::array::from_fn(|place| (number >> (5 * place)) as u8 & 31);
    database.faults.reset();
    let mut codes: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let database = database.fork(writer + 1);
                // Every second code is drawn by all writers, the others by this one alone.
                let draws = (0..CREATES).flat_map(|draw| [draw, (writer + 1) * CREATES + draw]);
                database.system.next_codes(draws.map(code));
                let create = move |_| code_of(&database.create("approvals", &request()).unwrap());
                scope.spawn(move || (0..CREATES).map(create).collect::<Vec<_>>())
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let created = WRITERS * CREATES;
    assert!(database.faults.counts().commits > created + CREATES, "codes did collide");
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len() as u64, created);
    assert_eq!(database.count("approvals"), created);
    assert_eq!(database.keys(Space::Claim).len() as u64, created);
    database.assert_sound();
}

#[test]
fn p03_five_collisions_in_a_row_are_a_clear_error_and_nothing_is_stored() {
    let database = approvals();
    database.system.next_codes([[7; 6]]);
    database.create("approvals", &request()).unwrap();
    let entries = database.entries();
    database.system.next_codes([[7; 6]; 5]);
    assert_eq!(
        code(database.create("approvals", &request())),
        "rule_violation: approvals.code: generate: 5 generated codes in a row were taken: use \
         more characters"
    );
    assert_eq!(database.entries(), entries);
    database.system.next_codes([[7; 6]; 4]);
    assert_eq!(code(database.create("approvals", &request())), "ok", "four are survived");
}

#[test]
fn p03_codes_that_collide_inside_one_batch_are_drawn_again() {
    let database = approvals();
    let create = operation("approvals", action::create(&request()));
    let codes = |written: Vec<Written>| -> Vec<String> {
        written.iter().map(|written| code_of(written.document().unwrap())).collect()
    };
    database.system.next_codes([[7; 6], [7; 6], [8; 6]]);
    let written = database.batch(&[create.clone(), create.clone()]).unwrap();
    assert_eq!(codes(written), ["A-999999", "A-AAAAAA"]);
    let mut given = request();
    given["code"] = json!("A-888888");
    let given = operation("approvals", action::create(&given));
    database.system.next_codes([[6; 6], [9; 6]]);
    let written = database.batch(&[create.clone(), given]).unwrap();
    assert_eq!(codes(written), ["A-BBBBBB", "A-888888"], "what is given stays");
    database.system.next_codes([[5; 6]; 6]);
    let entries = database.entries();
    let refused = code(database.batch(&[create.clone(), create]));
    assert!(refused.starts_with("rule_violation: operation 1: approvals.code: generate: 5"));
    assert_eq!(database.entries(), entries);
}

#[test]
fn p03_a_code_that_the_caller_gives_is_not_drawn_again() {
    let database = approvals();
    let mut given = request();
    given["code"] = json!("A-234567");
    database.create("approvals", &given).unwrap();
    let expected = "unique_violation: code `approval:code:A-234567` is taken in `approvals`";
    assert_eq!(code(database.create("approvals", &given)), expected);
}

#[test]
fn p04_a_code_is_easy_to_read_aloud() {
    let database = approvals();
    let pattern = Regex::new("^A-[2-9A-HJ-NP-Z]{6}$").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..500 {
        let code = code_of(&database.create("approvals", &request()).unwrap());
        assert!(pattern.is_match(&code), "{code}");
        seen.extend(code.chars().skip(2));
    }
    assert_eq!(seen.into_iter().collect::<String>(), "23456789ABCDEFGHJKLMNPQRSTUVWXYZ");
}

#[test]
fn p10_an_approval_leaves_the_pending_index_in_the_commit_that_decides_it() {
    let database = approvals();
    let created = database.create("approvals", &request()).unwrap();
    assert_eq!(index_sizes(&database), [1, 1, 1, 1]);
    let lists_before: Vec<_> = database.keys(Space::Index);
    database.system.pass(Seconds(60));
    database.faults.reset();
    let now = database.system.now_millis();
    let decision = json!({"status": "approved", "decided_at": now, "comment": "fine"});
    let decided = database.patch("approvals", &created, &decision).unwrap();
    assert_eq!(database.faults.counts().commits, 1);
    assert_eq!(data(&decided)["status"], "approved");
    assert_eq!(data(&decided)["decided_at"], now);
    assert_eq!(index_sizes(&database), [1, 0, 1, 1]);
    let lists = database.keys(Space::Index);
    let unmoved = lists.iter().filter(|key| lists_before.contains(key)).count();
    assert_eq!(unmoved, 2, "the places among the requester's and the approver's stay");
    assert_eq!(database.lookup("approvals", "code", &code_of(&created)), Some(decided));
    database.assert_sound();
}

#[test]
fn p13_a_second_decision_and_an_edit_of_what_is_frozen_are_refused() {
    let database = approvals();
    let created = database.create("approvals", &request()).unwrap();
    for (field, value) in [
        ("requester", json!("eve")),
        ("approver", json!("eve")),
        ("description", json!("a window")),
        ("code", json!("A-222222")),
        ("created_at", json!(0)),
        ("id", json!("01ARZ3NDEKTSV4RRFFQ69G5FAV")),
    ] {
        let refused = code(database.patch("approvals", &created, &json!({ field: value })));
        let expected =
            format!("rule_violation: approvals.{field}: frozen: it never changes after create");
        assert_eq!(refused, expected);
    }
    let decided = database.patch("approvals", &created, &json!({"status": "denied"})).unwrap();
    for status in ["approved", "canceled", "pending"] {
        let refused = code(database.patch("approvals", &decided, &json!({ "status": status })));
        let expected = format!(
            "rule_violation: approvals.status: transitions: `denied` is final, it cannot become \
             `{status}`"
        );
        assert_eq!(refused, expected);
    }
    let refused = code(database.patch("approvals", &decided, &json!({"comment": "late"})));
    assert_eq!(
        refused,
        "rule_violation: approvals.comment: freeze: the document is final, only these may \
         change: requester_notified, approver_notified"
    );
    assert_eq!(database.get("approvals", &created.key), Some(decided));
}

#[test]
fn p15_delivery_flags_change_after_the_decision() {
    let database = approvals();
    let created = database.create("approvals", &request()).unwrap();
    assert_eq!(data(&created)["requester_notified"], false);
    let decided = database.patch("approvals", &created, &json!({"status": "approved"})).unwrap();
    let flags = json!({"requester_notified": true, "approver_notified": true});
    let told = database.patch("approvals", &decided, &flags).unwrap();
    assert_eq!(data(&told)["approver_notified"], true);
    database.patch("approvals", &told, &json!({"requester_notified": false})).unwrap();
    database.assert_sound();
}

#[test]
fn p17_a_store_that_fails_while_saving_fails_the_save_and_is_never_read_as_absent() {
    let database = approvals();
    let created = database.create("approvals", &request()).unwrap();
    let save = |database: &Database| {
        let patch = json!({"comment": "x"});
        let any = Precondition::Any;
        database.execute("approvals", action::patch(&created.key, any, &patch))
    };
    for call in [Call::Snapshot, Call::GetMany, Call::Commit] {
        database.faults.reset();
        database.faults.inject(When::Every(call), Fault::Before(NO_SPACE));
        let refused = code(save(&database));
        assert_eq!(
            refused,
            "unavailable: the store failed, nothing is written: store unavailable: no space left \
             on device"
        );
    }
    database.faults.reset();
    database.faults.inject(When::Every(Call::Get), Fault::Before(NO_SPACE));
    let code_of = [json!(code_of(&created))];
    let reads = [
        code(block_on(database.engine.get(&Actor::Local, "approvals", &created.key))),
        code(block_on(database.engine.lookup(&Actor::Local, "approvals", "code", &code_of))),
    ];
    assert!(reads.iter().all(|read| read.starts_with("unavailable: ")), "{reads:?}");
    database.faults.reset();
    assert_eq!(database.get("approvals", &created.key), Some(created.clone()));
    assert_eq!(code(save(&database)), "ok");
}

#[test]
fn p17_a_delete_on_a_failing_store_does_not_say_that_nothing_was_there() {
    let database = approvals();
    let created = database.create("approvals", &request()).unwrap();
    database.faults.inject(When::Every(Call::GetMany), Fault::After);
    let deleted = database.delete("approvals", &created.key);
    assert!(matches!(deleted, Err(Error::Unavailable(_))), "{deleted:?}");
    database.faults.reset();
    let deleted = database.delete("approvals", &created.key).unwrap();
    assert!(matches!(deleted, Written::Deleted { .. }));
}

#[test]
fn p22_times_at_the_ends_of_the_range_are_in_order_and_equal_ones_by_identity() {
    let database = approvals();
    let after_2286 = 9_999_999_999_999_i64 + 1;
    let mut times =
        vec![0, -1, 1, i64::MIN, i64::MAX, after_2286, -after_2286, 1_700_000_000_000, 5, 5, 5];
    let mut expected = Vec::new();
    for time in &times {
        let mut data = request();
        data["created_at"] = json!(time);
        let created = database.create("approvals", &data).unwrap();
        expected.push((std::cmp::Reverse(*time), created.key.clone()));
        let found =
            block_on(database.engine.get(&Actor::Local, "approvals", &created.key)).unwrap();
        assert_eq!(found, Some(created));
    }
    expected.sort();
    // The keys of the requester's list end with the identity of the document.
    let list = database.keys(Space::Index).into_iter();
    let list = list.filter(|key| Head::read(key).unwrap().0.template == 4);
    let newest_first: Vec<String> = list
        .map(|key| {
            let id = <[u8; 16]>::try_from(&key[key.len() - 16..]).unwrap();
            format!("approval:record:{}", keyloom_key::Ulid::from_bytes(id))
        })
        .collect();
    let expected: Vec<String> = expected.into_iter().map(|(_, key)| key).collect();
    assert_eq!(newest_first, expected);
    times.dedup();
    database.assert_sound();
}

#[test]
fn a_requester_cannot_approve_his_own_request() {
    let database = approvals();
    let own = json!({"requester": "ann", "approver": "ann"});
    assert_eq!(
        code(block_on(database.engine.create(
            &Actor::Local,
            "approvals",
            own.to_string().as_bytes()
        ))),
        "rule_violation: approvals.requester: differs_from: it is the same as `approver`"
    );
}
