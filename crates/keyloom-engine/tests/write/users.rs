//! Users, tags and their identities.

use keyloom_engine::{Action, Actor, Document, Mode, Precondition};
use pollster::block_on;
use serde_json::json;

use crate::support::{Database, REPUTATION, action, code, operation};

fn production() -> Database {
    Database::in_mode(Mode::Production, REPUTATION)
}

fn user(name: &str) -> serde_json::Value {
    json!({"username": name, "display_name": "Somebody"})
}

fn by_name(database: &Database, name: &str) -> Option<Document> {
    database.lookup("users", "username", name)
}

#[test]
fn r01_a_user_is_found_by_any_spelling_of_his_name_and_keeps_his_own() {
    let database = production();
    let created = database.create("users", &user("JohnDoe")).unwrap();
    assert!(created.key.ends_with("_usrName_johndoe_"), "{}", created.key);
    for spelling in ["johndoe", "JOHNDOE", "JohnDoe"] {
        assert_eq!(by_name(&database, spelling), Some(created.clone()), "{spelling}");
    }
    let data: serde_json::Value = serde_json::from_slice(&created.data).unwrap();
    assert_eq!(data["username"], "JohnDoe");
    assert_eq!(created.key, format!("usr_{}_usrName_johndoe_", data["usr_key"].as_str().unwrap()));
}

#[test]
fn r02_a_name_that_differs_in_case_only_is_taken() {
    let database = production();
    database.create_as("ann", "users", &user("JohnDoe")).unwrap();
    let entries = database.entries();
    assert_eq!(
        code(database.create_as("bob", "users", &user("johndoe"))),
        "unique_violation: username `usrName_johndoe` is taken in `users`"
    );
    assert_eq!(database.entries(), entries);
}

