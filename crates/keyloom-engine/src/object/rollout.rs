//! The staged rollout of string identities: what the grid takes, hides, warns about and refuses.
//!
//! ```text
//! phase  string ids               numeric ids
//! 0      as the flags say         all
//! 1      read, not created        all
//! 2      created, hidden in lists all
//! 3      all                      all
//! 4      all                      created with a warning
//! 5      all                      not created
//! 6      all                      not created; requests no longer name them by number
//! ```
//!
//! In phase 6 the doors refuse the numeric fields of requests; a numeric object is still there
//! under the decimal spelling of its number.
//!
//! R1: A rollout that contradicts itself is refused, so a phase alone tells what holds from 1 on.
//! R2: It is part of the catalog, so every commit checks that it is still the one it was planned
//!     with.

use std::sync::Arc;

use keyloom_key::limits::{STRING_ID_BYTES_MAX, STRING_ID_LIMIT_MAX};
use keyloom_key::{EntryKey, ObjectId};
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::engine::Engine;
use crate::error::Error;

/// The variables by which an operator knows the flags.
const STRING_IDS: &str = "ODGM_ENABLE_STRING_IDS";
const STRING_KEYS: &str = "ODGM_ENABLE_STRING_KEYS";
const WRITE_ONLY: &str = "ODGM_STRING_IDS_WRITE_ONLY";
const LENGTH_MAX: &str = "ODGM_MAX_STRING_ID_LEN";

/// What the answer to a numeric create says from phase 4 on.
pub(super) const NUMERIC_WARNING: &str =
    "numeric object ids are deprecated (rollout phase 4): create objects with string ids";

/// How far string identities are rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rollout {
    /// 0 to 6, as in the table above.
    pub phase: u8,
    /// Whether objects are named by strings (`ODGM_ENABLE_STRING_IDS`).
    pub string_ids: bool,
    /// Whether entries with string keys are written (`ODGM_ENABLE_STRING_KEYS`).
    pub string_keys: bool,
    /// Whether lists hide objects with string ids (`ODGM_STRING_IDS_WRITE_ONLY`).
    pub write_only: bool,
    /// The longest string identity in bytes (`ODGM_MAX_STRING_ID_LEN`).
    pub id_len_max: u16,
}

impl Default for Rollout {
    fn default() -> Rollout {
        Rollout::phase(0)
    }
}

impl Rollout {
    /// A phase with the flags that belong to it.
    pub fn phase(phase: u8) -> Rollout {
        Rollout {
            phase,
            string_ids: phase >= 1,
            string_keys: phase >= 1,
            write_only: phase == 2,
            id_len_max: u16::try_from(STRING_ID_BYTES_MAX).unwrap_or(u16::MAX),
        }
    }

    /// Whether requests may name objects by number.
    pub fn takes_numeric_fields(&self) -> bool {
        self.phase < 6
    }

    /// Whether nothing was ever set.
    pub(crate) fn is_default(&self) -> bool {
        *self == Rollout::default()
    }

    /// Refuses what contradicts itself (R1).
    fn check(&self) -> Result<(), Error> {
        let Rollout { phase, string_ids, string_keys: _, write_only, id_len_max } = *self;
        let refuse = |what: &str| Err(Error::invalid(format!("rollout phase {phase}: {what}")));
        if phase > 6 {
            return refuse("there are 0 to 6");
        }
        if phase >= 1 && !string_ids {
            return refuse(&format!("it needs {STRING_IDS}=true"));
        }
        if phase >= 1 && write_only != (phase == 2) {
            return refuse(&format!("{WRITE_ONLY} is true in phase 2 only"));
        }
        if !(1..=STRING_ID_LIMIT_MAX).contains(&usize::from(id_len_max)) {
            return refuse(&format!("{LENGTH_MAX} is 1 to {STRING_ID_LIMIT_MAX}"));
        }
        Ok(())
    }

