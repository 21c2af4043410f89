//! What is located in a key's text holds for that key.
#![no_main]

use keyloom_fuzz::template;
use keyloom_key::{Anchors, Constraint, Located, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str, &str, bool, bool)| {
    let (choice, literal, text, start, end) = input;
    let template = template(choice);
    let located = template.locate(literal, Anchors { start, end });
    let Ok(key) = template.parse(text) else {
        return;
    };
    let occurs = match (start, end) {
        (true, true) => text == literal,
        (true, false) => text.starts_with(literal),
        (false, true) => text.ends_with(literal),
        (false, false) => text.contains(literal),
    };
    match located {
        Located::Nowhere => assert!(!occurs),
        Located::Once(constraints) => {
            let hold = constraints.iter().all(|(index, constraint)| {
                holds(constraint, key.get(*index).expect("a component of the key"))
            });
            assert_eq!(hold, occurs);
        }
        Located::Several => {}
    }
});

fn holds(constraint: &Constraint, value: &Value) -> bool {
    match (constraint, value) {
        (Constraint::Equal(expected), value) => value == expected,
        (Constraint::Prefix(prefix), Value::Text(text)) => text.starts_with(prefix.as_str()),
        (Constraint::Prefix(_), _) => false,
        (Constraint::Between(least, greatest), value) => least <= value && value <= greatest,
    }
}
