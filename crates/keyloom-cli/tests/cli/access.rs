//! Who may do what, over HTTP: tokens, scopes, rules of collections.

use serde_json::{Value as Json, json};

use crate::program::keyloom;
use crate::server::{Reply, Server};

const RULES: [&str; 4] = ["public", "private", "managed", "admin"];

const NOTES: &str = r#"
[collections.notes]
key = "note:{id}"
access = { read = "public", write = "managed" }
fields.id = { type = "u64", required = true }
fields.text = { type = "text" }
"#;

/// A collection for each pair of rules: `c_public_private`, ….
fn matrix() -> String {
    let mut schema = String::new();
    for read in RULES {
        for write in RULES {
            schema += &format!(
                "[collections.c_{read}_{write}]\nkey = \"{{id}}\"\n\
                 access = {{ read = \"{read}\", write = \"{write}\" }}\n\
                 fields.id = {{ type = \"id\", required = true }}\n\
                 fields.text = {{ type = \"text\" }}\n"
            );
        }
    }
    schema
}

fn documents(collection: &str) -> String {
    format!("/v1/collections/{collection}/documents")
}

fn user(subject: &str) -> Json {
    json!({ "subject": subject })
}

/// The tokens of an administrator, an owner and another user.
fn tokens(server: &Server) -> (String, String, String) {
    let admin = server.token(None, &json!({"subject": "root", "role": "admin"}));
    let ann = server.token(Some(&admin), &user("ann"));
    let bob = server.token(Some(&admin), &user("bob"));
    (admin, ann, bob)
}

/// A token that was valid a moment ago.
fn expired(server: &Server, admin: &str) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let until = u64::try_from(now).unwrap() + 300;
    let token = server.token(Some(admin), &json!({"subject": "ann", "expires_at": until}));
    for _ in 0..1_000_000 {
        if server.send("GET", "/v1/collections", Some(&token), None).status == 401 {
            return token;
        }
    }
    panic!("the token does not expire");
}

fn code(reply: &Reply) -> &str {
    reply.body["code"].as_str().unwrap_or("")
}

#[test]
fn j30_every_rule_holds_for_every_caller_over_http() {
    let server = Server::start(&matrix());
    let (admin, ann, bob) = tokens(&server);
    let expired = expired(&server, &admin);
    for read in RULES {
        for write in RULES {
            // Each change meets a document of its own, which belongs to ann.
            let operations: Vec<Json> = ["get", "owner", "other", "anonymous", "admin", "expired"]
                .iter()
                .map(|id| {
                    let collection = format!("c_{read}_{write}");
                    json!({"op": "create", "collection": collection, "data": {"id": id}})
                })
                .collect();
            let batch = json!({"operations": operations, "owner": "ann"});
            let loaded = server.send("POST", "/v1/batch", Some(&admin), Some(&batch));
            assert_eq!(loaded.status, 200, "{loaded:?}");
            let callers = [
                ("owner", Some(&ann)),
                ("other", Some(&bob)),
                ("anonymous", None),
                ("admin", Some(&admin)),
                ("expired", Some(&expired)),
            ];
            for (name, token) in callers {
                check_caller(&server, (read, write), (name, token.map(String::as_str)));
            }
        }
    }
}

