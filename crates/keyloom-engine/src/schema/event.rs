//! What changes of objects and ends of functions trigger, as people, requests and records write it.
//!
//! The members are named as in the protocol of the grid, so that one shape serves everywhere.

use std::collections::BTreeMap;

use keyloom_key::{EntryKey, ObjectId, limits::STRING_ID_LIMIT_MAX};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::limits::EVENT_TARGETS_MAX;
use crate::object::is_number_like;

/// What is triggered, and by what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Event {
    /// By the end of a function, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub func_trigger: BTreeMap<String, FuncTrigger>,
    /// By changes of the entry with this numeric key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", with = "numbered")]
    pub data_trigger: BTreeMap<u32, DataTrigger>,
    /// By changes of the entry with this string key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data_trigger_str: BTreeMap<String, DataTrigger>,
}

/// What the end of a function triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FuncTrigger {
    /// It answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_complete: Vec<TriggerTarget>,
    /// It failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_error: Vec<TriggerTarget>,
}

/// What a change of an entry triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataTrigger {
    /// It is new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_create: Vec<TriggerTarget>,
    /// It has another value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_update: Vec<TriggerTarget>,
    /// It is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_delete: Vec<TriggerTarget>,
}

/// The function that is invoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerTarget {
    /// The class that has the function.
    pub class: String,
    /// The partition that it is invoked in.
    #[serde(default)]
    pub partition: u32,
    /// The object that it is invoked on; without one, it is invoked on none.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "spelled")]
    pub object: Option<ObjectId>,
    /// Its name.
    pub function: String,
    /// What it is given beside the payload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

impl Event {
    /// Whether nothing is triggered.
    pub fn is_empty(&self) -> bool {
        self.func_trigger.is_empty()
            && self.data_trigger.is_empty()
            && self.data_trigger_str.is_empty()
    }

    /// The same with normalized keys; refuses keys that are no entry keys, or that are one after
    /// normalization, and too many targets.
    pub(crate) fn normalized(mut self, bytes_max: usize) -> Result<Event, Error> {
        let mut normal = BTreeMap::new();
        for (key, trigger) in std::mem::take(&mut self.data_trigger_str) {
            let parsed = EntryKey::string(&key, bytes_max)
                .map_err(|error| Error::invalid(format!("data_trigger_str: {error}")))?;
            if is_number_like(&parsed.to_string()) {
                let detail = format!("data_trigger_str: `{parsed}` is a number: use data_trigger");
                return Err(Error::invalid(detail));
            }
            if normal.insert(parsed.to_string(), trigger).is_some() {
                return Err(Error::invalid(format!("data_trigger_str names `{parsed}` twice")));
            }
        }
        self.data_trigger_str = normal;
        let found = self.targets().count();
        if found > EVENT_TARGETS_MAX {
            let what = "targets of an event configuration".to_owned();
            return Err(Error::LimitExceeded { what, found, max: EVENT_TARGETS_MAX });
        }
        Ok(self)
    }

    /// What changes of this entry trigger.
    pub(crate) fn of_entry(&self, key: &EntryKey) -> Option<&DataTrigger> {
        match key {
            EntryKey::Numeric(key) => self.data_trigger.get(key),
            EntryKey::String(key) => self.data_trigger_str.get(key.as_str()),
        }
    }

    /// All functions that are invoked by something.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &TriggerTarget> {
        let functions = self.func_trigger.values();
        let functions = functions.flat_map(|it| it.on_complete.iter().chain(&it.on_error));
        let entries = self.data_trigger.values().chain(self.data_trigger_str.values());
        let entries =
            entries.flat_map(|it| it.on_create.iter().chain(&it.on_update).chain(&it.on_delete));
        functions.chain(entries)
    }
}

/// Numbers as members: TOML and JSON have texts only.
mod numbered {
    use std::collections::BTreeMap;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::DataTrigger;

    pub(super) fn serialize<S: Serializer>(
        triggers: &BTreeMap<u32, DataTrigger>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let spelled: BTreeMap<String, &DataTrigger> =
            triggers.iter().map(|(key, trigger)| (key.to_string(), trigger)).collect();
        spelled.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<u32, DataTrigger>, D::Error> {
        let spelled = BTreeMap::<String, DataTrigger>::deserialize(deserializer)?;
        let numbered = spelled.into_iter().map(|(key, trigger)| {
            let number = key.parse().map_err(|_| {
                let problem = format!("`{key}` is no number of 32 bits: see data_trigger_str");
                D::Error::custom(problem)
            });
            Ok((number?, trigger))
        });
        numbered.collect()
    }
}

/// Identities as texts.
mod spelled {
    use keyloom_key::ObjectId;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::STRING_ID_LIMIT_MAX;

    pub(super) fn serialize<S: Serializer>(
        id: &Option<ObjectId>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => serializer.collect_str(id),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ObjectId>, D::Error> {
        let text = String::deserialize(deserializer)?;
        ObjectId::string(&text, STRING_ID_LIMIT_MAX).map(Some).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_toml_and_json() {
        let text = "[func_trigger.resize]\n\
                    on_error = [{ class = \"log\", function = \"note\" }]\n\
                    [data_trigger.1]\non_create = [{ class = \"a\", function = \"f\" }]\n\
                    [data_trigger_str.\"Profile.Email\"]\n\
                    on_delete = [{ class = \"a\", partition = 3, object = \"42\", \
                    function = \"g\", options = { x = \"y\" } }]\n";
        let event: Event = toml::from_str(text).unwrap();
        assert_eq!(event.targets().count(), 3);
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
        let normal = event.normalized(160).unwrap();
        let key = EntryKey::string("profile.email", 160).unwrap();
        let target = &normal.of_entry(&key).unwrap().on_delete[0];
        assert_eq!(target.object, Some(ObjectId::Numeric(42)));
        assert!(normal.of_entry(&EntryKey::Numeric(1)).is_some());
        assert!(normal.of_entry(&EntryKey::Numeric(2)).is_none());
    }

    #[test]
    fn o06_two_spellings_of_one_key_are_refused() {
        let json = r#"{"data_trigger_str": {"A": {}, "a": {}}}"#;
        let event: Event = serde_json::from_str(json).unwrap();
        let error = event.normalized(160).unwrap_err().to_string();
        assert!(error.contains("`a` twice"), "{error}");
    }

    #[test]
    fn a_key_that_is_no_number_is_refused_with_the_place_for_texts() {
        let json = r#"{"data_trigger": {"name": {}}}"#;
        let error = serde_json::from_str::<Event>(json).unwrap_err().to_string();
        assert!(error.contains("data_trigger_str"), "{error}");
    }
}
