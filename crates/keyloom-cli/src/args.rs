//! What can be said on the command line.

mod serving;

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand};
use keyloom_engine::{Actor, Mode, Options, Precondition};

use crate::client::Client;
use crate::open::{DATA_DEFAULT, StoreUrl};
use crate::output::Format;
use crate::problem::Failure;

pub(crate) use serving::{Serve, TokenCommand, TokenCreate};

/// How times are written.
const TIMES: &str = "Times are milliseconds since 1970, 2026-11-15, or 2026-11-15T22:14:16Z (UTC).";

const EXAMPLES: &str = "\
Examples:
  keyloom demo                                  see what it does, in a minute
  keyloom serve --schema schemas                a server on a database in ./keyloom-data
  keyloom put approvals '{\"requester\": \"ann\", \"approver\": \"bob\"}'
  keyloom query approvals requester=ann --order -created_at --explain";

const CONDITIONS: &str = "\
Conditions are FIELD=VALUE or FIELD.OPERATOR=VALUE; all of them hold together:
  requester=ann                 is this value
  value.prefix=he               begins so
  created_at.gte=2026-11-01     from this on (gt, gte, lt, lte)
  status.in=pending,denied      is one of these; a JSON array if a value has a comma
Fields that every document has: @created_at, @updated_at, @owner.
Times are milliseconds since 1970, 2026-11-15, or 2026-11-15T22:14:16Z (UTC).

--any takes one group of conditions, with spaces between them and double quotes around a value that
has one. Given several times, a document satisfies at least one of the groups, and comes once:
  --any 'requester=ann status=pending' --any 'approver=ann'";

/// A database in which every query is a key range.
///
/// You declare how keys are built. Keyloom writes a document and all its keys in one commit,
/// answers every list in time proportional to what it returns, and refuses a query that no key
/// serves: it says which key to add.
#[derive(Debug, Parser)]
#[command(name = "keyloom", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Every command takes")]
pub(crate) struct Global {
    /// A running server
    #[arg(
        long,
        global = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:7400",
        conflicts_with_all = ["data", "store"]
    )]
    url: String,
    /// A file with the token to send; without it, the token in KEYLOOM_TOKEN
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust servers with certificates of the authority in this file (PEM), and no others
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Open the database in this folder instead of asking a server
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "store")]
    data: Option<PathBuf>,
    /// The store in full.
    #[arg(
        help = "Open this store: embedded:DIR[?engine=fjall][&durability=buffered], or memory:",
        long,
        global = true,
        value_name = "URL"
    )]
    store: Option<StoreUrl>,
    /// Answer in JSON, for machines
    #[arg(long, global = true)]
    json: bool,
    /// Ask and write in the name of this user, who becomes the owner; for administrators
    #[arg(long = "as", global = true, value_name = "USER")]
    user: Option<String>,
    /// Keep the rules that a schema states for production
    #[arg(long, global = true)]
    production: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Declare, show and check collections
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Create, replace or patch a document
    Put(Put),
    /// Show one document, by its key or by a unique claim
    Get(Get),
    /// Delete a document
    Delete(Delete),
    /// Find documents by their fields
    #[command(after_help = CONDITIONS)]
    Query(Query),
    /// Count documents by their fields
    #[command(after_help = CONDITIONS)]
    Count(Conditions),
    /// Tell whether there is any such document
    #[command(after_help = CONDITIONS)]
    Exists(Conditions),
    /// List documents by expressions on their keys, by times and owner
    #[command(after_help = TIMES)]
    List(List),
    /// Show the stored keys as text
    Keys(Keys),
    /// Replace a whole set of documents in one commit
    Replace(Replace),
    /// Create documents from a file with one JSON object per line
    Import(Import),
    /// Print all documents of a collection, one JSON object per line
    Export(Export),
    /// Show what was written, in order
    Changes(Changes),
    /// Compare all documents and keys, both ways
    Check(Check),
    /// Make, list and revoke the tokens by which callers of a server are known
    #[command(subcommand)]
    Token(TokenCommand),
    /// Serve the database over HTTP; creates it if there is none
    Serve(Serve),
    /// Load sample data into a temporary folder and walk through its queries
    Demo(Demo),
}

