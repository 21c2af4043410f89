//! Answers with documents, written byte by byte: what is stored is spliced, never read again.
//!
//! B1: The bytes are those that serde would write for the same type of `keyloom-api`.

use keyloom_engine::{Document, Item, Page};
use serde::Serialize;

use crate::wire;

/// What stands around the data of a document, as a usual length.
const HEAD_BYTES: usize = 256;

/// The answer that is one document.
pub(crate) fn document(document: &Document) -> Vec<u8> {
    let mut body = Vec::with_capacity(document.data.len() + HEAD_BYTES);
    write_document(&mut body, document);
    body
}

/// The answer that is a page of a query.
pub(crate) fn page(page: Page, explain: bool) -> Vec<u8> {
    let Page { items, next, cost, plan } = page;
    let data: usize = items.iter().map(|item| item.data().len() + HEAD_BYTES).sum();
    let mut body = Vec::with_capacity(data + HEAD_BYTES);
    body.extend_from_slice(b"{\"items\":[");
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        write_item(&mut body, item);
    }
    body.extend_from_slice(b"],\"next\":");
    write(&mut body, &next);
    body.extend_from_slice(b",\"cost\":");
    write(&mut body, &wire::cost(cost));
    if explain {
        body.extend_from_slice(b",\"plan\":");
        write(&mut body, &wire::plan(plan));
    }
    body.push(b'}');
    body
}

fn write_item(body: &mut Vec<u8>, item: &Item) {
    match item {
        Item::Document(document) => write_document(body, document),
        Item::Selected { key, data } => {
            body.extend_from_slice(b"{\"key\":");
            write(body, key);
            body.extend_from_slice(b",\"data\":");
            body.extend_from_slice(data);
            body.push(b'}');
        }
    }
}

fn write_document(body: &mut Vec<u8>, document: &Document) {
    let Document { key, version, created_at, updated_at, owner, description, data } = document;
    body.extend_from_slice(b"{\"key\":");
    write(body, key);
    body.extend_from_slice(b",\"version\":");
    write(body, version);
    body.extend_from_slice(b",\"created_at\":");
    write(body, created_at);
    body.extend_from_slice(b",\"updated_at\":");
    write(body, updated_at);
    body.extend_from_slice(b",\"owner\":");
    write(body, owner);
    body.extend_from_slice(b",\"description\":");
    write(body, description);
    body.extend_from_slice(b",\"data\":");
    body.extend_from_slice(data);
    body.push(b'}');
}

fn write(body: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(body, value).expect("text and numbers are JSON, and a Vec takes bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(owner: Option<&str>, data: &str) -> Document {
        Document {
            key: "a\"\u{1}é".to_owned(),
            version: 1_700_000_000_000_001,
            created_at: 1,
            updated_at: 2,
            owner: owner.map(str::to_owned),
            description: Some("\\".to_owned()),
            data: data.as_bytes().to_vec(),
        }
    }

    #[test]
    fn b1_a_document_is_what_serde_writes() {
        for found in [stored(None, "{ }"), stored(Some("ü"), r#"{"a" : 1.0}"#)] {
            let expected = serde_json::to_vec(&wire::document(found.clone()).unwrap()).unwrap();
            assert_eq!(document(&found), expected);
        }
    }
}
