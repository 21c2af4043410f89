//! Any bytes are the key of an object that is written as them, or are refused.
#![no_main]

use keyloom_key::{ObjectId, ObjectKey, ObjectRecord, StoredKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok((class, partition, stored)) = StoredKey::read(data) else {
        return;
    };
    let keys = |id: &ObjectId| ObjectKey::new(class, partition, id);
    let again = match stored {
        StoredKey::Directory(number) => keys(&ObjectId::Numeric(number)).directory(),
        StoredKey::Legacy(number) => keys(&ObjectId::Numeric(number)).legacy(),
        StoredKey::Record { id, record } => match record {
            ObjectRecord::Metadata => Some(keys(&id).metadata()),
            ObjectRecord::Event => Some(keys(&id).event()),
            ObjectRecord::Entry(entry) => Some(keys(&id).entry(&entry)),
            ObjectRecord::LengthEntry(entry) => keys(&id).length_entry(&entry),
        },
    };
    assert_eq!(again.as_deref(), Some(data));
});
