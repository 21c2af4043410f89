//! Votes and the reputations that follow from them in the same commit.

use keyloom_engine::{Document, Error, Precondition, Update};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::support::{
    Database, REPUTATION, Seconds, action, at_every_call, code, every_fault, operation,
};

/// Two users and a tag; randomness and time are the same each time, so identities are too.
struct Town {
    database: Database,
    ann: Json,
    bob: Json,
    tag: Json,
}

impl Town {
    fn new() -> Town {
        let database = Database::new(REPUTATION);
        let [ann, bob] = ["ann", "bob"].map(|name| {
            let data = json!({"username": name, "display_name": name});
            field(&database.create("users", &data).unwrap(), "usr_key")
        });
        let tag = database.create("tags", &json!({"usr_key": ann, "name": "rust"})).unwrap();
        let tag = field(&tag, "tag_key");
        Town { database, ann, bob, tag }
    }

    fn vote(&self, value: i64) -> Json {
        json!({"usr_key": self.ann, "tar_key": self.bob, "tag_key": self.tag, "value": value})
    }

    fn reputation_key(&self) -> String {
        format!("usr_{}_tag_{}", self.bob.as_str().unwrap(), self.tag.as_str().unwrap())
    }

    /// Score and number of votes of the one who is voted for.
    fn reputation(&self) -> Option<(i64, i64)> {
        let document = self.database.get("reputations", &self.reputation_key())?;
        let number = |name: &str| field(&document, name).as_i64().unwrap();
        Some((number("score"), number("votes")))
    }
}

fn field(document: &Document, name: &str) -> Json {
    let data: Json = serde_json::from_slice(&document.data).unwrap();
    data[name].clone()
}

#[test]
fn r10_a_reputation_that_two_create_at_once_is_one_document_with_both_changes() {
    for round in 0..100 {
        let town = Town::new();
        let key = town.reputation_key();
        // Each adds its letter to the title, whatever it finds.
        let add = |letter: char| {
            let mut attempts = 0;
            let added = block_on(town.database.engine.update(
                &keyloom_engine::Actor::Local,
                "reputations",
                &key,
                |found| {
                    attempts += 1;
                    let title = found.map_or_else(String::new, |found| {
                        field(found, "title").as_str().unwrap_or_default().to_owned()
                    });
                    let data = json!({"usr_key": town.bob, "tag_key": town.tag,
                                      "title": format!("{title}{letter}")});
                    Ok(Update::Put(data.to_string().into_bytes()))
                },
            ));
            added.unwrap();
            attempts
        };
        let attempts = std::thread::scope(|scope| {
            let writers = ['x', 'y'].map(|letter| scope.spawn(move || add(letter)));
            writers.map(|writer| writer.join().unwrap())
        });
        let title = field(&town.database.get("reputations", &key).unwrap(), "title");
        assert!(title == "xy" || title == "yx", "round {round}: {title} after {attempts:?}");
        assert_eq!(town.database.count("reputations"), 1);
        let waits = town.database.system.sleeps().len();
        assert_eq!(waits, attempts.iter().sum::<usize>() - 2, "one wait per lost race");
    }
}

#[test]
fn r10_votes_for_one_target_at_once_all_count() {
    const VOTERS: i64 = 8;
    const VOTES: i64 = 100;
    let town = Town::new();
    std::thread::scope(|scope| {
        for voter in 0..VOTERS {
            let town = &town;
            scope.spawn(move || {
                let value = if voter % 4 == 0 { -1 } else { 1 };
                for _ in 0..VOTES {
                    town.database.create("votes", &town.vote(value)).unwrap();
                }
            });
        }
    });
    assert_eq!(town.reputation(), Some((VOTERS / 2 * VOTES, VOTERS * VOTES)));
    assert_eq!(town.database.count("votes"), (VOTERS * VOTES) as u64);
    town.database.assert_sound();
}

#[test]
fn r12_votes_that_make_no_sense_are_refused() {
    let town = Town::new();
    let unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for (member, value, expected) in [
        ("value", json!(0), "votes.value: values: 0 is not one of -1, 1"),
        ("value", json!(2), "votes.value: values: 2 is not one of -1, 1"),
        ("value", json!(0.5), "votes.value: type: 0.5 is not a whole number of 64 bits"),
        ("value", json!(null), "votes.value: required: it is missing"),
        ("tar_key", town.ann.clone(), "votes.usr_key: differs_from: it is the same as `tar_key`"),
        (
            "tag_key",
            json!(unknown),
            "votes.tag_key: refers_to: there is no such document in `tags`",
        ),
        (
            "tar_key",
            json!(unknown),
            "votes.tar_key: refers_to: there is no such document in `users`",
        ),
        (
            "usr_key",
            json!(unknown),
            "votes.usr_key: refers_to: there is no such document in `users`",
        ),
    ] {
        let mut vote = town.vote(1);
        vote[member] = value;
        let refused = code(town.database.create("votes", &vote));
        assert_eq!(refused, format!("rule_violation: {expected}"));
    }
    assert_eq!(town.database.count("votes"), 0);
    assert_eq!(town.reputation(), None);
}

