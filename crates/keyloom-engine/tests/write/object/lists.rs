//! Lists of objects and entries, page by page.

use keyloom_engine::{EntryList, Error, ObjectId, ObjectItem, ObjectList, ObjectOrder, Rollout};
use pollster::block_on;
use proptest::prelude::*;

use super::grid::{Grid, at, id, number, text};
use crate::support::code;

/// A list of partition 3.
fn list<'a>(prefix: &'a str, limit: usize, after: Option<&'a str>) -> ObjectList<'a> {
    let order = ObjectOrder::Bytes;
    ObjectList { class: "order", partition: 3, prefix, order, limit, after }
}

/// All pages of a list.
fn pages(grid: &Grid, first: ObjectList<'_>) -> Result<Vec<ObjectItem>, Error> {
    let (mut items, mut after): (Vec<ObjectItem>, Option<String>) = (Vec::new(), None);
    loop {
        let list = ObjectList { after: after.as_deref(), ..first };
        let page = block_on(grid.0.engine.list_objects(list))?;
        assert!(page.items.len() <= first.limit);
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(items);
        }
    }
}

pub(super) fn names(grid: &Grid, prefix: &str, limit: usize) -> Vec<String> {
    let items = pages(grid, list(prefix, limit, None)).unwrap();
    items.into_iter().map(|item| item.id.to_string()).collect()
}

/// All pages of the entries of an object, as `key=value`.
fn entries(grid: &Grid, name: &str, prefix: &str, limit: usize) -> Vec<String> {
    let (mut items, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let list = EntryList { prefix, limit, after: after.as_deref() };
        let page = block_on(grid.0.engine.list_entries(at(&id(name)), list)).unwrap().unwrap();
        assert!(page.items.len() <= limit);
        let spelled = page
            .items
            .into_iter()
            .map(|(key, val)| format!("{key}={}", String::from_utf8(val.data).unwrap()));
        items.extend(spelled);
        after = page.next;
        if after.is_none() {
            return items;
        }
    }
}

#[test]
fn o10_entries_of_many_lengths_are_listed_in_order_and_once() {
    let grid = Grid::new();
    let names = ["a", "aa", "aaa", "ab", "abc.d", "b", "ba", &"a".repeat(160), "é", "c"];
    let mut content: Vec<_> = names.iter().map(|name| (text(name), "x")).collect();
    content.extend([1, 9, 10, 255, 256, u32::MAX].map(|key| (number(key), "x")));
    grid.set("o", &content).unwrap();
    let mut sorted: Vec<&str> = names.to_vec();
    sorted.sort_unstable();
    let with_value = |name: &&str| format!("{name}=x");
    for limit in [1, 2, 3, 7, 1000] {
        let mut expected: Vec<String> =
            [1, 9, 10, 255, 256, u32::MAX].iter().map(|key| format!("{key}=x")).collect();
        expected.extend(sorted.iter().map(with_value));
        assert_eq!(entries(&grid, "o", "", limit), expected, "pages of {limit}");
        let expected: Vec<String> =
            sorted.iter().filter(|name| name.starts_with('a')).map(with_value).collect();
        assert_eq!(entries(&grid, "o", "A", limit), expected, "pages of {limit}");
    }
    assert_eq!(entries(&grid, "o", "zzz", 3), [""; 0]);
}

#[test]
fn o11_objects_are_listed_by_prefix_completely_and_in_order() {
    let grid = Grid::new();
    let mut ids: Vec<String> = (0..40).map(|number| (number * 7).to_string()).collect();
    ids.extend(["a", "ab", "ab-1", "b", "ord_1", "ord_10", "ord_2", "007", "é"].map(str::to_owned));
    for (place, name) in ids.iter().enumerate() {
        let entries: Vec<_> = (0..place as u32 % 3).map(|key| (number(key), "x")).collect();
        grid.set(name, &entries).unwrap();
    }
    ids.sort_unstable();
    for prefix in ["", "1", "a", "ab", "Ord_", "ord_1", "zz", "0", "é"] {
        let normal = prefix.to_lowercase();
        let expected: Vec<&String> = ids.iter().filter(|id| id.starts_with(&normal)).collect();
        for limit in [1, 3, 1000] {
            assert_eq!(
                names(&grid, prefix, limit).iter().collect::<Vec<_>>(),
                expected,
                "{prefix}"
            );
        }
    }
}

