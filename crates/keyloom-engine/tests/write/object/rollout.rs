//! The staged rollout of string identities.

use keyloom_engine::{EntryKey, Rollout};

use super::grid::{Grid, number, text};
use crate::support::code;

#[test]
fn o12_without_the_flags_string_ids_and_keys_are_refused_with_their_names() {
    let grid = Grid::in_phase(0);
    let id = "invalid_argument: string object ids are not enabled: `a` needs \
              ODGM_ENABLE_STRING_IDS=true";
    assert_eq!(code(grid.set("a", &[])), id);
    assert_eq!(code(grid.try_get("a")), id);
    assert_eq!(code(grid.delete("a")), id);
    assert_eq!(
        code(grid.set_entry("1", text("name"), "x")),
        "invalid_argument: string entry keys are not enabled: `name` needs \
         ODGM_ENABLE_STRING_KEYS=true"
    );
    grid.set_entry("1", number(1), "x").unwrap();
    assert_eq!(grid.entry("1", &text("name")).unwrap().1, None);
}

#[test]
fn o12_the_flags_alone_are_enough() {
    let grid = Grid::in_phase(0);
    let rollout = Rollout { string_ids: true, ..Rollout::default() };
    grid.roll(rollout).unwrap();
    grid.set_entry("a", number(1), "x").unwrap();
    assert!(code(grid.set_entry("a", text("name"), "x")).contains("ODGM_ENABLE_STRING_KEYS"));
    grid.roll(Rollout { string_keys: true, ..rollout }).unwrap();
    grid.set_entry("a", text("name"), "x").unwrap();
}

/// What each phase does with a string create, a string read, a string key, a numeric create and an
/// update of a stored numeric object.
#[test]
fn o13_each_phase_allows_warns_and_refuses_as_the_table_says() {
    let table = [
        (0, "refused refused refused ok ok"),
        (1, "refused ok refused ok ok"),
        (2, "ok ok ok ok ok"),
        (3, "ok ok ok ok ok"),
        (4, "ok ok ok warned ok"),
        (5, "ok ok ok refused ok"),
        (6, "ok ok ok refused ok"),
    ];
    for (phase, expected) in table {
        let grid = Grid::new();
        grid.set("7", &[(number(1), "old")]).unwrap();
        grid.set("known", &[]).unwrap();
        grid.roll(Rollout::phase(phase)).unwrap();
        let word = |code: String| match code.as_str() {
            "ok" => "ok",
            refused if refused.starts_with("invalid_argument: ") => "refused",
            other => panic!("{other}"),
        };
        let numeric = grid.set("8", &[]);
        let warned = numeric.as_ref().is_ok_and(|written| written.warning.is_some());
        let found = [
            word(code(grid.set("new", &[]))),
            word(code(grid.try_get("known"))),
            word(code(grid.set_entry("7", text("name"), "x"))),
            if warned { "warned" } else { word(code(numeric)) },
            word(code(grid.set_entry("7", number(1), "new"))),
        ];
        assert_eq!(found.join(" "), expected, "phase {phase}");
        assert!(grid.get("7").is_some(), "phase {phase}: numeric objects stay readable");
        let takes = grid.0.engine.rollout().takes_numeric_fields();
        assert_eq!(takes, phase < 6, "phase {phase}");
    }
}

#[test]
fn o13_a_refused_create_names_the_phase() {
    let grid = Grid::in_phase(1);
    assert!(code(grid.set("a", &[])).contains("phase 1"));
    grid.roll(Rollout::phase(5)).unwrap();
    assert!(code(grid.set("8", &[])).contains("phase 5"));
}

#[test]
fn o13_a_rollout_that_contradicts_itself_is_refused() {
    let grid = Grid::in_phase(0);
    for (rollout, expected) in [
        (Rollout { phase: 7, ..Rollout::phase(6) }, "there are 0 to 6"),
        (Rollout { string_ids: false, ..Rollout::phase(3) }, "ODGM_ENABLE_STRING_IDS=true"),
        (Rollout { write_only: true, ..Rollout::phase(3) }, "ODGM_STRING_IDS_WRITE_ONLY"),
        (Rollout { write_only: false, ..Rollout::phase(2) }, "ODGM_STRING_IDS_WRITE_ONLY"),
        (Rollout { id_len_max: 0, ..Rollout::phase(3) }, "ODGM_MAX_STRING_ID_LEN"),
        (Rollout { id_len_max: 501, ..Rollout::phase(3) }, "ODGM_MAX_STRING_ID_LEN"),
    ] {
        let refused = code(grid.roll(rollout));
        assert!(refused.contains(expected), "{refused}");
    }
    assert_eq!(grid.0.engine.rollout(), Rollout::default());
}

#[test]
fn a_rollout_is_kept_and_binds_those_who_did_not_hear_of_it() {
    let grid = Grid::new();
    let other = grid.reopened();
    other.roll(Rollout::phase(5)).unwrap();
    assert!(code(grid.set("8", &[])).contains("phase 5"));
    assert_eq!(grid.reopened().0.engine.rollout(), Rollout::phase(5));
}

#[test]
fn o02_the_length_of_string_ids_can_be_set() {
    let grid = Grid::new();
    let engine = &grid.0.engine;
    assert!(engine.object_id(&"x".repeat(160)).is_ok());
    assert!(code(engine.object_id(&"x".repeat(161))).contains("more than 160 bytes"));
    grid.roll(Rollout { id_len_max: 8, ..Rollout::phase(3) }).unwrap();
    assert!(engine.object_id("12345678").is_ok());
    assert!(code(engine.entry_key("123456789")).contains("more than 8 bytes"));
    assert_eq!(engine.entry_segment("17").unwrap(), EntryKey::Numeric(17));
    assert!(code(engine.object_segment("007")).contains("leading zero"));
}
