//! Any text parses to the key that renders as it, or is refused.
#![no_main]

use keyloom_fuzz::template;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str)| {
    let (choice, text) = input;
    let template = template(choice);
    if let Ok(key) = template.parse(text) {
        assert_eq!(template.render(&key).as_deref(), Ok(text));
        let mut packed = Vec::new();
        if template.pack(&key, &mut packed).is_ok() {
            assert_eq!(template.unpack(&packed), Ok(key));
        }
    }
});
