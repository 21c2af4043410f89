//! The sample data of the demo: always the same but for identities and the time.

use keyloom_engine::{Action, Actor, Document, Engine, Operation};
use serde_json::{Value as Json, json};

use crate::output::counted;
use crate::problem::Failure;

/// What the story needs to know of the sample data.
pub(super) struct Sample {
    /// When it was loaded, in milliseconds.
    pub(super) now: i64,
    /// An approval that is still pending.
    pub(super) pending: Document,
    /// The code of an approval.
    pub(super) code: String,
    /// The documents of users, in the order of [`USERS`].
    pub(super) users: Vec<Document>,
    /// The identities of users.
    pub(super) user_keys: Vec<String>,
    /// The identities of tags.
    pub(super) tag_keys: Vec<String>,
    /// What there is, in words.
    pub(super) counts: String,
}

/// The people of the story.
const USERS: [(&str, &str); 6] = [
    ("Ada", "Ada Lovelace"),
    ("Grace", "Grace Hopper"),
    ("Edsger", "Edsger Dijkstra"),
    ("Barbara", "Barbara Liskov"),
    ("Ken", "Ken Thompson"),
    ("Lynn", "Lynn Conway"),
];

const TAGS: [&str; 3] = ["compilers", "teaching", "coffee"];

const PEOPLE: [&str; 5] = ["ann", "bob", "cid", "dora", "eve"];

const WISHES: [&str; 6] =
    ["New laptop", "Travel to Lisbon", "Two more weeks", "A second screen", "Access", "A plant"];

const APPROVALS: i64 = 240;

const MINUTE: i64 = 60_000;

/// (author, file, value, set): the stickers of the story.
const STICKERS: [(&str, &str, &str, Option<&str>); 12] = [
    ("u1", "f1", "hello world", Some("set1")),
    ("u2", "f2", "hello there", Some("set1")),
    ("u2", "f3", "there it is", Some("set2")),
    ("u1", "f4", "reuse 1", None),
    ("u2", "f4", "reuse 2", None),
    ("u2", "f5", "setless file", None),
    ("u1", "f6", "good morning", Some("set2")),
    ("u1", "f6", "good night", Some("set2")),
    ("u3", "f6", "good grief", Some("set2")),
    ("u3", "f7", "helicopter", Some("set2")),
    ("u3", "f8", "thanks", None),
    ("u3", "f8", "thank you", None),
];

/// Creates the sample data.
pub(super) async fn load(engine: &Engine, now: i64) -> Result<Sample, Failure> {
    let users = USERS.map(|(name, shown)| json!({ "username": name, "display_name": shown }));
    let users = create(engine, "users", users.to_vec()).await?;
    let user_keys = fields(&users, "usr_key");
    let [first, ..] = user_keys.as_slice() else { return Err(lost("users")) };
    let tags = TAGS.map(|name| json!({ "usr_key": first, "name": name }));
    let tag_keys = fields(&create(engine, "tags", tags.to_vec()).await?, "tag_key");
    let votes = create(engine, "votes", votes(&user_keys, &tag_keys, now)).await?.len();
    let approvals = create(engine, "approvals", approvals(now)).await?;
    let stickers = STICKERS.map(|(author, file, value, set)| match set {
        Some(set) => json!({ "author": author, "file": file, "value": value, "set": set }),
        None => json!({ "author": author, "file": file, "value": value }),
    });
    let stickers = create(engine, "sticker_tags", stickers.to_vec()).await?.len();
    let count =
        |number: usize, thing: &str| counted(u64::try_from(number).unwrap_or(u64::MAX), thing);
    let counts = [
        count(approvals.len(), "approval"),
        count(users.len(), "user"),
        count(tag_keys.len(), "tag"),
        count(votes, "vote"),
        count(stickers, "sticker tag"),
    ];
    let pending = approvals.iter().find(|document| field(document, "status") == "pending");
    let pending = pending.cloned().ok_or_else(|| lost("approvals"))?;
    let code = approvals.get(17).map(|document| field(document, "code")).unwrap_or_default();
    Ok(Sample { now, pending, code, users, user_keys, tag_keys, counts: counts.join(", ") })
}

