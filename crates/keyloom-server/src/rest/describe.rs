//! What each operation takes and answers: the rows that the OpenAPI document is made of.
//!
//! D1: Every method of every route has one row, and every row a route; a test compares them.

use super::describe_objects;

/// One operation of the API.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// As in the document: `{key}`, also where the router takes the rest of the path.
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Success>,
    /// The statuses of problems that are special to it.
    pub(super) problems: &'static [u16],
}

/// A parameter of a query, or a header; those of paths follow from the path.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: &'static str,
    pub(super) kind: Kind,
    pub(super) summary: &'static str,
}

/// What a parameter holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// Text that may be repeated.
    Texts,
    Number,
    Flag,
    /// Any fields with text values.
    Conditions,
}

/// A body: its media types and the name of its schema.
#[derive(Clone, Copy)]
pub(super) struct Body {
    pub(super) media: &'static [&'static str],
    pub(super) schema: &'static str,
}

/// An answer that is no problem.
#[derive(Clone, Copy)]
pub(super) struct Success {
    pub(super) status: u16,
    pub(super) summary: &'static str,
    /// Media types, each with the name of its schema; text if that is empty.
    pub(super) content: &'static [(&'static str, &'static str)],
    pub(super) headers: &'static [(&'static str, &'static str)],
}

pub(super) const JSON: &str = "application/json";
const DOCUMENTS: &str = "/v1/collections/{collection}/documents";
const DOCUMENT: &str = "/v1/collections/{collection}/documents/{key}";

pub(super) const ETAG: (&str, &str) = ("ETag", "The version of the document, in quotes");
pub(super) const LOCATION: (&str, &str) = ("Location", "Where the document is");
const MOVED: (&str, &str) = ("Content-Location", "Where the document is, if its key has changed");

pub(super) const IF_MATCH: Parameter =
    header("If-Match", "The ETag that the change is based on, or *");
pub(super) const IF_ABSENT: Parameter = header("If-None-Match", "* creates only");
pub(super) const IF_NEWER: Parameter = header("If-None-Match", "ETags that the client has");

const QUERY: Body = Body { media: &[JSON], schema: "QueryBody" };

/// What can go wrong in reads of a collection, besides what can go wrong everywhere.
const READ: &[u16] = &[404];
const WRITE: &[u16] = &[404, 409, 412, 422, 428];

const fn header(name: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, place: "header", kind: Kind::Text, summary }
}

pub(super) const fn query(name: &'static str, kind: Kind, summary: &'static str) -> Parameter {
    Parameter { name, place: "query", kind, summary }
}

pub(super) const fn ok(schema: &'static [(&'static str, &'static str)]) -> Success {
    Success { status: 200, summary: "Done", content: schema, headers: &[] }
}

pub(super) const NOT_MODIFIED: Success =
    Success { status: 304, summary: "The client has this version", content: &[], headers: &[ETAG] };
const SHOWN: Success = Success {
    status: 200,
    summary: "The document",
    content: &[(JSON, "Document")],
    headers: &[ETAG],
};
const CREATED: Success = Success {
    status: 201,
    summary: "The document is new",
    content: &[(JSON, "Document")],
    headers: &[ETAG, LOCATION],
};
const UPDATED: Success = Success {
    status: 200,
    summary: "The document has changed",
    content: &[(JSON, "Document")],
    headers: &[ETAG, MOVED],
};

pub(super) const PLAIN: Operation = Operation {
    method: "get",
    path: "",
    id: "",
    summary: "",
    parameters: Vec::new(),
    body: None,
    answers: Vec::new(),
    problems: &[],
};

/// Every operation there is.
pub(super) fn operations() -> Vec<Operation> {
    let documents = [status(), collections(), documents(), document(), questions(), tokens()];
    documents.into_iter().chain([others(), describe_objects::operations()]).flatten().collect()
}

fn status() -> Vec<Operation> {
    let readiness = vec![ok(&[(JSON, "Readiness")])];
    vec![
        Operation {
            path: "/healthz",
            id: "health",
            summary: "Whether the process answers",
            answers: readiness.clone(),
            ..PLAIN
        },
        Operation {
            path: "/readyz",
            id: "readiness",
            summary: "Whether the store can be read, and which indexes are still being built",
            answers: readiness,
            ..PLAIN
        },
        Operation {
            path: "/metrics",
            id: "metrics",
            summary: "Counters for Prometheus",
            answers: vec![ok(&[("application/openmetrics-text", "")])],
            ..PLAIN
        },
    ]
}

