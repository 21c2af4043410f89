//! What each operation on objects takes and answers: further rows of `describe`.

use super::describe::{
    Body, ETAG, IF_ABSENT, IF_MATCH, IF_NEWER, JSON, Kind, LOCATION, NOT_MODIFIED, Operation,
    PLAIN, Parameter, Success, ok, query,
};
use super::invokes::PAYLOADS;
use super::objects::PROTOBUF;

const CLASS: &str = "/api/class/{class}";
const OBJECT: &str = "/api/class/{class}/{partition}/objects/{id}";
const VALUE: &str = "/api/class/{class}/{partition}/objects/{id}/values/{field}";
const BATCH: &str = "/api/class/{class}/{partition}/objects/{id}/values/batch";

const PAGE: &[Parameter] = &[
    query("prefix", Kind::Text, "Only ids or keys that begin so"),
    query("limit", Kind::Number, "The most items of the page"),
    query("cursor", Kind::Text, "The next of the page before"),
];

const LIST: &[u16] = &[404, 413];
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
    [objects(), values(), classes(), functions(), letters()].into_iter().flatten().collect()
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
            path: "/api/class/{class}/{partition}/objects",
            id: "listObjects",
            summary: "One page of the objects of a partition, in the order of their ids",
            parameters: [PAGE, &[query("order", Kind::Text, "bytes, or numeric")]].concat(),
            answers: vec![ok(&[(JSON, "ObjectPage")])],
            problems: LIST,
            ..PLAIN
        },
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
    let mut all = vec![Operation {
        path: "/api/class/{class}/{partition}/objects/{id}/values",
        id: "listValues",
        summary: "A page of the entries of an object, in the order of keys, or some of them",
        parameters: [PAGE, &[query("key", Kind::Texts, "Only these, in this order")]].concat(),
        answers: vec![ok(&[(JSON, "EntryPage")])],
        problems: LIST,
        ..PLAIN
    }];
    all.extend(value(
        VALUE,
        [
            ("getValue", "One entry; digits are a number, anything else a string"),
            ("setValue", "Set one entry: base64 in `data`, or any JSON"),
            ("deleteValue", "Delete one entry"),
        ],
    ));
    all.push(Operation {
        method: "post",
        path: BATCH,
        id: "batchValues",
        summary: "Set and delete entries in one commit",
        parameters: vec![IF_MATCH, IF_ABSENT],
        body: Some(Body { media: &[JSON, PROTOBUF], schema: "EntryBatchBody" }),
        answers: vec![UPDATED, CREATED],
        problems: WRITE,
    });
    all.extend(value(
        BATCH,
        [
            ("getBatchValue", "The entry that is called batch"),
            ("setBatchValue", "Set the entry that is called batch"),
            ("deleteBatchValue", "Delete the entry that is called batch"),
        ],
    ));
    all
}

/// What is done with one entry, each with its id and summary.
fn value(
    path: &'static str,
    [get, set, delete]: [(&'static str, &'static str); 3],
) -> [Operation; 3] {
    let shown = Success {
        status: 200,
        summary: "The entry",
        content: &[(JSON, "Entry"), (PROTOBUF, "")],
        headers: &[ETAG],
    };
    [
        Operation {
            path,
            id: get.0,
            summary: get.1,
            parameters: vec![IF_NEWER],
            answers: vec![shown, NOT_MODIFIED],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "put",
            path,
            id: set.0,
            summary: set.1,
            parameters: vec![IF_MATCH, IF_ABSENT],
            body: Some(Body { media: &[JSON, PROTOBUF], schema: "Value" }),
            answers: vec![UPDATED, CREATED],
            problems: WRITE,
        },
        Operation {
            method: "delete",
            path,
            id: delete.0,
            summary: delete.1,
            parameters: vec![IF_MATCH, IF_ABSENT],
            answers: vec![UPDATED],
            problems: WRITE,
            ..PLAIN
        },
    ]
}

fn functions() -> Vec<Operation> {
    const ANY: Body = Body { media: PAYLOADS, schema: "" };
    let later = Success {
        status: 202,
        summary: "The function works on it",
        content: &[(JSON, "Invoked")],
        headers: &[],
    };
    let answers = vec![ok(&[(JSON, "Invoked")]), later];
    let is_async = query("async", Kind::Text, "true answers at once; other parameters are options");
    vec![
        Operation {
            method: "post",
            path: "/api/class/{class}/{partition}/invokes/{function}",
            id: "invokeFunction",
            summary: "Call a function of a class; the body is what it works on",
            parameters: vec![is_async],
            body: Some(ANY),
            answers: answers.clone(),
            problems: READ,
        },
        Operation {
            method: "post",
            path: "/api/class/{class}/{partition}/objects/{id}/invokes/{function}",
            id: "invokeOnObject",
            summary: "Call a function on an object; the body is what it works on",
            parameters: vec![is_async],
            body: Some(ANY),
            answers: answers.clone(),
            problems: READ,
        },
        Operation {
            path: "/api/class/{class}/{partition}/invocations/{invocation}",
            id: "invocationResult",
            summary: "The result of an asynchronous call, once",
            answers,
            problems: READ,
            ..PLAIN
        },
    ]
}

fn letters() -> Vec<Operation> {
    vec![
        Operation {
            path: "/api/class/{class}/{partition}/dead-letters",
            id: "deadLetters",
            summary: "Events that could not be delivered",
            parameters: vec![
                query("from", Kind::Number, "The first sequence number"),
                query("limit", Kind::Number, "The most items of the page"),
            ],
            answers: vec![ok(&[(JSON, "DeadLetters")])],
            problems: LIST,
            ..PLAIN
        },
        Operation {
            method: "delete",
            path: "/api/class/{class}/{partition}/dead-letters",
            id: "deleteDeadLetters",
            summary: "Forget the events of a partition that could not be delivered",
            answers: vec![ok(&[(JSON, "LettersDeleted")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "delete",
            path: "/api/class/{class}/{partition}/dead-letters/{sequence}",
            id: "deleteDeadLetter",
            summary: "Forget an event that could not be delivered",
            answers: vec![ok(&[(JSON, "LettersDeleted")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/api/class/{class}/{partition}/dead-letters/{sequence}/replay",
            id: "replay",
            summary: "Try to deliver an event again",
            body: Some(Body { media: &[JSON], schema: "" }),
            answers: vec![ok(&[(JSON, "Replayed")])],
            problems: &[404, 409, 412, 413],
            ..PLAIN
        },
    ]
}

fn classes() -> Vec<Operation> {
    vec![
        Operation {
            path: "/api/class",
            id: "listClasses",
            summary: "The names of the classes that the caller may read",
            answers: vec![ok(&[(JSON, "ClassNames")])],
            ..PLAIN
        },
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
            method: "post",
            path: "/api/class/{class}/rewrite",
            id: "rewriteClass",
            summary: "Move objects of older layouts to the layout of today; clients see no change",
            body: Some(Body { media: &[JSON], schema: "" }),
            answers: vec![ok(&[(JSON, "Rewritten")])],
            problems: &[404, 409],
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
