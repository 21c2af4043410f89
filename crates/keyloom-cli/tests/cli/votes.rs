//! Votes and what follows from them, written on the command line.

use serde_json::{Value as Json, json};

use crate::program::{Database, ENGINES, column, text};

struct Town {
    database: Database,
    users: Vec<String>,
    tag: String,
}

impl Town {
    fn new(engine: &str) -> Town {
        let database = Database::new(engine, &["reputation"]);
        let user = |name: &str| {
            let data = json!({ "username": name, "display_name": name }).to_string();
            text(&database.create("users", &data), "/data/usr_key").to_owned()
        };
        let users: Vec<String> = ["ann", "bob", "cid"].map(user).to_vec();
        let tag = json!({ "usr_key": users[0], "name": "cooking" }).to_string();
        let tag = text(&database.create("tags", &tag), "/data/tag_key").to_owned();
        Town { database, users, tag }
    }

    fn vote(&self, by: usize, of: usize, value: impl Into<Json>) -> String {
        let value: Json = value.into();
        json!({
            "usr_key": self.users[by], "tag_key": self.tag, "tar_key": self.users[of],
            "value": value,
        })
        .to_string()
    }

    /// Sum and number of the votes for a user.
    fn reputation(&self, of: usize) -> (i64, i64) {
        let key = format!("usr_{}_tag_{}", self.users[of], self.tag);
        let found = self.database.json(&["get", "reputations", &key]);
        let number = |name: &str| found["data"][name].as_i64().unwrap();
        (number("score"), number("votes"))
    }
}

#[test]
fn r15_r16_a_reputation_follows_its_votes() {
    for engine in ENGINES {
        let town = Town::new(engine);
        let first = town.database.create("votes", &town.vote(0, 1, 1));
        town.database.create("votes", &town.vote(2, 1, -1));
        town.database.create("votes", &town.vote(2, 1, 1));
        assert_eq!(town.reputation(1), (1, 3));
        let key = text(&first, "/key");
        town.database.run(&["delete", "votes", key, "--if-version", "*"]).ok();
        assert_eq!(town.reputation(1), (0, 2));
        assert!(town.database.run(&["check"]).ok().ends_with("all agree\n"));
    }
}

#[test]
fn r12_votes_that_are_no_votes_are_refused() {
    let town = Town::new("redb");
    let refuses = |data: &str, words: &str| town.database.refuses(&["put", "votes", data], words);
    for value in [json!(0), json!(2), json!(0.5), json!("1")] {
        refuses(&town.vote(0, 1, value), "votes.value: ");
    }
    refuses(&town.vote(1, 1, 1), "votes.usr_key: differs_from");
    let nobody = town.vote(0, 1, 1).replace(&town.users[1], "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    refuses(&nobody, "votes.tar_key: refers_to");
    let nothing = town.vote(0, 1, 1).replace(&town.tag, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    refuses(&nothing, "votes.tag_key: refers_to");
}

#[test]
fn r11_votes_are_found_by_every_question_and_counted() {
    for engine in ENGINES {
        let town = Town::new(engine);
        let votes = [(0, 1, 1), (0, 2, 1), (2, 1, -1)];
        for (by, of, value) in votes {
            town.database.create("votes", &town.vote(by, of, value));
        }
        let (by, of) = (format!("usr_key={}", town.users[0]), format!("tar_key={}", town.users[1]));
        let tag = format!("tag_key={}", town.tag);
        let cases: [(&[&str], usize, &str); 4] = [
            (&[&by, &tag], 2, "key"),
            (&[&tag, &of], 2, "index:tag_target"),
            (&[&of], 2, "index:target"),
            (&[&tag, "created_at.gt=0", "--order", "-created_at"], 3, "index:recent"),
        ];
        for (conditions, expected, path) in cases {
            let line = [&["query", "votes", "--explain"][..], conditions].concat();
            let page = town.database.json(&line);
            assert_eq!(column(&page, "vote_key").len(), expected, "{conditions:?}");
            assert_eq!(text(&page, "/plan/path"), path, "{conditions:?}");
            assert_eq!(page["cost"]["keys_read"], json!(expected), "{conditions:?}");
            let fields: Vec<&str> =
                conditions.iter().copied().take_while(|word| *word != "--order").collect();
            let count = town.database.json(&[&["count", "votes"][..], &fields].concat());
            assert_eq!(count["count"], json!(expected), "{conditions:?}");
        }
    }
}

#[test]
fn reputations_are_kept_by_the_engine_and_not_written_by_hand() {
    let town = Town::new("redb");
    let data = json!({ "usr_key": town.users[0], "tag_key": town.tag, "score": 99, "votes": 1 });
    town.database.refuses(&["put", "reputations", &data.to_string()], "reputations.");
}
