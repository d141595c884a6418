//! A job service that keeps a journal and outputs, and breaks when it is told to.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
};

use tenure_client::{Client, ClientOptions};
use tenure_core::{reason::Reason, refusal::Refusal};
use tenure_proto::{
    status::refusal_to_status,
    v1::{self, job_service_server as service},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::{Stream, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status};

use crate::journal::{JOB, make_job, make_records};

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the server holds, and how it misbehaves.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) records: Vec<v1::Record>,
    pub(crate) outputs: Vec<v1::ReadOutputResponse>,
    pub(crate) effects: Vec<v1::Effect>,
    /// What is sent of a large value.
    pub(crate) blob: Vec<v1::GetBlobResponse>,
    pub(crate) testimonies: Vec<v1::Testimony>,
    pub(crate) state: v1::JobState,
    pub(crate) run: u32,
    pub(crate) concluded_head: Option<v1::ConcludedHead>,
    /// Each stream breaks after so many messages; 0: never.
    pub(crate) breaks_after: usize,
    /// Each stream begins so many messages too early.
    pub(crate) begins_early: u64,
    /// Every second stream leaves out its second message.
    pub(crate) leaves_gaps: bool,
    /// So many answers are lost after the act was done.
    pub(crate) answers_lost: u32,
    /// So many calls are refused because the database is away.
    pub(crate) database_away: u32,
    /// How long it takes to answer what is asked of a job.
    pub(crate) answers_after: std::time::Duration,
    /// What was asked.
    pub(crate) streams: Vec<u64>,
    pub(crate) output_requests: Vec<v1::ReadOutputRequest>,
    pub(crate) keys: Vec<String>,
    pub(crate) acts: u32,
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Service(Arc<Mutex<Script>>);

impl Server {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(script));
        let service = service::JobServiceServer::new(Service(Arc::clone(&script)));
        let serving = tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await
                .expect("the server serves");
        });
        Self { address, script, serving }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        connect(&[self.address.to_string()])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A client of these addresses that gives up late enough for a busy machine.
pub(crate) fn connect(addresses: &[String]) -> Client {
    Client::connect_with(addresses, ClientOptions::default()).unwrap()
}

/// A script with a journal of so many records, whose job is over.
pub(crate) fn sealed(count: u32) -> Script {
    Script { records: make_records(count), state: v1::JobState::Succeeded, run: 1, ..Script::default() }
}

impl Service {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    /// Fails as a lost answer does, or as a coordinator whose database is away.
    fn misbehave(&self) -> Result<(), Status> {
        let mut script = self.script();
        if script.database_away > 0 {
            script.database_away -= 1;
            let refusal = Refusal::new(Reason::DatabaseUnavailable, "the database does not answer");
            return Err(refusal_to_status(&refusal));
        }
        if script.answers_lost > 0 {
            script.answers_lost -= 1;
            return Err(lost());
        }
        Ok(())
    }

    async fn wait_before_answer(&self) {
        let pause = self.script().answers_after;
        tokio::time::sleep(pause).await;
    }

    /// A stream of what is left, broken as the script says.
    fn break_up<T: Clone + Send + 'static>(&self, mut messages: Vec<T>) -> Streamed<T> {
        let script = self.script();
        if script.leaves_gaps && script.streams.len() % 2 == 1 && messages.len() > 1 {
            messages.remove(1);
        }
        let breaks = script.breaks_after > 0 && messages.len() > script.breaks_after;
        if breaks {
            messages.truncate(script.breaks_after);
        }
        let ending = breaks.then(|| Err(lost()));
        Box::pin(tokio_stream::iter(messages.into_iter().map(Ok).chain(ending)))
    }

    fn job(&self) -> v1::Job {
        let script = self.script();
        make_job(script.state, script.run, &script.records)
    }
}

/// What a broken connection looks like to a client.
fn lost() -> Status {
    Status::unknown("h2 protocol error: error reading a body from connection")
}

#[tonic::async_trait]
impl service::JobService for Service {
    type WatchJobStream = Streamed<v1::WatchJobResponse>;
    type ReadOutputStream = Streamed<v1::ReadOutputResponse>;
    type GetBlobStream = Streamed<v1::GetBlobResponse>;

    async fn submit_job(
        &self,
        request: Request<v1::SubmitJobRequest>,
    ) -> Result<Response<v1::SubmitJobResponse>, Status> {
        let key = request.into_inner().submission.unwrap().key.unwrap_or_default();
        let already_submitted = {
            let mut script = self.script();
            let known = script.keys.contains(&key);
            script.keys.push(key);
            script.acts += u32::from(!known);
            known
        };
        self.misbehave()?;
        let admitted =
            v1::Admitted { job_id: JOB.into(), session_id: JOB.into(), deadline_at: None, already_submitted };
        Ok(Response::new(v1::SubmitJobResponse { admitted: Some(admitted) }))
    }

    async fn list_effects(
        &self,
        request: Request<v1::ListEffectsRequest>,
    ) -> Result<Response<v1::ListEffectsResponse>, Status> {
        let cursor = request.into_inner().cursor;
        self.misbehave()?;
        let effects = self.script().effects.clone();
        let (effects, cursor) =
            if cursor.is_empty() { (effects, "9".into()) } else { (Vec::new(), String::new()) };
        Ok(Response::new(v1::ListEffectsResponse { job_id: JOB.into(), effects, cursor }))
    }