/// What to do with schemas.
#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Put schemas in force; creates the database if there is none
    ///
    /// Stored documents are checked against changed rules first, and new indexes are built before
    /// the command ends. Collections that the files do not name stay as they are.
    Apply {
        /// Schema files (TOML or JSON), or folders of them
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Only tell what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the collections and classes of the database
    Show {
        /// Only these collections
        #[arg(value_name = "COLLECTION")]
        collections: Vec<String>,
        /// Print it as a schema file
        #[arg(long, conflicts_with = "json")]
        toml: bool,
    },
    /// Check schema files without a database: what each key costs, and what to think about
    Check {
        /// Schema files (TOML or JSON), or folders of them
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// Create, replace or patch a document.
#[derive(Debug, ClapArgs)]
pub(crate) struct Put {
    /// The collection
    pub(crate) collection: String,
    /// A file with the JSON object, - for standard input, or the object itself
    #[arg(default_value = "-", value_name = "FILE|-|JSON")]
    pub(crate) document: String,
    /// The key of the document to replace; without it, a new document is created
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The version that the change is based on, or * to overwrite on purpose
    #[arg(long, value_name = "VERSION|*", requires = "key", value_parser = precondition)]
    pub(crate) if_version: Option<Precondition>,
    /// Change only the members that are given (JSON merge patch); null removes one
    #[arg(long, requires = "key", conflicts_with = "description")]
    pub(crate) patch: bool,
    /// A free text beside the data
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Only tell which keys would be written
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Show one document.
#[derive(Debug, ClapArgs)]
#[command(
    group = ArgGroup::new("which").required(true).args(["key", "unique"]),
    override_usage = "keyloom get [OPTIONS] <COLLECTION> <KEY>\n       \
                      keyloom get [OPTIONS] <COLLECTION> --unique <NAME> <VALUE>..."
)]
pub(crate) struct Get {
    /// The collection
    pub(crate) collection: String,
    /// The key of the document
    pub(crate) key: Option<String>,
    /// The name of a unique claim and the values that it holds
    #[arg(long, num_args = 2.., value_names = ["NAME", "VALUE"])]
    pub(crate) unique: Option<Vec<String>>,
}

/// Delete a document.
#[derive(Debug, ClapArgs)]
pub(crate) struct Delete {
    /// The collection
    pub(crate) collection: String,
    /// The key of the document
    pub(crate) key: String,
    /// The version that you have seen, or * to delete whatever is there
    #[arg(long, value_name = "VERSION|*", value_parser = precondition)]
    pub(crate) if_version: Option<Precondition>,
}

/// Which documents are meant.
#[derive(Debug, ClapArgs)]
pub(crate) struct Conditions {
    /// The collection
    pub(crate) collection: String,
    /// Conditions: FIELD=VALUE, FIELD.prefix=TEXT, FIELD.gte=VALUE, … (see below)
    #[arg(value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,
    /// A group of conditions; given several times, one of the groups has to hold
    #[arg(long, value_name = "CONDITIONS")]
    pub(crate) any: Vec<String>,
    /// Only the first document of each group that agrees in this field
    #[arg(long, value_name = "FIELD")]
    pub(crate) distinct: Option<String>,
    /// Allow a scan that reads at most so many keys if no key serves the query
    #[arg(long, value_name = "KEYS")]
    pub(crate) scan: Option<usize>,
    /// Show the plan: the ranges that are read, and how many keys at most
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Find documents by their fields.
#[derive(Debug, ClapArgs)]
pub(crate) struct Query {
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    /// The order: a field, with - before it for descending
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    pub(crate) order: Option<String>,
    /// The most documents of the page
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// The cursor that the page before ended with
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
    /// Only these fields, with commas between them
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) select: Option<Vec<String>>,
}

/// List documents by expressions.
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// The collection
    pub(crate) collection: String,
    /// A regular expression that the key matches somewhere
    #[arg(long, value_name = "REGEX")]
    pub(crate) key: Option<String>,
    /// A regular expression that the description matches somewhere
    #[arg(long, value_name = "REGEX")]
    pub(crate) description: Option<String>,
    #[command(flatten)]
    pub(crate) times: ListTimes,
    /// Who created it
    #[arg(long, value_name = "USER")]
    pub(crate) owner: Option<String>,
    /// The order: keys, created_at or updated_at, with - before it for descending
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    pub(crate) order: Option<String>,
    /// The key of the last document of the page before, or the cursor that it ended with
    #[arg(long, value_name = "KEY")]
    pub(crate) start_after: Option<String>,
    /// The most documents of the page
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Allow a scan that reads at most so many keys if no key serves the list
    #[arg(long, value_name = "KEYS")]
    pub(crate) scan: Option<usize>,
    /// Only count the documents that match
    #[arg(long)]
    pub(crate) count: bool,
    /// Show the plan: the ranges that are read, and how many keys at most
    #[arg(long)]
    pub(crate) explain: bool,
}

/// When documents were created or changed.
#[derive(Debug, ClapArgs)]
pub(crate) struct ListTimes {
    /// Created later than this
    #[arg(long, value_name = "TIME")]
    pub(crate) created_after: Option<String>,
    /// Created earlier than this
    #[arg(long, value_name = "TIME", conflicts_with = "created_after")]
    pub(crate) created_before: Option<String>,
    /// Created from the first time to the second, both included; one time for exactly then
    #[arg(long, value_name = "TIME", num_args = 1..=2,
          conflicts_with_all = ["created_after", "created_before"])]
    pub(crate) created_between: Option<Vec<String>>,
    /// Changed later than this
    #[arg(long, value_name = "TIME")]
    pub(crate) updated_after: Option<String>,
    /// Changed earlier than this
    #[arg(long, value_name = "TIME", conflicts_with = "updated_after")]
    pub(crate) updated_before: Option<String>,
    /// Changed from the first time to the second, both included; one time for exactly then
    #[arg(long, value_name = "TIME", num_args = 1..=2,
          conflicts_with_all = ["updated_after", "updated_before"])]
    pub(crate) updated_between: Option<Vec<String>>,
}

