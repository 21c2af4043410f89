//! The sample data behind `keyloom serve --demo`, and what to try with it.

use std::net::SocketAddr;

use keyloom_engine::schema::Schema;
use keyloom_engine::{Engine, RealSystem, System};

use super::sample::{self, Sample};
use super::{SCHEMAS, objects};
use crate::output::Output;
use crate::problem::Failure;

/// What a server with sample data has to tell.
pub(in crate::commands) struct Served {
    /// Nothing if the database held data before.
    sample: Option<Sample>,
}

/// Puts the bundled schemas in force, and loads the sample data unless there are documents already.
pub(in crate::commands) async fn load(engine: &Engine) -> Result<Served, Failure> {
    let mut schema = Schema::default();
    for text in SCHEMAS {
        schema.merge(Schema::from_toml(text)?)?;
    }
    schema.merge(objects::schema()?)?;
    engine.apply_schema(&schema, &mut |_| {}).await?;
    let all = keyloom_engine::Query::default();
    let stored = engine.count(&keyloom_engine::Actor::Local, "approvals", &all).await?.count;
    if stored > 0 {
        return Ok(Served { sample: None });
    }
    let now = i64::try_from(RealSystem.now_micros() / 60_000_000).unwrap_or(0) * 60_000;
    let mut sample = sample::load(engine, now).await?;
    let objects = objects::load(engine).await?;
    sample.counts = format!("{}, {objects} objects", sample.counts);
    Ok(Served { sample: Some(sample) })
}

impl Served {
    /// Says what there is, and what to try.
    pub(in crate::commands) fn tell(
        &self,
        output: &mut Output,
        address: SocketAddr,
    ) -> Result<(), Failure> {
        let loaded = self.sample.as_ref().map(|sample| sample.counts.as_str());
        output
            .line(format_args!("loaded: {}", loaded.unwrap_or("nothing, there was data before")))?;
        let code = self.sample.as_ref().map_or("A-…", |sample| sample.code.as_str());
        let base = format!("http://{address}");
        let approvals = format!("{base}/v1/collections/approvals");
        output.line("")?;
        output.line("Try next:")?;
        let lines = [
            (
                "the newest requests of ann, with the plan that was run",
                format!(
                    "curl '{approvals}/documents?requester=ann&order=-created_at\
                     &limit=3&explain=true'"
                ),
            ),
            ("one request by its code", format!("curl '{approvals}/unique/code/{code}'")),
            (
                "a question that no key serves: the answer names the key to add",
                format!("curl '{approvals}/documents?comment.prefix=urgent'"),
            ),
            (
                "the orders of the object grid, and one of them by its name",
                format!("curl '{base}/api/class/order/0/objects?prefix=ord_'"),
            ),
            ("", format!("curl '{base}/api/class/order/0/objects/ord_2026_11_00017'")),
            (
                "follow every change, and in another terminal make one",
                format!("curl -N '{base}/v1/changes?after=end'"),
            ),
            (
                "",
                format!(
                    "curl '{approvals}/documents' --json \
                 '{{\"data\": {{\"requester\": \"ann\", \"approver\": \"bob\"}}}}'"
                ),
            ),
        ];
        for (what, line) in lines {
            if !what.is_empty() {
                output.dim(format_args!("# {what}"))?;
            }
            output.line(line)?;
        }
        output.line("")?;
        output.line(format_args!("All there is: {base}/docs · Ctrl-C stops."))
    }
}
