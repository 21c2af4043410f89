//! The top of a JSON object, split into its members without copying their values.
//!
//! M1: Every byte that is stored as data has been read by a JSON parser once, as one object without
//!     repeated members and within the limits on size, depth and number.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::catalog::Field;
use crate::error::Error;
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, DOCUMENT_FIELDS_MAX};

/// The members of a JSON object in the order in which they came, matched to fields by their names.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    fields: &'a [Field],
    list: Vec<Member<'a>>,
}

/// One member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    pub(crate) name: Cow<'a, str>,
    /// The value as it was written.
    pub(crate) raw: &'a str,
    /// The place of the field that has its name.
    pub(crate) field: Option<usize>,
}

impl<'a> Members<'a> {
    /// Splits a JSON object. The bytes may come from outside.
    pub(crate) fn parse(data: &'a [u8]) -> Result<Members<'a>, Error> {
        Members::parse_for(&[], data)
    }

    /// Splits a JSON object that has these fields. The bytes may come from outside.
    pub(crate) fn parse_for(fields: &'a [Field], data: &'a [u8]) -> Result<Members<'a>, Error> {
        check_shape(data)?;
        // Looked at once and whole: the parser would look at each name and value by itself.
        let text = str::from_utf8(data)
            .map_err(|error| Error::invalid(format!("data: not UTF-8: {error}")))?;
        let mut parser = serde_json::Deserializer::from_str(text);
        let list = parser.deserialize_map(MembersVisitor { fields });
        list.and_then(|list| parser.end().map(|()| Members { fields, list }))
            .map_err(|error| Error::invalid(format!("data: {error}")))
    }

    /// The same members, matched to other fields.
    pub(crate) fn matched_to(&self, fields: &'a [Field]) -> Members<'a> {
        let list = self.list.iter().map(|Member { name, raw, .. }| Member {
            name: name.clone(),
            raw,
            field: place_of(fields, name),
        });
        Members { fields, list: list.collect() }
    }

    /// The fields that the members are matched to.
    pub(crate) fn fields(&self) -> &'a [Field] {
        self.fields
    }

    /// The raw value of a member.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.list.iter().find(|member| member.name == name).map(|member| member.raw)
    }

    /// The raw value of a field, by its place.
    pub(crate) fn of_field(&self, field: usize) -> Option<&'a str> {
        self.list.iter().find(|member| member.field == Some(field)).map(|member| member.raw)
    }

    /// All members.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Member<'a>> {
        self.list.iter()
    }

    /// The same members and values of further fields, by place, which replace those of the same
    /// name: what parsing [`Members::completed_data`] would give.
    pub(crate) fn completed(mut self, added: &'a [(usize, String)]) -> Result<Self, Error> {
        if added.is_empty() {
            return Ok(self);
        }
        self.list.retain(|member| !is_added(member, added));
        self.list.extend(added.iter().filter_map(|(place, raw)| {
            let name = Cow::Borrowed(self.fields.get(*place)?.name.as_str());
            Some(Member { name, raw, field: Some(*place) })
        }));
        if self.list.len() > DOCUMENT_FIELDS_MAX {
            let found = self.list.len();
            return Err(Error::invalid(format!(
                "data: {found} members, more than {DOCUMENT_FIELDS_MAX}"
            )));
        }
        Ok(self)
    }

    /// The JSON of these members, which were read from `data`, and of further fields. Where none is
    /// replaced the bytes stay as they came.
    pub(crate) fn completed_data(
        &self,
        data: &[u8],
        added: &[(usize, String)],
    ) -> Result<Vec<u8>, Error> {
        let further = added.iter().filter_map(|(place, raw)| {
            self.fields.get(*place).map(|field| (field.name.as_str(), raw.as_str()))
        });
        let completed = if added.iter().all(|(place, _)| self.of_field(*place).is_none()) {
            Members::with_added(data, further)
        } else {
            let kept = self.list.iter().filter(|member| !is_added(member, added));
            let kept = kept.map(|member| (&*member.name, member.raw));
            Members::with_added(b"{}", kept.chain(further))
        };
        check_bytes(&completed)?;
        Ok(completed)
    }

    /// The object as JSON with further members, names and raw values, at its end.
    pub(crate) fn with_added<'m>(
        data: &[u8],
        added: impl IntoIterator<Item = (&'m str, &'m str)>,
    ) -> Vec<u8> {
        let body = data.trim_ascii();
        let mut added = added.into_iter().peekable();
        let (Some(open), Some(_)) = (body.strip_suffix(b"}"), added.peek()) else {
            return body.to_vec();
        };
        let open = open.trim_ascii_end();
        let mut bytes = Vec::with_capacity(open.len() + ADDED_BYTES_USUAL);
        bytes.extend_from_slice(open);
        for (name, value) in added {
            if bytes.last() != Some(&b'{') {
                bytes.push(b',');
            }
            serde_json::to_writer(&mut bytes, name).expect("a string is JSON");
            bytes.push(b':');
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes.push(b'}');
        bytes
    }
}