/// What one caller may do in a collection, where documents of ann wait for him.
fn check_caller(server: &Server, (read, write): (&str, &str), (name, token): (&str, Option<&str>)) {
    let place = documents(&format!("c_{read}_{write}"));
    let at = format!("read {read}, write {write}, {name}");
    let allowed = |rule: &str| match rule {
        "public" => name != "expired",
        "private" => name == "owner",
        "managed" => name == "owner" || name == "admin",
        _ => name == "admin",
    };
    let found = server.send("GET", &format!("{place}/get"), token, None);
    let expected = match (name, allowed(read)) {
        ("expired", _) => 401,
        (_, true) => 200,
        (_, false) => 404,
    };
    assert_eq!(found.status, expected, "get: {at}: {found:?}");

    let listed = server.send("GET", &place, token, None);
    if name == "expired" {
        assert_eq!(listed.status, 401, "list: {at}");
    } else {
        let items = listed.body["items"].as_array().unwrap();
        assert_eq!(!items.is_empty(), allowed(read), "list: {at}: {listed:?}");
    }

    let patch = json!({"text": "new"});
    let any = [("if-match", "*")];
    let own = format!("{place}/{name}");
    let changed = server.send_with(("PATCH", &own), token, &any, Some(&patch));
    let expected = match (name, allowed(write), allowed(read)) {
        ("expired", ..) => 401,
        (_, true, true) => 200,
        ("anonymous", false, _) => 401,
        ("other" | "owner", false, _) if write == "admin" => 403,
        (_, _, false) => 404,
        (_, false, true) => 403,
    };
    assert_eq!(changed.status, expected, "patch: {at}: {changed:?}");

    let new = json!({"data": {"id": format!("by-{name}")}});
    let created = server.send("POST", &place, token, Some(&new));
    let expected = match (name, write) {
        ("expired", _) => 401,
        (_, "public") | ("admin", _) => 201,
        ("anonymous", _) => 401,
        (_, "admin") => 403,
        _ => 201,
    };
    assert_eq!(created.status, expected, "create: {at}: {created:?}");
    let challenged = created.challenge.is_some();
    assert_eq!(challenged, expected == 401, "WWW-Authenticate: {at}");
    if expected == 201 {
        let owner = match name {
            "owner" => json!("ann"),
            "other" => json!("bob"),
            "admin" => json!("root"),
            _ => Json::Null,
        };
        assert_eq!(created.body["owner"], owner, "owner: {at}");
    }
}

#[test]
fn j31_j11_what_one_may_not_read_is_absent_in_every_answer() {
    let server = Server::start(&matrix());
    let (admin, ann, bob) = tokens(&server);
    let base = "/v1/collections/c_private_private";
    let place = format!("{base}/documents");
    let post = |path: &str, token: &str, body: &Json| {
        server.send("POST", &format!("{base}/{path}"), Some(token), Some(body))
    };
    post("documents", &ann, &json!({"data": {"id": "a"}}));
    for (token, seen) in [(&ann, true), (&bob, false), (&admin, false)] {
        let one = server.send("GET", &format!("{place}/a"), Some(token), None);
        let none = server.send("GET", &format!("{place}/b"), Some(token), None);
        assert_eq!(one.status, if seen { 200 } else { 404 });
        assert_eq!(none.status, 404);
        if !seen {
            let told = one.body["detail"].as_str().unwrap().replace("`a`", "`b`");
            assert_eq!(told, none.body["detail"].as_str().unwrap());
        }
        let many = post("get", token, &json!({"keys": ["b", "a", "a"]}));
        let found: Vec<bool> =
            many.body["items"].as_array().unwrap().iter().map(|item| !item.is_null()).collect();
        assert_eq!(found, [false, seen, seen]);
        let listed = post("list", token, &json!({}));
        assert_eq!(listed.body["items_length"], u64::from(seen), "{listed:?}");
        let deleted = server.send("DELETE", &format!("{place}/b"), Some(token), None);
        assert_eq!(deleted.body, json!({"key": "b", "deleted": false}));
    }
    let deleted = server.send("DELETE", &format!("{place}/a"), Some(&bob), None);
    assert_eq!(deleted.body, json!({"key": "a", "deleted": false}), "as if it were not there");
    assert_eq!(server.send("GET", &format!("{place}/a"), Some(&ann), None).status, 200);
}

#[test]
fn j12_deleting_by_filter_deletes_mine_and_leaves_those_of_others() {
    let server = Server::start(NOTES);
    let (_, ann, bob) = tokens(&server);
    for id in 0..11 {
        let token = if id < 5 { &ann } else { &bob };
        let new = json!({"data": {"id": id}});
        assert_eq!(server.send("POST", &documents("notes"), Some(token), Some(&new)).status, 201);
    }
    let path = "/v1/collections/notes/delete";
    let deleted = server.send("POST", path, Some(&ann), Some(&json!({"any": [{}]})));
    assert_eq!((deleted.status, &deleted.body["deleted"]), (200, &json!(5)), "{deleted:?}");
    let left = server.send("GET", &documents("notes"), None, None);
    assert_eq!(left.body["items"].as_array().unwrap().len(), 6);
}

