//! Snapshots never change and see what was acknowledged (C3); scans keep order, range and limit.

use pollster::block_on;

use super::{Open, Subject, delete, everything, keys, put, range, scan, scan_pages};
use crate::{Direction, Entry, KeyRange, ScanOptions};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// C3: read your writes, from the first snapshot on.
pub fn a_snapshot_sees_what_was_acknowledged_before_it(open: Open) {
    let subject = Subject::fresh(open);
    for round in 0..200_u32 {
        subject.write(vec![put("a", round.to_be_bytes()), put("b", round.to_be_bytes())]);
        assert_eq!(subject.value(b"a"), Some(round.to_be_bytes().to_vec()));
        assert_eq!(subject.value(b"b"), Some(round.to_be_bytes().to_vec()));
    }
}

/// C3: what a snapshot shows stays, whatever is written later, and also with many snapshots open.
pub fn a_snapshot_never_changes(open: Open) {
    let subject = Subject::fresh(open);
    let mut snapshots = Vec::new();
    for round in 0..10_u8 {
        subject.write(vec![put("same", [round]), put([b'k', round], [round])]);
        if round > 0 {
            subject.write(vec![delete([b'k', round - 1])]);
        }
        snapshots.push((round, subject.snapshot()));
    }
    // Some of them go first, so that what the others need is not dropped along with it.
    snapshots.swap_remove(0);
    snapshots.swap_remove(4);
    subject.write(vec![delete("same")]);
    for (round, snapshot) in snapshots {
        let same = block_on(snapshot.get(b"same")).unwrap().unwrap();
        assert_eq!(same.value, [round]);
        let before = [b'k', round.saturating_sub(1)].to_vec();
        let asked = [before, [b'k', round].to_vec()];
        let found = block_on(snapshot.get_many(&asked)).unwrap();
        assert_eq!(found[0].is_some(), round == 0);
        assert_eq!(found[1].as_ref().unwrap().value, [round]);
        let all = keys(&scan(&*snapshot, &everything(), Direction::Forward));
        assert_eq!(all, [vec![b'k', round], b"same".to_vec()]);
    }
    assert_eq!(subject.value(b"same"), None);
}

/// A scan belongs to its snapshot, also when that was dropped and also between its pages.
pub fn an_open_scan_does_not_see_later_commits(open: Open) {
    for direction in BOTH {
        let subject = Subject::fresh(open);
        subject.write((0..6_u8).map(|key| put([key], "old")).collect());
        let snapshot = subject.snapshot();
        let options = ScanOptions { direction, limit: usize::MAX };
        let mut open_scan = block_on(snapshot.scan(&everything(), options)).unwrap();
        drop(snapshot);
        let mut entries: Vec<Entry> = block_on(open_scan.next(2)).unwrap().into_iter().collect();
        subject.write((0..9_u8).map(|key| put([key], "new")).collect());
        subject.write(vec![delete([2]), delete([3])]);
        loop {
            let page = block_on(open_scan.next(2)).unwrap();
            if page.is_empty() {
                break;
            }
            entries.extend(page);
        }
        assert_eq!(entries.len(), 6);
        assert!(entries.iter().all(|entry| entry.stored.value == b"old"), "{entries:?}");
    }
}

/// Both directions yield the same keys, in opposite order, with the values and stamps of `get`.
pub fn a_scan_yields_its_range_in_byte_order_in_both_directions(open: Open) {
    let subject = Subject::fresh(open);
    for number in [5_u16, 300, 1, 255, 256, 2] {
        subject.write(vec![put(number.to_be_bytes(), number.to_string())]);
    }
    let snapshot = subject.snapshot();
    let part = range(2_u16.to_be_bytes(), 300_u16.to_be_bytes());
    let mut forward = scan(&*snapshot, &part, Direction::Forward);
    let expected: Vec<Vec<u8>> =
        [2_u16, 5, 255, 256].iter().map(|number| number.to_be_bytes().to_vec()).collect();
    assert_eq!(keys(&forward), expected);
    for entry in &forward {
        let stored = block_on(snapshot.get(&entry.key)).unwrap().unwrap();
        assert_eq!(stored, entry.stored);
    }
    forward.reverse();
    assert_eq!(scan(&*snapshot, &part, Direction::Reverse), forward);
}

/// However the pages are cut, nothing is skipped or repeated.
pub fn a_scan_keeps_its_place_over_pages_of_any_size(open: Open) {
    let subject = Subject::fresh(open);
    subject.write((0..50_u8).map(|key| put([key, 0], [key])).collect());
    let snapshot = subject.snapshot();
    for direction in BOTH {
        let mut expected: Vec<Vec<u8>> = (10..40_u8).map(|key| vec![key, 0]).collect();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        for page in [1, 2, 3, 7, 29, 30, 31, 1000, usize::MAX] {
            let options = ScanOptions { direction, limit: usize::MAX };
            let found = scan_pages(&*snapshot, &range([10], [40]), options, page);
            assert_eq!(keys(&found), expected, "pages of {page}, {direction:?}");
        }
    }
}

