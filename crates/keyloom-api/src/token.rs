//! Tokens on the wire.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a token may be used for, by collection; `*` stands for all others. Empty is everything.
pub type Scopes = BTreeMap<String, BTreeSet<Right>>;

/// A token to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBody {
    /// Who is known by it.
    pub subject: String,
    /// As what.
    #[serde(default)]
    pub role: Role,
    /// What for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Vec<Right>>)]
    pub scopes: Scopes,
    /// Until when, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

/// Who is known by a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// An administrator.
    Admin,
    /// A user.
    #[default]
    User,
}

/// What a token may be used for in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Reading documents.
    Read,
    /// Creating, changing and deleting them.
    Write,
}

/// What there is to know of a token; never its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// By which it is revoked.
    pub id: String,
    /// Who is known by it.
    pub subject: String,
    /// As what.
    pub role: Role,
    /// What for; empty is everything.
    #[schema(value_type = BTreeMap<String, Vec<Right>>)]
    pub scopes: Scopes,
    /// When it was made, in milliseconds since 1970.
    pub created_at: u64,
    /// Until when it is valid, in milliseconds since 1970; `null` if it does not expire.
    pub expires_at: Option<u64>,
}

/// A new token, with the text to send. It is shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// What is known of it from now on.
    #[serde(flatten)]
    pub about: Token,
    /// What to send: `Authorization: Bearer <token>`.
    pub token: String,
}

/// A page of tokens, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenPage {
    /// The tokens.
    pub items: Vec<Token>,
    /// The id to go on after; `null` at the end.
    pub next: Option<String>,
}

/// That a token is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    /// Its id.
    pub id: String,
    /// Whether there was one.
    pub revoked: bool,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("about", &self.about).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_a_user_and_everything_unless_it_says_more() {
        let body: TokenBody = serde_json::from_str(r#"{"subject": "ann"}"#).unwrap();
        assert_eq!((body.role, body.scopes.len(), body.expires_at), (Role::User, 0, None));
        let text = r#"{"subject": "bot", "role": "admin", "scopes": {"a": ["read", "write"]}}"#;
        let body: TokenBody = serde_json::from_str(text).unwrap();
        assert_eq!(body.scopes["a"], BTreeSet::from([Right::Read, Right::Write]));
        let wrong = r#"{"subject": "ann", "scope": {}}"#;
        assert!(
            serde_json::from_str::<TokenBody>(wrong).unwrap_err().to_string().contains("scope")
        );
    }

    #[test]
    fn the_secret_is_in_the_answer_and_in_nothing_that_is_printed() {
        let about = Token {
            id: "i".to_owned(),
            subject: "ann".to_owned(),
            role: Role::User,
            scopes: Scopes::new(),
            created_at: 1,
            expires_at: None,
        };
        let new = NewToken { about, token: "keyloom_secret".to_owned() };
        assert!(!format!("{new:?}").contains("keyloom_secret"));
        let text = serde_json::to_string(&new).unwrap();
        let about = r#"{"id":"i","subject":"ann","role":"user","scopes":{},"created_at":1,"#;
        assert_eq!(text, format!(r#"{about}"expires_at":null,"token":"keyloom_secret"}}"#));
        let back: NewToken = serde_json::from_str(&text).unwrap();
        assert_eq!((back.about, back.token), (new.about, new.token));
    }
}
