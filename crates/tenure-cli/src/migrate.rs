//! `tenure migrate`: brings a database to the schema of this release and gives its role the settings that every statement
//! relies on, or says whether both are so. It talks to the server itself, not through a pooler.

use clap::Args;
use serde_json::json;
use tenure_store::{SchemaState, Store, StoreError, StoreOptions};

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
    /// The role that coordinators connect as, where it is not the one of the address; it is given its settings.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only say whether it is there; then 0, otherwise 1.
    #[arg(long)]
    check: bool,
}

pub(crate) async fn migrate_database(context: &Context, args: MigrateArgs) -> Result<(), Failure> {
    let store = connect_store(&args.database.into_url()?).await?;
    let prepared = if args.check { check(&store).await } else { store.migrate(args.role.as_deref()).await };
    let state = prepared.map_err(|e| explain_database(&e))?;
    store.close().await;
    if context.printer.json {
        return context.printer.object(&json!({ "found": state.found, "known": state.known }));
    }
    context.printer.line(&format!("the database is at schema {}", state.known))
}

async fn check(store: &Store) -> Result<SchemaState, StoreError> {
    let state = store.check_schema().await?;
    store.check_settings().await?;
    Ok(state)
}

/// Opens the few connections that preparing a database needs.
pub(crate) async fn connect_store(url: &str) -> Result<Store, Failure> {
    let options = StoreOptions {
        connections_max: 2,
        application_name: "tenure migrate".to_owned(),
        ..StoreOptions::default()
    };
    Store::connect_unprepared(url, options).await.map_err(|error| explain_database(&error))
}
