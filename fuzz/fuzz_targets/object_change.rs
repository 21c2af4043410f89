//! Any bytes are the change that is written as them, or are refused.
#![no_main]

use keyloom_key::ObjectStep;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(step) = ObjectStep::read(data) {
        assert_eq!(step.write(), data);
    }
});