#[test]
fn r12_a_vote_and_the_deletion_of_its_target_at_once_never_leave_a_vote_for_nobody() {
    for round in 0..100 {
        let town = Town::new();
        let bob = town.database.lookup("users", "username", "bob").unwrap();
        let (voted, deleted) = std::thread::scope(|scope| {
            let vote = scope.spawn(|| town.database.create("votes", &town.vote(1)));
            let delete = scope.spawn(|| town.database.delete("users", &bob.key));
            (vote.join().unwrap(), delete.join().unwrap())
        });
        assert!(deleted.is_ok(), "round {round}");
        let feed = town.database.feed();
        let place = |word: &str| feed.iter().position(|line| line.contains(word));
        match voted {
            Ok(_) => assert!(place("votes") < place("deleted"), "round {round}: {feed:?}"),
            Err(error) => assert!(error.to_string().contains("refers_to"), "{error}"),
        }
    }
}

#[test]
fn r13_two_votes_of_one_voter_for_one_target_are_both_kept_in_time_order() {
    let town = Town::new();
    let first = town.database.create("votes", &town.vote(1)).unwrap();
    let second = town.database.create("votes", &town.vote(1)).unwrap();
    town.database.system.pass(Seconds(1));
    let third = town.database.create("votes", &town.vote(-1)).unwrap();
    assert!(first.key < second.key && second.key < third.key);
    for vote in [first, second, third] {
        assert_eq!(town.database.get("votes", &vote.key), Some(vote));
    }
    assert_eq!(town.reputation(), Some((1, 3)));
}

#[test]
fn r15_a_vote_and_its_reputation_are_both_there_or_neither_whatever_store_call_fails() {
    for fault in every_fault() {
        let fresh = || {
            let town = Town::new();
            town.database.create("votes", &town.vote(1)).unwrap();
            town.database
        };
        let town = Town::new();
        at_every_call(
            &fault,
            fresh,
            |database| database.create("votes", &town.vote(1)),
            |database, result| {
                let votes = database.count("votes");
                let seen = Town { database: database.clone(), ..Town::new() };
                assert_eq!(seen.reputation(), Some((votes as i64, votes as i64)), "{fault:?}");
                match result {
                    Ok(_) => assert_eq!(votes, 2, "{fault:?}"),
                    Err(Error::Unavailable(_)) => assert_eq!(votes, 1, "{fault:?}"),
                    Err(Error::OutcomeUnknown(_)) => {}
                    Err(other) => panic!("{fault:?}: {other}"),
                }
            },
        );
    }
}

#[test]
fn r16_a_reputation_follows_when_votes_change_or_go() {
    let town = Town::new();
    let vote = town.database.create("votes", &town.vote(1)).unwrap();
    let other = town.database.create("votes", &town.vote(1)).unwrap();
    let vote = town.database.patch("votes", &vote, &json!({"value": -1})).unwrap();
    assert_eq!(town.reputation(), Some((0, 2)));
    town.database.delete("votes", &vote.key).unwrap();
    assert_eq!(town.reputation(), Some((1, 1)));
    town.database.delete("votes", &other.key).unwrap();
    assert_eq!(town.reputation(), Some((0, 0)));
    town.database.assert_sound();
}

#[test]
fn a_batch_of_votes_changes_each_reputation_once() {
    let town = Town::new();
    let gone = town.database.create("votes", &town.vote(-1)).unwrap();
    let before = town.database.feed().len();
    let vote = || operation("votes", action::create(&town.vote(1)));
    let delete = operation("votes", action::delete(&gone.key, Precondition::Any));
    town.database.batch(&[vote(), delete, vote()]).unwrap();
    assert_eq!(town.reputation(), Some((2, 2)));
    let feed = &town.database.feed()[before..];
    let moved = feed.iter().filter(|line| line.starts_with("updated reputations")).count();
    assert_eq!((feed.len(), moved), (4, 1), "{feed:?}");
    town.database.assert_sound();
}

#[test]
fn a_change_of_a_vote_that_does_not_count_leaves_the_reputation_alone() {
    let town = Town::new();
    let vote = town.database.create("votes", &town.vote(1)).unwrap();
    let before = town.database.get("reputations", &town.reputation_key());
    town.database.patch("votes", &vote, &json!({"value": 1})).unwrap();
    assert_eq!(town.database.get("reputations", &town.reputation_key()), before);
}

