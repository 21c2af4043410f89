//! `explain` of a write: every key that it puts and deletes, without writing it.

use keyloom_key::{Head, Space};
use keyloom_store::Write;

use super::Operation;
use super::draft::tombstone_keys;
use super::drive::{check_request, unwrap_single};
use super::prepare::{Known, Request};
use crate::catalog::Catalog;
use crate::engine::{Actor, Engine};
use crate::error::Error;

/// What a write would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePlan {
    /// The keys that it puts.
    pub puts: Vec<PlannedKey>,
    /// The keys that it deletes.
    pub deletes: Vec<PlannedKey>,
    /// How many conditions the commit checks.
    pub checks: usize,
    /// How many changes it adds to the feed.
    pub changes: usize,
}

/// One key of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedKey {
    /// `document`, `index:name`, `unique:name`, `tombstone` or `counter`.
    pub role: String,
    /// The key in text spelling.
    pub key: String,
    /// The bytes of the packed key.
    pub key_bytes: usize,
    /// The bytes of the value; 0 for a key that is deleted.
    pub value_bytes: usize,
}

impl Engine {
    /// What a batch would write. Generated values are examples: the write draws its own.
    pub async fn explain_write(
        &self,
        actor: &Actor,
        operations: &[Operation],
    ) -> Result<WritePlan, Error> {
        check_request(actor, operations)?;
        let catalog = self.catalog();
        let unwrap = |error| if operations.len() == 1 { unwrap_single(error) } else { error };
        let request = Request { actor, operations };
        let mut known = Known::default();
        let draft = self.prepare(&catalog, request, &mut known).await.map_err(unwrap)?;
        // The write meets its tombstones in the commit and plans again; so does its explanation.
        self.learn_tombstones(&catalog, &tombstone_keys(&draft.commit, &draft.reasons), &mut known)
            .await?;
        let draft = self.prepare(&catalog, request, &mut known).await.map_err(unwrap)?;
        let mut plan = WritePlan {
            puts: Vec::new(),
            deletes: Vec::new(),
            checks: draft.commit.checks.len(),
            changes: draft.commit.changes.len(),
        };
        for write in &draft.commit.writes {
            let (role, key) = spell_key(&catalog, write.key())?;
            let key_bytes = write.key().len();
            let planned = |value_bytes| PlannedKey { role, key, key_bytes, value_bytes };
            match write {
                Write::Put { value, .. } => plan.puts.push(planned(value.len())),
                Write::Add { .. } => plan.puts.push(planned(8)),
                Write::Delete { .. } => plan.deletes.push(planned(0)),
            }
        }
        Ok(plan)
    }
}

/// What a stored key is, and how it is spelled.
pub(super) fn spell_key(catalog: &Catalog, key: &[u8]) -> Result<(String, String), Error> {
    let damaged = |detail: &str| Error::corrupt(format!("key {}: {detail}", key.escape_ascii()));
    let (head, packed) = Head::read(key).map_err(|error| damaged(&error.to_string()))?;
    match head.space {
        Space::Catalog => return Ok(("catalog".to_owned(), "catalog".to_owned())),
        Space::Token => return Ok(("token".to_owned(), "token".to_owned())),
        _ => {}
    }
    let collection =
        catalog.by_id(head.collection).ok_or_else(|| damaged("its collection is unknown"))?;
    let path = match head.space {
        Space::Counter => return Ok(("counter".to_owned(), collection.name.clone())),
        Space::Document | Space::Tombstone => &collection.key,
        _ => collection
            .further_paths()
            .find(|path| path.head == head)
            .ok_or_else(|| damaged("its template is unknown"))?,
    };
    let role = match head.space {
        Space::Document => "document".to_owned(),
        Space::Tombstone => "tombstone".to_owned(),
        Space::Claim => format!("unique:{}", path.name),
        _ => format!("index:{}", path.name),
    };
    let values = path.template.unpack(packed).map_err(|error| damaged(&error.to_string()))?;
    Ok((role, path.render(&values)?))
}