#[test]
fn o11_a_list_tells_the_version_and_the_number_of_entries() {
    let grid = Grid::new();
    let written = grid.set("a", &[(number(1), "x"), (text("t"), "y")]).unwrap();
    let page = block_on(grid.0.engine.list_objects(list("", 10, None))).unwrap();
    let expected = ObjectItem { id: id("a"), version: written.version, entries: 2 };
    assert_eq!((page.items, page.next), (vec![expected], None));
}

#[test]
fn o11_a_page_reads_one_key_for_each_object_however_many_entries_they_have() {
    let grid = Grid::new();
    let many: Vec<_> = (0..500).map(|key| (number(key), "x")).collect();
    for name in ["a", "b", "c", "d"] {
        grid.set(name, &many).unwrap();
    }
    grid.0.faults.reset();
    let page = block_on(grid.0.engine.list_objects(list("", 3, None))).unwrap();
    assert_eq!(page.items.len(), 3);
    assert!(grid.0.faults.counts().keys_read <= 4, "{:?}", grid.0.faults.counts());
}

#[test]
fn o11_a_cursor_survives_what_it_stands_on_and_is_of_use_in_its_own_list_only() {
    let grid = Grid::new();
    for name in ["a", "ab", "abc", "b"] {
        grid.set(name, &[(number(1), "x"), (number(2), "y")]).unwrap();
    }
    let engine = &grid.0.engine;
    let first = block_on(engine.list_objects(list("a", 1, None))).unwrap();
    let cursor = first.next.unwrap();
    grid.delete("a").unwrap();
    let second = block_on(engine.list_objects(list("a", 1, Some(&cursor)))).unwrap();
    assert_eq!(second.items[0].id, id("ab"));
    let other = code(block_on(engine.list_objects(list("", 1, Some(&cursor)))));
    assert!(other.contains("belongs to another list"), "{other}");
    let (cut, longer) = (cursor.split_at(1).1, format!("{cursor}A"));
    for garbage in ["", "x", "AAAA", "!!!", cut, &longer] {
        let refused = code(block_on(engine.list_objects(list("a", 1, Some(garbage)))));
        assert!(refused.starts_with("invalid_argument: "), "{garbage}: {refused}");
        let entries = EntryList { prefix: "", limit: 1, after: Some(garbage) };
        let refused = code(block_on(engine.list_entries(at(&id("b")), entries)));
        assert!(refused.starts_with("invalid_argument: "), "{garbage}: {refused}");
    }
    let page = EntryList { prefix: "", limit: 1, after: None };
    let page = block_on(engine.list_entries(at(&id("b")), page)).unwrap().unwrap();
    let cursor = page.next.unwrap();
    grid.delete_entry("b", number(1)).unwrap();
    let page = EntryList { prefix: "", limit: 1, after: Some(&cursor) };
    let found = block_on(engine.list_entries(at(&id("b")), page)).unwrap().unwrap();
    assert_eq!(found.items[0].0, number(2));
    assert!(code(block_on(engine.list_entries(at(&id("ab")), page))).contains("another list"));
}