/// The place of the field with this name.
pub(crate) fn place_of(fields: &[Field], name: &str) -> Option<usize> {
    // Few names are told apart faster one by one: most differ in their length.
    if fields.len() <= FIELDS_FEW {
        return fields.iter().position(|field| field.name == name);
    }
    fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok()
}

fn is_added(member: &Member<'_>, added: &[(usize, String)]) -> bool {
    added.iter().any(|(place, _)| member.field == Some(*place))
}

/// The bytes that most additions have room in.
const ADDED_BYTES_USUAL: usize = 256;

/// Up to so many fields, looking at one after the other is as fast as a search.
const FIELDS_FEW: usize = 16;

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

struct MembersVisitor<'a> {
    fields: &'a [Field],
}

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = Vec<Member<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Member<'de>>, A::Error> {
        use serde::de::Error as _;
        let mut members: Vec<Member<'de>> = Vec::with_capacity(16);
        while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
            let field = place_of(self.fields, &name);
            let is_known = |known: &Member<'_>| {
                known.field == field && (field.is_some() || known.name == name)
            };
            if members.iter().any(is_known) {
                return Err(A::Error::custom(format_args!("member `{name}` stands twice")));
            }
            if members.len() == DOCUMENT_FIELDS_MAX {
                return Err(A::Error::custom(format_args!(
                    "more than {DOCUMENT_FIELDS_MAX} members"
                )));
            }
            members.push(Member { name, raw: value.get(), field });
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::FieldSchema;

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

    /// Fields of any JSON with these names, which are in order.
    fn fields(names: &[&str]) -> Vec<Field> {
        let schema = FieldSchema { kind: "json".into(), ..FieldSchema::default() };
        names.iter().map(|name| Field::compile(name, &schema).unwrap()).collect()
    }

    #[test]
    fn members_are_matched_to_few_fields_and_to_many() {
        let many: Vec<String> = (0..2 * FIELDS_FEW).map(|number| format!("f{number:03}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for names in [&many[..3], &many[..]] {
            let fields = fields(names);
            let data = br#"{"other": 1, "f002": 2, "f\u0030\u0030\u0031": 3}"#;
            let members = Members::parse_for(&fields, data).unwrap();
            let found: Vec<_> = members.iter().map(|member| member.field).collect();
            assert_eq!(found, [None, Some(2), Some(1)]);
            assert_eq!((members.of_field(1), members.of_field(0)), (Some("3"), None));
            let moved = fields.get(1..).unwrap();
            assert_eq!(members.matched_to(moved).of_field(1), Some("2"));
            for data in [r#"{"f001":1,"a":1,"f00\u0031":2}"#, r#"{"a":1,"f001":1,"a":2}"#] {
                let refused = Members::parse_for(&fields, data.as_bytes()).unwrap_err();
                assert!(refused.to_string().contains("stands twice"), "{refused}");
            }
        }
    }

    #[test]
    fn completed_members_are_those_of_the_completed_data() {
        let fields = fields(&["a", "b", "id"]);
        let added = [(2, "1".to_owned()), (1, "\"x\"".to_owned())];
        for data in [r#"{}"#, r#" {"a" : [2]} "#, r#"{"b":null,"a":1}"#, r#"{"id":null,"b":null}"#]
        {
            let members = Members::parse_for(&fields, data.as_bytes()).unwrap();
            let completed = members.completed_data(data.as_bytes(), &added).unwrap();
            let expected = Members::parse_for(&fields, &completed).unwrap().list;
            assert_eq!(members.completed(&added).unwrap().list, expected, "{data}");
        }
        let members = || Members::parse_for(&fields, br#"{"c":1}"#).unwrap();
        let huge = [(1, "9".repeat(DOCUMENT_BYTES_MAX))];
        assert!(members().completed_data(b"{}", &huge).is_err());
    }

    #[test]
    fn too_many_members_are_refused_also_if_the_last_were_added() {
        let names: Vec<String> = (0..DOCUMENT_FIELDS_MAX).map(|n| format!("f{n:03}")).collect();
        let fields = fields(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let full: Vec<_> = (0..DOCUMENT_FIELDS_MAX).map(|place| (place, "0".to_owned())).collect();
        let members = || Members::parse_for(&fields, br#"{"a":1}"#).unwrap();
        assert!(members().completed(&full).unwrap_err().to_string().contains("257 members"));
        assert!(members().completed(&full[1..]).is_ok());
    }

    #[test]
    fn members_are_added_at_the_end_and_the_rest_stays_as_it_came() {
        let added = [("id", "1")];
        assert_eq!(Members::with_added(b" { } ", added), br#"{"id":1}"#);
        assert_eq!(Members::with_added(b"{\"a\" : 1 }", added), br#"{"a" : 1,"id":1}"#);
        assert_eq!(Members::with_added(b" {\"a\" : 1 }", []), br#"{"a" : 1 }"#);
    }
}
