//! What each operation on objects takes and answers: further rows of `describe`.

use super::describe::{
    Body, ETAG, IF_ABSENT, IF_MATCH, IF_NEWER, JSON, LOCATION, NOT_MODIFIED, Operation, PLAIN,
    Success, ok,
};
use super::objects::PROTOBUF;

const CLASS: &str = "/api/class/{class}";
const OBJECT: &str = "/api/class/{class}/{partition}/objects/{id}";
const VALUE: &str = "/api/class/{class}/{partition}/objects/{id}/values/{field}";

const READ: &[u16] = &[404];
const WRITE: &[u16] = &[404, 409, 412];

const UPDATED: Success = Success {
    status: 200,
    summary: "The object has changed",
    content: &[(JSON, "ObjectWritten"), (PROTOBUF, "")],
    headers: &[],
};
const CREATED: Success = Success {
    status: 201,
    summary: "The object is new",
    content: &[(JSON, "ObjectWritten"), (PROTOBUF, "")],
    headers: &[ETAG, LOCATION],
};

/// Every operation on objects and classes.
pub(super) fn operations() -> Vec<Operation> {
    [objects(), values(), classes()].into_iter().flatten().collect()
}

fn objects() -> Vec<Operation> {
    const BODY: Body = Body { media: &[JSON, PROTOBUF], schema: "ObjectBody" };
    let shown = Success {
        status: 200,
        summary: "The object",
        content: &[(JSON, "Object"), (PROTOBUF, "")],
        headers: &[ETAG],
    };
    vec![
        Operation {
            path: OBJECT,
            id: "getObject",
            summary: "An object with all its entries; digits are a number, anything else a string",
            parameters: vec![IF_NEWER],
            answers: vec![shown, NOT_MODIFIED],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "put",
            path: OBJECT,
            id: "setObject",
            summary: "Replace an object, or create it: entries that are not named are gone",
            parameters: vec![IF_MATCH, IF_ABSENT],
            body: Some(BODY),
            answers: vec![UPDATED, CREATED],
            problems: WRITE,
        },
        Operation {
            method: "patch",
            path: OBJECT,
            id: "mergeObject",
            summary: "Set the entries that are named, and keep the others",
            parameters: vec![IF_MATCH, IF_ABSENT],
            body: Some(BODY),
            answers: vec![UPDATED, CREATED],
            problems: WRITE,
        },
        Operation {
            method: "delete",
            path: OBJECT,
            id: "deleteObject",
            summary: "Delete an object with all its entries",
            parameters: vec![IF_MATCH, IF_ABSENT],
            answers: vec![UPDATED],
            problems: WRITE,
            ..PLAIN
        },
    ]
}

fn values() -> Vec<Operation> {
    let shown = Success {
        status: 200,
        summary: "The entry",
        content: &[(JSON, "Entry"), (PROTOBUF, "")],
        headers: &[ETAG],
    };
    vec![
        Operation {
            path: VALUE,
            id: "getValue",
            summary: "One entry; digits are a number, anything else a string",
            parameters: vec![IF_NEWER],
            answers: vec![shown, NOT_MODIFIED],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "put",
            path: VALUE,
            id: "setValue",
            summary: "Set one entry: base64 in `data`, or any JSON",
            parameters: vec![IF_MATCH, IF_ABSENT],
            body: Some(Body { media: &[JSON, PROTOBUF], schema: "Value" }),
            answers: vec![UPDATED, CREATED],
            problems: WRITE,
        },
        Operation {
            method: "delete",
            path: VALUE,
            id: "deleteValue",
            summary: "Delete one entry",
            parameters: vec![IF_MATCH, IF_ABSENT],
            answers: vec![UPDATED],
            problems: WRITE,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/api/class/{class}/{partition}/objects/{id}/values/batch",
            id: "batchValues",
            summary: "Set and delete entries in one commit; an entry that is called batch is \
                      addressed as %62atch",
            parameters: vec![IF_MATCH, IF_ABSENT],
            body: Some(Body { media: &[JSON, PROTOBUF], schema: "EntryBatchBody" }),
            answers: vec![UPDATED, CREATED],
            problems: WRITE,
        },
    ]
}

fn classes() -> Vec<Operation> {
    vec![
        Operation {
            path: CLASS,
            id: "getClass",
            summary: "What a class says, and how much there is of it",
            answers: vec![ok(&[(JSON, "Class")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "put",
            path: CLASS,
            id: "putClass",
            summary: "Put a class in force",
            body: Some(Body { media: &[JSON], schema: "" }),
            answers: vec![ok(&[(JSON, "SchemaChange")])],
            problems: &[409, 422],
            ..PLAIN
        },
        Operation {
            path: "/api/capabilities",
            id: "capabilities",
            summary: "What the server accepts at present",
            answers: vec![ok(&[(JSON, "Capabilities")])],
            ..PLAIN
        },
        Operation {
            path: "/api/rollout",
            id: "getRollout",
            summary: "How far string identities are rolled out",
            answers: vec![ok(&[(JSON, "Rollout")])],
            ..PLAIN
        },
        Operation {
            method: "put",
            path: "/api/rollout",
            id: "setRollout",
            summary: "Roll string identities out further, or back",
            body: Some(Body { media: &[JSON], schema: "Rollout" }),
            answers: vec![ok(&[(JSON, "Rollout")])],
            problems: &[409],
            ..PLAIN
        },
        Operation {
            path: "/debug/object-hash/{class}/{partition}/{id}",
            id: "objectHash",
            summary: "The hash of an identity, and the partition it falls into",
            answers: vec![ok(&[(JSON, "ObjectHash")])],
            problems: READ,
            ..PLAIN
        },
    ]
}
