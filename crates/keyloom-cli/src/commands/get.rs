//! `keyloom get`: one document, by its key or by a unique claim.

use keyloom_api::Document;
use keyloom_engine::Error;
use keyloom_engine::schema::CollectionSchema;
use serde_json::Value as Json;

use super::{Session, show};
use crate::args::Get;
use crate::output::Format;
use crate::problem::Failure;
use keyloom_server::typed::{kind_of, template_fields, value};

pub(super) async fn run(session: &mut Session<'_>, get: Get) -> Result<(), Failure> {
    let Get { collection, key, unique } = get;
    let schema = session.schema(&collection).await?;
    let (found, asked) = match (key, unique.as_deref()) {
        (Some(key), _) => (session.backend.get(&collection, &key).await?, key),
        (None, Some([name, texts @ ..])) => {
            let values = claim_values(&schema, name, texts)?;
            let found = session.backend.lookup(&collection, name, &values).await?;
            (found, format!("{name} {}", texts.join(" ")))
        }
        (None, _) => return Err(Failure::Usage("name a key, or --unique NAME VALUE".to_owned())),
    };
    let absent = || Error::NotFound { collection, key: asked };
    let document: Document = found.ok_or_else(absent)?;
    match session.output.format() {
        Format::Json => session.output.json(&document),
        Format::Text => show::document(session.output, &schema, &document),
    }
}

/// The values of a claim, by the types of its fields. What does not fit is left to the engine,
/// which knows what the claim takes.
fn claim_values(
    schema: &CollectionSchema,
    name: &str,
    texts: &[String],
) -> Result<Vec<Json>, Failure> {
    let template = schema.unique.get(name).map(String::as_str).unwrap_or_default();
    let fields = template_fields(template);
    let typed = texts.iter().enumerate().map(|(place, text)| {
        let kind = fields.get(place).and_then(|field| kind_of(schema, field));
        value(kind, text).map_err(|detail| Failure::Invalid(format!("`{name}`: {detail}")))
    });
    typed.collect()
}
