//! `JobService`: submitting, reading, watching, and what people ask of jobs. It finds out who asks and which job is meant, asks
//! the core through a lane where something is to be decided, and tells what came of it. Neighbours: `submission` stores
//! jobs, lanes decide, the streams follow.

use tenure_core::{
    id::{Epoch, JobId, Seq},
    plan::{Decision, JobFacts},
    reason::Reason,
    refusal::Refusal,
    verb::{
        check_steer_note, plan_abandon, plan_cancel, plan_confirm_gone, plan_recover, plan_reopen,
        plan_resume, plan_steer,
    },
};
use tenure_proto::{
    convert::require,
    v1::{self, job_service_server::JobService},
};
use tenure_store::JobRow;
use tonic::{Request, Response, Status, Streaming};

use super::{
    accepted::read_accepted,
    blobs::{get_blob, put_input, write_result},
    call::{answer, answer_at_length, open, read_limit},
    caller::Caller,
    effects::{list_effects, list_undecided},
    erasure::erase_job,
    find_job::find_job,
    followers::{Reader, Stream, StreamEnd},
    intact::demand_intact,
    job_request::{check_batch, read_filter, read_wish, write_item},
    job_view::{write_job, write_record},
    output_stream::send_output,
    reconcile::reconcile_effect,
    record_stream::watch_records,
    sessions::{raise_limit, read_session},
};
use crate::{
    coordinator::Parts,
    credentials::standing::Standing,
    lane::work::{Decided, Planner},
    mint::salt_value,
    refusals::{refuse_decision, refuse_missing},
};

/// Records on a page, where nothing is said.
const RECORDS_DEFAULT: u32 = 500;

/// The service.
pub(super) struct Jobs {
    parts: Parts,
}

impl Jobs {
    pub(super) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    async fn find(&self, caller: &Caller, named: &str) -> Result<JobRow, Refusal> {
        find_job(&self.parts, &caller.tenant, named).await
    }

    async fn submit_one(
        &self,
        caller: Caller,
        request: v1::SubmitJobRequest,
    ) -> Result<v1::Admitted, Refusal> {
        let submission = require("submission", request.submission)?;
        self.parts.submissions.submit(&caller, submission).await
    }

    async fn submit_many(
        &self,
        caller: Caller,
        request: v1::SubmitJobsRequest,
    ) -> Result<v1::SubmitJobsResponse, Refusal> {
        check_batch(&request.submissions)?;
        let outcomes = self.parts.submissions.submit_batch(&caller, request.submissions).await;
        let items = outcomes.into_iter().map(write_item).collect();
        Ok(v1::SubmitJobsResponse { items })
    }

    /// Decides about a job by a verb of a person, and reads it as it stands then.
    async fn act(
        &self,
        caller: &Caller,
        named: &str,
        planner: Planner,
    ) -> Result<(v1::Job, Decided), Refusal> {
        let job = self.find(caller, named).await?.job;
        let decided = self.parts.lanes.decide((caller.tenant.clone(), job), planner).await;
        let decided = decided.map_err(|error| refuse_decision(error, named))?;
        Ok((self.read_again(caller, job).await?, decided))
    }

    async fn read_again(&self, caller: &Caller, job: JobId) -> Result<v1::Job, Refusal> {
        let row = self.parts.bulk.ask(self.parts.store.read_job(&caller.tenant, job)).await?;
        row.map(write_job).ok_or_else(|| refuse_missing(&job.to_string()))
    }

    async fn list(
        &self,
        caller: &Caller,
        request: v1::ListJobsRequest,
    ) -> Result<v1::ListJobsResponse, Refusal> {
        let filter = read_filter(request)?;
        let rows = self.parts.bulk.ask(self.parts.store.list_jobs(&caller.tenant, &filter)).await?;
        let full = rows.len() == filter.limit as usize;
        let cursor = rows.last().filter(|_| full).map(|last| last.job.to_string()).unwrap_or_default();
        Ok(v1::ListJobsResponse { jobs: rows.into_iter().map(write_job).collect(), cursor })
    }

