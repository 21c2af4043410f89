//! Documents on the wire.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A document.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Its key in text spelling.
    pub key: String,
    /// Grows with every change; also the ETag.
    pub version: u64,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// Milliseconds since 1970.
    pub updated_at: u64,
    /// Who created it; `null` if that was the administrator.
    pub owner: Option<String>,
    /// A free text beside the data.
    pub description: Option<String>,
    /// The data as it is stored, byte for byte.
    #[schema(value_type = Object)]
    pub data: Box<RawValue>,
}

/// The selected fields of a document.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Selected {
    /// The key of the document in text spelling.
    pub key: String,
    /// The fields that were asked for and that the document has.
    #[schema(value_type = Object)]
    pub data: Box<RawValue>,
}

/// One result of a query.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged, from = "ItemForm")]
pub enum Item {
    /// A whole document.
    Document(Document),
    /// Some fields of it.
    Selected(Selected),
}

/// Whatever a result may have: what is spliced cannot be tried twice.
#[derive(Deserialize)]
struct ItemForm {
    key: String,
    data: Box<RawValue>,
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    created_at: u64,
    #[serde(default)]
    updated_at: u64,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

impl Item {
    /// The key of the document in text spelling.
    pub fn key(&self) -> &str {
        match self {
            Item::Document(document) => &document.key,
            Item::Selected(selected) => &selected.key,
        }
    }

    /// The data, or what was selected of it.
    pub fn data(&self) -> &RawValue {
        match self {
            Item::Document(document) => &document.data,
            Item::Selected(selected) => &selected.data,
        }
    }
}

impl From<ItemForm> for Item {
    fn from(form: ItemForm) -> Item {
        let ItemForm { key, data, version, created_at, updated_at, owner, description } = form;
        match version {
            None => Item::Selected(Selected { key, data }),
            Some(version) => Item::Document(Document {
                key,
                version,
                created_at,
                updated_at,
                owner,
                description,
                data,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_spliced_byte_for_byte() {
        let data = r#"{ "big":123456789012345678901234567890, "b" : 1.0, "a":"é"}"#;
        let document = Document {
            key: "k".to_owned(),
            version: 7,
            created_at: 1,
            updated_at: 2,
            owner: None,
            description: Some("d".to_owned()),
            data: RawValue::from_string(data.to_owned()).unwrap(),
        };
        let text = serde_json::to_string(&Item::Document(document)).unwrap();
        let head = r#"{"key":"k","version":7,"created_at":1,"updated_at":2,"#;
        let expected = format!(r#"{head}"owner":null,"description":"d","data":{data}}}"#);
        assert_eq!(text, expected);
        let back: Document = serde_json::from_str(&text).unwrap();
        assert_eq!(back.data.get(), data);
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let selected = r#"{"key":"k","data":{ "a":1.0}}"#;
        let whole = r#"{"key":"k","version":7,"created_at":1,"updated_at":2,"owner":"u","#
            .to_owned()
            + r#""description":null,"data":{ "a":1.0}}"#;
        for text in [selected, &whole] {
            let item: Item = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&item).unwrap(), text);
        }
    }
}
