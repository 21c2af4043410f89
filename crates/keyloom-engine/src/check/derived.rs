//! Derived documents compared with what they are derived from.

use std::collections::BTreeMap;

use keyloom_key::Value;

use super::{CheckRun, readable};
use crate::apply::documents_page;
use crate::catalog::{Catalog, Collection, Derive};
use crate::document::Record;
use crate::error::Error;

/// Sums and count of one group.
#[derive(Debug, Default, PartialEq, Eq)]
struct Group {
    sums: Vec<i128>,
    count: i64,
}

impl CheckRun<'_> {
    /// Every derived document holds the sums and the count of its group (V1).
    pub(super) async fn check_derived(&mut self, catalog: &Catalog) -> Result<(), Error> {
        for collection in catalog.collections.values() {
            let Some(derive) = &collection.derive else { continue };
            let mut groups = self.groups(catalog, collection, derive).await?;
            let mut from = None;
            loop {
                let page = documents_page(&*self.snapshot, collection, from.as_deref()).await?;
                let Some(last) = page.last() else { break };
                from = Some(last.key.clone());
                for entry in &page {
                    let Some((_, record)) = readable(collection, &entry.stored.value) else {
                        groups.remove(&entry.key);
                        continue;
                    };
                    let mut expected = groups.remove(&entry.key).unwrap_or_default();
                    expected.sums.resize(derive.sums.len(), 0);
                    if kept(derive, &record, expected.count) != expected {
                        let what = "it does not hold the sums of its group";
                        self.problem(collection, "derived", &entry.key, what);
                    }
                }
            }
            for (key, group) in &groups {
                // A document that holds nothing but zeros may go.
                if derive.count.is_some() || group.sums.iter().any(|sum| *sum != 0) {
                    self.problem(collection, "derived", key, "it is missing");
                }
            }
        }
        Ok(())
    }

    async fn groups(
        &mut self,
        catalog: &Catalog,
        collection: &Collection,
        derive: &Derive,
    ) -> Result<BTreeMap<Vec<u8>, Group>, Error> {
        let source = catalog.collection(&derive.from)?;
        let mut groups: BTreeMap<Vec<u8>, Group> = BTreeMap::new();
        let mut from = None;
        loop {
            let page = documents_page(&*self.snapshot, source, from.as_deref()).await?;
            let Some(last) = page.last() else { return Ok(groups) };
            from = Some(last.key.clone());
            for entry in &page {
                let Some((_, record)) = readable(source, &entry.stored.value) else { continue };
                let values: Option<Vec<Value>> =
                    derive.group.iter().map(|(_, there)| record.scalar(*there).cloned()).collect();
                let Some(values) = values else { continue };
                let group = groups.entry(collection.key.pack(&values)?).or_default();
                group.sums.resize(derive.sums.len(), 0);
                group.count += 1;
                for ((_, there), sum) in derive.sums.iter().zip(&mut group.sums) {
                    *sum += i128::from(number(&record, *there));
                }
            }
        }
    }
}

/// What a derived document holds.
fn kept(derive: &Derive, record: &Record, count: i64) -> Group {
    Group {
        sums: derive.sums.iter().map(|(here, _)| number(record, *here).into()).collect(),
        count: derive.count.map_or(count, |here| number(record, here)),
    }
}

fn number(record: &Record, field: usize) -> i64 {
    match record.scalar(field) {
        Some(Value::Int(value)) => *value,
        _ => 0,
    }
}
