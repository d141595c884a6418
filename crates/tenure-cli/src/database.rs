//! The database as the verbs see it that prepare it: its address, and what its errors mean to whoever typed the verb.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use tenure_core::{reason::Reason, refusal::Refusal};
use tenure_store::StoreError;

use crate::failure::Failure;

/// Where the database is.
#[derive(Clone, Args)]
pub(crate) struct DatabaseArgs {
    /// The database, as postgres://USER@HOST/NAME. In the environment it is seen by fewer.
    #[arg(
        long,
        env = "TENURE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL",
        required_unless_present = "database_url_file"
    )]
    database_url: Option<String>,
    /// A file that holds that address, as secrets are mounted; read where no address is given.
    #[arg(long, env = "TENURE_DATABASE_URL_FILE", value_name = "FILE")]
    database_url_file: Option<PathBuf>,
}

/// How the address of a database begins.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

impl DatabaseArgs {
    /// The address. It is looked at here and not by the parser of the command line, which would print it.
    pub(crate) fn into_url(self) -> Result<String, Failure> {
        match (self.database_url, self.database_url_file) {
            (Some(url), _) => check_scheme(url),
            (None, Some(file)) => check_scheme(read_url(&file)?),
            (None, None) => Err(Failure::usage("no address of a database is given")),
        }
    }
}

/// The address in a file, without the line end that editors leave.
fn read_url(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        let attempted = format!("reading the address of the database in {}", file.display());
        Failure::caused(Refusal::new(Reason::InvalidArgument, attempted), &error)
    })?;
    Ok(text.trim().to_owned())
}

/// The address, where it is one of a database.
pub(crate) fn check_scheme(url: String) -> Result<String, Failure> {
    if SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return Ok(url);
    }
    Err(Failure::usage("the address of the database does not begin with postgres:// or postgresql://"))
}

/// Where the listener connects.
#[derive(Clone, Args)]
pub(crate) struct ListenerArgs {
    /// The same database without a pooler between, for the one connection that listens; otherwise --database-url.
    #[arg(long, env = "TENURE_LISTEN_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    listen_database_url: Option<String>,
}

impl ListenerArgs {
    /// The address, where one was given.
    pub(crate) fn into_url(self) -> Result<Option<String>, Failure> {
        self.listen_database_url.map(check_scheme).transpose()
    }
}

/// The address may hold a password, and is never printed.
impl std::fmt::Debug for DatabaseArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseArgs").finish_non_exhaustive()
    }
}

/// The same as for the database's own.
impl std::fmt::Debug for ListenerArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerArgs").finish_non_exhaustive()
    }
}

/// What an error of the database means to whoever typed the verb, with the command that goes on.
pub(crate) fn explain_database(error: &StoreError) -> Failure {
    add_next(error.reason(), Failure::from_error(error.reason(), error))
}

/// The command that goes on from a database that cannot be used.
pub(crate) fn add_next(reason: Reason, failure: Failure) -> Failure {
    match reason {
        Reason::NotMigrated | Reason::SettingsMissing => failure.or_next("tenure migrate --database-url URL"),
        Reason::DatabaseTooNew => failure.or_next("tenure --version"),
        _ => failure,
    }
}
