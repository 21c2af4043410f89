//! JSON merge patch (RFC 7396) on the members of a document.
//!
//! Members that the patch does not name keep their bytes.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::document::{Member, Members};
use crate::error::Error;

/// The data with the patch applied.
pub(super) fn merge(data: &[u8], patch: &[u8]) -> Result<Vec<u8>, Error> {
    let (old, patch) = (Members::parse(data)?, Members::parse(patch)?);
    let mut merged: Vec<(&str, Cow<'_, str>)> = Vec::new();
    for Member { name, raw, .. } in old.iter() {
        match patch.get(name) {
            None => merged.push((name, Cow::Borrowed(raw))),
            Some("null") => {}
            Some(change) => merged.push((name, merge_value(raw, change)?)),
        }
    }
    for Member { name, raw, .. } in patch.iter() {
        if old.get(name).is_none() && *raw != "null" {
            merged.push((name, merge_value("null", raw)?));
        }
    }
    Ok(Members::with_added(b"{}", merged.iter().map(|(name, raw)| (*name, &**raw))))
}

fn merge_value<'c>(old: &str, change: &'c str) -> Result<Cow<'c, str>, Error> {
    if !change.starts_with('{') {
        return Ok(Cow::Borrowed(change));
    }
    let read = |raw: &str| {
        serde_json::from_str(raw).map_err(|error| Error::invalid(format!("patch: {error}")))
    };
    let (mut target, change): (Json, Json) = (read(old)?, read(change)?);
    merge_json(&mut target, change);
    Ok(Cow::Owned(target.to_string()))
}

/// Depth is bounded by the shape check of the documents.
fn merge_json(target: &mut Json, patch: Json) {
    let Json::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Json::Object(serde_json::Map::new());
    }
    let Json::Object(target) = target else { return };
    for (name, change) in patch {
        if change.is_null() {
            target.shift_remove(&name);
        } else {
            merge_json(target.entry(name).or_insert(Json::Null), change);
        }
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
    }

    #[test]
    fn a_patch_that_is_no_object_is_refused() {
        assert!(merge(b"{}", b"[1]").is_err());
    }
}
