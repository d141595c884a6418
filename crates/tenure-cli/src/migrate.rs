//! `tenure migrate`: brings a database to the schema of this release, or says whether it is there.

use clap::Args;
use serde_json::json;
use tenure_store::{Store, StoreOptions};

use crate::{
    context::Context,
    database::{DatabaseArgs, explain_database},
    failure::Failure,
};

/// Prepare a database, or bring it to this release
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Only say whether it is there; then 0, otherwise 1.
    #[arg(long)]
    check: bool,
}

pub(crate) async fn migrate_database(context: &Context, args: MigrateArgs) -> Result<(), Failure> {
    let store = connect_store(&args.database.into_url()?).await?;
    let state = if args.check { store.check_schema().await } else { store.migrate().await }
        .map_err(|e| explain_database(&e))?;
    store.close().await;
    if context.printer.json {
        return context.printer.object(&json!({ "found": state.found, "known": state.known }));
    }
    context.printer.line(&format!("the database is at schema {}", state.known))
}

/// Opens the few connections that preparing a database needs.
pub(crate) async fn connect_store(url: &str) -> Result<Store, Failure> {
    let options = StoreOptions {
        connections_max: 2,
        application_name: "tenure migrate".to_owned(),
        ..StoreOptions::default()
    };
    Store::connect(url, options).await.map_err(|error| explain_database(&error))
}
