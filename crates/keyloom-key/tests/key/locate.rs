//! Literals in key text become conditions on components, and never the wrong ones.

use keyloom_key::{Anchors, Constraint, Located, Template, Uuid, Value};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::generate::{any_keys, template, text, ulid};

const VOTES: &str = "usr_{usr_key}_tag_{tag_key}_tar_{tar_key}_key_{vote_key}";
const VOTES_FIELDS: &str = "usr_key:ulid,tag_key:ulid,tar_key:ulid,vote_key:ulid";
const A: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const B: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";

fn votes() -> Template {
    template(VOTES, VOTES_FIELDS)
}

fn requests() -> Template {
    template(
        "approval:{requester}:{created_at desc}:{id}",
        "requester:id,created_at:millis,id:ulid",
    )
}

fn equal(index: usize, ulid_text: &str) -> (usize, Constraint) {
    (index, Constraint::Equal(ulid(ulid_text)))
}

/// What `^` and `$` around the literal mean is written as in an expression.
fn check(template: &Template, expression: &str, expected: Located) {
    let (literal, start) = match expression.strip_prefix('^') {
        Some(literal) => (literal, true),
        None => (expression, false),
    };
    let (literal, end) = match literal.strip_suffix('$') {
        Some(literal) => (literal, true),
        None => (literal, false),
    };
    assert_eq!(template.locate(literal, Anchors { start, end }), expected, "{expression}");
}

#[test]
fn inner_segments_bind_the_components_between_them() {
    let expected = Located::Once(vec![equal(1, A), equal(2, B)]);
    check(&votes(), &format!("tag_{A}_tar_{B}_"), expected.clone());
    check(&votes(), &format!("_tag_{A}_tar_{B}_key_"), expected.clone());
    check(&votes(), &format!("tag_{A}_tar_{B}"), expected);
}

#[test]
fn an_anchored_beginning_binds_the_leading_components() {
    check(&votes(), "^usr_", Located::Once(vec![]));
    check(&votes(), &format!("^usr_{A}_tag_"), Located::Once(vec![equal(0, A)]));
    check(&votes(), &format!("^usr_{A}_tag_{B}_"), Located::Once(vec![equal(0, A), equal(1, B)]));
}

#[test]
fn the_end_of_a_key_binds_its_last_component() {
    check(&votes(), &format!("_key_{A}$"), Located::Once(vec![equal(3, A)]));
    check(&votes(), &format!("{A}$"), Located::Once(vec![equal(3, A)]));
    check(&votes(), "_key_$", Located::Nowhere);
    check(&votes(), "5FAV$", Located::Several);
}

#[test]
fn a_whole_key_binds_every_component() {
    let key = format!("^usr_{A}_tag_{B}_tar_{A}_key_{B}$");
    let all = vec![equal(0, A), equal(1, B), equal(2, A), equal(3, B)];
    check(&votes(), &key, Located::Once(all));
}

#[test]
fn part_of_a_ulid_is_a_range_of_ulids() {
    let least = ulid("01AR0000000000000000000000");
    let greatest = ulid("01ARZZZZZZZZZZZZZZZZZZZZZZ");
    let expected = Located::Once(vec![(0, Constraint::Between(least, greatest))]);
    check(&votes(), "^usr_01AR", expected.clone());
    check(&votes(), "usr_01AR", expected);
    check(&votes(), "^usr_8", Located::Nowhere);
}

#[test]
fn part_of_a_uuid_is_a_range_of_uuids_of_version_4() {
    let template = template("u_{id}", "id:uuid");
    let uuid = |text| Value::Uuid(Uuid::parse(text).unwrap());
    let between = Constraint::Between(
        uuid("67e55044000040008000000000000000"),
        uuid("67e55044ffff4fffbfffffffffffffff"),
    );
    check(&template, "^u_67e55044", Located::Once(vec![(0, between)]));
    check(&template, "^u_67e5504410b15", Located::Nowhere);
    check(&template, "^u_67e5504410b14", {
        let least = uuid("67e5504410b140008000000000000000");
        let greatest = uuid("67e5504410b14fffbfffffffffffffff");
        Located::Once(vec![(0, Constraint::Between(least, greatest))])
    });
}

#[test]
fn what_no_key_contains_is_nowhere() {
    for expression in [
        "USR_",
        "^tag_",
        "tar_01ARZ3NDEKTSV4RRFFQ69G5FAV_tag_",
        "tag_01ARZ3NDEKTSV4RRFFQ69G5FA_",
        "tag_01ARZ3NDEKTSV4RRFFQ69G5FAVX_",
        "usr__tag_",
        "^usr_$",
        "é",
    ] {
        check(&votes(), expression, Located::Nowhere);
    }
}

#[test]
fn what_can_stand_in_several_places_is_not_guessed() {
    check(&votes(), "_", Located::Several);
    check(&votes(), A, Located::Several);
    check(&votes(), "01AR", Located::Several);
    check(&votes(), "FAV_tag_", Located::Several);
    check(&requests(), "u1", Located::Several);
}

