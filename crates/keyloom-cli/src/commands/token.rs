//! `keyloom token`: the tokens by which callers of a server are known.
//!
//! T1: A secret is printed once, by the command that makes it, alone on standard output if it is
//!     not for a terminal's reader: `keyloom token create ann > token`.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};

use keyloom_api::{Right, Role, Scopes, Token, TokenBody};
use keyloom_server::times;

use super::Session;
use crate::args::{TokenCommand, TokenCreate};
use crate::output::{Format, visible};
use crate::problem::Failure;
use crate::table::Table;

pub(super) async fn run(session: &mut Session<'_>, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(create) => make(session, create).await,
        TokenCommand::List => list(session).await,
        TokenCommand::Revoke { id } => revoke(session, &id).await,
    }
}

async fn make(session: &mut Session<'_>, create: TokenCreate) -> Result<(), Failure> {
    let TokenCreate { subject, admin, scope, expires } = create;
    let role = if admin { Role::Admin } else { Role::User };
    let expires_at = expires.map(|text| time(&text)).transpose()?;
    let body = TokenBody { subject, role, scopes: scopes(&scope)?, expires_at };
    let new = session.backend.create_token(body).await?;
    match session.output.format() {
        Format::Json => session.output.json(&new),
        Format::Text => {
            session.output.line(&new.token)?;
            tell(&new.about);
            Ok(())
        }
    }
}

/// Says to people on standard error what was made; the secret stays alone on standard output.
fn tell(token: &Token) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        // If it is closed, nobody wants to know.
        let _ = writeln!(terminal, "{}", told(token));
    }
}

/// What a token is.
fn told(Token { subject, role, scopes, .. }: &Token) -> String {
    let whose = match role {
        Role::Admin => "an administrator",
        Role::User => "a user; add --admin for an administrator",
    };
    let scopes: Vec<String> = scopes.iter().map(scope).collect();
    let what = if scopes.is_empty() { "everything".to_owned() } else { scopes.join(" ") };
    format!("the token of {}, {whose}; it is for {}", visible(subject), visible(&what))
}

async fn list(session: &mut Session<'_>) -> Result<(), Failure> {
    let mut table = Table::new(["id", "subject", "role", "scopes", "created", "expires"]);
    let mut after: Option<String> = None;
    loop {
        let page = session.backend.tokens(after.as_deref()).await?;
        for token in page.items {
            match session.output.format() {
                Format::Json => session.output.json(&token)?,
                Format::Text => table.row(row(&token)),
            }
        }
        match page.next {
            None => return session.output.table(&table),
            next => after = next,
        }
    }
}

async fn revoke(session: &mut Session<'_>, id: &str) -> Result<(), Failure> {
    let done = session.backend.revoke_token(id).await?;
    match session.output.format() {
        Format::Json => session.output.json(&done),
        Format::Text if done.revoked => session.output.line(format_args!("revoked {}", done.id)),
        Format::Text => session.output.line("there is no such token: nothing to revoke"),
    }
}

fn row(token: &Token) -> [String; 6] {
    let shown = |time: u64| i64::try_from(time).map(times::render).unwrap_or_default();
    let role = match token.role {
        Role::Admin => "admin",
        Role::User => "user",
    };
    let scopes: Vec<String> = token.scopes.iter().map(scope).collect();
    [
        token.id.clone(),
        visible(&token.subject),
        role.to_owned(),
        if scopes.is_empty() { "everything".to_owned() } else { visible(&scopes.join(" ")) },
        shown(token.created_at),
        token.expires_at.map_or_else(|| "never".to_owned(), shown),
    ]
}

/// A scope as the command line spells it.
fn scope((collection, rights): (&String, &BTreeSet<Right>)) -> String {
    let rights = rights.iter().map(|right| match right {
        Right::Read => "read",
        Right::Write => "write",
    });
    format!("{collection}={}", rights.collect::<Vec<_>>().join(","))
}

fn scopes(texts: &[String]) -> Result<Scopes, Failure> {
    let mut scopes = Scopes::new();
    for text in texts {
        let wrong = || {
            Failure::Invalid(format!(
                "`{text}` is no scope: write COLLECTION=read, COLLECTION=write or \
                 COLLECTION=read,write"
            ))
        };
        let (collection, rights) = text.split_once('=').ok_or_else(wrong)?;
        let rights = rights.split(',').map(|right| match right {
            "read" => Ok(Right::Read),
            "write" => Ok(Right::Write),
            _ => Err(wrong()),
        });
        let rights: BTreeSet<Right> = rights.collect::<Result<_, _>>()?;
        scopes.entry(collection.to_owned()).or_default().extend(rights);
    }
    Ok(scopes)
}

fn time(text: &str) -> Result<u64, Failure> {
    let millis = times::parse(text).and_then(|millis| u64::try_from(millis).ok());
    millis.ok_or_else(|| Failure::Invalid(format!("`{text}` is not a time from 1970 on")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_whose_token_it_is() {
        let token = |role, scope: &[&str]| Token {
            id: "1".to_owned(),
            subject: "ann".to_owned(),
            role,
            scopes: scopes(&scope.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
                .unwrap(),
            created_at: 1,
            expires_at: None,
        };
        let root = "the token of ann, an administrator; it is for everything";
        assert_eq!(told(&token(Role::Admin, &[])), root);
        let user = "the token of ann, a user; add --admin for an administrator; it is for a=read";
        assert_eq!(told(&token(Role::User, &["a=read"])), user);
    }

    #[test]
    fn a_scope_is_read_as_it_is_shown() {
        let texts = ["a=read".to_owned(), "b=read,write".to_owned(), "*=write".to_owned()];
        let read = scopes(&texts).unwrap();
        let shown: Vec<String> = read.iter().map(scope).collect();
        assert_eq!(shown, ["*=write", "a=read", "b=read,write"]);
        for wrong in ["a", "a=", "a=all", "a=read,"] {
            assert!(scopes(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
