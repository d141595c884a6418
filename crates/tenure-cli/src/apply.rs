//! `tenure apply`: reads a fleet file, and the files that it names, and makes the fleet know its agents: all of them or
//! none. What is wrong with the file is found here, before anything is sent.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use clap::Args;
use tenure_client::{
    Client,
    agents::{Applied, Change, Declared},
};
use tenure_core::{
    fleet::{FleetFile, read_fleet},
    reason::Reason,
    refusal::Refusal,
};

use crate::{context::Context, failure::Failure};

/// Make the fleet know the agents of a fleet file
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The fleet file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Check and compare, and store nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn apply_file(context: &Context, args: ApplyArgs) -> Result<(), Failure> {
    apply_to(context, &context.client()?, &args.file, args.dry_run).await
}

/// Applies a fleet file to the fleet of a client.
pub(crate) async fn apply_to(
    context: &Context,
    client: &Client,
    path: &Path,
    dry_run: bool,
) -> Result<(), Failure> {
    let fleet = read_file(path)?;
    let bundle = fleet.policy.map(|policy| Bytes::copy_from_slice(policy.document())).unwrap_or_default();
    let agents = fleet
        .agents
        .into_iter()
        .map(|agent| Declared {
            name: agent.name,
            document: Bytes::copy_from_slice(agent.declaration.document()),
        })
        .collect();
    let applied = client.apply_agents(agents, bundle, dry_run).await?;
    if context.printer.json {
        return context.printer.object(&serde_json::json!({ "agents": applied, "dry_run": dry_run }));
    }
    for agent in &applied {
        context.printer.line(&format!("{:<9} {}", describe_change(agent, dry_run), agent.name))?;
    }
    if applied.is_empty() {
        context.printer.remark(&format!("{} declares no agent", path.display()));
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<FleetFile, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        let refusal = Refusal::new(Reason::InvalidFleetFile, format!("reading the fleet file {shown}"));
        Failure::caused(refusal, &error)
    })?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let read_beside = |name: &str| {
        let beside = directory.join(name);
        fs::read_to_string(&beside).map_err(|error| format!("reading {}: {error}", beside.display()))
    };
    read_fleet(&text, read_beside).map_err(|error| {
        let mut refusal = Refusal::from(error);
        refusal.message = format!("{shown}, {}", refusal.message);
        Failure::from(refusal.with_detail("file", shown))
    })
}

fn describe_change(agent: &Applied, dry_run: bool) -> &'static str {
    match (agent.change, dry_run) {
        (Change::Created, false) => "created",
        (Change::Created, true) => "is new",
        (Change::Changed, false) => "changed",
        (Change::Changed, true) => "differs",
        (Change::Unchanged, _) => "unchanged",
    }
}
