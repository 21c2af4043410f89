//! The commands. Each reads its arguments, asks the engine once or page by page, and prints.
//!
//! C1: A command speaks to a [`Session`] only, so that the demo runs the very commands it shows.

mod changes;
mod check;
mod delete;
mod demo;
mod export;
mod get;
mod import;
mod keys;
mod list;
mod put;
mod query;
mod replace;
mod schema;
mod serve;
mod show;

use keyloom_engine::schema::CollectionSchema;
use keyloom_engine::{Actor, Engine};

use crate::args::{Args, Command, SchemaCommand};
use crate::open::{Missing, StoreUrl, open};
use crate::output::Output;
use crate::problem::Failure;

/// An open database, who uses it, and where answers go.
pub(crate) struct Session<'o> {
    pub(crate) engine: Engine,
    pub(crate) actor: Actor,
    pub(crate) output: &'o mut Output,
}

/// Runs a command line.
pub(crate) async fn run(args: Args, output: &mut Output) -> Result<(), Failure> {
    let Args { global, command } = args;
    let url = global.store();
    match command {
        Command::Demo(demo) => demo::run(demo, &global, output).await,
        Command::Schema(SchemaCommand::Check { files }) => schema::check(&files, output).await,
        Command::Schema(SchemaCommand::Apply { files, dry_run }) => {
            let schema = schema::read_checked(&files).await?;
            // A database that does not exist yet is not created by asking what would change.
            let absent = dry_run && !url.exists()?;
            let url = if absent { StoreUrl::Memory } else { url };
            let engine = open(&url, global.options(), Missing::Create).await?;
            let mut session = Session { engine, actor: global.actor(), output };
            schema::apply(&mut session, &schema, dry_run).await
        }
        Command::Serve(options) => serve::run(options, &global, output).await,
        command => {
            let engine = open(&url, global.options(), Missing::Refuse).await?;
            let mut session = Session { engine, actor: global.actor(), output };
            execute(&mut session, command).await
        }
    }
}

/// Runs a command on an open database.
async fn execute(session: &mut Session<'_>, command: Command) -> Result<(), Failure> {
    match command {
        Command::Schema(SchemaCommand::Show { collections, toml }) => {
            schema::show(session, collections, toml).await
        }
        Command::Schema(SchemaCommand::Apply { files, dry_run }) => {
            let schema = schema::read_checked(&files).await?;
            schema::apply(session, &schema, dry_run).await
        }
        Command::Schema(SchemaCommand::Check { files }) => {
            schema::check(&files, session.output).await
        }
        Command::Put(put) => put::run(session, put).await,
        Command::Get(get) => get::run(session, get).await,
        Command::Delete(delete) => delete::run(session, delete).await,
        Command::Query(query) => query::run(session, query).await,
        Command::Count(conditions) => query::count(session, conditions).await,
        Command::Exists(conditions) => query::exists(session, conditions).await,
        Command::List(list) => list::run(session, list).await,
        Command::Keys(keys) => keys::run(session, keys).await,
        Command::Replace(replace) => replace::run(session, replace).await,
        Command::Import(import) => import::run(session, import).await,
        Command::Export(export) => export::run(session, export).await,
        Command::Changes(changes) => changes::run(session, &changes).await,
        Command::Check(check) => check::run(session, &check).await,
        Command::Serve(_) => Err(Failure::Usage("a demo serves nothing".to_owned())),
        Command::Demo(_) => Err(Failure::Usage("a demo has no demo inside".to_owned())),
    }
}

impl Session<'_> {
    /// The schema of a collection.
    async fn schema(&self, collection: &str) -> Result<CollectionSchema, Failure> {
        Ok(self.engine.collection(&self.actor, collection).await?.schema)
    }
}
