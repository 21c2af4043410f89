//! Any bytes unpack to the key that packs to them, or are refused. The first byte chooses the
//! template.
#![no_main]

use keyloom_fuzz::template;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, packed)) = data.split_first() else {
        return;
    };
    let template = template(choice);
    if let Ok(key) = template.unpack(packed) {
        let mut again = Vec::new();
        template.pack(&key, &mut again).expect("what unpacks can be packed");
        assert_eq!(again, packed);
        let text = template.render(&key).expect("what unpacks can be rendered");
        assert_eq!(template.parse(&text), Ok(key));
    }
});