#[test]
fn a_separator_tells_where_a_variable_component_ends() {
    let u1 = (0, Constraint::Equal(text("u1")));
    check(&requests(), "^approval:u1:", Located::Once(vec![u1.clone()]));
    check(&requests(), "^approval:u1", Located::Once(vec![(0, Constraint::Prefix("u1".into()))]));
    let time = (1, Constraint::Equal(Value::Int(1_700_000_000_000)));
    check(&requests(), "^approval:u1:8299999999999:", Located::Once(vec![u1.clone(), time]));
    check(&requests(), "^approval:u1:", Located::Once(vec![u1]));
}

#[test]
fn part_of_a_number_is_not_a_range_of_numbers() {
    check(&requests(), "^approval:u1:82", Located::Several);
    check(&requests(), "^approval:u1:x", Located::Nowhere);
}

#[test]
fn s22_escapes_in_a_literal_are_read_as_keys_write_them() {
    let tags = template("tag:{author}#{file}", "author:text,file:text");
    let equal = |index, value| (index, Constraint::Equal(text(value)));
    check(&tags, "^tag:a%23b#", Located::Once(vec![equal(0, "a#b")]));
    check(&tags, "^tag:a%25", Located::Once(vec![(0, Constraint::Prefix("a%".into()))]));
    check(&tags, "^tag:a%2", Located::Several);
    check(&tags, "^tag:a%", Located::Several);
    check(&tags, "^tag:a%41#", Located::Nowhere);
    check(&tags, "^tag:a%00#", Located::Nowhere);
    check(&tags, "^tag:a#$", Located::Once(vec![equal(0, "a"), equal(1, "")]));
    check(&tags, "^tag:a#b#c$", Located::Once(vec![equal(0, "a"), equal(1, "b#c")]));
}

#[test]
fn words_and_truths_are_known_by_their_beginning() {
    let template = template("s:{status}:{flag}", "status:enum(pending|paid|done),flag:bool");
    check(&template, "^s:pa", Located::Once(vec![(0, Constraint::Prefix("pa".into()))]));
    check(&template, "^s:x", Located::Nowhere);
    check(&template, ":f", Located::Once(vec![(1, Constraint::Equal(Value::Bool(false)))]));
    check(&template, "done:true", {
        let done = (0, Constraint::Equal(text("done")));
        Located::Once(vec![done, (1, Constraint::Equal(Value::Bool(true)))])
    });
    check(&template, "ending:true", Located::Several);
}

#[test]
fn an_empty_literal_says_nothing_unless_it_is_the_whole_key() {
    check(&votes(), "", Located::Once(vec![]));
    check(&votes(), "^", Located::Once(vec![]));
    check(&votes(), "^$", Located::Nowhere);
    let bare = template("{value}", "value:text");
    check(&bare, "^$", Located::Once(vec![(0, Constraint::Equal(text("")))]));
}

#[test]
fn literals_have_to_follow_each_other_as_the_template_has_them() {
    let in_order = |literals: &[&str], anchors| votes().locate_in_order(literals, anchors);
    let [user, target] = [format!("usr_{A}_"), format!("tar_{B}_")];
    assert_eq!(
        in_order(&[&user, &target], Anchors::START),
        Located::Once(vec![equal(0, A), equal(2, B)])
    );
    assert_eq!(in_order(&[&target, &user], Anchors::NONE), Located::Nowhere);
    assert_eq!(in_order(&[&user, "_"], Anchors::START), Located::Several);
    assert_eq!(in_order(&[], Anchors::NONE), Located::Once(vec![]));
    // The second literal would have to begin before the first one ends.
    assert_eq!(in_order(&["usr_01AR", "usr_"], Anchors::NONE), Located::Nowhere);
}

#[test]
fn an_empty_text_and_the_literal_behind_it_are_one_place() {
    check(&template("k{a}:x{n}", "a:text,n:u64"), ":x", Located::Once(vec![]));
}

#[test]
fn a_fixed_length_may_begin_with_the_character_that_follows_it() {
    check(&template("{a}7{n}", "a:ulid,n:bool"), &format!("{B}7t"), {
        Located::Once(vec![equal(0, B), (1, Constraint::Equal(Value::Bool(true)))])
    });
}

#[test]
fn a_beginning_longer_than_the_component_is_nowhere() {
    let names = template("n:{name}", "name:name");
    let longest = "a".repeat(30);
    let prefix = Constraint::Prefix(longest.clone());
    check(&names, &format!("^n:{longest}"), Located::Once(vec![(0, prefix)]));
    check(&names, &format!("^n:{longest}a"), Located::Nowhere);
    let cut = template("v:{value prefix 2}", "value:text");
    check(&cut, "^v:é%25", Located::Once(vec![(0, Constraint::Prefix("é%".into()))]));
    check(&cut, "^v:é%25a", Located::Nowhere);
}

