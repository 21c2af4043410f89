//! Tokens: by which a caller on a network is known.
//!
//! ```text
//! keyloom_<id: ULID>_<secret: 32 random bytes, URL-safe base64>          shown once
//!
//! key    [ space 07 ][ 0 0 ][ 0 0 ][ id: 16 bytes ]
//! value  01 | JSON: {"subject", "role", "scopes", "created_at", "expires_at"?, "hash"}
//! ```
//!
//! T1: A secret is never stored, logged or shown again; what is stored is its SHA-256. A slow hash
//!     would protect nothing more: nobody guesses 256 random bits, however quick a guess is. It
//!     would only make every request slow.
//! T2: A token is read from the store whenever it is used, so a revoked one is refused at once, by
//!     every server on the same store.
//! T3: A token that is malformed, unknown, revoked or expired, or has a wrong secret, is refused in
//!     one way, and secrets are compared in constant time: an answer tells nothing about others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use keyloom_key::{Head, Space, Ulid};
use keyloom_store::{
    Check, Commit, CommitOutcome, Direction, Expect, KeyRange, ScanOptions, Sharing, Stored, Write,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::engine::{Actor, Engine};
use crate::error::Error;
use crate::limits::{OWNER_BYTES_MAX, PAGE_LIMIT_DEFAULT, TOKEN_SCOPES_MAX};
use crate::query::check_limit;

/// The format of a stored token, its first byte.
const FORMAT: u8 = 1;

/// How every token begins, so that people and programs that look for leaked ones know it.
const PREFIX: &str = "keyloom_";

/// The characters of an id in a token.
const ID_CHARS: usize = 26;

const SECRET_BYTES: usize = 32;

/// Who is known by a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// An administrator.
    Admin,
    /// A user.
    User,
}

/// What a token may be used for in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Reading documents.
    Read,
    /// Creating, changing and deleting them.
    Write,
}

/// What a token may be used for, by collection; `*` stands for all others. Empty is everything.
/// Scopes only take away: what the rules of a collection forbid stays forbidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(pub BTreeMap<String, BTreeSet<Right>>);

/// A token to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Who is known by it; the owner of what is created with it.
    pub subject: String,
    /// As what.
    pub role: Role,
    /// What for.
    pub scopes: Scopes,
    /// Until when, in milliseconds since 1970; without it, until it is revoked.
    pub expires_at: Option<u64>,
}

/// What there is to know of a token; not its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// By which it is revoked.
    pub id: String,
    /// Who is known by it.
    pub subject: String,
    /// As what.
    pub role: Role,
    /// What for.
    pub scopes: Scopes,
    /// When it was created, in milliseconds since 1970.
    pub created_at: u64,
    /// Until when it is valid, in milliseconds since 1970.
    pub expires_at: Option<u64>,
}

/// A page of tokens, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPage {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// The id to go on after; `None` at the end.
    pub next: Option<String>,
}

/// The text that a caller sends. It is not printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Who a token says that its caller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// On whose behalf he asks.
    pub actor: Actor,
    /// What for.
    pub scopes: Scopes,
}

