//! Where a command's answers come from: a database that this process has open, or a server.
//!
//! B1: Both ways take the same questions and give the same answers, in the shapes of the wire, so
//!     that a command does not know which one it is.
//! B2: Plans always come with answers; a command shows them if it was asked to.

use std::sync::Arc;

use keyloom_api as api;
use keyloom_engine::schema::{ClassSchema, CollectionSchema, Schema};
use keyloom_engine::{
    Actor, Engine, Error, KeyQuery, List, NewToken, Operation, Query, Repair, SetReplacement,
};
use keyloom_server::wire;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::body::{self, escape, segments};
use crate::client::Client;
use crate::problem::Failure;
use crate::progress;

/// Where answers come from.
pub(crate) enum Backend {
    /// A database that this process has open, and who uses it.
    Local {
        /// The database.
        engine: Arc<Engine>,
        /// On whose behalf.
        actor: Actor,
    },
    /// A server.
    Remote(Client),
}

/// Hears how many documents were handled.
pub(crate) type Step<'s> = &'s mut (dyn FnMut(u64) + Send);

impl Backend {
    /// Whether answers are for somebody whom the server knows by a token.
    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self, Backend::Remote(client) if !client.has_token())
    }

    /// The names of all collections.
    pub(crate) async fn collections(&self) -> Result<Vec<String>, Failure> {
        match self {
            Backend::Local { engine, .. } => Ok(engine.collections()),
            Backend::Remote(client) => {
                Ok(client.get::<api::Collections>("/v1/collections")?.collections)
            }
        }
    }

    /// What there is to know of a collection.
    pub(crate) async fn collection(&self, name: &str) -> Result<api::Collection, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::collection(engine.collection(actor, name).await?)?)
            }
            Backend::Remote(client) => client.get(&Client::collection(name)),
        }
    }

    /// The schema of a collection.
    pub(crate) async fn schema(&self, name: &str) -> Result<CollectionSchema, Failure> {
        read_schema(&self.collection(name).await?)
    }

    /// The names of all classes.
    pub(crate) async fn classes(&self) -> Result<Vec<String>, Failure> {
        match self {
            Backend::Local { engine, .. } => Ok(engine.classes()),
            Backend::Remote(client) => Ok(client.get::<api::ClassNames>("/api/class")?.classes),
        }
    }

    /// What a class says.
    pub(crate) async fn class(&self, name: &str) -> Result<ClassSchema, Failure> {
        match self {
            Backend::Local { engine, .. } => Ok(ClassSchema::clone(&*engine.class(name)?)),
            Backend::Remote(client) => {
                let class: api::Class = client.get(&Client::class(name))?;
                read_part(&class.name, class.schema)
            }
        }
    }

    /// What a schema would change.
    pub(crate) async fn plan_schema(&self, schema: &Schema) -> Result<api::SchemaChange, Failure> {
        match self {
            Backend::Local { engine, .. } => {
                Ok(wire::schema_change(engine.plan_schema(schema).await?, false))
            }
            Backend::Remote(client) => client.put("/v1/schema?dry_run=true", schema),
        }
    }

    /// Puts a schema in force.
    pub(crate) async fn apply_schema(
        &self,
        schema: &Schema,
        step: Step<'_>,
    ) -> Result<api::SchemaChange, Failure> {
        match self {
            Backend::Local { engine, .. } => {
                Ok(wire::schema_change(engine.apply_schema(schema, step).await?, true))
            }
            Backend::Remote(client) => {
                progress::while_waiting("index", || client.put("/v1/schema", schema))
            }
        }
    }

    /// The document with this key.
    pub(crate) async fn get(
        &self,
        collection: &str,
        key: &str,
    ) -> Result<Option<api::Document>, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                let found = engine.get(actor, collection, key).await?;
                Ok(found.map(wire::document).transpose()?)
            }
            Backend::Remote(client) => {
                let path = format!("{}/documents/{}", Client::collection(collection), escape(key));
                client.find(&path)
            }
        }
    }

    /// The document that holds a unique claim.
    pub(crate) async fn lookup(
        &self,
        collection: &str,
        unique: &str,
        values: &[Json],
    ) -> Result<Option<api::Document>, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                let found = engine.lookup(actor, collection, unique, values).await?;
                Ok(found.map(wire::document).transpose()?)
            }
            Backend::Remote(client) => {
                let base = Client::collection(collection);
                let path = format!("{base}/unique/{}/{}", escape(unique), segments(values));
                client.find(&path)
            }
        }
    }

    /// A page of the documents that satisfy a query.
    pub(crate) async fn query(
        &self,
        collection: &str,
        query: &Query,
    ) -> Result<api::Page, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::page(engine.query(actor, collection, query).await?, true)?)
            }
            Backend::Remote(client) => client.ask(collection, "query", &body::query(query)?),
        }
    }

    /// How many documents satisfy a query.
    pub(crate) async fn count(
        &self,
        collection: &str,
        query: &Query,
    ) -> Result<api::Count, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::count(engine.count(actor, collection, query).await?, true))
            }
            Backend::Remote(client) => client.ask(collection, "count", &body::query(query)?),
        }
    }

    /// Whether any document satisfies a query.
    pub(crate) async fn exists(
        &self,
        collection: &str,
        query: &Query,
    ) -> Result<api::Exists, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::exists(engine.exists(actor, collection, query).await?, true))
            }
            Backend::Remote(client) => client.ask(collection, "exists", &body::query(query)?),
        }
    }

    /// A page of the documents that match.
    pub(crate) async fn list(
        &self,
        collection: &str,
        list: &List,
    ) -> Result<api::ListPage, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::list(engine.list(actor, collection, list).await?, true)?)
            }
            Backend::Remote(client) => client.ask(collection, "list", &body::list(list, false)),
        }
    }

    /// How many documents match.
    pub(crate) async fn count_list(
        &self,
        collection: &str,
        list: &List,
    ) -> Result<api::Count, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::count(engine.count_list(actor, collection, list).await?, true))
            }
            Backend::Remote(client) => {
                let page: api::ListPage =
                    client.ask(collection, "list", &body::list(list, true))?;
                let api::ListPage { matches_length, cost, plan, .. } = page;
                Ok(api::Count { count: matches_length.unwrap_or(0), cost, plan })
            }
        }
    }

    /// The stored keys of a path.
    pub(crate) async fn keys(
        &self,
        collection: &str,
        query: &KeyQuery,
    ) -> Result<api::KeyPage, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::keys(engine.keys(actor, collection, query).await?))
            }
            Backend::Remote(client) => {
                let KeyQuery { path, prefix, limit, after } = query;
                let limit = limit.map(|limit| limit.to_string());
                let parameters = [
                    ("index", path.as_deref()),
                    ("prefix", prefix.as_deref()),
                    ("limit", limit.as_deref()),
                    ("after", after.as_deref()),
                ];
                let base = Client::collection(collection);
                client.get(&format!("{base}/keys{}", body::parameters(&parameters)))
            }
        }
    }

    /// Executes all operations in one commit, or none of them; somebody else may own what is new.
    pub(crate) async fn write(
        &self,
        owner: Option<&str>,
        operations: &[Operation],
    ) -> Result<Vec<api::BatchResult>, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                let importer = owner.map(|owner| Actor::Admin(owner.to_owned()));
                let actor = importer.as_ref().unwrap_or(actor);
                let written = engine.batch(actor, operations).await?;
                Ok(written.into_iter().map(wire::written).collect::<Result<_, _>>()?)
            }
            Backend::Remote(client) => {
                let body = body::batch(owner, operations)?;
                Ok(client.post::<api::BatchAnswer>("/v1/batch", &body)?.results)
            }
        }
    }

    /// What operations would write.
    pub(crate) async fn explain_write(
        &self,
        operations: &[Operation],
    ) -> Result<api::WritePlan, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                Ok(wire::write_plan(engine.explain_write(actor, operations).await?))
            }
            Backend::Remote(client) => {
                client.post("/v1/batch?explain=true", &body::batch(None, operations)?)
            }
        }
    }

    /// Replaces a set of documents in one commit.
    pub(crate) async fn replace_set(
        &self,
        replacement: &SetReplacement<'_>,
    ) -> Result<Vec<api::BatchResult>, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                let written = engine.replace_set(actor, replacement).await?;
                Ok(written.into_iter().map(wire::written).collect::<Result<_, _>>()?)
            }
            Backend::Remote(client) => {
                let SetReplacement { collection, set, leading, documents } = replacement;
                let base = Client::collection(collection);
                let path = format!("{base}/sets/{}/{}", escape(set), segments(leading));
                let documents = documents.iter().map(|data| body::raw(data));
                let body = api::SetBody { documents: documents.collect::<Result<_, _>>()? };
                Ok(client.put::<api::BatchAnswer>(&path, &body)?.results)
            }
        }
    }

    /// At most `limit` changes behind a position, or the end.
    pub(crate) async fn changes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<api::Change>, Failure> {
        match self {
            Backend::Local { engine, actor } => {
                let after = keyloom_server::asked::position(after, engine.feed().await?);
                let found = engine.changes(after.map_err(Failure::Invalid)?, limit).await?;
                let shown = found.into_iter().filter(|change| engine.shows(actor, change));
                Ok(shown.map(wire::change).collect())
            }
            Backend::Remote(client) => {
                let limit = limit.to_string();
                let parameters = [("after", after), ("limit", Some(limit.as_str()))];
                client.lines(&format!("/v1/changes{}", body::parameters(&parameters)))
            }
        }
    }

    /// Compares all documents and keys.
    pub(crate) async fn check(
        &self,
        repair: Repair,
        step: Step<'_>,
    ) -> Result<api::CheckReport, Failure> {
        match self {
            Backend::Local { engine, .. } => {
                Ok(wire::check_report(engine.check(repair, step).await?))
            }
            Backend::Remote(client) => {
                let body = api::CheckBody { repair: repair == Repair::Yes };
                progress::while_waiting("check", || client.post("/v1/check", &body))
            }
        }
    }

    /// Makes a token.
    pub(crate) async fn create_token(
        &self,
        body: api::TokenBody,
    ) -> Result<api::NewToken, Failure> {
        match self {
            Backend::Local { engine, .. } => {
                let new: NewToken = keyloom_server::asked::token(body);
                let (token, secret) = engine.create_token(&new).await?;
                Ok(wire::new_token(token, &secret))
            }
            Backend::Remote(client) => client.post("/v1/tokens", &body),
        }
    }

    /// A page of tokens.
    pub(crate) async fn tokens(&self, after: Option<&str>) -> Result<api::TokenPage, Failure> {
        match self {
            Backend::Local { engine, .. } => {
                Ok(wire::token_page(engine.tokens(after, None).await?))
            }
            Backend::Remote(client) => {
                client.get(&format!("/v1/tokens{}", body::parameters(&[("after", after)])))
            }
        }
    }

    /// Makes a token invalid.
    pub(crate) async fn revoke_token(&self, id: &str) -> Result<api::Revoked, Failure> {
        match self {
            Backend::Local { engine, .. } => {
                let revoked = engine.revoke_token(id).await?;
                Ok(api::Revoked { id: id.to_owned(), revoked })
            }
            Backend::Remote(client) => client.delete(&format!("/v1/tokens/{}", escape(id))),
        }
    }
}

/// The schema in an answer.
pub(crate) fn read_schema(collection: &api::Collection) -> Result<CollectionSchema, Failure> {
    read_part(&collection.name, collection.schema.clone())
}

/// The part of a schema that is about a collection or a class.
fn read_part<T: DeserializeOwned>(name: &str, part: Json) -> Result<T, Failure> {
    serde_json::from_value(part).map_err(|error| {
        let detail = format!("the schema of `{name}` cannot be read: {error}");
        Failure::Engine(Error::Corrupt { detail })
    })
}