/// The limit counts over all pages, and the end stays the end.
pub fn a_scan_stops_at_its_limit_and_stays_at_its_end(open: Open) {
    let subject = Subject::fresh(open);
    subject.write((0..10_u8).map(|key| put([key], [key])).collect());
    let snapshot = subject.snapshot();
    for direction in BOTH {
        for (limit, expected) in [(0, 0), (1, 1), (5, 5), (9, 9), (10, 10), (11, 10)] {
            let options = ScanOptions { direction, limit };
            let found = scan_pages(&*snapshot, &everything(), options, 3);
            assert_eq!(found.len(), expected, "limit {limit}, {direction:?}");
        }
        let options = ScanOptions { direction, limit: 4 };
        let mut open_scan = block_on(snapshot.scan(&everything(), options)).unwrap();
        let pages = [3, 3, 3, 3].map(|count| block_on(open_scan.next(count)).unwrap().len());
        assert_eq!(pages, [3, 1, 0, 0]);
    }
}

/// From inclusive, to exclusive; a key that extends the end is outside.
pub fn a_range_holds_its_start_and_not_its_end(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(["a", "b", "ba", "c", "ca", "d"].map(|key| put(key, "")).into());
    let snapshot = subject.snapshot();
    for direction in BOTH {
        let mut found = keys(&scan(&*snapshot, &range("b", "c"), direction));
        found.sort();
        assert_eq!(found, [b"b".to_vec(), b"ba".to_vec()]);
    }
}

/// Such a range is no error: it just holds nothing.
pub fn an_empty_or_inverted_range_yields_nothing(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(["a", "b", "c"].map(|key| put(key, "")).into());
    let snapshot = subject.snapshot();
    let ranges: [KeyRange; 6] = [
        range("b", "b"),
        range("c", "a"),
        range("b", ""),
        range("", ""),
        range("aa", "b"),
        range("x", "z"),
    ];
    for direction in BOTH {
        for empty in &ranges {
            assert_eq!(scan(&*snapshot, empty, direction), [], "{empty:?}");
        }
    }
}

/// Bytes are bytes: nothing ends a key, and 0xFF is larger than all.
pub fn keys_of_zeros_and_ffs_sort_as_bytes(open: Open) {
    let subject = Subject::fresh(open);
    let mut all: Vec<Vec<u8>> = vec![vec![]];
    for _ in 0..3 {
        let longer = all.iter().flat_map(|key| {
            [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF].map(|byte| [key.as_slice(), &[byte]].concat())
        });
        all = longer.chain(all.clone()).collect();
    }
    all.retain(|key| !key.is_empty());
    all.sort();
    all.dedup();
    subject.write(all.iter().map(|key| put(key, key)).collect());
    let snapshot = subject.snapshot();
    assert_eq!(keys(&scan(&*snapshot, &everything(), Direction::Forward)), all);
    for key in &all {
        assert_eq!(block_on(snapshot.get(key)).unwrap().unwrap().value, *key);
    }
    let from_ff = keys(&scan(&*snapshot, &range([0xFF], [0xFF, 0xFF]), Direction::Forward));
    let expected: Vec<_> =
        all.iter().filter(|key| range([0xFF], [0xFF, 0xFF]).contains(key)).cloned().collect();
    assert_eq!(from_ff, expected);
}

/// Each answer stands where its question stood.
pub fn get_many_answers_in_order_with_repeats(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("a", "1"), put("b", "2")]);
    let asked = ["b", "missing", "a", "b", "missing"].map(|key| key.as_bytes().to_vec());
    let found = block_on(subject.snapshot().get_many(&asked)).unwrap();
    let values: Vec<_> = found.into_iter().map(|stored| stored.map(|it| it.value)).collect();
    let [one, two] = [b"1".to_vec(), b"2".to_vec()].map(Some);
    assert_eq!(values, [two.clone(), None, one, two, None]);
    assert_eq!(block_on(subject.snapshot().get_many(&[])).unwrap(), []);
}

/// From nothing to a megabyte.
pub fn values_of_all_sizes_come_back_unchanged(open: Open) {
    let subject = Subject::fresh(open);
    let value = |len: usize| -> Vec<u8> { (0..len).map(|at| (at * 7 % 251) as u8).collect() };
    let sizes = [0_usize, 1, 127, 128, 4095, 4096, 4097, 65_535, 65_536, 1 << 20];
    for len in sizes {
        subject.write(vec![put(len.to_be_bytes(), value(len))]);
    }
    for len in sizes {
        assert_eq!(subject.value(&len.to_be_bytes()), Some(value(len)), "{len} bytes");
    }
    assert_eq!(scan(&*subject.snapshot(), &everything(), Direction::Reverse).len(), sizes.len());
}

/// Asking for such a key is no error: the answer is known.
pub fn a_key_that_cannot_be_stored_is_absent(open: Open) {
    let subject = Subject::fresh(open);
    subject.write(vec![put("a", "1")]);
    let long = vec![b'a'; subject.store.limits().key_bytes_max + 1];
    let snapshot = subject.snapshot();
    assert_eq!(block_on(snapshot.get(b"")).unwrap(), None);
    assert_eq!(block_on(snapshot.get(&long)).unwrap(), None);
    let found = block_on(snapshot.get_many(&[vec![], long, b"a".to_vec()])).unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
}