/// Everybody votes for everybody else, on every tag, every few minutes.
fn votes(users: &[String], tags: &[String], now: i64) -> Vec<Json> {
    let mut votes = Vec::new();
    for (by, voter) in users.iter().enumerate() {
        for (of, target) in users.iter().enumerate().filter(|(of, _)| *of != by) {
            for (on, tag) in tags.iter().enumerate() {
                let value = if (by * 5 + of * 3 + on * 7).is_multiple_of(4) { -1 } else { 1 };
                let age = i64::try_from(90 - votes.len()).unwrap_or(0);
                votes.push(json!({
                    "usr_key": voter, "tag_key": tag, "tar_key": target, "value": value,
                    "created_at": now - age * 7 * MINUTE,
                }));
            }
        }
    }
    votes
}

/// One request every 17 minutes, the newest just now; every fourth is still open.
fn approvals(now: i64) -> Vec<Json> {
    let people = || PEOPLE.iter().cycle();
    let wishes = WISHES.iter().cycle();
    let pairs = people().zip(people().skip(2)).zip(wishes).zip((0..APPROVALS).rev());
    let requests = pairs.map(|(((requester, approver), wish), age)| {
        let created_at = now - age * 17 * MINUTE;
        let mut request = json!({
            "requester": requester, "approver": approver, "description": wish,
            "created_at": created_at,
        });
        let decided = match age % 4 {
            0 => return request,
            3 => ("denied", "urgent, but no"),
            _ => ("approved", "fine with me"),
        };
        if let Some(members) = request.as_object_mut() {
            members.insert("status".to_owned(), json!(decided.0));
            members.insert("comment".to_owned(), json!(decided.1));
            members.insert("decided_at".to_owned(), json!(created_at + 5 * MINUTE));
        }
        request
    });
    requests.collect()
}

/// Creates documents in one commit.
async fn create(
    engine: &Engine,
    collection: &str,
    data: Vec<Json>,
) -> Result<Vec<Document>, Failure> {
    let operations: Vec<Operation> = data
        .into_iter()
        .map(|data| Operation {
            collection: collection.to_owned(),
            action: Action::Create {
                key: None,
                data: data.to_string().into_bytes(),
                description: None,
            },
        })
        .collect();
    let written = engine.batch(&Actor::Local, &operations).await?;
    Ok(written.into_iter().filter_map(keyloom_engine::Written::into_document).collect())
}

fn fields(documents: &[Document], name: &str) -> Vec<String> {
    documents.iter().map(|document| field(document, name)).collect()
}

/// A text of a document's data.
pub(super) fn field(document: &Document, name: &str) -> String {
    let data: Json = serde_json::from_slice(&document.data).unwrap_or_default();
    data.get(name).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn lost(what: &str) -> Failure {
    Failure::Invalid(format!("the sample has no {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_votes_for_everybody_else_and_nobody_for_himself() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let people: Vec<String> = names(&["a", "b", "c"]);
        let votes = votes(&people, &names(&["t", "u"]), 0);
        assert_eq!(votes.len(), 12);
        assert!(votes.iter().all(|vote| vote["usr_key"] != vote["tar_key"]));
        assert!(votes.iter().any(|vote| vote["value"] == -1));
    }

    #[test]
    fn approvals_differ_in_people_and_a_quarter_is_open() {
        let approvals = approvals(0);
        assert_eq!(approvals.len(), 240);
        assert!(approvals.iter().all(|one| one["requester"] != one["approver"]));
        assert_eq!(approvals.iter().filter(|one| one.get("status").is_none()).count(), 60);
        assert_eq!(approvals[239]["created_at"], 0);
    }
}
