//! The top of a JSON object, split into its members without copying their values.
//!
//! M1: Every byte that is stored as data has been read by a JSON parser once, as one object without
//!     repeated members and within the limits on size, depth and number.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, DOCUMENT_FIELDS_MAX};

/// The members of a JSON object: name and raw value, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// Splits a JSON object. The bytes may come from outside.
    pub(crate) fn parse(data: &'a [u8]) -> Result<Members<'a>, Error> {
        check_shape(data)?;
        // Looked at once and whole: the parser would look at each name and value by itself.
        let text = str::from_utf8(data)
            .map_err(|error| Error::invalid(format!("data: not UTF-8: {error}")))?;
        serde_json::from_str(text).map_err(|error| Error::invalid(format!("data: {error}")))
    }

    /// The raw value of a member.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, raw)| *raw)
    }

    /// Names and raw values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (name.as_ref(), *raw))
    }

    /// The same members and further ones, which replace those of the same name: what parsing
    /// [`Members::completed_data`] would give.
    pub(crate) fn completed(mut self, added: &'a [(String, String)]) -> Result<Self, Error> {
        self.0.retain(|(known, _)| added.iter().all(|(name, _)| known != name));
        self.0.extend(added.iter().map(|(name, raw)| (Cow::Borrowed(name.as_str()), raw.as_str())));
        if self.0.len() > DOCUMENT_FIELDS_MAX {
            let found = self.0.len();
            return Err(Error::invalid(format!(
                "data: {found} members, more than {DOCUMENT_FIELDS_MAX}"
            )));
        }
        Ok(self)
    }

    /// The JSON of these members, which were read from `data`, and of further ones. Where none is
    /// replaced the bytes stay as they came.
    pub(crate) fn completed_data(
        &self,
        data: &[u8],
        added: &[(String, String)],
    ) -> Result<Vec<u8>, Error> {
        let is_added = |name: &str| added.iter().any(|(added, _)| added == name);
        let completed = if added.iter().all(|(name, _)| self.get(name).is_none()) {
            Members::with_added(data, added)
        } else {
            let kept = self.iter().filter(|(name, _)| !is_added(name));
            let kept = kept.map(|(name, raw)| (name.to_owned(), raw.to_owned()));
            let all: Vec<(String, String)> = kept.chain(added.iter().cloned()).collect();
            Members::with_added(b"{}", &all)
        };
        check_bytes(&completed)?;
        Ok(completed)
    }

    /// The object as JSON with further members at its end.
    pub(crate) fn with_added(data: &[u8], added: &[(String, String)]) -> Vec<u8> {
        let body = data.trim_ascii();
        let (Some(body), false) = (body.strip_suffix(b"}"), added.is_empty()) else {
            return body.to_vec();
        };
        let body = body.trim_ascii_end();
        let mut bytes = Vec::with_capacity(body.len() + 48 * added.len());
        bytes.extend_from_slice(body);
        for (name, value) in added {
            if bytes.last() != Some(&b'{') {
                bytes.push(b',');
            }
            let name = serde_json::to_string(name).expect("a string is JSON");
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b':');
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes.push(b'}');
        bytes
    }
}

/// Refuses JSON that is too large or too deep, before a parser sees it.
fn check_shape(data: &[u8]) -> Result<(), Error> {
    check_bytes(data)?;
    // Nothing nests deeper than it opens; most documents need no closer look.
    if opening(data) <= DOCUMENT_DEPTH_MAX {
        return Ok(());
    }
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in data {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DOCUMENT_DEPTH_MAX {
            return Err(Error::LimitExceeded {
                what: "nesting of data".to_owned(),
                found: depth,
                max: DOCUMENT_DEPTH_MAX,
            });
        }
    }
    Ok(())
}

/// How many brackets open. Counted in bytes, piece by piece, so that the compiler can look at many
/// bytes at once.
fn opening(data: &[u8]) -> usize {
    // `{` and `[` differ in this bit only.
    let is_opening = |byte: &u8| u8::from(byte | 0x20 == b'{');
    let pieces = data.chunks(usize::from(u8::MAX));
    pieces.map(|piece| usize::from(piece.iter().map(is_opening).sum::<u8>())).sum()
}

