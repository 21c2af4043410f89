//! Text of the command line as JSON, by the type of the field it is for.

use keyloom_engine::schema::CollectionSchema;
use serde_json::Value as Json;

use crate::times;

/// The type of a field, or of the elements of an array; `None` if the field is not declared.
pub fn kind_of<'s>(schema: &'s CollectionSchema, field: &str) -> Option<&'s str> {
    match field {
        "@created_at" | "@updated_at" => Some("millis"),
        "@owner" => Some("id"),
        _ => {
            let kind = schema.fields.get(field)?.kind.as_str();
            Some(kind.strip_suffix("[]").unwrap_or(kind))
        }
    }
}

/// A value of this type. A field that is not declared is left to the engine, which lists those that
/// are.
pub fn value(kind: Option<&str>, text: &str) -> Result<Json, String> {
    let wanted = |wanted: &str| format!("`{text}` is not {wanted}");
    match kind {
        Some("millis") => times::parse(text).map(Json::from).ok_or_else(|| {
            wanted("a time: write milliseconds, 2026-11-15, or 2026-11-15T22:14:16Z")
        }),
        Some("u64") => {
            text.parse::<u64>().map(Json::from).map_err(|_| wanted("a number from 0 on"))
        }
        Some("i64") => text.parse::<i64>().map(Json::from).map_err(|_| wanted("a whole number")),
        Some("bool") => text.parse::<bool>().map(Json::from).map_err(|_| wanted("true or false")),
        Some("number") => serde_json::from_str(text)
            .ok()
            .filter(Json::is_number)
            .ok_or_else(|| wanted("a number")),
        Some("json") => serde_json::from_str(text).map_err(|_| wanted("JSON")),
        _ => Ok(Json::from(text)),
    }
}

/// The fields that a key template names, in order.
pub fn template_fields(template: &str) -> Vec<&str> {
    let components = template.split('{').skip(1);
    components
        .filter_map(|rest| rest.split('}').next()?.split(' ').next())
        .map(|field| field.strip_suffix("[]").unwrap_or(field))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_what_its_field_holds() {
        assert_eq!(value(Some("i64"), "-1").unwrap(), Json::from(-1));
        assert_eq!(value(Some("u64"), "18446744073709551615").unwrap(), Json::from(u64::MAX));
        assert_eq!(value(Some("bool"), "true").unwrap(), Json::from(true));
        assert_eq!(value(Some("id"), "7").unwrap(), Json::from("7"));
        assert_eq!(value(Some("number"), "0.5").unwrap(), Json::from(0.5));
        assert_eq!(value(Some("millis"), "1970-01-02").unwrap(), Json::from(86_400_000));
        assert_eq!(value(Some("json"), "[1]").unwrap(), Json::from(vec![1]));
        assert_eq!(value(None, "x").unwrap(), Json::from("x"));
    }

    #[test]
    fn text_that_does_not_fit_is_refused_with_what_would() {
        assert_eq!(value(Some("u64"), "-1").unwrap_err(), "`-1` is not a number from 0 on");
        assert_eq!(value(Some("bool"), "yes").unwrap_err(), "`yes` is not true or false");
        assert_eq!(value(Some("number"), "\"1\"").unwrap_err(), "`\"1\"` is not a number");
        assert!(value(Some("millis"), "soon").unwrap_err().starts_with("`soon` is not a time"));
    }

    #[test]
    fn the_fields_of_a_template_are_read_in_order() {
        let template = "a:{requester}:{created_at desc}:{tags[] prefix 3}:{id}";
        assert_eq!(template_fields(template), ["requester", "created_at", "tags", "id"]);
        assert!(template_fields("fixed").is_empty());
    }

    #[test]
    fn an_array_has_the_type_of_its_elements_and_facts_have_types() {
        let text = "[collections.a]\nkey = \"{id}\"\n[collections.a.fields]\n\
                    id = { type = \"ulid\" }\ntags = { type = \"text[]\" }\n";
        let schema = keyloom_engine::schema::Schema::from_toml(text).unwrap();
        let schema = &schema.collections["a"];
        assert_eq!(kind_of(schema, "tags"), Some("text"));
        assert_eq!(kind_of(schema, "@created_at"), Some("millis"));
        assert_eq!(kind_of(schema, "nope"), None);
    }
}