#[test]
fn nobody_but_the_engine_writes_sums_and_counts() {
    let town = Town::new();
    let own = |score: i64| json!({"usr_key": town.bob, "tag_key": town.tag, "score": score});
    let expected =
        "rule_violation: reputations.score: derive: the engine keeps this field, nobody else";
    assert_eq!(code(town.database.create("reputations", &own(5))), expected);
    town.database.create("votes", &town.vote(1)).unwrap();
    let kept = town.database.get("reputations", &town.reputation_key()).unwrap();
    assert_eq!(code(town.database.patch("reputations", &kept, &json!({"score": 5}))), expected);
    let title = town.database.patch("reputations", &kept, &json!({"title": "expert"})).unwrap();
    assert_eq!(town.reputation(), Some((1, 1)));
    town.database.create("votes", &town.vote(1)).unwrap();
    let after = town.database.get("reputations", &title.key).unwrap();
    assert_eq!((field(&after, "title"), town.reputation()), (json!("expert"), Some((2, 2))));
    town.database.assert_sound();
}

#[test]
fn a_reputation_that_counts_votes_can_be_neither_deleted_nor_moved() {
    let schema = REPUTATION.replace(
        "usr_key = { type = \"ulid\", required = true, frozen = true }\ntag_key",
        "usr_key = { type = \"ulid\", required = true }\ntag_key",
    );
    assert_ne!(schema, REPUTATION);
    let town = Town::new();
    town.database.apply(&schema).unwrap();
    let vote = town.database.create("votes", &town.vote(1)).unwrap();
    let against = town.database.create("votes", &town.vote(-1)).unwrap();
    let kept = town.database.get("reputations", &town.reputation_key()).unwrap();
    let refused = code(town.database.patch("reputations", &kept, &json!({"usr_key": town.ann})));
    let rule = "derive: the engine keeps this field, nobody else";
    assert_eq!(refused, format!("rule_violation: reputations.usr_key: {rule}"));
    let refused = code(town.database.delete("reputations", &kept.key));
    let rule = "derive: documents of `votes` are counted in it: delete those first";
    assert_eq!(refused, format!("rule_violation: reputations.votes: {rule}"));
    town.database.delete("votes", &vote.key).unwrap();
    town.database.delete("votes", &against.key).unwrap();
    town.database.delete("reputations", &kept.key).unwrap();
    town.database.create("votes", &town.vote(1)).unwrap();
    assert_eq!(town.reputation(), Some((1, 1)));
    town.database.assert_sound();
}

#[test]
fn a_sum_that_does_not_fit_is_refused_and_nothing_is_written() {
    let database = Database::new(
        r#"
        [collections.parts]
        key = "{id}"
        fields.id = { type = "id", required = true }
        fields.group = { type = "id", required = true }
        fields.size = { type = "i64", required = true }

        [collections.sums]
        key = "{group}"
        fields.group = { type = "id", required = true }
        fields.size = { type = "i64" }
        derive = { from = "parts", group = { group = "group" }, sum = { size = "size" } }
        "#,
    );
    let part = |id: &str, size: i64| json!({"id": id, "group": "g", "size": size});
    database.create("parts", &part("a", i64::MAX)).unwrap();
    let entries = database.entries();
    assert_eq!(
        code(database.create("parts", &part("b", 1))),
        "rule_violation: sums.size: derive: the sum does not fit 64 bits"
    );
    assert_eq!(database.entries(), entries);
    database.create("parts", &part("c", i64::MIN)).unwrap();
    assert_eq!(field(&database.get("sums", "g").unwrap(), "size"), json!(-1));
    database.assert_sound();
    // What is added on the way need not fit, what comes out has to.
    let create = |id: &str, size| operation("parts", action::create(&part(id, size)));
    let entries = database.entries();
    let twice = [create("d", i64::MAX), create("e", i64::MAX)];
    assert_eq!(
        code(database.batch(&twice)),
        "rule_violation: sums.size: derive: the sum does not fit 64 bits"
    );
    assert_eq!(database.entries(), entries);
    database
        .batch(&[create("d", i64::MAX), create("e", i64::MAX), create("f", -i64::MAX)])
        .unwrap();
    assert_eq!(field(&database.get("sums", "g").unwrap(), "size"), json!(i64::MAX - 1));
    database.assert_sound();
    database.delete("parts", "d").unwrap();
    database.delete("parts", "c").unwrap();
    assert_eq!(field(&database.get("sums", "g").unwrap(), "size"), json!(i64::MAX));
    database.assert_sound();
}
