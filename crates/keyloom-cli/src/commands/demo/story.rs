//! What the demo tells: three schemas, their questions, and what is refused.

use super::guide::Guide;
use super::sample::{Sample, field};
use crate::problem::Failure;

pub(super) async fn approvals(guide: &mut Guide<'_, '_>, sample: &Sample) -> Result<(), Failure> {
    guide.chapter(
        "Approvals: somebody asks, somebody else decides",
        "Each request is found by its requester, its approver, its status and its code.",
    )?;
    let fields = "--select=code,requester,approver,status,created_at";
    let newest = ["--order", "-created_at", "--limit", "3", fields, "--explain"];
    guide
        .ask(
            "What did ann ask for? The three newest.",
            &[&["query", "approvals", "requester=ann"][..], &newest].concat(),
        )
        .await?;
    let both = ["query", "approvals", "--any", "requester=ann", "--any", "approver=ann"];
    guide
        .ask(
            "Everything that concerns ann, asked or to decide: one list, merged from two indexes.",
            &[&both[..], &newest].concat(),
        )
        .await?;
    let limit = format!("created_at.lt={}", sample.now - 30 * 60_000);
    guide
        .ask(
            "What has been waiting for more than 30 minutes? The oldest first.",
            &[
                "query",
                "approvals",
                "status=pending",
                &limit,
                "--order",
                "created_at",
                "--limit",
                "3",
                fields,
                "--explain",
            ],
        )
        .await?;
    guide
        .ask(
            "Somebody reads a code aloud. A unique claim finds the request with two reads.",
            &["get", "approvals", "--unique", "code", &sample.code],
        )
        .await?;
    approvals_writes(guide, sample).await?;
    let hour = format!("decided_at.gte={}", sample.now - 3_600_000);
    guide
        .refused(
            "no_index",
            "What was decided in the last hour? No key leads with that time: refused, with the key \
             to add.",
            &["query", "approvals", &hour],
        )
        .await?;
    guide
        .ask(
            "If it has to be, a scan with a budget. It says that it was one.",
            &["query", "approvals", &hour, "--scan", "1000", fields, "--explain"],
        )
        .await
}

async fn approvals_writes(guide: &mut Guide<'_, '_>, sample: &Sample) -> Result<(), Failure> {
    let wish = r#"{"requester": "ann", "approver": "bob", "description": "A plant"}"#;
    guide
        .ask(
            "Which keys does a new request write? All of them, in one commit.",
            &["put", "approvals", wish, "--explain"],
        )
        .await?;
    let key = sample.pending.key.as_str();
    let version = sample.pending.version.to_string();
    let approve = r#"{"status": "approved", "comment": "have fun"}"#;
    let patch = ["--key", key, "--patch", "--if-version"];
    guide
        .ask(
            "The approver says yes, based on the version that he has seen.",
            &[&["put", "approvals", approve][..], &patch, &[&version]].concat(),
        )
        .await?;
    let deny = r#"{"status": "denied"}"#;
    guide
        .refused(
            "version_conflict",
            "Another one decides on the same version: too late, and nothing is overwritten.",
            &[&["put", "approvals", deny][..], &patch, &[&version]].concat(),
        )
        .await?;
    guide
        .refused(
            "rule_violation",
            "He insists, whatever the version. The schema says that a decision is final.",
            &[&["put", "approvals", deny][..], &patch, &["*"]].concat(),
        )
        .await
}