impl Engine {
    /// Makes a token. Its secret is given here and never again.
    pub async fn create_token(&self, new: &NewToken) -> Result<(Token, Secret), Error> {
        let NewToken { subject, role, scopes, expires_at } = new;
        check_subject(subject)?;
        if scopes.0.len() > TOKEN_SCOPES_MAX {
            let (what, found) = ("scopes of a token".to_owned(), scopes.0.len());
            return Err(Error::LimitExceeded { what, found, max: TOKEN_SCOPES_MAX });
        }
        let now = self.options.system.now_micros() / 1000;
        if expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(Error::invalid("the token would have expired already"));
        }
        let id = self.next_ulid()?;
        let mut secret = [0; SECRET_BYTES];
        self.options.system.random(&mut secret);
        let record = TokenRecord {
            subject: subject.clone(),
            role: *role,
            scopes: scopes.clone(),
            created_at: now,
            expires_at: *expires_at,
            hash: URL_SAFE_NO_PAD.encode(hash(&secret)),
        };
        let key = token_key(id);
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect: Expect::Absent }],
            writes: vec![Write::Put { key, value: record.encode() }],
            changes: Vec::new(),
        };
        match self.tokens_known.change(self.store.commit(Arc::new(commit))).await? {
            CommitOutcome::Committed { .. } => {}
            CommitOutcome::Conflict { .. } => return Err(Error::RetriesExhausted { attempts: 1 }),
        }
        let text = format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret));
        Ok((record.token(id), Secret(text)))
    }

    /// At most `limit` tokens behind an id, oldest first.
    pub async fn tokens(
        &self,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<TokenPage, Error> {
        let limit = check_limit(Some(limit.unwrap_or(PAGE_LIMIT_DEFAULT)))?;
        let (mut from, to) = head().whole();
        if let Some(after) = after {
            let id = Ulid::parse(after).map_err(|error| Error::invalid(error.to_string()))?;
            // The smallest key behind it: the same bytes and a zero.
            from = [&token_key(id)[..], &[0]].concat();
        }
        let options = ScanOptions { direction: Direction::Forward, limit: limit + 1 };
        let snapshot = self.store.snapshot().await?;
        let mut scan = snapshot.scan(&KeyRange { from, to }, options).await?;
        let mut entries: Vec<_> = scan.next(limit + 1).await?.into_iter().collect();
        let more = entries.len() > limit;
        entries.truncate(limit);
        let mut tokens = Vec::with_capacity(entries.len());
        for entry in &entries {
            let id = read_id(&entry.key)?;
            tokens.push(TokenRecord::decode(&entry.stored.value)?.token(id));
        }
        let next = tokens.last().filter(|_| more).map(|token| token.id.clone());
        Ok(TokenPage { tokens, next })
    }

    /// Makes a token invalid, at once; `false` if there is none with this id.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, Error> {
        let id = Ulid::parse(id).map_err(|error| Error::invalid(error.to_string()))?;
        let key = token_key(id);
        let Some(Stored { stamp, .. }) = self.store.snapshot().await?.get(&key).await? else {
            return Ok(false);
        };
        let commit = Commit {
            checks: vec![Check { key: key.clone(), expect: Expect::At(stamp) }],
            writes: vec![Write::Delete { key }],
            changes: Vec::new(),
        };
        let outcome = self.tokens_known.change(self.store.commit(Arc::new(commit))).await?;
        // A token never changes, so whoever was in between has revoked it.
        Ok(matches!(outcome, CommitOutcome::Committed { .. }))
    }

    /// Whether there are any tokens. Where the store belongs to this process, what was found is
    /// remembered until one is made or revoked.
    pub async fn has_tokens(&self) -> Result<bool, Error> {
        let is_own = self.store.limits().sharing == Sharing::Exclusive;
        let (since, known) = self.tokens_known.get();
        if let Some(known) = known.filter(|_| is_own) {
            return Ok(known);
        }
        let (from, to) = head().whole();
        let options = ScanOptions { direction: Direction::Forward, limit: 1 };
        let snapshot = self.store.snapshot().await?;
        let mut scan = snapshot.scan(&KeyRange { from, to }, options).await?;
        let found = !scan.next(1).await?.is_empty();
        self.tokens_known.learn(since, found);
        Ok(found)
    }

    /// Who the caller is that sends this text; `None` if it is no valid token (T3).
    pub async fn authenticate(&self, text: &str) -> Result<Option<Identity>, Error> {
        let Some((id, secret)) = read_text(text) else { return Ok(None) };
        let stored = self.store.snapshot().await?.get(&token_key(id)).await?;
        let Some(Stored { value, .. }) = stored else { return Ok(None) };
        let record = TokenRecord::decode(&value)?;
        let expected = URL_SAFE_NO_PAD.decode(&record.hash);
        let expected = expected.map_err(|_| Error::corrupt("the hash of a token"))?;
        let is_right = bool::from(hash(&secret).as_slice().ct_eq(&expected));
        let now = self.options.system.now_micros() / 1000;
        let is_expired = record.expires_at.is_some_and(|expires_at| expires_at <= now);
        if !is_right || is_expired {
            return Ok(None);
        }
        let actor = match record.role {
            Role::Admin => Actor::Admin(record.subject),
            Role::User => Actor::User(record.subject),
        };
        Ok(Some(Identity { actor, scopes: record.scopes }))
    }
}

impl From<Actor> for Identity {
    /// Somebody who is bound by no scopes.
    fn from(actor: Actor) -> Identity {
        Identity { actor, scopes: Scopes::default() }
    }
}

impl Scopes {
    /// Whether a right is within the scopes.
    pub fn allow(&self, collection: &str, right: Right) -> bool {
        let Scopes(scopes) = self;
        let rights = scopes.get(collection).or_else(|| scopes.get("*"));
        scopes.is_empty() || rights.is_some_and(|rights| rights.contains(&right))
    }

    /// Whether nothing is taken away.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }
}

