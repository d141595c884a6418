//! A crash point as a job in a database: what a coordinator and a worker are pointed at, and what a test looks into. It starts
//! neither. Neighbours: `replay` makes it, `honesty` judges what became of it.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use tenure_core::{
    id::{Epoch, JobId, Tenant},
    job::State,
};
use tokio::time::{Instant, sleep};

use super::{backstop, original::Original};
use crate::TestDatabase;

/// How often the state is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A job as a crash left it, in a database that is its own for as long as this value lives. Afterwards the database serves
/// another point under another name: what is still connected to it then is disconnected.
pub struct RebuiltJob {
    /// Whose.
    pub tenant: Tenant,
    /// The job, under the id of the original.
    pub job: JobId,
    /// The highest epoch that the crash left; the resume claims the next.
    pub epoch: Epoch,
    /// Records that the crash left.
    pub(super) appended: usize,
    /// For looking into the database.
    pub pool: PgPool,
    /// There until it is dropped.
    pub(super) database: Option<TestDatabase>,
    pub(super) original: Arc<Original>,
}

impl RebuiltJob {
    /// The address of the database, for the coordinator that resumes the job.
    #[must_use]
    pub fn url(&self) -> &str {
        self.database.as_ref().map_or("", TestDatabase::url)
    }

    /// The address for a coordinator that cannot read back: it connects as a role to which the effects that were announced up
    /// to the crash are invisible. Neither what is asked before an announcement nor the check in the statement that writes it
    /// finds anything then, and the unique index alone is left. With it a suite shows that it would notice.
    ///
    /// # Errors
    /// The role cannot be made: the tests' own role must be allowed to.
    pub async fn url_without_read_back(&self) -> Result<String> {
        backstop::blind(&self.pool, self.url(), self.epoch).await
    }

    /// The state in the job's row.
    ///
    /// # Errors
    /// The database cannot be read, or holds a state that is none.
    pub async fn state(&self) -> Result<State> {
        let (state,): (String,) = sqlx::query_as("SELECT state FROM jobs WHERE tenant = $1 AND job = $2")
            .bind(self.tenant.as_str())
            .bind(self.job.0)
            .fetch_one(&self.pool)
            .await
            .context("reading the state of the rebuilt job")?;
        Ok(State::parse(&state)?)
    }

    /// Waits until the job neither waits for a worker nor runs, and says where it came to rest.
    ///
    /// # Errors
    /// It did not within `patience`: an error of the resume, with the state that was seen last; or the database cannot be read.
    pub async fn wait_for_rest(&self, patience: Duration) -> Result<State> {
        let until = Instant::now() + patience;
        loop {
            let state = self.state().await?;
            if !matches!(state, State::Ready | State::Running) {
                return Ok(state);
            }
            anyhow::ensure!(Instant::now() < until, "it was still {state} after {patience:?}");
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// The kinds of its records, in order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn kinds(&self) -> Result<Vec<String>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT kind FROM journal WHERE tenant = $1 AND job = $2 ORDER BY seq")
                .bind(self.tenant.as_str())
                .bind(self.job.0)
                .fetch_all(&self.pool)
                .await
                .context("reading the journal of the rebuilt job")?;
        Ok(rows.into_iter().map(|(kind,)| kind).collect())
    }
}

impl Drop for RebuiltJob {
    fn drop(&mut self) {
        if let Some(database) = self.database.take() {
            self.original.databases.give_back(database);
        }
    }
}

impl fmt::Debug for RebuiltJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RebuiltJob({} after {} records)", self.job, self.appended)
    }
}