    /// Whether requests may name this object.
    pub(super) fn check_named(&self, id: &ObjectId) -> Result<(), Error> {
        match id {
            ObjectId::Numeric(_) => Ok(()),
            ObjectId::String(_) if self.string_ids => Ok(()),
            ObjectId::String(_) => Err(Error::invalid(format!(
                "string object ids are not enabled: `{id}` needs {STRING_IDS}=true"
            ))),
        }
    }

    /// Whether this object may be created; what the answer has to warn about.
    pub(super) fn check_created(&self, id: &ObjectId) -> Result<Option<&'static str>, Error> {
        match (id, self.phase) {
            (ObjectId::String(_), 1) => Err(Error::invalid(format!(
                "string object ids are only read in rollout phase 1: `{id}` can be created from \
                 phase 2 on"
            ))),
            (ObjectId::Numeric(_), 4) => Ok(Some(NUMERIC_WARNING)),
            (ObjectId::Numeric(_), 5..) => Err(Error::invalid(format!(
                "objects with numeric ids are no longer created in rollout phase {}: `{id}` needs \
                 a string id",
                self.phase
            ))),
            _ => Ok(None),
        }
    }

    /// Whether entries with this key may be written. Older ones that may not are still read.
    pub(super) fn check_written(&self, key: &EntryKey) -> Result<(), Error> {
        match key {
            EntryKey::Numeric(_) => Ok(()),
            EntryKey::String(_) if !self.string_keys => Err(Error::invalid(format!(
                "string entry keys are not enabled: `{key}` needs {STRING_KEYS}=true"
            ))),
            EntryKey::String(_) if self.phase == 1 => Err(Error::invalid(format!(
                "string entry keys are only read in rollout phase 1: `{key}` can be written from \
                 phase 2 on"
            ))),
            // What stands for both kinds of keys means a number: the entry could be written and not
            // be read.
            EntryKey::String(text) if is_number_like(text.as_str()) => {
                Err(Error::invalid(format!(
                    "`{key}` as a string key looks like a number: name the entry by its number"
                )))
            }
            EntryKey::String(_) => Ok(()),
        }
    }
}

/// Whether a text that is no number would be one, or refused, where it may be either
/// ([`EntryKey::segment`]).
pub(crate) fn is_number_like(text: &str) -> bool {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits && (text.starts_with('0') || text.parse::<u32>().is_ok())
}

impl Engine {
    /// How far string identities are rolled out.
    pub fn rollout(&self) -> Rollout {
        self.catalog().record.rollout
    }

    /// Sets how far string identities are rolled out, for all who use the store, from the next
    /// commit on.
    pub async fn set_rollout(&self, rollout: Rollout) -> Result<(), Error> {
        rollout.check()?;
        self.edit_catalog(&|record| record.rollout = rollout).await
    }

    /// The identity that a text names, as the string field of a request has it.
    pub fn object_id(&self, text: &str) -> Result<ObjectId, Error> {
        ObjectId::string(text, id_len_max(&self.catalog()))
            .map_err(|error| Error::invalid(error.to_string()))
    }

    /// The identity that a segment of a path names: digits that fit 64 bits are numeric.
    pub fn object_segment(&self, text: &str) -> Result<ObjectId, Error> {
        ObjectId::segment(text, id_len_max(&self.catalog()))
            .map_err(|error| Error::invalid(error.to_string()))
    }

    /// The entry key that a text names, as the string field of a request has it.
    pub fn entry_key(&self, text: &str) -> Result<EntryKey, Error> {
        EntryKey::string(text, id_len_max(&self.catalog()))
            .map_err(|error| Error::invalid(error.to_string()))
    }

    /// The entry key that a segment of a path names: digits that fit 32 bits are numeric.
    pub fn entry_segment(&self, text: &str) -> Result<EntryKey, Error> {
        EntryKey::segment(text, id_len_max(&self.catalog()))
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

fn id_len_max(catalog: &Arc<Catalog>) -> usize {
    usize::from(catalog.record.rollout.id_len_max)
}
