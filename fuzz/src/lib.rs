//! The fields and templates that the fuzz targets share.

use keyloom_key::{Kind, Template};

/// One template for each way in which components can follow each other.
const TEMPLATES: &[&str] = &[
    "usr_{ulid}_tag_{ulid}_tar_{ulid}_key_{ulid}",
    "approval:index:requester:{id}:{millis desc}:{ulid}",
    "tag:{text}#{text}",
    "{ulid}{uuid}7{bool}",
    "{name}_{enum}:{u64}:{i64 desc}",
    "{text prefix 3 desc}:{id shard 16}:{millis}",
    "{text desc}",
];

/// Every kind is the name of a field of that kind.
pub fn kind_of(field: &str) -> Option<Kind> {
    Some(match field {
        "ulid" => Kind::Ulid,
        "uuid" => Kind::Uuid,
        "name" => Kind::Name,
        "id" => Kind::Id,
        "text" => Kind::Text,
        "millis" => Kind::Millis,
        "u64" => Kind::U64,
        "i64" => Kind::I64,
        "bool" => Kind::Bool,
        "enum" => Kind::Enum(["on", "off", "o.n-1"].map(str::to_owned).into()),
        _ => return None,
    })
}

/// The template that a byte chooses.
pub fn template(choice: u8) -> Template {
    let text = TEMPLATES.get(usize::from(choice) % TEMPLATES.len()).expect("it is a remainder");
    Template::compile(text, &kind_of).expect("the templates above compile")
}
