//! JSON merge patch (RFC 7396) on the members of a document.
//!
//! Members that the patch does not name keep their bytes, however deep they stand.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::document::Members;
use crate::error::Error;

/// The data with the patch applied.
pub(super) fn merge(data: &[u8], patch: &[u8]) -> Result<Vec<u8>, Error> {
    // Both are objects within the limits; so what follows is bounded in size and depth.
    Members::parse(data)?;
    Members::parse(patch)?;
    merge_objects(&String::from_utf8_lossy(data), &String::from_utf8_lossy(patch))
}

fn merge_objects(old: &str, patch: &str) -> Result<Vec<u8>, Error> {
    let (old, patch) = (Object::read(old)?, Object::read(patch)?);
    let mut merged: Vec<(&str, Cow<'_, str>)> = Vec::with_capacity(old.members.len());
    for (name, raw) in &old.members {
        match patch.get(name) {
            None => merged.push((name, Cow::Borrowed(raw))),
            Some("null") => {}
            Some(change) => merged.push((name, merge_values(raw, change)?)),
        }
    }
    for (name, raw) in &patch.members {
        if old.get(name).is_none() && *raw != "null" {
            merged.push((name, merge_values("null", raw)?));
        }
    }
    Ok(Members::with_added(b"{}", merged.iter().map(|(name, raw)| (*name, &**raw))))
}

fn merge_values<'c>(old: &str, change: &'c str) -> Result<Cow<'c, str>, Error> {
    if !change.starts_with('{') {
        return Ok(Cow::Borrowed(change));
    }
    let old = if old.starts_with('{') { old } else { "{}" };
    let merged = merge_objects(old, change)?;
    Ok(Cow::Owned(String::from_utf8_lossy(&merged).into_owned()))
}

/// The members of an object, in the order in which they came; of one that is repeated, the last.
#[derive(Default)]
struct Object<'a> {
    members: Vec<(String, &'a str)>,
    places: HashMap<String, usize>,
}

impl<'a> Object<'a> {
    fn read(text: &'a str) -> Result<Object<'a>, Error> {
        let mut parser = serde_json::Deserializer::from_str(text);
        let object = parser.deserialize_map(ObjectVisitor);
        object.map_err(|error| Error::invalid(format!("patch: {error}")))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.members.get(*self.places.get(name)?).map(|(_, raw)| *raw)
    }

    fn add(&mut self, name: String, raw: &'a str) {
        match self.places.get(&name).and_then(|place| self.members.get_mut(*place)) {
            Some((_, known)) => *known = raw,
            None => {
                self.places.insert(name.clone(), self.members.len());
                self.members.push((name, raw));
            }
        }
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object::default();
        while let Some((name, raw)) = map.next_entry::<String, &'de RawValue>()? {
            object.add(name, raw.get());
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data: &str, patch: &str, expected: &str) {
        let merged = merge(data.as_bytes(), patch.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(merged).unwrap(), expected);
    }

    #[test]
    fn members_are_replaced_added_and_removed() {
        check(r#"{"a":1,"b":2}"#, r#"{"b":null,"a":3,"c":4}"#, r#"{"a":3,"c":4}"#);
    }

    #[test]
    fn objects_merge_and_nulls_inside_a_new_object_vanish() {
        check(r#"{"a":{"x":1,"y":2}}"#, r#"{"a":{"x":null,"z":3}}"#, r#"{"a":{"y":2,"z":3}}"#);
        check(r#"{"a":[1]}"#, r#"{"a":{"x":null,"y":{"z":null}}}"#, r#"{"a":{"y":{}}}"#);
    }

    #[test]
    fn what_the_patch_does_not_name_keeps_its_bytes() {
        check(
            r#"{"n":1.10,"big":123456789012345678901}"#,
            r#"{"x":true}"#,
            r#"{"n":1.10,"big":123456789012345678901,"x":true}"#,
        );
        check(
            r#"{"a":{"big":123456789012345678901, "b":{"n":1.10,"x":1,"x":2}}}"#,
            r#"{"a":{"b":{"y":{"e":1e400,"f":null}}}}"#,
            r#"{"a":{"big":123456789012345678901,"b":{"n":1.10,"x":2,"y":{"e":1e400}}}}"#,
        );
    }

    #[test]
    fn a_patch_that_is_no_object_is_refused() {
        assert!(merge(b"{}", b"[1]").is_err());
    }
}
