//! Classes: what a schema may say, and how it may change.

use keyloom_engine::SchemaStep;
use keyloom_engine::schema::{DataTrigger, Event, TriggerTarget};

use super::grid::{CLASSES, Grid, text};
use crate::support::{Database, GRID, code};

#[test]
fn classes_are_added_changed_and_kept() {
    let database = Database::new("[classes.order]\n");
    let step = database.apply("[classes.order]\npartitions = 4\nabout = \"x\"\n").unwrap();
    assert_eq!(step.steps, [SchemaStep::ClassChanged { class: "order".to_owned() }]);
    let step = database.apply(CLASSES).unwrap();
    let changed = SchemaStep::ClassChanged { class: "order".to_owned() };
    assert_eq!(step.steps, [SchemaStep::ClassAdded { class: "log".to_owned() }, changed]);
    assert_eq!(database.apply(CLASSES).unwrap().steps, []);
    let reopened = database.beside(keyloom_engine::Mode::Development);
    assert_eq!(reopened.engine.classes(), ["log", "order"]);
    assert_eq!(reopened.engine.class("order").unwrap().partitions, 8);
}

#[test]
fn the_schema_of_the_grid_is_what_its_comments_say() {
    let database = Database::new(GRID);
    assert_eq!(database.apply(GRID).unwrap().steps, []);
    assert_eq!(database.engine.classes(), ["log", "order", "user"]);
    let order = database.engine.class("order").unwrap();
    assert_eq!((order.partitions, order.functions["recalculate"].timeout_ms), (16, Some(5000)));
    let items = &order.event.data_trigger_str["items"];
    assert_eq!((items.on_create.len(), items.on_update.len(), items.on_delete.len()), (1, 1, 0));
    let failed = &order.event.func_trigger["recalculate"].on_error[0];
    assert_eq!((failed.class.as_str(), failed.options["level"].as_str()), ("log", "error"));
    let json = serde_json::to_string(&crate::support::schema(GRID)).unwrap();
    let again = keyloom_engine::schema::Schema::from_json(&json).unwrap();
    assert_eq!(again, crate::support::schema(GRID));
}

#[test]
fn what_a_class_cannot_be_is_named_with_its_place() {
    let database = Database::new(
        "[collections.notes]\nkey = \"{id}\"\nfields.id = { type = \"id\", required = true }\n\
         [classes.order]\npartitions = 8\n",
    );
    let target = |target: &str| {
        format!(
            "[classes.order]\npartitions = 8\n[classes.order.event.data_trigger.1]\n\
             on_create = [{{ {target} }}]\n"
        )
    };
    for (schema, expected) in [
        ("[classes.order]\npartitions = 7\n".to_owned(), "classes.order.partitions: there are 8"),
        (
            "[classes.a]\npartitions = 0\n".to_owned(),
            "classes.a.partitions: a class has 1 to 65536",
        ),
        ("[classes.a]\npartitions = 65537\n".to_owned(), "classes.a.partitions: a class has 1"),
        ("[classes.notes]\n".to_owned(), "classes.notes: a collection has this name"),
        ("[classes.\"1\"]\n".to_owned(), "classes.1: a name is a letter"),
        (
            "[classes.a.functions.f]\nurl = \"ftp://x\"\n".to_owned(),
            "classes.a.functions.f: its url",
        ),
        (
            "[classes.a.functions.f]\nurl = \"http://x\"\ntimeout_ms = 0\n".to_owned(),
            "classes.a.functions.f: timeout_ms",
        ),
        (target("class = \"x\", function = \"f\""), "classes.order.event: there is no class `x`"),
        (
            target("class = \"order\", function = \"f\""),
            "classes.order.event: class `order` has no function `f`",
        ),
    ] {
        let refused = code(database.apply(&schema));
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn an_event_that_invokes_what_does_not_exist_is_refused_and_nothing_changed() {
    let grid = Grid::new();
    grid.set("a", &[]).unwrap();
    let stored = grid.0.entries();
    let target = |class: &str, function: &str, partition| TriggerTarget {
        class: class.to_owned(),
        partition,
        object: None,
        function: function.to_owned(),
        options: Default::default(),
    };
    for (target, expected) in [
        (target("nobody", "note", 0), "there is no class `nobody`"),
        (target("order", "nothing", 0), "class `order` has no function `nothing`"),
        (target("order", "note", 8), "class `order` has no partition 8"),
    ] {
        let trigger = DataTrigger { on_create: vec![target], ..DataTrigger::default() };
        let event =
            Event { data_trigger_str: [("x".to_owned(), trigger)].into(), ..Event::default() };
        let refused = code(grid.set_event("a", event));
        assert!(refused.starts_with("invalid_argument: ") && refused.contains(expected));
    }
    assert_eq!(grid.0.entries(), stored);
}

#[test]
fn the_event_of_an_object_is_kept_by_merge_and_taken_away_by_set() {
    let grid = Grid::new();
    let event = Event {
        data_trigger_str: [("x".to_owned(), DataTrigger::default())].into(),
        ..Event::default()
    };
    assert_eq!(
        code(grid.set_event("a", event.clone())),
        "not_found: `a` does not exist in `order`"
    );
    grid.set("a", &[]).unwrap();
    grid.set_event("a", event.clone()).unwrap();
    grid.merge("a", &[(text("y"), "1")]).unwrap();
    assert_eq!(grid.get("a").unwrap().event, Some(event.clone()));
    grid.set("a", &[(text("y"), "1")]).unwrap();
    assert_eq!(grid.get("a").unwrap().event, None);
    grid.set_event("a", event).unwrap();
    grid.set_event("a", Event::default()).unwrap();
    assert_eq!(grid.get("a").unwrap().event, None);
    assert_eq!(grid.0.keys(keyloom_key::Space::Object).len(), 2);
}

#[test]
fn functions_are_at_addresses_of_http() {
    let database = Database::new("[classes.a]\n");
    let schema = |url: &str| format!("[classes.a.functions.f]\nurl = '{url}'\n");
    for url in [
        "http://localhost",
        "https://functions.example:8443/path?x=1",
        "http://127.0.0.1:80/",
        "http://[::1]:8080",
        "http://my_service.ns.svc.cluster.local:50051",
    ] {
        assert_eq!(code(database.apply(&schema(url))), "ok", "{url}");
    }
    for url in [
        "http://",
        "http:///path",
        "http://:80",
        "http://a b",
        "http://a/b c",
        "http://user@host",
        "http://host:",
        "http://host:99999",
        "http://host:+80",
        "http://[::1",
        "http://[host]:80",
        "http://hóst",
        "http://host/<x>",
        "localhost:80",
    ] {
        let refused = code(database.apply(&schema(url)));
        assert!(refused.contains("classes.a.functions.f: its url"), "{url}: {refused}");
    }
}