#[test]
fn r02_of_two_who_want_one_name_at_once_exactly_one_gets_it() {
    let database = production();
    for round in 0..200 {
        let name = format!("name-{round}");
        let mut results: Vec<String> = std::thread::scope(|scope| {
            let writers = ["ann", "bob"].map(|person| {
                let (database, name) = (&database, &name);
                let identity = format!("{person}-{round}");
                scope.spawn(move || code(database.create_as(&identity, "users", &user(name))))
            });
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        results.sort();
        let taken = format!("unique_violation: username `usrName_{name}` is taken in `users`");
        assert_eq!(results, ["ok".to_owned(), taken], "round {round}");
    }
    assert_eq!(database.count("users"), 200);
    database.assert_sound();
}

#[test]
fn r03_a_second_account_of_one_identity_is_refused_in_production_with_one_key_read() {
    let database = production();
    database.create_as("ann", "users", &user("first")).unwrap();
    let entries = database.entries();
    database.faults.reset();
    assert_eq!(
        code(database.create_as("ann", "users", &user("second"))),
        "unique_violation: one_per_owner `ann` is taken in `users`"
    );
    assert_eq!(database.faults.counts().keys_read, 1);
    assert_eq!(database.entries(), entries);
    database.create_as("bob", "users", &user("second")).unwrap();
}

#[test]
fn r03_outside_of_production_an_identity_may_have_several_accounts() {
    let database = Database::new(REPUTATION);
    for name in ["first", "second", "third"] {
        database.create_as("ann", "users", &user(name)).unwrap();
    }
    assert_eq!(database.count("users"), 3);
    database.assert_sound();
}

#[test]
fn r03_the_local_administrator_is_not_bound_by_identity() {
    let database = production();
    database.create("users", &user("first")).unwrap();
    database.create("users", &user("second")).unwrap();
}

#[test]
fn r03_who_deletes_his_account_may_have_another_one() {
    let database = production();
    let first = database.create_as("ann", "users", &user("first")).unwrap();
    database.delete("users", &first.key).unwrap();
    let second = database.create_as("ann", "users", &user("second")).unwrap();
    let refused = code(database.create_as("ann", "users", &user("third")));
    assert!(refused.starts_with("unique_violation: one_per_owner"), "{refused}");
    // In development an account can stand beside the one that holds the claim: deleting it leaves
    // the claim alone.
    let development = database.beside(Mode::Development);
    let fourth = development.create_as("ann", "users", &user("fourth")).unwrap();
    development.delete("users", &fourth.key).unwrap();
    let refused = code(database.create_as("ann", "users", &user("fifth")));
    assert!(refused.starts_with("unique_violation: one_per_owner"), "{refused}");
    development.delete("users", &second.key).unwrap();
    database.create_as("ann", "users", &user("fifth")).unwrap();
}

#[test]
fn r03_a_user_who_is_renamed_still_has_one_account() {
    let database = production();
    let first = database.create_as("ann", "users", &user("first")).unwrap();
    let renamed = database.patch("users", &first, &json!({"username": "other"})).unwrap();
    assert_eq!(renamed.owner.as_deref(), Some("ann"));
    let refused = code(database.create_as("ann", "users", &user("second")));
    assert!(refused.starts_with("unique_violation: one_per_owner"), "{refused}");
    database.delete("users", &renamed.key).unwrap();
    database.create_as("ann", "users", &user("second")).unwrap();
    let engine = database.beside(Mode::Production).engine;
    let report = block_on(engine.check(keyloom_engine::Repair::No, &mut |_| {})).unwrap();
    assert_eq!(report.problems, []);
}

#[test]
fn r04_names_have_3_to_30_letters_digits_and_hyphens() {
    let database = production();
    for name in ["ab", &"a".repeat(31), "a b", "a_b", "@ab", "", "äbc"] {
        let refused = code(database.create("users", &user(name)));
        assert!(refused.starts_with("rule_violation: users.username: type: "), "{refused}");
        assert!(refused.contains("3 to 30 of A-Z, a-z, 0-9 and -"), "{refused}");
    }
    assert_eq!(database.entries(), []);
    for name in ["abc", "123john", "user1-test2", &"a".repeat(30)] {
        assert_eq!(code(database.create("users", &user(name))), "ok", "{name}");
    }
}

#[test]
fn r06_only_the_canonical_spelling_of_a_ulid_is_taken() {
    let database = Database::new(REPUTATION);
    let create = |ulid: &str, name: &str| {
        let data = json!({"usr_key": ulid, "username": name, "display_name": "x"});
        code(database.create("users", &data))
    };
    let valid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for ulid in [
        "01ARZ3NDEKTSV4RRFFQ69G5FA",
        &format!("{valid}0"),
        &valid.to_lowercase(),
        "01ARZ3NDEKTSV4RRFFQ69G5FAI",
        "01ARZ3NDEKTSV4RRFFQ69G5FAL",
        "01ARZ3NDEKTSV4RRFFQ69G5FAO",
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "",
        "80000000000000000000000000",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ] {
        let refused = create(ulid, "somebody");
        assert!(refused.starts_with("rule_violation: users.usr_key: type: "), "{ulid}: {refused}");
    }
    assert_eq!(create("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "first"), "ok");
    assert_eq!(create(valid, "second"), "ok");
    assert_eq!(by_name(&database, "second").unwrap().key, format!("usr_{valid}_usrName_second_"));
}

#[test]
fn r07_only_the_canonical_spelling_of_a_uuid_of_version_4_is_taken() {
    let database = Database::new(
        "[collections.old]\nkey = \"USR={id}\"\n\
         fields.id = { type = \"uuid\", required = true }\n",
    );
    let create = |uuid: &str| code(database.create("old", &json!({ "id": uuid })));
    for uuid in [
        "67e5504410b1426f9247bb680e5",
        "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "67E5504410B1426F9247BB680E5FE0C8",
        "67e5504410b1126f9247bb680e5fe0c8",
        "67e5504410b1426fc247bb680e5fe0c8",
        "",
    ] {
        let refused = create(uuid);
        assert!(refused.starts_with("rule_violation: old.id: type: "), "{uuid}: {refused}");
    }
    assert_eq!(create("67e5504410b1426f9247bb680e5fe0c8"), "ok");
    assert!(database.get("old", "USR=67e5504410b1426f9247bb680e5fe0c8").is_some());
}

#[test]
fn r08_a_vote_whose_key_is_not_the_key_of_its_data_is_refused() {
    let database = Database::new(REPUTATION);
    let ulid = |last: char| format!("01ARZ3NDEKTSV4RRFFQ69G5FA{last}");
    let data = json!({"usr_key": ulid('A'), "tag_key": ulid('B'), "tar_key": ulid('C'),
                      "vote_key": ulid('D'), "value": 1});
    let key = |voter, tag, target, vote| {
        format!("usr_{}_tag_{}_tar_{}_key_{}", ulid(voter), ulid(tag), ulid(target), ulid(vote))
    };
    let create = |key: String| {
        let data = data.to_string().into_bytes();
        code(database.execute("votes", Action::Create { key: Some(key), data, description: None }))
    };
    for wrong in [
        key('X', 'B', 'C', 'D'),
        key('A', 'X', 'C', 'D'),
        key('A', 'B', 'X', 'D'),
        key('A', 'B', 'C', 'X'),
    ] {
        let refused = create(wrong.clone());
        let right = key('A', 'B', 'C', 'D');
        let expected = format!("key `{wrong}` is not the key of the data, which is `{right}`");
        assert_eq!(refused, format!("invalid_argument: {expected}"));
    }
    assert_eq!(database.entries(), []);
}

#[test]
fn r09_keys_with_wrong_segments_are_refused_on_write_and_on_read() {
    let database = Database::new(REPUTATION);
    let (a, b) = ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW");
    for key in [
        format!("USR_{a}_TAG_{b}"),
        format!("tag_{b}_usr_{a}"),
        format!("usr_{a}"),
        format!("usr_{a}_tag_{b}_tar_{a}"),
        format!("usr_{a}_tog_{b}"),
        format!("usr_{}_tag_{b}", a.to_lowercase()),
        format!(" usr_{a}_tag_{b}"),
        String::new(),
    ] {
        let data = json!({"usr_key": a, "tag_key": b});
        let actions = [
            action::put(&key, Precondition::Unsaid, &data),
            action::patch(&key, Precondition::Any, &data),
            action::delete(&key, Precondition::Any),
        ];
        for action in actions {
            let refused = code(database.execute("reputations", action));
            assert!(refused.starts_with("invalid_argument: "), "{key}: {refused}");
        }
        let read = code(block_on(database.engine.get(&Actor::Local, "reputations", &key)));
        assert!(read.starts_with("invalid_argument: "), "an error, not nothing: {key}: {read}");
    }
    assert_eq!(database.entries(), []);
}

#[test]
fn r18_a_renamed_user_swaps_his_claim_in_one_commit_and_keeps_his_references() {
    let database = production();
    let voter = database.create("users", &user("voter")).unwrap();
    let id = |document: &Document| {
        let data: serde_json::Value = serde_json::from_slice(&document.data).unwrap();
        data["usr_key"].clone()
    };
    let target = database.create("users", &user("target")).unwrap();
    let tag = database.create("tags", &json!({"usr_key": id(&voter), "name": "rust"})).unwrap();
    let tag: serde_json::Value = serde_json::from_slice(&tag.data).unwrap();
    let vote = |value: i64| {
        json!({"usr_key": id(&voter), "tag_key": tag["tag_key"], "tar_key": id(&target),
               "value": value})
    };
    database.create("votes", &vote(1)).unwrap();
    database.faults.reset();
    let renamed = database.patch("users", &target, &json!({"username": "Renamed"})).unwrap();
    assert_eq!(database.faults.counts().commits, 1);
    assert!(renamed.key.ends_with("_usrName_renamed_"));
    assert_eq!(by_name(&database, "target"), None);
    assert_eq!(by_name(&database, "renamed").unwrap().key, renamed.key);
    assert_eq!(id(&renamed), id(&target));
    database.create("votes", &vote(1)).unwrap();
    let taken = database.create("users", &user("TARGET")).unwrap();
    assert_eq!(by_name(&database, "target").unwrap().key, taken.key);
    let refused = code(database.patch("users", &renamed, &json!({"username": "voter"})));
    assert_eq!(refused, "unique_violation: username `usrName_voter` is taken in `users`");
    database.assert_sound();
}

#[test]
fn r18_two_users_swap_their_names_in_one_batch() {
    let database = production();
    let [ann, bob] = ["ann", "bob"].map(|name| database.create("users", &user(name)).unwrap());
    let rename = |document: &Document, name: &str| {
        let any = Precondition::Any;
        operation("users", action::patch(&document.key, any, &json!({ "username": name })))
    };
    database.batch(&[rename(&ann, "bob"), rename(&bob, "ann")]).unwrap();
    let id = |document: &Document| document.key.split('_').nth(1).unwrap().to_owned();
    assert_eq!(id(&by_name(&database, "bob").unwrap()), id(&ann));
    assert_eq!(id(&by_name(&database, "ann").unwrap()), id(&bob));
    database.assert_sound();
}

#[test]
fn r23_a_display_name_has_1_to_50_characters() {
    let database = production();
    let create = |name: &str, display_name: &str| {
        let data = json!({"username": name, "display_name": display_name});
        code(database.create("users", &data))
    };
    let rule = "rule_violation: users.display_name: length:";
    assert_eq!(create("empty", ""), format!("{rule} 0 characters, at least 1 needed"));
    assert_eq!(create("one", "é"), "ok");
    assert_eq!(create("fifty", &"é".repeat(50)), "ok");
    assert_eq!(
        create("more", &"é".repeat(51)),
        format!("{rule} 51 characters, at most 50 allowed")
    );
    let missing = code(database.create("users", &json!({"username": "nobody"})));
    assert_eq!(missing, "rule_violation: users.display_name: required: it is missing");
}

#[test]
fn an_owner_is_who_created_a_document() {
    let database = production();
    let created = database.create_as("ann", "users", &user("first")).unwrap();
    assert_eq!(created.owner.as_deref(), Some("ann"));
    let local = block_on(database.engine.create(
        &Actor::Local,
        "users",
        user("second").to_string().as_bytes(),
    ));
    assert_eq!(local.unwrap().owner, None);
}
