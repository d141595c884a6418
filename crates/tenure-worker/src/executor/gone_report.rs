//! Saying that the child of a run that another has settled is gone. Whoever settled it may not know, and then nothing
//! goes on until somebody says so. It is the same report that a guardian makes where its worker is gone, with the same
//! secret; repeated until it is answered or one ttl has passed. What nobody took is left in the run's directory. Of a run
//! whose own report was refused for good this is how it is settled, and then no time ends it: only an answer, or that
//! another has settled the run.

use std::{io, path::Path};

use bytes::Bytes;
use serde::Serialize;
use tenure_core::{limits, reason::Class, run_ref::RunRef, settlement::RunEnd};
use tenure_proto::{
    convert::run::write_run_end,
    status::status_to_refusal,
    v1::{ReportGoneRequest, worker_service_client::WorkerServiceClient},
};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tracing::{info, warn};

use super::Execution;
use crate::{
    endpoints::reconnect_pauses,
    guardian::{OUTCOME_FILE, write_private},
};

/// How a run ended of whose end nobody took a report.
#[derive(Debug)]
pub(super) struct UntoldEnd(RunEnd);

/// Reports that the run's group is empty.
pub(super) async fn report_gone(execution: &Execution, end: RunEnd) -> Result<(), UntoldEnd> {
    let reporting = report_until_answered(execution, end.clone());
    timeout(execution.term.ttl(), reporting).await.map_err(|_| {
        warn!("nobody took the report that the child is gone; it is left in the run's directory");
        UntoldEnd(end)
    })
}

/// How the outcome is left where nobody took it.
#[derive(Debug, Serialize)]
struct LeftOutcome {
    job: String,
    epoch: u64,
    generation: u64,
    end: String,
    not_reported: &'static str,
}

/// Leaves the outcome in the run's directory, as a guardian does. Blocks.
pub(super) fn leave_outcome(run: &RunRef, directory: &Path, untold: UntoldEnd) -> io::Result<()> {
    let outcome = LeftOutcome {
        job: run.job.to_string(),
        epoch: run.epoch.0,
        generation: run.generation.0,
        end: untold.0.interruption().sentence(),
        not_reported: "no coordinator took the report",
    };
    write_private(directory, OUTCOME_FILE, &serde_json::to_vec_pretty(&outcome)?)
}

/// Reports so about a run that nobody has settled. False where another has, before there was an answer.
pub(super) async fn report_unsettled(execution: &Execution, end: RunEnd) -> bool {
    let mut orders = execution.orders.clone();
    let settled = async { orders.wait_for(|orders| orders.fenced.is_some()).await.is_ok() };
    tokio::select! {
        () = report_until_answered(execution, end) => true,
        _ = settled => false,
    }
}

async fn report_until_answered(execution: &Execution, end: RunEnd) {
    let run = &execution.grant.run;
    let request = ReportGoneRequest {
        tenant: run.tenant.to_string(),
        job_id: run.job.to_string(),
        epoch: run.epoch.0,
        generation: run.generation.0,
        secret: Bytes::copy_from_slice(execution.grant.secret.as_bytes()),
        // The child was well and did not pay for what befell its worker.
        ended_by_guardian: end == RunEnd::ContactLost,
        end: Some(write_run_end(&end)),
    };
    let mut pauses = reconnect_pauses();
    loop {
        match try_report(execution, request.clone()).await {
            Ok(already_known) => {
                info!(already_known, "the child is reported gone");
                return;
            }
            Err(status) => match status_to_refusal(&status).map(|refusal| refusal.reason.class()) {
                Some(Class::Rejected | Class::Fenced) => {
                    info!(why = %status.message(), "nobody wants to know that the child is gone");
                    return;
                }
                Some(Class::Unavailable | Class::Bug) | None => {}
            },
        }
        sleep(pauses.next().unwrap_or(limits::RECONNECT_MAX)).await;
    }
}

async fn try_report(execution: &Execution, request: ReportGoneRequest) -> Result<bool, Status> {
    let channel = execution
        .context
        .endpoints
        .connect_next()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let mut client = WorkerServiceClient::new(channel);
    let answered = timeout(limits::ATTACH_TIMEOUT, client.report_gone(request)).await;
    let response = answered.map_err(|_| Status::unavailable("the coordinator does not answer"))??;
    Ok(response.into_inner().already_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factory::run_ref;

    #[test]
    fn an_outcome_that_nobody_took_says_what_and_of_which_run() {
        let directory = tempfile::tempdir().unwrap();
        leave_outcome(&run_ref(1), directory.path(), UntoldEnd(RunEnd::ExitCode(4))).unwrap();
        let left = std::fs::read(directory.path().join(OUTCOME_FILE)).unwrap();
        let left: serde_json::Value = serde_json::from_slice(&left).unwrap();
        assert_eq!((&left["job"], &left["epoch"]), (&run_ref(1).job.to_string().into(), &1.into()));
        assert_eq!(left["end"], "it exited with code 4");
    }
}