    async fn list_page(
        &self,
        caller: &Caller,
        request: v1::ListRecordsRequest,
    ) -> Result<v1::ListRecordsResponse, Refusal> {
        let row = self.find(caller, &request.job).await?;
        let from = Seq(request.from_seq.max(1));
        let limit = read_limit(request.limit, RECORDS_DEFAULT)?;
        let store = &self.parts.store;
        let page = store.read_records(&caller.tenant, row.job, from, &request.kinds, limit);
        let page = self.parts.bulk.ask(page).await?;
        let next_seq = page.next.map_or(0, |next| next.0);
        let concluded_head = row
            .concluded_head
            .map(|head| v1::ConcludedHead { seq: head.seq.0, hash: head.hash.0.to_vec().into() });
        let records = page.records.into_iter().map(write_record).collect();
        Ok(v1::ListRecordsResponse {
            records,
            next_seq,
            job_id: row.job.to_string(),
            concluded_head,
            tenant: caller.tenant.to_string(),
        })
    }

    async fn watch(
        &self,
        caller: Caller,
        request: v1::WatchJobRequest,
    ) -> Result<Stream<v1::WatchJobResponse>, Refusal> {
        let row = self.find(&caller, &request.job).await?;
        let from = Seq(request.from_seq.max(1));
        let place = self.parts.followers.take_place()?;
        let (reader, stream) = Reader::open();
        let (standing, end) = (caller.standing, reader.end());
        let watching = watch_records(self.parts.clone(), caller.tenant, row.job, from, reader);
        self.parts.tasks.spawn(async move {
            send_while_standing(standing, end, watching).await;
            drop(place);
        });
        Ok(stream)
    }

    async fn follow_output(
        &self,
        caller: Caller,
        request: v1::ReadOutputRequest,
    ) -> Result<Stream<v1::ReadOutputResponse>, Refusal> {
        let row = self.find(&caller, &request.job).await?;
        let standing = caller.standing.clone();
        let wish = read_wish(caller, &row, &request)?;
        let place = self.parts.followers.take_place()?;
        let (reader, stream) = Reader::open();
        let end = reader.end();
        let sending = send_output(self.parts.clone(), wish, reader);
        self.parts.tasks.spawn(async move {
            send_while_standing(standing, end, sending).await;
            drop(place);
        });
        Ok(stream)
    }

    async fn result_of(
        &self,
        caller: &Caller,
        request: &v1::GetResultRequest,
    ) -> Result<v1::GetResultResponse, Refusal> {
        let row = self.find(caller, &request.job).await?;
        let result = self.parts.bulk.ask(self.parts.store.read_result(&caller.tenant, row.job)).await?;
        let result = result.ok_or_else(|| {
            let words = format!("job {} is {} and has no result", row.job.short(), row.state);
            Refusal::new(Reason::ResultNotFound, words)
                .with_detail("state", row.state)
                .with_next(format!("tenure job {}", row.job.short()))
        })?;
        write_result(&self.parts, &row, result, request.accept_blob).await
    }
}

/// Sends until there is no more, or the credential of whoever reads is worth nothing any more.
pub(super) async fn send_while_standing<M>(
    standing: Standing,
    end: StreamEnd<M>,
    sending: impl Future<Output = ()>,
) {
    tokio::select! {
        () = sending => {}
        refusal = standing.until_withdrawn() => {
            end.end_with(&refusal);
        }
    }
}

#[tonic::async_trait]
impl JobService for Jobs {
    type WatchJobStream = Stream<v1::WatchJobResponse>;
    type ReadOutputStream = Stream<v1::ReadOutputResponse>;
    type GetBlobStream = Stream<v1::GetBlobResponse>;