pub(super) async fn reputation(guide: &mut Guide<'_, '_>, sample: &Sample) -> Result<(), Failure> {
    guide.chapter(
        "Reputation: votes add up",
        "Users vote for each other on tags. The sum is kept by the commit that writes the vote.",
    )?;
    let [ada, grace, ..] = sample.user_keys.as_slice() else { return Ok(()) };
    let [compilers, ..] = sample.tag_keys.as_slice() else { return Ok(()) };
    let on = format!("tag_key={compilers}");
    let top = ["--order", "-score", "--limit", "3", "--select", "usr_key,score", "--explain"];
    guide
        .ask(
            "Who is best at compilers? The index holds all that is asked: no document is read.",
            &[&["query", "reputations", &on][..], &top].concat(),
        )
        .await?;
    let target = format!("tar_key={ada}");
    guide
        .ask(
            "Who voted for Ada on compilers? The key leads with the voter, an index with the tag.",
            &["query", "votes", &on, &target, "--select", "usr_key,value", "--explain"],
        )
        .await?;
    let vote = format!(
        r#"{{"usr_key": "{grace}", "tag_key": "{compilers}", "tar_key": "{ada}", "value": 1}}"#
    );
    guide
        .ask(
            "What does one vote write? Itself, its keys, and the reputation with its own.",
            &["put", "votes", &vote, "--explain"],
        )
        .await?;
    guide.ask("Grace votes for Ada.", &["put", "votes", &vote]).await?;
    let reputation = format!("usr_{ada}_tag_{compilers}");
    guide.ask("Ada's reputation is one higher.", &["get", "reputations", &reputation]).await?;
    let own = vote.replace(ada, grace);
    guide.refused("rule_violation", "Grace votes for herself.", &["put", "votes", &own]).await?;
    reputation_keys(guide, sample, compilers, ada).await
}

async fn reputation_keys(
    guide: &mut Guide<'_, '_>,
    sample: &Sample,
    tag: &str,
    target: &str,
) -> Result<(), Failure> {
    let inner = format!("tag_{tag}_tar_{target}_");
    guide
        .ask(
            "The list matcher takes expressions on keys: this one names the middle of a key, and \
             is answered from the index that leads with it.",
            &["list", "votes", "--key", &inner, "--limit", "2", "--explain"],
        )
        .await?;
    guide
        .refused(
            "invalid_argument",
            "A misspelled segment is an error, not an empty list.",
            &["list", "votes", "--key", "^USR_"],
        )
        .await?;
    let Some(grace) = sample.users.get(1) else { return Ok(()) };
    let version = grace.version.to_string();
    guide
        .ask(
            &format!(
                "{} takes another name: the document moves, the claim is swapped, references stay.",
                field(grace, "username")
            ),
            &[
                "put",
                "users",
                r#"{"username": "AmazingGrace"}"#,
                "--key",
                &grace.key,
                "--patch",
                "--if-version",
                &version,
            ],
        )
        .await?;
    guide
        .ask(
            "She is found by the new name, in any case; the old one is free.",
            &["get", "users", "--unique", "username", "amazinggrace"],
        )
        .await
}

pub(super) async fn stickers(guide: &mut Guide<'_, '_>) -> Result<(), Failure> {
    guide.chapter(
        "Stickers: found by how a text begins",
        "Authors give texts to sticker files. All texts of one author for one file are one set.",
    )?;
    guide
        .ask(
            "Which files have a text that begins with \"hel\"?",
            &["query", "sticker_tags", "value.prefix=hel", "--explain"],
        )
        .await?;
    guide
        .ask(
            "\"reuse\" was given to one file by two authors: each file comes once.",
            &["query", "sticker_tags", "value.prefix=reuse", "--distinct", "file", "--explain"],
        )
        .await?;
    guide
        .ask(
            "Did u1 tag anything in set2? One key tells.",
            &["exists", "sticker_tags", "set=set2", "author=u1", "--explain"],
        )
        .await?;
    let lines = concat!(
        r#"{"author": "u1", "file": "f6", "value": "good night", "set": "set2"}"#,
        "\n",
        r#"{"author": "u1", "file": "f6", "value": "sleep well", "set": "set2"}"#
    );
    guide
        .ask(
            "u1 replaces all texts of f6: the old set or the new one, never a mixture.",
            &["replace", "sticker_tags", "values", "u1", "f6", "--from", lines],
        )
        .await?;
    guide
        .ask(
            "The keys as they are stored, in text spelling.",
            &["keys", "sticker_tags", "--prefix", "u1#"],
        )
        .await
}

pub(super) async fn ending(guide: &mut Guide<'_, '_>) -> Result<(), Failure> {
    guide.chapter("In the end", "Every document has all its keys, and every key its document.")?;
    guide.ask("Do documents and keys agree?", &["check"]).await?;
    guide.remark("")?;
    guide.remark(
        "Next: `keyloom schema apply schemas/approvals.toml --data DIR`, and `keyloom help`.",
    )
}
