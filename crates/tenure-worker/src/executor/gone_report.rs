//! Saying that the child of a run that another has settled is gone. Whoever settled it may not know, and then nothing
//! goes on until somebody says so. It is the same report that a guardian makes where its worker is gone, with the same
//! secret; repeated until it is answered or one ttl has passed.

use bytes::Bytes;
use tenure_core::{limits, reason::Class, settlement::RunEnd};
use tenure_proto::{
    convert::run::write_run_end,
    status::status_to_refusal,
    v1::{ReportGoneRequest, worker_service_client::WorkerServiceClient},
};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tracing::{info, warn};

use super::Execution;
use crate::endpoints::reconnect_pauses;

/// Reports that the run's group is empty.
pub(super) async fn report_gone(execution: &Execution, end: RunEnd) {
    if timeout(execution.term.ttl(), report_until_answered(execution, end)).await.is_err() {
        warn!("nobody took the report that the child is gone");
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