/// Show stored keys.
#[derive(Debug, ClapArgs)]
pub(crate) struct Keys {
    /// The collection
    pub(crate) collection: String,
    /// An index or a unique claim; the keys of the documents without it
    #[arg(long, value_name = "NAME")]
    pub(crate) index: Option<String>,
    /// Only keys that begin so
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// The most keys
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// The cursor that the page before ended with
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

/// Replace a set of documents.
#[derive(Debug, ClapArgs)]
pub(crate) struct Replace {
    /// The collection
    pub(crate) collection: String,
    /// The name of the set in the schema
    pub(crate) set: String,
    /// The values of the fields that the set is by
    #[arg(required = true, value_name = "VALUE")]
    pub(crate) leading: Vec<String>,
    /// A file with one JSON object per line, - for standard input, or the lines themselves
    #[arg(long, default_value = "-", value_name = "FILE|-|JSON")]
    pub(crate) from: String,
}

/// Create documents from a file.
#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// The collection
    pub(crate) collection: String,
    /// A file with one JSON object per line, - for standard input
    ///
    /// A line is the data of a document, or a document as `keyloom export` prints it: then its key
    /// is checked, and its owner and description are kept. Versions and times are new.
    #[arg(default_value = "-", value_name = "FILE|-")]
    pub(crate) file: String,
    /// Leave out the first lines: go on where an import stopped
    #[arg(long, default_value_t = 0, value_name = "LINES")]
    pub(crate) skip: u64,
}

/// Print all documents of a collection.
#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    /// The collection
    pub(crate) collection: String,
}

/// Show what was written.
#[derive(Debug, ClapArgs)]
pub(crate) struct Changes {
    /// Only what comes after this position, or after the end; without it, from the oldest that is
    /// kept
    #[arg(long, value_name = "POSITION|end")]
    pub(crate) after: Option<String>,
    /// The most changes
    #[arg(long, default_value_t = crate::limits::CHANGES_DEFAULT, value_name = "N")]
    pub(crate) limit: usize,
}

/// Compare documents and keys.
#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Put missing keys and delete wrong ones; documents are never touched
    #[arg(long)]
    pub(crate) repair: bool,
}

/// Walk through sample data.
#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Keep the sample data in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

impl Global {
    /// Whom answers are for.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }

    /// Where the database is.
    pub(crate) fn store(&self) -> StoreUrl {
        let folder = || self.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
        self.store.clone().unwrap_or_else(|| StoreUrl::in_folder(folder()))
    }

    /// The server to ask, unless the command opens the database itself.
    pub(crate) fn client(&self) -> Result<Option<Client>, Failure> {
        if self.names_a_store() {
            return Ok(None);
        }
        if self.production {
            let what = "--production is for databases that a command opens itself; a server is \
                        started with `keyloom serve --production`";
            return Err(Failure::Usage(what.to_owned()));
        }
        let (token, ca) = (self.token_file.as_deref(), self.tls_ca.as_deref());
        Client::new(&self.url, token, ca, self.user.clone()).map(Some)
    }

    /// Whether the command line says where the database is.
    pub(crate) fn names_a_store(&self) -> bool {
        self.data.is_some() || self.store.is_some()
    }

    /// On whose behalf something is written.
    pub(crate) fn actor(&self) -> Actor {
        self.user.clone().map_or(Actor::Local, Actor::User)
    }

    /// How the engine is opened.
    pub(crate) fn options(&self) -> Options {
        let mode = if self.production { Mode::Production } else { Mode::Development };
        Options { mode, ..Options::default() }
    }
}

fn precondition(text: &str) -> Result<Precondition, String> {
    match text {
        "*" => Ok(Precondition::Any),
        number => number
            .parse()
            .map(Precondition::Version)
            .map_err(|_| "a version is a number, or * for whatever is there".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_version_is_a_number_or_a_star() {
        assert_eq!(precondition("*"), Ok(Precondition::Any));
        assert_eq!(precondition("17"), Ok(Precondition::Version(17)));
        assert!(precondition("new").is_err());
    }

    #[test]
    fn a_descending_order_is_not_taken_for_an_option() {
        let line = ["keyloom", "query", "a", "x=1", "--order", "-created_at"];
        let Command::Query(query) = Args::parse_from(line).command else { panic!("a query") };
        assert_eq!(query.order.as_deref(), Some("-created_at"));
    }

    #[test]
    fn a_document_is_shown_by_key_or_by_claim_and_not_by_both_or_neither() {
        let parse = |line: &[&str]| {
            Args::try_parse_from([&["keyloom", "get", "users"][..], line].concat()).is_ok()
        };
        assert!(parse(&["k"]));
        assert!(parse(&["--unique", "username", "ann"]));
        assert!(!parse(&["--unique", "username"]));
        assert!(!parse(&[]));
        assert!(!parse(&["k", "--unique", "username", "ann"]));
    }
}
