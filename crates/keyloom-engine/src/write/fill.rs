//! Completes the data of a document: generated values, defaults, and what the engine keeps.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::catalog::{Collection, Field, Generate};
use crate::document::Members;
use crate::engine::Engine;
use crate::error::Error;

/// The characters of a generated code: no 0, 1, I and O, which people mix up.
const CODE_ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

/// What was generated for a document, as JSON text by field.
pub(super) type Generated = BTreeMap<usize, String>;

/// Where generated values come from.
pub(super) struct Supply<'a> {
    pub(super) now_millis: u64,
    /// What earlier attempts at the same write drew: a value that was free stays, so that of a
    /// thousand documents only the one whose code was taken gets another.
    pub(super) drawn: &'a mut Generated,
}

/// What the engine adds to data.
pub(super) struct Additions {
    /// Names and JSON values.
    pub(super) members: Vec<(String, String)>,
    /// The fields that were generated now, by place.
    pub(super) generated: Vec<usize>,
}

impl Engine {
    /// What completes new data. What was generated before is kept from `old`; a caller who leaves
    /// it out does not mean to change it.
    pub(super) fn additions(
        &self,
        collection: &Collection,
        members: &Members<'_>,
        old: Option<&[u8]>,
        supply: Supply<'_>,
    ) -> Result<Additions, Error> {
        let old = old.map(Members::parse).transpose()?;
        let mut added: Vec<(String, String)> = Vec::new();
        let mut generated = Vec::new();
        for (place, field) in collection.fields.iter().enumerate() {
            let present = members.get(&field.name).is_some_and(|raw| raw != "null");
            if present {
                continue;
            }
            let kept = old.as_ref().and_then(|old| old.get(&field.name));
            let value = match (&field.generate, kept) {
                (Some(_), Some(kept)) => Some(kept.to_owned()),
                (Some(generate), None) => {
                    generated.push(place);
                    Some(match supply.drawn.entry(place) {
                        Entry::Occupied(drawn) => drawn.get().clone(),
                        Entry::Vacant(free) => {
                            free.insert(self.generate(generate, supply.now_millis)?).clone()
                        }
                    })
                }
                (None, Some(kept)) if field.derived => Some(kept.to_owned()),
                (None, _) => default_of(field),
            };
            added.extend(value.map(|value| (field.name.clone(), value)));
        }
        Ok(Additions { members: added, generated })
    }

    fn generate(&self, generate: &Generate, now_millis: u64) -> Result<String, Error> {
        Ok(match generate {
            Generate::Ulid => format!("\"{}\"", self.next_ulid()?),
            Generate::Now => now_millis.to_string(),
            Generate::Code { before, characters, after } => {
                let mut random = vec![0; *characters];
                self.options.system.random(&mut random);
                let code: String = random.iter().map(|byte| code_character(*byte)).collect();
                serde_json::Value::String(format!("{before}{code}{after}")).to_string()
            }
        })
    }
}

fn default_of(field: &Field) -> Option<String> {
    match &field.default {
        Some(default) => Some(default.clone()),
        None => field.derived.then(|| "0".to_owned()),
    }
}

/// 32 characters divide 256, so every one is as likely as the others.
fn code_character(byte: u8) -> char {
    let place = usize::from(byte) % CODE_ALPHABET.len();
    CODE_ALPHABET.get(place).map_or('2', |character| char::from(*character))
}