fn collections() -> Vec<Operation> {
    vec![
        Operation {
            path: "/v1/collections",
            id: "listCollections",
            summary: "The names of all collections",
            answers: vec![ok(&[(JSON, "Collections")])],
            ..PLAIN
        },
        Operation {
            path: "/v1/collections/{collection}",
            id: "showCollection",
            summary: "Schema, indexes with their state, documents per key format",
            answers: vec![ok(&[(JSON, "Collection")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "put",
            path: "/v1/schema",
            id: "applySchema",
            summary: "Put a schema in force, or tell what that would change; indexes are built \
                      before it answers, for which it has the time of --long-deadline",
            parameters: vec![query("dry_run", Kind::Flag, "Only tell what would change")],
            body: Some(Body { media: &["application/toml", JSON], schema: "" }),
            answers: vec![ok(&[(JSON, "SchemaChange")])],
            problems: &[409, 422],
        },
    ]
}

fn documents() -> Vec<Operation> {
    const FIND: &[Parameter] = &[
        query("conditions", Kind::Conditions, "field=value, field.prefix=…, .gt .gte .lt .lte .in"),
        query("order", Kind::Text, "A field, with - before it for descending"),
        query("limit", Kind::Number, "The most results of the page"),
        query("after", Kind::Text, "The next of the page before"),
        query("distinct", Kind::Text, "Only the first document of each group"),
        query("select", Kind::Text, "Only these fields, with commas between them"),
        query("scan", Kind::Number, "Allow a scan of so many keys"),
        query("explain", Kind::Flag, "Answer with the plan, too"),
    ];
    vec![
        Operation {
            path: DOCUMENTS,
            id: "queryDocuments",
            summary: "Documents by their fields",
            parameters: FIND.to_vec(),
            answers: vec![ok(&[(JSON, "Page")])],
            problems: &[404, 413],
            ..PLAIN
        },
        Operation {
            method: "post",
            path: DOCUMENTS,
            id: "createDocument",
            summary: "Create a document; its key follows from the data",
            body: Some(Body { media: &[JSON], schema: "DocumentBody" }),
            answers: vec![CREATED],
            problems: WRITE,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/v1/collections/{collection}/get",
            id: "getMany",
            summary: "Documents by their keys, in the same order; null where there is none",
            body: Some(Body { media: &[JSON], schema: "KeysBody" }),
            answers: vec![ok(&[(JSON, "Documents")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/v1/collections/{collection}/delete",
            id: "deleteMany",
            summary: "Delete the documents of one page of a query, in one commit",
            body: Some(QUERY),
            answers: vec![ok(&[(JSON, "DeletedMany")])],
            problems: WRITE,
            ..PLAIN
        },
    ]
}

fn document() -> Vec<Operation> {
    vec![
        Operation {
            path: DOCUMENT,
            id: "getDocument",
            summary: "One document by its key",
            parameters: vec![IF_NEWER],
            answers: vec![SHOWN, NOT_MODIFIED],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "put",
            path: DOCUMENT,
            id: "putDocument",
            summary: "Create or replace a document",
            parameters: vec![IF_MATCH, IF_ABSENT],
            body: Some(Body { media: &[JSON], schema: "DocumentBody" }),
            answers: vec![UPDATED, CREATED],
            problems: WRITE,
        },
        Operation {
            method: "patch",
            path: DOCUMENT,
            id: "patchDocument",
            summary: "Change members of the data: JSON merge patch",
            parameters: vec![IF_MATCH, IF_ABSENT],
            body: Some(Body { media: &["application/merge-patch+json", JSON], schema: "" }),
            answers: vec![UPDATED],
            problems: WRITE,
        },
        Operation {
            method: "delete",
            path: DOCUMENT,
            id: "deleteDocument",
            summary: "Delete a document; no effect if there is none",
            parameters: vec![IF_MATCH, IF_ABSENT],
            answers: vec![ok(&[(JSON, "Deleted")])],
            problems: WRITE,
            ..PLAIN
        },
        Operation {
            path: "/v1/collections/{collection}/unique/{name}/{values}",
            id: "lookup",
            summary: "The document that holds a unique claim; further values are further segments",
            parameters: vec![IF_NEWER],
            answers: vec![SHOWN, NOT_MODIFIED],
            problems: READ,
            ..PLAIN
        },
    ]
}

fn questions() -> Vec<Operation> {
    const KEYS: &[Parameter] = &[
        query("index", Kind::Text, "An index or a unique claim; document keys without it"),
        query("prefix", Kind::Text, "Only keys that begin so"),
        query("limit", Kind::Number, "The most keys of the page"),
        query("after", Kind::Text, "The next of the page before"),
    ];
    vec![
        Operation {
            method: "post",
            path: "/v1/collections/{collection}/query",
            id: "query",
            summary: "Documents by their fields",
            body: Some(QUERY),
            answers: vec![ok(&[(JSON, "Page")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/v1/collections/{collection}/count",
            id: "count",
            summary: "How many documents satisfy a query",
            body: Some(QUERY),
            answers: vec![ok(&[(JSON, "Count")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/v1/collections/{collection}/exists",
            id: "exists",
            summary: "Whether any document satisfies a query",
            body: Some(QUERY),
            answers: vec![ok(&[(JSON, "Exists")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/v1/collections/{collection}/list",
            id: "list",
            summary: "Documents by expressions on key and description, by times and owner",
            body: Some(Body { media: &[JSON], schema: "ListBody" }),
            answers: vec![ok(&[(JSON, "ListPage")])],
            problems: READ,
            ..PLAIN
        },
        Operation {
            path: "/v1/collections/{collection}/keys",
            id: "listKeys",
            summary: "The stored keys of a path, in text spelling",
            parameters: KEYS.to_vec(),
            answers: vec![ok(&[(JSON, "KeyPage")])],
            problems: &[404, 413],
            ..PLAIN
        },
    ]
}

fn tokens() -> Vec<Operation> {
    let paging = vec![
        query("after", Kind::Text, "The next of the page before"),
        query("limit", Kind::Number, "The most tokens of the page"),
    ];
    vec![
        Operation {
            path: "/v1/tokens",
            id: "listTokens",
            summary: "What is known of all tokens; never their secrets",
            parameters: paging,
            answers: vec![ok(&[(JSON, "TokenPage")])],
            problems: &[413],
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/v1/tokens",
            id: "createToken",
            summary: "Make a token; it is shown once",
            body: Some(Body { media: &[JSON], schema: "TokenBody" }),
            answers: vec![Success {
                status: 201,
                summary: "The token",
                content: &[(JSON, "NewToken")],
                headers: &[],
            }],
            ..PLAIN
        },
        Operation {
            method: "delete",
            path: "/v1/tokens/{id}",
            id: "revokeToken",
            summary: "Make a token invalid, at once",
            answers: vec![ok(&[(JSON, "Revoked")])],
            ..PLAIN
        },
    ]
}

fn others() -> Vec<Operation> {
    const FOLLOW: &[Parameter] = &[
        query("after", Kind::Text, "A position, or end; without it, the oldest change there is"),
        query("collection", Kind::Text, "Only changes of this collection, or of this class"),
        query("limit", Kind::Number, "The most changes of a page of lines"),
        header("Last-Event-ID", "The position to go on from; set by browsers"),
    ];
    vec![
        Operation {
            method: "put",
            path: "/v1/collections/{collection}/sets/{set}/{leading}",
            id: "replaceSet",
            summary: "Replace all documents of a set in one commit",
            body: Some(Body { media: &[JSON], schema: "SetBody" }),
            answers: vec![ok(&[(JSON, "BatchAnswer")])],
            problems: WRITE,
            ..PLAIN
        },
        Operation {
            method: "post",
            path: "/v1/batch",
            id: "batch",
            summary: "Several operations in one commit, or what they would write",
            parameters: vec![query("explain", Kind::Flag, "Only tell which keys would be written")],
            body: Some(Body { media: &[JSON], schema: "BatchBody" }),
            answers: vec![ok(&[(JSON, "BatchAnswer|WritePlan")])],
            problems: WRITE,
        },
        Operation {
            method: "post",
            path: "/v1/check",
            id: "check",
            summary: "Compare all documents and keys; it has the time of --long-deadline",
            body: Some(Body { media: &[JSON], schema: "CheckBody" }),
            answers: vec![ok(&[(JSON, "CheckReport")])],
            ..PLAIN
        },
        Operation {
            path: "/v1/changes",
            id: "changes",
            summary: "What was written: events for followers, or a page of lines",
            parameters: FOLLOW.to_vec(),
            answers: vec![Success {
                status: 200,
                summary: "Changes in commit order; each event or line is a Change",
                content: &[("text/event-stream", ""), ("application/x-ndjson", "")],
                headers: &[("Keyloom-Position", "The position that a page of lines has reached")],
            }],
            problems: &[404, 410, 413],
            ..PLAIN
        },
    ]
}