impl Secret {
    /// The text, to be shown once to whom it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Whether there are tokens, as far as that is known.
#[derive(Debug, Default)]
pub(crate) struct TokensKnown(Mutex<TokensState>);

#[derive(Clone, Copy, Debug, Default)]
struct TokensState {
    is_any: Option<bool>,
    /// How often that was forgotten.
    forgotten: u64,
    /// How many commits change it just now. A caller who goes away leaves his counted: when it is
    /// written nobody can tell, and so nothing is remembered any more.
    changing: u64,
}

impl TokensKnown {
    fn get(&self) -> (u64, Option<bool>) {
        let state = self.lock();
        (state.forgotten, state.is_any)
    }

    /// Remembers what was found, unless it was forgotten since.
    fn learn(&self, since: u64, found: bool) {
        let mut state = self.lock();
        if state.forgotten == since && state.changing == 0 {
            state.is_any = Some(found);
        }
    }

    /// Runs a commit that may change it.
    async fn change<T>(&self, commit: impl Future<Output = T>) -> T {
        self.lock().changing += 1;
        self.forget();
        let outcome = commit.await;
        self.forget();
        self.lock().changing -= 1;
        outcome
    }

    fn forget(&self) {
        let mut state = self.lock();
        state.forgotten += 1;
        state.is_any = None;
    }

    fn lock(&self) -> MutexGuard<'_, TokensState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is stored of a token.
#[derive(Serialize, Deserialize)]
struct TokenRecord {
    subject: String,
    role: Role,
    scopes: Scopes,
    created_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// SHA-256 of the secret, in URL-safe base64.
    hash: String,
}

impl TokenRecord {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        serde_json::to_writer(&mut bytes, self).expect("a token has string keys only");
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<TokenRecord, Error> {
        match bytes.split_first() {
            Some((&FORMAT, json)) => {
                serde_json::from_slice(json).map_err(|_| Error::corrupt("a token cannot be read"))
            }
            Some((format, _)) => Err(Error::corrupt(format!(
                "a token has format {format}, this program reads {FORMAT}: use a newer one"
            ))),
            None => Err(Error::corrupt("a token is empty")),
        }
    }

    fn token(&self, id: Ulid) -> Token {
        Token {
            id: id.to_string(),
            subject: self.subject.clone(),
            role: self.role,
            scopes: self.scopes.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }
}

/// Refuses what is no subject.
pub(crate) fn check_subject(subject: &str) -> Result<(), Error> {
    let length = 1..=OWNER_BYTES_MAX;
    if length.contains(&subject.len()) && !subject.contains(char::is_control) {
        return Ok(());
    }
    let detail = format!("a subject has 1 to {OWNER_BYTES_MAX} bytes without control characters");
    Err(Error::invalid(detail))
}

fn hash(secret: &[u8]) -> Vec<u8> {
    Sha256::digest(secret).to_vec()
}

/// The id and the secret of a token as it is sent.
fn read_text(text: &str) -> Option<(Ulid, Vec<u8>)> {
    let (id, rest) = text.strip_prefix(PREFIX)?.split_at_checked(ID_CHARS)?;
    let secret = URL_SAFE_NO_PAD.decode(rest.strip_prefix('_')?).ok()?;
    (secret.len() == SECRET_BYTES).then_some(())?;
    Some((Ulid::parse(id).ok()?, secret))
}

fn head() -> Head {
    Head { space: Space::Token, collection: 0, template: 0 }
}

fn token_key(id: Ulid) -> Vec<u8> {
    let mut key = Vec::with_capacity(Head::BYTES + 16);
    head().write(&mut key);
    key.extend_from_slice(&id.to_bytes());
    key
}

fn read_id(key: &[u8]) -> Result<Ulid, Error> {
    let (_, packed) = Head::read(key).map_err(|error| Error::corrupt(error.to_string()))?;
    let bytes = packed.try_into().map_err(|_| Error::corrupt("a token's key is cut off"))?;
    Ok(Ulid::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn what_was_found_is_remembered_unless_a_commit_may_change_it() {
        let known = TokensKnown::default();
        let (before, _) = known.get();
        known.learn(before, false);
        assert_eq!(known.get().1, Some(false));
        pollster::block_on(known.change(ready(())));
        known.learn(before, false);
        assert_eq!(known.get().1, None, "it was found before the commit");
        {
            let mut change = std::pin::pin!(known.change(pending::<()>()));
            let mut context = Context::from_waker(Waker::noop());
            assert!(change.as_mut().poll(&mut context).is_pending());
        }
        let (since, _) = known.get();
        known.learn(since, false);
        assert_eq!(known.get().1, None, "nobody knows when a commit without a caller is written");
    }
}
