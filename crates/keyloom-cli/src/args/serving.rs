//! What can be said about a server and those who may ask it.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use keyloom_engine::Mode;

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown once
    Create(TokenCreate),
    /// List all tokens, without their secrets
    List,
    /// Make a token invalid, at once
    Revoke {
        /// The id of the token
        id: String,
    },
}

/// Make a token.
#[derive(Debug, ClapArgs)]
pub(crate) struct TokenCreate {
    /// Who is known by it, and owns what is created with it
    pub(crate) subject: String,
    /// The token of an administrator
    #[arg(long)]
    pub(crate) admin: bool,
    /// What it is for: COLLECTION=read, COLLECTION=write or COLLECTION=read,write; * for all
    /// others. Without any, everything
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Until when: milliseconds since 1970, 2026-11-15, or 2026-11-15T22:14:16Z
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

/// Serve the database.
#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:7400", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Schemas to apply first: files (TOML or JSON), or folders of them
    #[arg(long, num_args = 1.., value_name = "PATH")]
    pub(crate) schema: Vec<PathBuf>,
    /// Load the bundled schemas and sample data; into a temporary folder if none is named
    #[arg(long)]
    pub(crate) demo: bool,
    /// Which rules of schemas are in force
    #[arg(long, value_enum, conflicts_with = "production")]
    pub(crate) mode: Option<ModeName>,
    /// The certificate for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let pages of this origin ask: its scheme and host, or * for any
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors: Vec<String>,
    /// The requests of one caller in a second [default: no limit]
    #[arg(long, value_name = "N")]
    pub(crate) rate_limit: Option<NonZeroU32>,
    /// Which changes are kept: all, a number, or an age as in 7d, 12h [default: 1000000]
    #[arg(long, value_name = "WHICH")]
    pub(crate) keep_changes: Option<String>,
    /// The requests that are worked on at once; more are told to come back [default: 512]
    #[arg(long, value_name = "N")]
    pub(crate) requests_max: Option<usize>,
    /// The connections that are open at once [default: 4096]
    #[arg(long, value_name = "N")]
    pub(crate) connections_max: Option<usize>,
    /// The seconds after which a request is given up [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) deadline: Option<u64>,
    /// The seconds after which work that reads everything is given up: applying a schema, and the
    /// check [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) long_deadline: Option<u64>,
    /// Where Zenoh listens, as in tcp/127.0.0.1:7447; without it and --zenoh-connect, it is off
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) zenoh_listen: Vec<String>,
    /// Whom Zenoh connects to
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) zenoh_connect: Vec<String>,
    /// What is logged: a level, or levels by module
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub(crate) log: String,
    /// Log as JSON
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// Which rules of schemas are in force.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ModeName {
    /// All but those for production.
    Development,
    /// All.
    Production,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Mode {
        match name {
            ModeName::Development => Mode::Development,
            ModeName::Production => Mode::Production,
        }
    }
}
