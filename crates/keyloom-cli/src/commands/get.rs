//! `keyloom get`: one document, by its key or by a unique claim.

use keyloom_engine::{CollectionInfo, Document, Error};
use serde_json::Value as Json;

use super::{Session, show};
use crate::args::Get;
use crate::output::Format;
use crate::problem::Failure;
use keyloom_server::typed::{kind_of, template_fields, value};
use keyloom_server::wire;

pub(super) async fn run(session: &mut Session<'_>, get: Get) -> Result<(), Failure> {
    let Get { collection, key, unique } = get;
    let info = session.engine.collection(&session.actor, &collection).await?;
    let (found, asked) = match (key, unique.as_deref()) {
        (Some(key), _) => (session.engine.get(&session.actor, &collection, &key).await?, key),
        (None, Some([name, texts @ ..])) => {
            let values = claim_values(&info, name, texts)?;
            let found = session.engine.lookup(&session.actor, &collection, name, &values).await?;
            (found, format!("{name} {}", texts.join(" ")))
        }
        (None, _) => return Err(Failure::Usage("name a key, or --unique NAME VALUE".to_owned())),
    };
    let absent = || Error::NotFound { collection, key: asked };
    let document: Document = found.ok_or_else(absent)?;
    match session.output.format() {
        Format::Json => session.output.json(&wire::document(document)?),
        Format::Text => show::document(session.output, &info.schema, &document),
    }
}

/// The values of a claim, by the types of its fields. What does not fit is left to the engine,
/// which knows what the claim takes.
fn claim_values(info: &CollectionInfo, name: &str, texts: &[String]) -> Result<Vec<Json>, Failure> {
    let template = info.schema.unique.get(name).map(String::as_str).unwrap_or_default();
    let fields = template_fields(template);
    let typed = texts.iter().enumerate().map(|(place, text)| {
        let kind = fields.get(place).and_then(|field| kind_of(&info.schema, field));
        value(kind, text).map_err(|detail| Failure::Invalid(format!("`{name}`: {detail}")))
    });
    typed.collect()
}