#[test]
fn a_literal_longer_than_any_key_is_nowhere() {
    let bare = template("{value}", "value:text");
    check(&bare, &format!("^{}", "x".repeat(5_000)), Located::Nowhere);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn located_literals_mean_what_the_text_says(
        (template, keys) in any_keys(4),
        piece in any_piece(),
        anchors in any_anchors(),
    ) {
        let literal = piece.of(&template.render(&keys[0]).unwrap());
        let located = template.locate(&literal, anchors);
        for key in mixed(&keys) {
            let text = template.render(&key).unwrap();
            assert_sound(&located, &key, occurs_in_order(&text, &[&literal], anchors))
                .map_err(|error| TestCaseError::fail(format!(
                    "{error}: {template} {literal:?} {anchors:?} {located:?} {text}"
                )))?;
        }
    }

    #[test]
    fn literals_in_order_mean_what_the_text_says(
        (template, keys) in any_keys(4),
        pieces in prop::collection::vec(any_piece(), 2..4),
        anchors in any_anchors(),
    ) {
        let source = template.render(&keys[0]).unwrap();
        let literals: Vec<String> = pieces.iter().map(|piece| piece.of(&source)).collect();
        let literals: Vec<&str> = literals.iter().map(String::as_str).collect();
        let located = template.locate_in_order(&literals, anchors);
        for key in mixed(&keys) {
            let text = template.render(&key).unwrap();
            assert_sound(&located, &key, occurs_in_order(&text, &literals, anchors))
                .map_err(|error| TestCaseError::fail(format!(
                    "{error}: {template} {literals:?} {anchors:?} {located:?} {text}"
                )))?;
        }
    }
}

fn assert_sound(located: &Located, key: &[Value], occurs: bool) -> Result<(), &'static str> {
    match located {
        Located::Nowhere if occurs => Err("a key contains what is nowhere"),
        Located::Once(constraints) => {
            let hold =
                constraints.iter().all(|(index, constraint)| holds(constraint, &key[*index]));
            if hold == occurs { Ok(()) } else { Err("the constraints say something else") }
        }
        Located::Nowhere | Located::Several => Ok(()),
    }
}

fn holds(constraint: &Constraint, value: &Value) -> bool {
    match (constraint, value) {
        (Constraint::Equal(expected), value) => value == expected,
        (Constraint::Prefix(prefix), Value::Text(text)) => text.starts_with(prefix.as_str()),
        (Constraint::Prefix(_), _) => panic!("only texts have prefixes"),
        (Constraint::Between(least, greatest), value) => least <= value && value <= greatest,
    }
}

/// Whether the text contains the literals one after the other, found as early as possible.
fn occurs_in_order(text: &str, literals: &[&str], anchors: Anchors) -> bool {
    let mut rest = text;
    for (number, literal) in literals.iter().enumerate() {
        let starts = anchors.start && number == 0;
        let ends = anchors.end && number == literals.len() - 1;
        let found = match (starts, ends) {
            (true, true) => (rest == *literal).then_some(""),
            (true, false) => rest.strip_prefix(literal),
            (false, true) => rest.ends_with(literal).then_some(""),
            (false, false) => rest.split_once(literal).map(|(_, tail)| tail),
        };
        match found {
            Some(tail) => rest = tail,
            None => return false,
        }
    }
    true
}

/// Keys that share components with the first one, which the literals come from.
fn mixed(keys: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let mut all = keys.to_vec();
    let first = &keys[0];
    for other in &keys[1..] {
        for split in 1..first.len() {
            all.push([&first[..split], &other[split..]].concat());
            all.push([&other[..split], &first[split..]].concat());
        }
    }
    all
}

/// A piece of a key's text, sometimes with another character at its end.
#[derive(Debug, Clone)]
struct Piece {
    begins_the_key: bool,
    from: Index,
    to: Index,
    appended: &'static str,
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let appended = select(vec!["", "", "", "a", "1", ":", "%", "_", "é"]);
    // Half of the pieces begin where the key does, where there is most to say.
    (any::<bool>(), any::<Index>(), any::<Index>(), appended).prop_map(
        |(begins_the_key, from, to, appended)| Piece { begins_the_key, from, to, appended },
    )
}

fn any_anchors() -> impl Strategy<Value = Anchors> {
    select(vec![Anchors::NONE, Anchors::NONE, Anchors::START, Anchors::END, Anchors::BOTH])
}

impl Piece {
    fn of(&self, text: &str) -> String {
        let characters: Vec<char> = text.chars().collect();
        let length = characters.len();
        let from = if self.begins_the_key { 0 } else { self.from.index(length + 1) };
        let to = from + self.to.index(length - from + 1);
        let mut piece: String = characters[from..to].iter().collect();
        piece.push_str(self.appended);
        piece
    }
}
