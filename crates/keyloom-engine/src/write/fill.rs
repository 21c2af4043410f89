//! Completes the data of a document: generated values, defaults, and what the engine keeps.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::catalog::{Collection, Field, Generate};
use crate::document::Members;
use crate::engine::Engine;
use crate::error::Error;

/// The characters of a generated code: no 0, 1, I and O, which people mix up.
const CODE_ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

/// What was generated, as JSON text by operation and field.
pub(super) type Generated = BTreeMap<(usize, usize), String>;

/// Where generated values come from.
pub(super) struct Supply<'a> {
    pub(super) operation: usize,
    pub(super) now_millis: u64,
    /// What earlier attempts at the same write drew: a value that was free stays, so that of a
    /// thousand documents only the one whose code was taken gets another.
    pub(super) drawn: &'a mut Generated,
}

/// What the engine adds to data.
pub(super) struct Additions {
    /// Fields, by place, and their JSON values.
    pub(super) members: Vec<(usize, String)>,
    /// The fields that were generated now, by place.
    pub(super) generated: Vec<usize>,
}

impl Engine {
    /// What completes new data, whose members are matched to the fields of the collection. What was
    /// generated before is kept from `old`; a caller who leaves it out does not mean to change it.
    pub(super) fn additions(
        &self,
        collection: &Collection,
        members: &Members<'_>,
        old: Option<&[u8]>,
        supply: Supply<'_>,
    ) -> Result<Additions, Error> {
        let mut old = Kept { collection, data: old, members: None };
        let mut added: Vec<(usize, String)> = Vec::new();
        let mut generated = Vec::new();
        let mut present = vec![false; collection.fields.len()];
        for member in members.iter().filter(|member| member.raw != "null") {
            if let Some(present) = member.field.and_then(|place| present.get_mut(place)) {
                *present = true;
            }
        }
        let missing = collection.fields.iter().enumerate().zip(present);
        for ((place, field), _) in missing.filter(|(_, present)| !present) {
            let value = match (&field.generate, field.derived) {
                (None, false) => default_of(field),
                (generate, _) => match (old.get(place)?, generate) {
                    (Some(kept), _) => Some(kept.to_owned()),
                    (None, None) => default_of(field),
                    (None, Some(generate)) => {
                        generated.push(place);
                        Some(match supply.drawn.entry((supply.operation, place)) {
                            Entry::Occupied(drawn) => drawn.get().clone(),
                            Entry::Vacant(free) => {
                                free.insert(self.generate(generate, supply.now_millis)?).clone()
                            }
                        })
                    }
                },
            };
            added.extend(value.map(|value| (place, value)));
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

/// The data that a document had before, split when it is first asked for: most changes bring all
/// that was generated.
struct Kept<'a> {
    collection: &'a Collection,
    data: Option<&'a [u8]>,
    members: Option<Members<'a>>,
}

impl<'a> Kept<'a> {
    fn get(&mut self, place: usize) -> Result<Option<&'a str>, Error> {
        let Some(data) = self.data else { return Ok(None) };
        let members = match &mut self.members {
            Some(members) => members,
            none => none.insert(Members::parse_for(&self.collection.fields, data)?),
        };
        Ok(members.of_field(place))
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
