//! Any bytes begin with a head that writes the same bytes, or are refused.
#![no_main]

use keyloom_key::Head;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|key: &[u8]| {
    if let Ok((head, components)) = Head::read(key) {
        let mut again = Vec::new();
        head.write(&mut again);
        again.extend_from_slice(components);
        assert_eq!(again, key);
        let (from, to) = head.whole();
        assert!(from.as_slice() <= key && key < to.as_slice());
    }
});
