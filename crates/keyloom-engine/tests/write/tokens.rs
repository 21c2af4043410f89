//! Tokens: made once, shown once, refused in one way.

use std::collections::{BTreeMap, BTreeSet};

use keyloom_engine::{Actor, Identity, Mode, NewToken, Right, Role, Scopes, Secret, Token};
use keyloom_key::Space;
use pollster::block_on;

use crate::support::{Database, Seconds, code};

fn database() -> Database {
    Database::empty(Mode::Development)
}

fn token(subject: &str) -> NewToken {
    let scopes = Scopes::default();
    NewToken { subject: subject.to_owned(), role: Role::User, scopes, expires_at: None }
}

fn create(database: &Database, new: &NewToken) -> (Token, Secret) {
    block_on(database.engine.create_token(new)).unwrap()
}

fn authenticate(database: &Database, text: &str) -> Option<Identity> {
    block_on(database.engine.authenticate(text)).unwrap()
}

#[test]
fn a_caller_is_known_by_his_token() {
    let database = database();
    assert!(!block_on(database.engine.has_tokens()).unwrap());
    let (_, ann) = create(&database, &token("ann"));
    let (_, root) = create(&database, &NewToken { role: Role::Admin, ..token("root") });
    let found = authenticate(&database, ann.expose()).unwrap();
    assert_eq!(found.actor, Actor::User("ann".to_owned()));
    assert!(found.scopes.is_everything());
    let found = authenticate(&database, root.expose()).unwrap();
    assert_eq!(found.actor, Actor::Admin("root".to_owned()));
    assert!(block_on(database.engine.has_tokens()).unwrap());
}

#[test]
fn a_secret_is_neither_stored_nor_printed() {
    let database = database();
    let (token, secret) = create(&database, &token("ann"));
    let text = secret.expose();
    let hidden = text.split_at("keyloom_".len() + 27).1;
    assert!(text.starts_with(&format!("keyloom_{}_", token.id)) && hidden.len() == 43, "{text}");
    for entry in database.entries() {
        let stored = String::from_utf8_lossy(&entry.stored.value).into_owned();
        assert!(!stored.contains(hidden), "{stored}");
    }
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    assert_eq!(database.keys(Space::Token).len(), 1);
}

#[test]
fn every_token_that_is_not_quite_right_is_refused_alike() {
    let database = database();
    let (_, secret) = create(&database, &token("ann"));
    let (_, other) = create(&database, &token("bob"));
    let text = secret.expose();
    for end in 0..text.len() {
        assert_eq!(authenticate(&database, text.split_at(end).0), None, "cut after {end}");
    }
    for place in 0..text.len() {
        let mut bytes = text.as_bytes().to_vec();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert_eq!(authenticate(&database, &changed), None, "changed at {place}");
    }
    let (head, tail) = (text.split_at(35).0, other.expose().split_at(35).1);
    for wrong in [format!("{text}A"), format!(" {text}"), format!("{head}{tail}"), "é".repeat(40)]
    {
        assert_eq!(authenticate(&database, &wrong), None, "{wrong}");
    }
}

#[test]
fn a_token_ends_when_it_expires_and_at_once_when_it_is_revoked() {
    let database = database();
    let now = block_on(database.engine.create_token(&token("x"))).unwrap().0.created_at;
    let brief = NewToken { expires_at: Some(now + 5000), ..token("ann") };
    let (_, brief) = create(&database, &brief);
    let (kept, secret) = create(&database, &token("bob"));
    database.system.pass(Seconds(4));
    assert!(authenticate(&database, brief.expose()).is_some());
    database.system.pass(Seconds(1));
    assert_eq!(authenticate(&database, brief.expose()), None);
    // Another engine on the same store revokes it, and this one knows.
    let beside = database.beside(Mode::Development);
    assert!(authenticate(&database, secret.expose()).is_some());
    assert!(block_on(beside.engine.revoke_token(&kept.id)).unwrap());
    assert_eq!(authenticate(&database, secret.expose()), None);
    assert!(!block_on(beside.engine.revoke_token(&kept.id)).unwrap());
    let past = NewToken { expires_at: Some(now), ..token("ann") };
    let refused = code(block_on(database.engine.create_token(&past)));
    assert_eq!(refused, "invalid_argument: the token would have expired already");
}

#[test]
fn tokens_are_listed_oldest_first_page_by_page() {
    let database = database();
    let made: Vec<String> =
        ["a", "b", "c", "d", "e"].iter().map(|name| create(&database, &token(name)).0.id).collect();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = block_on(database.engine.tokens(after.as_deref(), Some(2))).unwrap();
        listed.extend(page.tokens.into_iter().map(|token| token.id));
        match page.next {
            None => break,
            next => after = next,
        }
    }
    assert_eq!(listed, made);
    assert!(
        code(block_on(database.engine.tokens(Some("x"), None))).starts_with("invalid_argument")
    );
    assert!(code(block_on(database.engine.revoke_token("x"))).starts_with("invalid_argument"));
}

#[test]
fn scopes_are_kept_and_say_what_a_token_is_for() {
    let database = database();
    let rights = |rights: &[Right]| rights.iter().copied().collect::<BTreeSet<_>>();
    let scopes = BTreeMap::from([
        ("notes".to_owned(), rights(&[Right::Read, Right::Write])),
        ("logs".to_owned(), rights(&[])),
        ("*".to_owned(), rights(&[Right::Read])),
    ]);
    let new = NewToken { scopes: Scopes(scopes), ..token("ann") };
    let (_, secret) = create(&database, &new);
    let scopes = authenticate(&database, secret.expose()).unwrap().scopes;
    assert!(scopes.allow("notes", Right::Write) && scopes.allow("notes", Right::Read));
    assert!(!scopes.allow("logs", Right::Read));
    assert!(scopes.allow("others", Right::Read) && !scopes.allow("others", Right::Write));
    assert!(!scopes.is_everything());
    assert!(Scopes::default().allow("any", Right::Write));
}

#[test]
fn a_token_needs_a_subject() {
    let database = database();
    for subject in ["", "a\nb", &"x".repeat(129)] {
        let refused = code(block_on(database.engine.create_token(&token(subject))));
        assert!(refused.contains("a subject has 1 to 128 bytes"), "{refused}");
    }
    assert_eq!(database.entries(), []);
}
