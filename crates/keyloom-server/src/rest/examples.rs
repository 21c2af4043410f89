//! Requests that succeed on the demo database: the examples of the OpenAPI document.
//!
//! X1: Every operation under `/v1` that has parts of a path or a body has an example; a test sends
//!     them all.

use serde_json::{Value as Json, json};

/// An example of a request.
pub(super) struct Example {
    /// The parts of the path, by name.
    pub(super) path: &'static [(&'static str, &'static str)],
    /// The body; `null` if there is none.
    pub(super) body: Json,
}

const TAGS: (&str, &str) = ("collection", "sticker_tags");
const TAG: &[(&str, &str)] = &[TAGS, ("key", "u1#f1#hello world")];

/// The example of an operation.
pub(super) fn example(operation: &str) -> Option<Example> {
    let of = |path, body| Some(Example { path, body });
    let wish = json!({"requester": "ann", "approver": "bob"});
    let mine = json!({"where": {"author": "u1", "file": "f6"}, "limit": 20});
    match operation {
        "showCollection" | "queryDocuments" | "listKeys" => of(&[TAGS], Json::Null),
        "applySchema" => {
            let id = json!({"type": "id", "required": true});
            let memos = json!({"key": "memo:{id}", "fields": {"id": id}});
            of(&[], json!({"collections": {"memos": memos}}))
        }
        "createDocument" => of(&[("collection", "approvals")], json!({ "data": wish })),
        "getMany" => of(&[TAGS], json!({"keys": ["u1#f1#hello world"]})),
        "deleteMany" => of(&[TAGS], json!({"where": {"author": "u2", "file": "f5"}})),
        "getDocument" => of(TAG, Json::Null),
        "putDocument" => {
            of(TAG, json!({"data": {"author": "u1", "file": "f1", "value": "hello world"}}))
        }
        "patchDocument" => of(TAG, json!({"set": "set2"})),
        "deleteDocument" => of(&[TAGS, ("key", "u3#f7#helicopter")], Json::Null),
        "lookup" => {
            of(&[("collection", "users"), ("name", "username"), ("values", "ada")], Json::Null)
        }
        "query" | "count" | "exists" => of(&[TAGS], mine),
        "list" => of(&[TAGS], json!({"matcher": {"key": "^u1#"}, "paginate": {"limit": 20}})),
        "createToken" => of(&[], json!({"subject": "ann", "scopes": {"users": ["read"]}})),
        "revokeToken" => of(&[("id", "01ARZ3NDEKTSV4RRFFQ69G5FAV")], Json::Null),
        "replaceSet" => {
            let tag = json!({"author": "u3", "file": "f8", "value": "thanks"});
            of(&[TAGS, ("set", "values"), ("leading", "u3/f8")], json!({"documents": [tag]}))
        }
        "batch" => {
            let create = json!({"op": "create", "collection": "approvals", "data": wish});
            of(&[], json!({"operations": [create]}))
        }
        "check" => of(&[], json!({})),
        _ => None,
    }
}
