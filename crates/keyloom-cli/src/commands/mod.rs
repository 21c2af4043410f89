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
mod token;

use std::sync::Arc;

use keyloom_engine::schema::CollectionSchema;

use crate::args::{Args, Command, Global, SchemaCommand};
use crate::backend::Backend;
use crate::open::{Missing, StoreUrl, open};
use crate::output::Output;
use crate::problem::Failure;

/// Where answers come from, and where they go.
pub(crate) struct Session<'o> {
    pub(crate) backend: Backend,
    pub(crate) output: &'o mut Output,
}

/// Runs a command line.
pub(crate) async fn run(args: Args, output: &mut Output) -> Result<(), Failure> {
    let Args { global, command } = args;
    match command {
        Command::Demo(demo) => demo::run(demo, &global, output).await,
        Command::Schema(SchemaCommand::Check { files }) => schema::check(&files, output).await,
        Command::Schema(SchemaCommand::Apply { files, dry_run }) => {
            let schema = schema::read_checked(&files).await?;
            let backend = match global.client()? {
                Some(client) => Backend::Remote(client),
                None => {
                    // Asking what would change does not create a database.
                    let url = global.store();
                    let absent = dry_run && !url.exists()?;
                    let url = if absent { StoreUrl::Memory } else { url };
                    opened(&url, &global, Missing::Create).await?
                }
            };
            schema::apply(&mut Session { backend, output }, &schema, dry_run).await
        }
        Command::Serve(options) => serve::run(options, &global, output).await,
        command => {
            let backend = match global.client()? {
                Some(client) => Backend::Remote(client),
                // The first thing that is done with a new database may be a token.
                None => {
                    let missing = match command {
                        Command::Token(_) => Missing::Create,
                        _ => Missing::Refuse,
                    };
                    opened(&global.store(), &global, missing).await?
                }
            };
            execute(&mut Session { backend, output }, command).await
        }
    }
}

/// A database that this process opens.
async fn opened(url: &StoreUrl, global: &Global, missing: Missing) -> Result<Backend, Failure> {
    let engine = Arc::new(open(url, global.options(), missing).await?);
    Ok(Backend::Local { engine, actor: global.actor() })
}

/// Runs a command on an open database or a server.
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
        Command::Token(command) => token::run(session, command).await,
        Command::Serve(_) => Err(Failure::Usage("a demo serves nothing".to_owned())),
        Command::Demo(_) => Err(Failure::Usage("a demo has no demo inside".to_owned())),
    }
}

impl Session<'_> {
    /// The schema of a collection.
    async fn schema(&self, collection: &str) -> Result<CollectionSchema, Failure> {
        self.backend.schema(collection).await
    }
}