#[test]
fn objects_with_numbers_are_listed_in_their_order_if_that_is_asked() {
    let grid = Grid::new();
    for name in ["10", "9", "a", "100", "18446744073709551615", "0", "07"] {
        grid.set(name, &[]).unwrap();
    }
    grid.delete("100").unwrap();
    for limit in [1, 2, 100] {
        let list = ObjectList { order: ObjectOrder::Numeric, ..list("", limit, None) };
        let found = pages(&grid, list).unwrap();
        let ids: Vec<ObjectId> = found.into_iter().map(|item| item.id).collect();
        assert_eq!(ids, [0, 9, 10, u64::MAX].map(ObjectId::Numeric));
    }
    let both = ObjectList { order: ObjectOrder::Numeric, ..list("1", 5, None) };
    assert!(code(pages(&grid, both)).contains("takes no prefix"));
}

#[test]
fn o12_while_string_ids_are_write_only_lists_hide_them_and_gets_do_not() {
    let grid = Grid::in_phase(2);
    for name in ["a", "1", "1a", "20", "0x"] {
        grid.set(name, &[]).unwrap();
    }
    for limit in [1, 10] {
        assert_eq!(names(&grid, "", limit), ["1", "20"]);
        assert_eq!(names(&grid, "1", limit), ["1"]);
    }
    assert!(grid.get("a").is_some());
    grid.roll(Rollout::phase(3)).unwrap();
    assert_eq!(names(&grid, "", 10), ["0x", "1", "1a", "20", "a"]);
}

#[test]
fn partitions_and_classes_do_not_run_into_each_other() {
    let grid = Grid::new();
    let names = ["a", "z", "\u{10FFFF}"];
    for name in names {
        grid.set(name, &[(text("k"), "x")]).unwrap();
    }
    for (class, partition) in [("order", 2), ("order", 4), ("log", 0)] {
        let list = ObjectList { class, partition, ..list("", 10, None) };
        assert_eq!(block_on(grid.0.engine.list_objects(list)).unwrap().items, []);
    }
    assert_eq!(super::lists::names(&grid, "", 10), names);
}

#[test]
fn limits_of_pages_are_refused() {
    let grid = Grid::new();
    let refused = code(block_on(grid.0.engine.list_objects(list("", 0, None))));
    assert_eq!(refused, "invalid_argument: the limit of a page is 1 to 1000");
    let refused = code(block_on(grid.0.engine.list_objects(list("", 1001, None))));
    assert_eq!(refused, "limit_exceeded: results of a page: 1001, at most 1000 allowed");
    let far = ObjectList { partition: 8, ..list("", 1, None) };
    assert!(code(block_on(grid.0.engine.list_objects(far))).contains("no partition 8"));
}

#[test]
fn a_page_of_large_entries_ends_early_and_goes_on() {
    let grid = Grid::new();
    let value = "x".repeat(1 << 20);
    for key in 0..12 {
        grid.set_entry("a", number(key), &value).unwrap();
    }
    let page = EntryList { prefix: "", limit: 100, after: None };
    let page = block_on(grid.0.engine.list_entries(at(&id("a")), page)).unwrap().unwrap();
    assert!((1..12).contains(&page.items.len()) && page.next.is_some());
    assert_eq!(entries(&grid, "a", "", 100).len(), 12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn lists_are_in_byte_order_whatever_the_names(
        names in prop::collection::btree_set("[a-c0-2é]{1,4}", 1..30), limit in 1..5_usize,
    ) {
        let grid = Grid::new();
        for name in &names {
            grid.set(name, &[]).unwrap();
        }
        let found = super::lists::names(&grid, "", limit);
        prop_assert!(found.iter().eq(names.iter()));
        // Entries whose string keys look like numbers are refused.
        let is_text = |name: &&String| name.bytes().any(|byte| !byte.is_ascii_digit());
        let texts: Vec<&String> = names.iter().filter(is_text).collect();
        grid.set("o", &[]).unwrap();
        for name in &texts {
            grid.set_entry("o", text(name), "x").unwrap();
        }
        let expected: Vec<String> = texts.iter().map(|name| format!("{name}=x")).collect();
        prop_assert_eq!(entries(&grid, "o", "", limit), expected);
    }
}