#[test]
fn j33_the_sixth_change_of_a_user_is_refused_and_that_of_an_admin_allowed_over_http() {
    let schema = NOTES.replace("fields.id", "changes_max = 5\nfields.id");
    let server = Server::start(&schema);
    let (admin, ann, _) = tokens(&server);
    let create = |token: &str, id: u64| {
        let new = json!({"data": {"id": id}});
        server.send("POST", &documents("notes"), Some(token), Some(&new))
    };
    for id in 0..5 {
        assert_eq!(create(&ann, id).status, 201);
    }
    let refused = create(&ann, 5);
    assert_eq!((refused.status, &refused.body["rule"]), (422, &json!("changes_max")));
    for id in 10..17 {
        assert_eq!(create(&admin, id).status, 201);
    }
}

#[test]
fn p11_only_the_right_user_decides_over_http() {
    let server = Server::start(include_str!("../../../../schemas/approvals.toml"));
    let (_, ann, bob) = tokens(&server);
    let new = json!({"data": {"requester": "ann", "approver": "bob"}});
    let created = server.send("POST", &documents("approvals"), Some(&ann), Some(&new));
    let place = format!("{}/{}", documents("approvals"), created.body["key"].as_str().unwrap());
    let set = |token: &str, status: &str| {
        let any = [("if-match", "*")];
        let patch = json!({ "status": status });
        server.send_with(("PATCH", &place), Some(token), &any, Some(&patch)).status
    };
    assert_eq!(set(&ann, "approved"), 403);
    assert_eq!(set(&ann, "denied"), 403);
    assert_eq!(set(&bob, "canceled"), 403);
    let unchanged = server.send("GET", &place, Some(&ann), None);
    assert_eq!(unchanged.body, created.body);
    assert_eq!(set(&bob, "approved"), 200);
    assert_eq!(set(&ann, "canceled"), 422, "a decision is final");
}

#[test]
fn the_feed_tells_everyone_only_of_what_he_may_read() {
    let server = Server::start(include_str!("../../../../schemas/approvals.toml"));
    let (admin, ann, bob) = tokens(&server);
    let eve = server.token(Some(&admin), &user("eve"));
    let new = json!({"data": {"requester": "ann", "approver": "bob"}});
    let created = server.send("POST", &documents("approvals"), Some(&ann), Some(&new));
    let place = format!("{}/{}", documents("approvals"), created.body["key"].as_str().unwrap());
    let any = [("if-match", "*")];
    server.send_with(("DELETE", &place), Some(&bob), &any, None);
    let other = json!({"subject": "ann", "scopes": {"others": ["read"]}});
    let other = server.token(Some(&admin), &other);
    let heard = |token: Option<&str>| {
        let lines = [("accept", "application/x-ndjson")];
        let reply = server.send_with(("GET", "/v1/changes?limit=10"), token, &lines, None);
        assert_eq!(reply.status, 200, "{reply:?}");
        let text = reply.body.as_str().map_or(String::new(), str::to_owned);
        text.lines().filter(|line| line.contains("\"kind\"")).count()
    };
    let seen = [Some(&*ann), Some(&*bob), Some(&*admin), Some(&*eve), Some(&*other), None];
    assert_eq!(seen.map(heard), [2, 2, 2, 0, 0, 0]);
}

#[test]
fn r03_an_identity_has_one_account_in_production_over_http() {
    let schema = include_str!("../../../../schemas/reputation.toml");
    for (options, second) in [(&["--production"][..], 409), (&[][..], 201)] {
        let server = Server::start_with(schema, options);
        let (_, ann, bob) = tokens(&server);
        let create = |token: &str, name: &str| {
            let new = json!({"data": {"username": name, "display_name": "x"}});
            server.send("POST", &documents("users"), Some(token), Some(&new)).status
        };
        assert_eq!(create(&ann, "first"), 201);
        assert_eq!(create(&ann, "second"), second);
        assert_eq!(create(&bob, "third"), 201);
    }
}

