//! The members of a document in their order, each as its JSON text.
//!
//! Reading them as values would lose digits of large numbers; people see what is stored.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::output::visible;
use keyloom_server::times;

/// The members of a JSON object; none if it is not one.
pub(crate) fn members(data: &[u8]) -> Vec<(String, &RawValue)> {
    let mut deserializer = serde_json::Deserializer::from_slice(data);
    deserializer.deserialize_map(MemberVisitor).unwrap_or_default()
}

/// How a value is shown: text without quotes, times readable, everything else as it is stored.
pub(crate) fn shown(value: &RawValue, kind: Option<&str>) -> String {
    let text = value.get();
    if kind == Some("millis")
        && let Ok(millis) = text.parse()
    {
        return times::render(millis);
    }
    match serde_json::from_str::<String>(text) {
        Ok(text) => visible(&text),
        Err(_) => visible(text),
    }
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_their_digits() {
        let data =
            br#"{"z": 123456789012345678901234567890, "a": "x\ny", "t": 0, "o": {"k": [1]}}"#;
        let members = members(data);
        let shown: Vec<(&str, String)> =
            members.iter().map(|(name, value)| (name.as_str(), shown(value, None))).collect();
        assert_eq!(shown[0], ("z", "123456789012345678901234567890".to_owned()));
        assert_eq!(shown[1], ("a", "x\\ny".to_owned()));
        assert_eq!(shown[3], ("o", "{\"k\": [1]}".to_owned()));
    }

    #[test]
    fn times_are_shown_readable() {
        let data = br#"{"t": 0}"#;
        let members = members(data);
        assert_eq!(shown(members[0].1, Some("millis")), "1970-01-01 00:00:00");
        assert_eq!(shown(members[0].1, Some("u64")), "0");
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        assert!(members(b"[1]").is_empty());
    }
}