fn check_bytes(data: &[u8]) -> Result<(), Error> {
    if data.len() > DOCUMENT_BYTES_MAX {
        return Err(Error::LimitExceeded {
            what: "bytes of data".to_owned(),
            found: data.len(),
            max: DOCUMENT_BYTES_MAX,
        });
    }
    Ok(())
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// A member name, borrowed unless it holds escapes.
struct Name<'a>(Cow<'a, str>);

struct NameVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'a>, D::Error> {
        deserializer.deserialize_str(NameVisitor).map(Name)
    }
}

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        use serde::de::Error as _;
        let mut members: Vec<(Cow<'de, str>, &'de str)> = Vec::with_capacity(16);
        while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
            if members.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format_args!("member `{name}` stands twice")));
            }
            if members.len() == DOCUMENT_FIELDS_MAX {
                return Err(A::Error::custom(format_args!(
                    "more than {DOCUMENT_FIELDS_MAX} members"
                )));
            }
            members.push((name, value.get()));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data: &[u8]) -> String {
        Members::parse(data).unwrap_err().to_string()
    }

    #[test]
    fn members_keep_their_raw_text() {
        let members = Members::parse(br#" {"a": [1, 2 ], "\u0062": "x\"y"} "#).unwrap();
        assert_eq!(members.get("a"), Some("[1, 2 ]"));
        assert_eq!(members.get("b"), Some(r#""x\"y""#));
        assert_eq!(members.iter().count(), 2);
    }

    #[test]
    fn malformed_json_is_refused_with_its_place() {
        assert!(refused(b"{\"a\":").contains("line 1 column 5"));
        assert!(refused(b"[1]").contains("expected a JSON object"));
        assert!(refused(b"{\"a\":1,\"a\":2}").contains("`a` stands twice"));
        assert!(refused(b"{\"a\":\"\xff\"}").starts_with("data: "));
        assert!(refused(b"{} x").contains("trailing"));
    }

    #[test]
    fn deep_and_huge_json_is_refused_before_it_is_parsed() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(refused(deep.as_bytes()).contains("nesting of data"));
        let fits = format!("{{\"a\":{}1{}}}", "[".repeat(63), "]".repeat(63));
        assert!(Members::parse(fits.as_bytes()).is_ok());
        let huge = vec![b' '; DOCUMENT_BYTES_MAX + 1];
        assert!(refused(&huge).contains("bytes of data"));
    }

    #[test]
    fn brackets_inside_text_do_not_count_as_depth() {
        let text = format!("{{\"a\":\"{}\\\"{}\"}}", "[".repeat(500), "{".repeat(500));
        assert!(Members::parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn completed_members_are_those_of_the_completed_data() {
        let added = [("id".to_owned(), "1".to_owned()), ("b".to_owned(), "\"x\"".to_owned())];
        for data in [r#"{}"#, r#" {"a" : [2]} "#, r#"{"b":null,"a":1}"#, r#"{"id":null,"b":null}"#]
        {
            let members = Members::parse(data.as_bytes()).unwrap();
            let completed = members.completed_data(data.as_bytes(), &added).unwrap();
            let expected: Vec<_> = Members::parse(&completed).unwrap().0;
            assert_eq!(members.completed(&added).unwrap().0, expected, "{data}");
        }
        let full: Vec<_> = (0..DOCUMENT_FIELDS_MAX).map(|n| (n.to_string(), "0".into())).collect();
        let members = || Members::parse(br#"{"a":1}"#).unwrap();
        assert!(members().completed(&full).unwrap_err().to_string().contains("257 members"));
        assert!(members().completed(&full[1..]).is_ok());
        let huge = [("b".to_owned(), "9".repeat(DOCUMENT_BYTES_MAX))];
        assert!(members().completed_data(b"{}", &huge).is_err());
    }

    #[test]
    fn members_are_added_at_the_end_and_the_rest_stays_as_it_came() {
        let added = [("id".to_owned(), "1".to_owned())];
        assert_eq!(Members::with_added(b" { } ", &added), br#"{"id":1}"#);
        assert_eq!(Members::with_added(b"{\"a\" : 1 }", &added), br#"{"a" : 1,"id":1}"#);
        assert_eq!(Members::with_added(b" {\"a\" : 1 }", &[]), br#"{"a" : 1 }"#);
    }
}
