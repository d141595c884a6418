//! The database as the verbs see it that prepare it: its address, and what its errors mean to whoever typed the verb.

use clap::Args;
use tenure_core::reason::Reason;
use tenure_store::StoreError;

use crate::failure::Failure;

/// Where the database is.
#[derive(Clone, Args)]
pub(crate) struct DatabaseArgs {
    /// The database, as postgres://USER@HOST/NAME. In the environment it is seen by fewer.
    #[arg(long, env = "TENURE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: String,
}

/// How the address of a database begins.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

impl DatabaseArgs {
    /// The address. It is looked at here and not by the parser of the command line, which would print it.
    pub(crate) fn into_url(self) -> Result<String, Failure> {
        if SCHEMES.iter().any(|scheme| self.database_url.starts_with(scheme)) {
            return Ok(self.database_url);
        }
        Err(Failure::usage("the address of the database does not begin with postgres:// or postgresql://"))
    }
}

/// The address may hold a password, and is never printed.
impl std::fmt::Debug for DatabaseArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseArgs").finish_non_exhaustive()
    }
}

/// What an error of the database means to whoever typed the verb, with the command that goes on.
pub(crate) fn explain_database(error: &StoreError) -> Failure {
    add_next(error.reason(), Failure::from_error(error.reason(), error))
}

/// The command that goes on from a database that cannot be used.
pub(crate) fn add_next(reason: Reason, failure: Failure) -> Failure {
    match reason {
        Reason::NotMigrated => failure.or_next("tenure migrate --database-url URL"),
        Reason::DatabaseTooNew => failure.or_next("tenure --version"),
        _ => failure,
    }
}
