//! Applying: the only way in which declarations change. Two who apply at the same time do so one after the other, agent by
//! agent; the later stands. A dry run reads what is there and writes nothing.

use std::collections::BTreeMap;

use sqlx::{PgConnection, query_file};
use tenure_core::{
    id::{AgentName, Digest, Tenant},
    principal::Principal,
};

use super::{Change, ChangeKind, NewBundle, NewDeclaration};
use crate::{Store, StoreError, connection::begin, stored::Reader};

const ATTEMPTED: &str = "applying declarations";

/// The present declaration and bundle of an agent.
struct Present {
    digest: Digest,
    bundle: Option<Digest>,
}

impl Store {
    /// Stores declarations and makes them the present ones; with `dry_run`, says only what that would do. Agents that are
    /// not named are left as they are. A bundle becomes that of the agents named; without one, they keep theirs.
    ///
    /// # Errors
    /// The database does not answer, or its timeline changed.
    pub async fn apply_agents(
        &self,
        tenant: &Tenant,
        declarations: &[NewDeclaration],
        bundle: Option<&NewBundle>,
        by: &Principal,
        dry_run: bool,
    ) -> Result<Vec<Change>, StoreError> {
        self.check_timeline().await?;
        let mut connection = self.take(ATTEMPTED).await?;
        let mut transaction = begin(&mut connection, ATTEMPTED).await?;
        let present = lock_agents(&mut transaction, tenant, declarations).await?;
        let changes = compare(declarations, bundle, &present);
        if !dry_run {
            let written = write(&mut transaction, tenant, declarations, bundle, by).await;
            written.map_err(StoreError::while_doing(ATTEMPTED))?;
            transaction.commit().await.map_err(StoreError::while_doing(ATTEMPTED))?;
        }
        Ok(changes)
    }
}

async fn lock_agents(
    connection: &mut PgConnection,
    tenant: &Tenant,
    declarations: &[NewDeclaration],
) -> Result<BTreeMap<AgentName, Present>, StoreError> {
    let reader = Reader(ATTEMPTED);
    let names: Vec<_> = declarations.iter().map(|new| new.agent.as_str().to_owned()).collect();
    let rows = query_file!("queries/agents/lock_agents.sql", tenant.as_str(), &names)
        .fetch_all(connection)
        .await
        .map_err(StoreError::while_doing(ATTEMPTED))?;
    rows.into_iter()
        .map(|row| {
            let bundle = row.bundle.map(|digest| reader.digest(&digest)).transpose()?;
            let present = Present { digest: reader.digest(&row.digest)?, bundle };
            Ok((reader.parse("agent", row.agent)?, present))
        })
        .collect()
}

fn compare(
    declarations: &[NewDeclaration],
    bundle: Option<&NewBundle>,
    present: &BTreeMap<AgentName, Present>,
) -> Vec<Change> {
    let compare_one = |new: &NewDeclaration| {
        let found = present.get(&new.agent);
        let kind = match found {
            None => ChangeKind::Added,
            Some(found) if found.digest != new.digest => ChangeKind::Changed,
            Some(found) if bundle.is_some_and(|bundle| found.bundle != Some(bundle.digest)) => {
                ChangeKind::Changed
            }
            Some(_) => ChangeKind::Unchanged,
        };
        Change {
            agent: new.agent.clone(),
            kind,
            digest: new.digest,
            previous: found.map(|found| found.digest),
        }
    };
    declarations.iter().map(compare_one).collect()
}

async fn write(
    connection: &mut PgConnection,
    tenant: &Tenant,
    declarations: &[NewDeclaration],
    bundle: Option<&NewBundle>,
    by: &Principal,
) -> sqlx::Result<()> {
    let names: Vec<_> = declarations.iter().map(|new| new.agent.as_str().to_owned()).collect();
    let digests: Vec<_> = declarations.iter().map(|new| new.digest.0.to_vec()).collect();
    let documents: Vec<_> = declarations.iter().map(|new| new.document.clone()).collect();
    query_file!(
        "queries/declarations/store_declarations.sql",
        tenant.as_str(),
        by.actor,
        &digests,
        &documents
    )
    .execute(&mut *connection)
    .await?;
    let bundle_digest = bundle.map(|bundle| bundle.digest.0.to_vec());
    if let Some(bundle) = bundle {
        query_file!(
            "queries/bundles/store_bundle.sql",
            tenant.as_str(),
            &bundle.digest.0[..],
            bundle.document,
            by.actor
        )
        .execute(&mut *connection)
        .await?;
    }
    query_file!(
        "queries/agents/apply_agents.sql",
        tenant.as_str(),
        bundle_digest,
        by.actor,
        &names,
        &digests
    )
    .execute(connection)
    .await?;
    Ok(())
}
