//! `keyloom demo`: sample data in a temporary folder, and a walk through its queries.
//!
//! Y1: What is shown is what runs: every step parses its command line and executes it as if it had
//!     been typed. A step that does not go as told ends the demo with an error.

mod guide;
mod objects;
mod sample;
mod served;
mod story;

use std::path::Path;
use std::sync::Arc;

use keyloom_engine::schema::Schema;
use keyloom_engine::{Actor, Engine, Options, RealSystem, System};

use super::{Session, schema};
use crate::args::{Demo, Global};
use crate::backend::Backend;
use crate::open::{Missing, StoreUrl, open};
use crate::output::{Format, Output};
use crate::problem::Failure;
use guide::Guide;

pub(super) use served::{Served, load};

/// The columns of the demo where no terminal says how many there are.
const WIDTH_DEFAULT: usize = 100;

const SCHEMAS: [&str; 3] = [
    include_str!("../../../../../schemas/approvals.toml"),
    include_str!("../../../../../schemas/reputation.toml"),
    include_str!("../../../../../schemas/stickers.toml"),
];

pub(super) async fn run(demo: Demo, global: &Global, output: &mut Output) -> Result<(), Failure> {
    if output.format() == Format::Json || global.names_a_store() {
        let hint = "the demo is for people and has a folder of its own: leave out --json, --data \
                    and --store; --keep DIR keeps its folder";
        return Err(Failure::Usage(hint.to_owned()));
    }
    output.set_default_width(WIDTH_DEFAULT);
    match demo.keep {
        Some(folder) => {
            let url = StoreUrl::in_folder(folder.clone());
            if url.exists()? {
                let taken = format!("{} holds a database already", folder.display());
                return Err(Failure::Invalid(taken));
            }
            tell(&folder, output).await?;
            let folder = folder.display();
            output.dim(format_args!("\nThe data is in {folder}: add --data {folder} to go on."))
        }
        None => {
            let folder = tempfile::tempdir().map_err(Failure::file("the temporary folder"))?;
            tell(folder.path(), output).await?;
            output.dim("\nThe data is gone again; `keyloom demo --keep DIR` keeps it.")
        }
    }
}

async fn tell(folder: &Path, output: &mut Output) -> Result<(), Failure> {
    let url = StoreUrl::in_folder(folder.to_owned());
    let engine: Arc<Engine> = Arc::new(open(&url, Options::default(), Missing::Create).await?);
    let backend = Backend::Local { engine: Arc::clone(&engine), actor: Actor::Local };
    let mut session = Session { backend, output };
    let mut guide = Guide::new(&mut session);
    guide.opening()?;
    let mut schema = Schema::default();
    for text in SCHEMAS {
        schema.merge(Schema::from_toml(text)?)?;
    }
    schema::apply(guide.session, &schema, false).await?;
    // To the minute: seconds would only make the tables wider.
    let now = i64::try_from(RealSystem.now_micros() / 60_000_000).unwrap_or(0) * 60_000;
    let sample = sample::load(&engine, now).await?;
    guide.loaded(&sample)?;
    story::approvals(&mut guide, &sample).await?;
    story::reputation(&mut guide, &sample).await?;
    story::stickers(&mut guide).await?;
    story::ending(&mut guide).await
}
