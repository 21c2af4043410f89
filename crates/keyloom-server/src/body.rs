//! Answers with documents, written byte by byte: what is stored is spliced, never read again.
//!
//! B1: The bytes are those that serde would write for the same type of `keyloom-api`.

use keyloom_api::Outcome;
use keyloom_engine::{Document, Items, Listed, Page, Selected, Written};
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
    let next = page.next();
    let Page { items, next: _, cost, plan } = page;
    let room = match &items {
        Items::Documents(documents) => room(documents.iter().map(|it| it.data.len())),
        // Few fields fit what is reckoned for the head of a document.
        Items::Selected(rows) => room(rows.iter().map(|_| 0)),
    };
    let mut body = Vec::with_capacity(room);
    body.extend_from_slice(b"{\"items\":");
    match &items {
        Items::Documents(documents) => write_all(&mut body, documents, write_document),
        Items::Selected(rows) => write_all(&mut body, rows.iter(), write_selected),
    }
    member(&mut body, "next", &next);
    member(&mut body, "cost", &wire::cost(cost));
    if explain {
        member(&mut body, "plan", &wire::plan(&plan));
    }
    body.push(b'}');
    body
}

/// The answer that is a page of the list matcher.
pub(crate) fn list(listed: Listed, explain: bool) -> Vec<u8> {
    let Listed {
        items,
        items_length,
        items_page,
        matches_length,
        matches_pages,
        next,
        cost: spent,
        plan: run,
    } = listed;
    let mut body = Vec::with_capacity(room(items.iter().map(|document| document.data.len())));
    body.extend_from_slice(b"{\"items\":");
    write_all(&mut body, &items, write_document);
    member(&mut body, "items_length", &items_length);
    member(&mut body, "items_page", &items_page);
    member(&mut body, "matches_length", &matches_length);
    member(&mut body, "matches_pages", &matches_pages);
    member(&mut body, "next", &next);
    member(&mut body, "cost", &wire::cost(spent));
    if explain {
        member(&mut body, "plan", &wire::plan(&run));
    }
    body.push(b'}');
    body
}

/// The answer that is documents by their keys, each in its place.
pub(crate) fn documents(found: &[Option<Document>]) -> Vec<u8> {
    let data = found.iter().map(|found| found.as_ref().map_or(0, |found| found.data.len()));
    let mut body = Vec::with_capacity(room(data));
    body.extend_from_slice(b"{\"items\":");
    write_all(&mut body, found, |body, found| match found {
        Some(document) => write_document(body, document),
        None => body.extend_from_slice(b"null"),
    });
    body.push(b'}');
    body
}

/// The answer that is what operations did.
pub(crate) fn results(written: &[Written]) -> Vec<u8> {
    let data = written.iter().map(|one| one.document().map_or(0, |left| left.data.len()));
    let mut body = Vec::with_capacity(room(data));
    body.extend_from_slice(b"{\"results\":");
    write_all(&mut body, written, write_result);
    body.push(b'}');
    body
}

/// About as many bytes as an answer with data of so many bytes each takes.
fn room(data_bytes: impl Iterator<Item = usize>) -> usize {
    HEAD_BYTES + data_bytes.map(|bytes| bytes + HEAD_BYTES).sum::<usize>()
}

fn write_all<T>(
    body: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    write_one: impl Fn(&mut Vec<u8>, T),
) {
    body.push(b'[');
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        write_one(body, item);
    }
    body.push(b']');
}

fn write_result(body: &mut Vec<u8>, written: &Written) {
    let (outcome, key, version, left) = match written {
        Written::Created(new) => (Outcome::Created, &new.key, Some(new.version), Some(new)),
        Written::Updated(new) => (Outcome::Updated, &new.key, Some(new.version), Some(new)),
        Written::Deleted { key, version } => (Outcome::Deleted, key, Some(*version), None),
        Written::Absent { key } => (Outcome::Absent, key, None, None),
    };
    body.extend_from_slice(b"{\"outcome\":");
    write(body, &outcome);
    member(body, "key", key);
    if let Some(version) = version {
        member(body, "version", &version);
    }
    if let Some(document) = left {
        body.extend_from_slice(b",\"document\":");
        write_document(body, document);
    }
    body.push(b'}');
}

fn write_selected(body: &mut Vec<u8>, selected: Selected<'_>) {
    body.extend_from_slice(b"{\"key\":");
    write(body, &selected.key());
    body.extend_from_slice(b",\"data\":");
    selected.write_data(body);
    body.push(b'}');
}

fn write_document(body: &mut Vec<u8>, document: &Document) {
    let Document { key, version, created_at, updated_at, owner, description, data } = document;
    body.extend_from_slice(b"{\"key\":");
    write(body, key);
    member(body, "version", version);
    member(body, "created_at", created_at);
    member(body, "updated_at", updated_at);
    member(body, "owner", owner);
    member(body, "description", description);
    body.extend_from_slice(b",\"data\":");
    body.extend_from_slice(data);
    body.push(b'}');
}

/// Writes one more member of an object; its name needs no escape.
fn member(body: &mut Vec<u8>, name: &'static str, value: &impl Serialize) {
    body.extend_from_slice(b",\"");
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(b"\":");
    write(body, value);
}

fn write(body: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(body, value).expect("text and numbers are JSON, and a Vec takes bytes");
}

#[cfg(test)]
mod tests {
    use keyloom_api as api;

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

    /// Two documents that differ in all that can be absent.
    fn two() -> [Document; 2] {
        [stored(None, "{ }"), stored(Some("ü"), r#"{"a" : 1.0}"#)]
    }

    fn serde(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    fn text(body: Vec<u8>) -> String {
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn b1_a_document_is_what_serde_writes() {
        for found in two() {
            let expected = serde(&wire::document(found.clone()).unwrap());
            assert_eq!(text(document(&found)), expected);
        }
    }

    #[test]
    fn b1_documents_with_one_missing_are_what_serde_writes() {
        let [one, other] = two();
        for found in [vec![], vec![None], vec![Some(one), None, Some(other)]] {
            let items = found.clone().into_iter();
            let items = items.map(|found| found.map(wire::document).transpose());
            let expected = api::Documents { items: items.collect::<Result<_, _>>().unwrap() };
            assert_eq!(text(documents(&found)), serde(&expected));
        }
    }

    #[test]
    fn b1_what_operations_did_is_what_serde_writes() {
        let [one, other] = two();
        let written = vec![
            Written::Created(one),
            Written::Updated(other),
            Written::Deleted { key: "\"".to_owned(), version: 7 },
            Written::Absent { key: "é".to_owned() },
        ];
        let results = written.clone().into_iter().map(wire::written);
        let expected = api::BatchAnswer { results: results.collect::<Result<_, _>>().unwrap() };
        assert_eq!(text(super::results(&written)), serde(&expected));
    }
}