    async fn submit_job(
        &self,
        request: Request<v1::SubmitJobRequest>,
    ) -> Result<Response<v1::SubmitJobResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(async {
            let admitted = Some(self.submit_one(caller, request).await?);
            Ok(v1::SubmitJobResponse { admitted })
        })
        .await
    }

    async fn submit_jobs(
        &self,
        request: Request<v1::SubmitJobsRequest>,
    ) -> Result<Response<v1::SubmitJobsResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.submit_many(caller, request)).await
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::GetJobResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(async {
            let row = self.find(&caller, &request.job).await?;
            Ok(v1::GetJobResponse { job: Some(write_job(row)) })
        })
        .await
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.list(&caller, request)).await
    }

    async fn watch_job(
        &self,
        request: Request<v1::WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.watch(caller, request)).await
    }

    async fn list_records(
        &self,
        request: Request<v1::ListRecordsRequest>,
    ) -> Result<Response<v1::ListRecordsResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.list_page(&caller, request)).await
    }

    async fn read_output(
        &self,
        request: Request<v1::ReadOutputRequest>,
    ) -> Result<Response<Self::ReadOutputStream>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.follow_output(caller, request)).await
    }

    async fn list_effects(
        &self,
        request: Request<v1::ListEffectsRequest>,
    ) -> Result<Response<v1::ListEffectsResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(list_effects(&self.parts, &caller, request)).await
    }

    async fn list_undecided(
        &self,
        request: Request<v1::ListUndecidedRequest>,
    ) -> Result<Response<v1::ListUndecidedResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(list_undecided(&self.parts, &caller, request)).await
    }

    async fn get_result(
        &self,
        request: Request<v1::GetResultRequest>,
    ) -> Result<Response<v1::GetResultResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.result_of(&caller, &request)).await
    }

    async fn put_blob(
        &self,
        request: Request<Streaming<v1::PutBlobRequest>>,
    ) -> Result<Response<v1::PutBlobResponse>, Status> {
        let (caller, inbound): (Caller, _) = open(request)?;
        answer_at_length(put_input(&self.parts, &caller, inbound)).await
    }

    async fn get_blob(
        &self,
        request: Request<v1::GetBlobRequest>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(get_blob(&self.parts, caller, request)).await
    }

    async fn erase_job(
        &self,
        request: Request<v1::EraseJobRequest>,
    ) -> Result<Response<v1::EraseJobResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer_at_length(erase_job(&self.parts, &caller, request)).await
    }

    async fn cancel_job(
        &self,
        request: Request<v1::CancelJobRequest>,
    ) -> Result<Response<v1::CancelJobResponse>, Status> {
        let (caller, v1::CancelJobRequest { job, why }): (Caller, _) = open(request)?;
        let by = caller.principal.clone();
        let planner = move |facts: &JobFacts| plan_cancel(facts, by.clone(), &why);
        answer(async {
            let (job, decided) = self.act(&caller, &job, Box::new(planner)).await?;
            Ok(v1::CancelJobResponse { job: Some(job), already_requested: decided.written.is_none() })
        })
        .await
    }

    async fn recover_job(
        &self,
        request: Request<v1::RecoverJobRequest>,
    ) -> Result<Response<v1::RecoverJobResponse>, Status> {
        let (caller, v1::RecoverJobRequest { job, why }): (Caller, _) = open(request)?;
        let by = caller.principal.clone();
        let planner = move |facts: &JobFacts| plan_recover(facts, by.clone(), &why).map(Decision::Write);
        answer(async {
            let (job, _) = self.act(&caller, &job, Box::new(planner)).await?;
            Ok(v1::RecoverJobResponse { job: Some(job) })
        })
        .await
    }

    async fn confirm_gone(
        &self,
        request: Request<v1::ConfirmGoneRequest>,
    ) -> Result<Response<v1::ConfirmGoneResponse>, Status> {
        let (caller, v1::ConfirmGoneRequest { job, epoch, why }): (Caller, _) = open(request)?;
        let by = caller.principal.clone();
        let planner = move |facts: &JobFacts| {
            plan_confirm_gone(facts, Epoch(epoch), by.clone(), &why).map(Decision::Write)
        };
        answer(async {
            let (job, _) = self.act(&caller, &job, Box::new(planner)).await?;
            Ok(v1::ConfirmGoneResponse { job: Some(job) })
        })
        .await
    }

    async fn reconcile_effect(
        &self,
        request: Request<v1::ReconcileEffectRequest>,
    ) -> Result<Response<v1::ReconcileEffectResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(async {
            let job = reconcile_effect(&self.parts, &caller, request).await?;
            Ok(v1::ReconcileEffectResponse { job: Some(self.read_again(&caller, job).await?) })
        })
        .await
    }

    async fn reopen_job(
        &self,
        request: Request<v1::ReopenJobRequest>,
    ) -> Result<Response<v1::ReopenJobResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(async {
            let v1::ReopenJobRequest { job: named, why, accept_declaration } = request;
            let row = self.find(&caller, &named).await?;
            demand_intact(&self.parts, &row).await?;
            let accepted = match accept_declaration {
                Some(digest) => Some(read_accepted(&self.parts, &row, &digest).await?),
                None => None,
            };
            let by = caller.principal.clone();
            let planner = move |facts: &JobFacts| {
                plan_reopen(facts, by.clone(), &why, accepted.as_ref()).map(Decision::Write)
            };
            let (job, _) = self.act(&caller, &named, Box::new(planner)).await?;
            Ok(v1::ReopenJobResponse { job: Some(job) })
        })
        .await
    }

    async fn abandon_job(
        &self,
        request: Request<v1::AbandonJobRequest>,
    ) -> Result<Response<v1::AbandonJobResponse>, Status> {
        let (caller, v1::AbandonJobRequest { job, why }): (Caller, _) = open(request)?;
        let by = caller.principal.clone();
        let planner = move |facts: &JobFacts| plan_abandon(facts, by.clone(), &why);
        answer(async {
            let (job, decided) = self.act(&caller, &job, Box::new(planner)).await?;
            Ok(v1::AbandonJobResponse { job: Some(job), already_requested: decided.written.is_none() })
        })
        .await
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(read_session(&self.parts, &caller, &request)).await
    }

    async fn raise_limit(
        &self,
        request: Request<v1::RaiseLimitRequest>,
    ) -> Result<Response<v1::RaiseLimitResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(raise_limit(&self.parts, &caller, request)).await
    }

    async fn steer_job(
        &self,
        request: Request<v1::SteerJobRequest>,
    ) -> Result<Response<v1::SteerJobResponse>, Status> {
        let (caller, v1::SteerJobRequest { job, note }): (Caller, _) = open(request)?;
        answer(async {
            let note = salt_value(check_steer_note(&note)?.into_bytes());
            demand_intact(&self.parts, &self.find(&caller, &job).await?).await?;
            let by = caller.principal.clone();
            let planner =
                move |facts: &JobFacts| plan_steer(facts, by.clone(), note.clone()).map(Decision::Write);
            let (job, _) = self.act(&caller, &job, Box::new(planner)).await?;
            Ok(v1::SteerJobResponse { job: Some(job) })
        })
        .await
    }

    async fn resume_job(
        &self,
        request: Request<v1::ResumeJobRequest>,
    ) -> Result<Response<v1::ResumeJobResponse>, Status> {
        let (caller, v1::ResumeJobRequest { job, why }): (Caller, _) = open(request)?;
        let by = caller.principal.clone();
        let planner = move |facts: &JobFacts| plan_resume(facts, by.clone(), &why).map(Decision::Write);
        answer(async {
            demand_intact(&self.parts, &self.find(&caller, &job).await?).await?;
            let (job, _) = self.act(&caller, &job, Box::new(planner)).await?;
            Ok(v1::ResumeJobResponse { job: Some(job) })
        })
        .await
    }
}