/// Every route with what it is asked: method, path, body, and whether administrators only may.
fn routes() -> Vec<(&'static str, &'static str, Option<Json>, bool)> {
    let body = |json: Json| Some(json);
    let operation = json!({"op": "create", "collection": "notes", "data": {"id": 9}});
    vec![
        ("GET", "/v1/collections/notes", None, false),
        ("GET", "/v1/collections/notes/documents", None, false),
        ("POST", "/v1/collections/notes/documents", body(json!({"data": {"id": 9}})), false),
        ("GET", "/v1/collections/notes/documents/note%3A1", None, false),
        (
            "PUT",
            "/v1/collections/notes/documents/note%3A9",
            body(json!({"data": {"id": 9}})),
            false,
        ),
        ("PATCH", "/v1/collections/notes/documents/note%3A1", body(json!({})), false),
        ("DELETE", "/v1/collections/notes/documents/note%3A1", None, false),
        ("POST", "/v1/collections/notes/get", body(json!({"keys": ["note:1"]})), false),
        ("POST", "/v1/collections/notes/query", body(json!({})), false),
        ("POST", "/v1/collections/notes/count", body(json!({})), false),
        ("POST", "/v1/collections/notes/exists", body(json!({})), false),
        ("POST", "/v1/collections/notes/list", body(json!({})), false),
        ("POST", "/v1/collections/notes/delete", body(json!({"any": [{}]})), false),
        ("GET", "/v1/collections/notes/keys", None, false),
        ("POST", "/v1/batch", body(json!({"operations": [operation]})), false),
        ("PUT", "/v1/schema", body(json!({"collections": {}})), true),
        ("POST", "/v1/check", body(json!({})), true),
        ("GET", "/v1/tokens", None, true),
        ("GET", "/metrics", None, true),
        ("POST", "/v1/tokens", body(json!({"subject": "eve", "role": "admin"})), true),
        ("DELETE", "/v1/tokens/01ARZ3NDEKTSV4RRFFQ69G5FAV", None, true),
    ]
}

#[test]
fn a_token_of_another_scope_is_refused_on_every_route() {
    let server = Server::start(NOTES);
    let (admin, ann, _) = tokens(&server);
    let new = json!({"data": {"id": 1}});
    server.send("POST", &documents("notes"), Some(&ann), Some(&new));
    let other =
        json!({"subject": "root", "role": "admin", "scopes": {"others": ["read", "write"]}});
    let other = server.token(Some(&admin), &other);
    for (method, path, body, _) in routes() {
        let reply = server.send(method, path, Some(&other), body.as_ref());
        assert_eq!((reply.status, code(&reply)), (403, "forbidden"), "{method} {path}: {reply:?}");
    }
    let listed = server.send("GET", "/v1/collections", Some(&other), None);
    assert_eq!(listed.body["collections"], json!([]));
    // A token for reading reads and does not write.
    let reader = json!({"subject": "ann", "scopes": {"*": ["read"]}});
    let reader = server.token(Some(&admin), &reader);
    let place = format!("{}/note%3A1", documents("notes"));
    assert_eq!(server.send("GET", &place, Some(&reader), None).status, 200);
    assert_eq!(server.send("DELETE", &place, Some(&reader), None).status, 403);
    assert_eq!(server.send("GET", &place, Some(&ann), None).status, 200);
}

#[test]
fn administration_is_for_administrators() {
    let server = Server::start(NOTES);
    let (admin, ann, _) = tokens(&server);
    for (method, path, body, is_admin) in routes() {
        if !is_admin {
            continue;
        }
        let user = server.send(method, path, Some(&ann), body.as_ref());
        assert_eq!(user.status, 403, "{method} {path}: {user:?}");
        let nobody = server.send(method, path, None, body.as_ref());
        assert_eq!(nobody.status, 401, "{method} {path}: {nobody:?}");
        let root = server.send(method, path, Some(&admin), body.as_ref());
        assert!(root.status < 300, "{method} {path}: {root:?}");
    }
}