    async fn list_undecided(
        &self,
        _: Request<v1::ListUndecidedRequest>,
    ) -> Result<Response<v1::ListUndecidedResponse>, Status> {
        self.misbehave()?;
        let script = self.script();
        let (effects, testimonies) = (script.effects.clone(), script.testimonies.clone());
        let cursor = String::new();
        let testimony_count = testimonies.len() as u64;
        Ok(Response::new(v1::ListUndecidedResponse {
            job_id: JOB.into(),
            effects,
            testimonies,
            cursor,
            testimony_count,
        }))
    }

    async fn get_job(
        &self,
        _request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::GetJobResponse>, Status> {
        self.wait_before_answer().await;
        self.misbehave()?;
        Ok(Response::new(v1::GetJobResponse { job: Some(self.job()) }))
    }

    async fn watch_job(
        &self,
        request: Request<v1::WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        let from = request.into_inner().from_seq;
        let messages = {
            let mut script = self.script();
            script.streams.push(from);
            let from = from.saturating_sub(script.begins_early);
            let state = script.state as i32;
            let left = script.records.iter().filter(|record| record.seq >= from).cloned();
            left.map(|record| v1::WatchJobResponse { record: Some(record), state }).collect()
        };
        Ok(Response::new(self.break_up(messages)))
    }

    async fn list_records(
        &self,
        request: Request<v1::ListRecordsRequest>,
    ) -> Result<Response<v1::ListRecordsResponse>, Status> {
        const PAGE: usize = 4;
        let from = request.into_inner().from_seq;
        let script = self.script();
        let left: Vec<v1::Record> = script.records.iter().filter(|r| r.seq >= from).cloned().collect();
        let next_seq = left.get(PAGE).map_or(0, |record| record.seq);
        Ok(Response::new(v1::ListRecordsResponse {
            tenant: "default".to_owned(),
            records: left.into_iter().take(PAGE).collect(),
            next_seq,
            job_id: JOB.into(),
            concluded_head: script.concluded_head.clone(),
        }))
    }

    async fn read_output(
        &self,
        request: Request<v1::ReadOutputRequest>,
    ) -> Result<Response<Self::ReadOutputStream>, Status> {
        let request = request.into_inner();
        let messages = {
            let mut script = self.script();
            script.streams.push(request.skip_chunks);
            // Without a number: the run that was the last when the follower came.
            let run = if request.run == 0 { 1 } else { request.run };
            let chunks = script.outputs.iter().filter(|chunk| chunk.run == run);
            let left = chunks.filter(|chunk| chunk.chunk >= request.skip_chunks).cloned().collect();
            script.output_requests.push(request);
            left
        };
        Ok(Response::new(self.break_up(messages)))
    }

    async fn recover_job(
        &self,
        _request: Request<v1::RecoverJobRequest>,
    ) -> Result<Response<v1::RecoverJobResponse>, Status> {
        self.script().acts += 1;
        self.misbehave()?;
        Ok(Response::new(v1::RecoverJobResponse { job: Some(self.job()) }))
    }

    async fn submit_jobs(
        &self,
        _request: Request<v1::SubmitJobsRequest>,
    ) -> Result<Response<v1::SubmitJobsResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn list_jobs(
        &self,
        _request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn get_result(
        &self,
        _request: Request<v1::GetResultRequest>,
    ) -> Result<Response<v1::GetResultResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn put_blob(
        &self,
        _request: Request<tonic::Streaming<v1::PutBlobRequest>>,
    ) -> Result<Response<v1::PutBlobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn get_blob(
        &self,
        _request: Request<v1::GetBlobRequest>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let mut script = self.script();
        let begun = script.streams.len();
        script.streams.push(begun as u64);
        // Each further stream goes one message further.
        let given = if script.breaks_after == 0 { usize::MAX } else { script.breaks_after + begun };
        let mut messages: Vec<_> = script.blob.iter().cloned().map(Ok).take(given).collect();
        if given < script.blob.len() {
            messages.push(Err(Status::unavailable("the way broke")));
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn erase_job(
        &self,
        _request: Request<v1::EraseJobRequest>,
    ) -> Result<Response<v1::EraseJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn reconcile_effect(
        &self,
        _request: Request<v1::ReconcileEffectRequest>,
    ) -> Result<Response<v1::ReconcileEffectResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn reopen_job(
        &self,
        _request: Request<v1::ReopenJobRequest>,
    ) -> Result<Response<v1::ReopenJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn abandon_job(
        &self,
        _request: Request<v1::AbandonJobRequest>,
    ) -> Result<Response<v1::AbandonJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn resume_job(
        &self,
        _request: Request<v1::ResumeJobRequest>,
    ) -> Result<Response<v1::ResumeJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn get_session(
        &self,
        _request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn raise_limit(
        &self,
        _request: Request<v1::RaiseLimitRequest>,
    ) -> Result<Response<v1::RaiseLimitResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn steer_job(
        &self,
        _request: Request<v1::SteerJobRequest>,
    ) -> Result<Response<v1::SteerJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn cancel_job(
        &self,
        _request: Request<v1::CancelJobRequest>,
    ) -> Result<Response<v1::CancelJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn confirm_gone(
        &self,
        _request: Request<v1::ConfirmGoneRequest>,
    ) -> Result<Response<v1::ConfirmGoneResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}
