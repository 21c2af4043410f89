//! What comes beside a key and its payload: who asks, and because of how many events.
//!
//! ```text
//! Bearer kl_…            or the token alone
//! keyloom-depth: 3       as the header of REST and the metadata of gRPC
//! ```
//!
//! The attachment is text, a line for each of them, and each may be missing.

use keyloom_engine::{Actor, Error, Identity};
use zenoh::bytes::ZBytes;

use super::Desk;
use super::ask::Asker;
use crate::caller::check_rate;
use crate::rates::Counted;
use crate::rest::Refusal;
use crate::service::DEPTH;

/// Who asks (Z3), if he does not ask too often (Z4).
pub(super) async fn read(desk: &Desk, attachment: Option<&ZBytes>) -> Result<Asker, Refusal> {
    let bytes = attachment.map(ZBytes::to_bytes);
    let (token, depth) = match &bytes {
        None => (None, 0),
        Some(bytes) => lines(std::str::from_utf8(bytes).map_err(|_| refused())?)?,
    };
    let service = &desk.app.service;
    let caller: Identity = match token {
        Some(token) => service.authenticate(token).await?.ok_or_else(refused)?,
        None if desk.is_local && !service.has_tokens().await? => Actor::Local.into(),
        None => Actor::Anonymous.into(),
    };
    check_rate(&desk.app, &caller.actor, Some(Counted::Zenoh))?;
    Ok(Asker { caller, depth })
}

/// The token and the depth.
fn lines(text: &str) -> Result<(Option<&str>, u32), Error> {
    let (mut token, mut depth) = (None, None);
    for line in text.lines().map(str::trim) {
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case(DEPTH) && depth.is_none() => {
                let number = value.trim().parse();
                let wrong = || Error::Invalid { detail: format!("{DEPTH} is a number") };
                depth = Some(number.map_err(|_| wrong())?);
            }
            _ if token.is_none() => {
                token = Some(line.strip_prefix("Bearer ").unwrap_or(line).trim());
            }
            _ => return Err(refused()),
        }
    }
    // What says nothing is a token that was lost.
    let token = if depth.is_none() { token.or(Some("")) } else { token };
    Ok((token, depth.unwrap_or(0)))
}

fn refused() -> Error {
    Error::Unauthenticated {
        collection: "*".to_owned(),
        detail: "the token is not valid: it is malformed, unknown, expired or revoked".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_is_a_token_a_depth_or_both() {
        for (text, expected) in [
            ("abc", (Some("abc"), 0)),
            ("Bearer abc", (Some("abc"), 0)),
            ("Bearer abc\nkeyloom-depth: 3", (Some("abc"), 3)),
            ("Keyloom-Depth:8\r\nabc\n", (Some("abc"), 8)),
            ("keyloom-depth: 3", (None, 3)),
            ("", (Some(""), 0)),
        ] {
            assert_eq!(lines(text).unwrap(), expected, "{text:?}");
        }
        for wrong in ["abc\ndef", "keyloom-depth: x", "keyloom-depth: 1\nkeyloom-depth: 2\na"] {
            assert!(lines(wrong).is_err(), "{wrong:?}");
        }
    }
}