#[test]
fn tokens_that_are_not_right_are_refused_alike_on_every_route() {
    let server = Server::start(NOTES);
    let (admin, ann, _) = tokens(&server);
    let (short, _) = ann.split_at(ann.len() - 1);
    let changed = format!("{short}{}", if ann.ends_with('A') { "E" } else { "A" });
    let wrong = [short, &changed, "", "x", "keyloom_", &format!("{ann}A")].map(str::to_owned);
    let expired = expired(&server, &admin);
    let mut details = std::collections::BTreeSet::new();
    for token in wrong.iter().chain([&expired]) {
        for (method, path, body, _) in routes() {
            let reply = server.send(method, path, Some(token), body.as_ref());
            assert_eq!((reply.status, code(&reply)), (401, "unauthenticated"), "{method} {path}");
            assert_eq!(reply.challenge.as_deref(), Some("Bearer realm=\"keyloom\""));
            details.insert(reply.body.to_string());
            assert!(token.len() < 9 || !reply.body.to_string().contains(token.as_str()));
        }
    }
    assert_eq!(details.len(), 1, "one answer for all: {details:?}");
}

#[test]
fn a_revoked_token_is_refused_on_the_next_request() {
    let server = Server::start(NOTES);
    let (admin, ann, _) = tokens(&server);
    let listed = server.send("GET", "/v1/tokens", Some(&admin), None);
    let items = listed.body["items"].as_array().unwrap();
    let id = items.iter().find(|token| token["subject"] == "ann").unwrap()["id"].as_str().unwrap();
    assert!(!listed.body.to_string().contains("hash"));
    assert_eq!(server.send("GET", "/v1/collections", Some(&ann), None).status, 200);
    let path = format!("/v1/tokens/{id}");
    let revoked = server.send("DELETE", &path, Some(&admin), None);
    assert_eq!(revoked.body, json!({"id": id, "revoked": true}));
    assert_eq!(server.send("GET", "/v1/collections", Some(&ann), None).status, 401);
}

#[test]
fn without_tokens_only_a_direct_caller_of_this_machine_is_the_administrator() {
    let server = Server::start(NOTES);
    let check = |headers: &[(&str, &str)]| {
        server.send_with(("POST", "/v1/check"), None, headers, Some(&json!({}))).status
    };
    assert_eq!(check(&[]), 200);
    assert_eq!(check(&[("x-forwarded-for", "10.0.0.1")]), 401, "somebody passed it on");
    assert_eq!(check(&[("host", "evil.example:7400")]), 401, "a foreign name that leads here");
    assert_eq!(check(&[("keyloom-as", "ann")]), 403, "he asks as a user");
    let admin = server.token(None, &json!({"subject": "root", "role": "admin"}));
    assert_eq!(check(&[]), 401, "from the first token on, everybody needs one");
    let named = [("keyloom-as", "ann")];
    let new = json!({"data": {"id": 1}});
    let created = server.send_with(("POST", &documents("notes")), Some(&admin), &named, Some(&new));
    assert_eq!(created.body["owner"], "ann");
}

#[test]
fn tokens_are_made_listed_and_revoked_on_the_command_line() {
    let mut server = Server::start(NOTES);
    let root = server.run(&["token", "create", "root", "--admin"]).ok();
    let file = server.file("token", &root);
    let line = ["token", "create", "ann", "--scope", "notes=read", "--token-file", &file];
    let ann = server.run(&line).ok();
    server.run(&["token", "list"]).refused("only administrators do this");
    let listed = server.run(&["token", "list", "--token-file", &file, "--json"]).ok();
    let tokens: Vec<Json> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tokens.len(), 2);
    assert_eq!(tokens[1]["scopes"], json!({"notes": ["read"]}));
    let shown = server.run(&["token", "list", "--token-file", &file]).ok();
    assert!(shown.contains("notes=read") && shown.contains("everything"), "{shown}");
    assert!(!shown.contains(ann.trim()) && !listed.contains(ann.trim()));
    // The same on the folder itself, once the server is gone.
    server.stop();
    let id = tokens[1]["id"].as_str().unwrap();
    let data = server.data();
    assert_eq!(
        keyloom(&["token", "revoke", id, "--data", &data], b"").ok(),
        format!("revoked {id}\n")
    );
    let left = keyloom(&["token", "list", "--data", &data, "--json"], b"").ok();
    assert_eq!(left.lines().count(), 1);
}
