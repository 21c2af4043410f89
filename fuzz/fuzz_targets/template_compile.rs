//! Any text compiles or is refused; the caret stands within the text.
#![no_main]

use keyloom_fuzz::kind_of;
use keyloom_key::Template;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Template::compile(text, &kind_of) {
        Ok(template) => assert_eq!(template.text(), text),
        Err(error) => {
            assert!(error.position <= text.chars().count());
            assert!(!error.to_string().is_empty());
        }
    }
});
