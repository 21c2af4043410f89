//! The bytes before the components.

use keyloom_key::{DecodeError, Head, Space};
use proptest::prelude::*;

const SPACES: [Space; 11] = [
    Space::Catalog,
    Space::Document,
    Space::Index,
    Space::Claim,
    Space::Tombstone,
    Space::Counter,
    Space::Token,
    Space::Object,
    Space::LegacyObject,
    Space::Outbox,
    Space::Invocation,
];

fn bytes(head: Head) -> Vec<u8> {
    let mut out = Vec::new();
    head.write(&mut out);
    out
}

#[test]
fn a_head_has_five_bytes_big_endian() {
    let head = Head { space: Space::Index, collection: 0x0102, template: 0x0304 };
    assert_eq!(bytes(head), [0x03, 0x01, 0x02, 0x03, 0x04]);
    assert_eq!(Head::BYTES, 5);
}

#[test]
fn the_tags_of_spaces_are_never_changed() {
    let tags: Vec<u8> = SPACES.map(|space| space as u8).into();
    assert_eq!(tags, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    for space in SPACES {
        assert_eq!(Space::try_from(space as u8), Ok(space));
    }
    for tag in [0, 12, 255] {
        assert_eq!(Space::try_from(tag), Err(DecodeError::UnknownSpace { tag }));
    }
}

#[test]
fn a_key_that_ends_within_its_head_is_refused() {
    assert_eq!(Head::read(&[2, 0, 1]), Err(DecodeError::Truncated { wanted: 5, found: 3 }));
}

#[test]
fn the_range_of_the_last_template_ends_where_the_next_collection_begins() {
    let head = Head { space: Space::Document, collection: 0x00FF, template: 0xFFFF };
    let (from, to) = head.whole();
    assert_eq!(from, [2, 0x00, 0xFF, 0xFF, 0xFF]);
    assert_eq!(to, [2, 0x01, 0x00, 0x00, 0x00]);
}

proptest! {
    #[test]
    fn a_head_is_read_back_with_what_follows_it(
        head in any_head(),
        components in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let key = [bytes(head), components.clone()].concat();
        prop_assert_eq!(Head::read(&key), Ok((head, components.as_slice())));
    }

    #[test]
    fn j26_the_range_of_a_head_holds_its_own_keys_only(
        head in any_head(),
        other in any_head(),
        components in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let (from, to) = head.whole();
        let key = [bytes(other), components].concat();
        prop_assert_eq!(from <= key && key < to, head == other);
    }
}

fn any_head() -> impl Strategy<Value = Head> {
    let number = || prop_oneof![0..2_u16, 0xFFFE..=0xFFFF_u16, 0x00FE..0x0102_u16];
    (prop::sample::select(SPACES.to_vec()), number(), number())
        .prop_map(|(space, collection, template)| Head { space, collection, template })
}
