//! A database, one or more coordinators on it, and the clients of a test.

use std::time::Duration;

use sqlx::PgPool;
use tenure_coordinator::{Coordinator, CoordinatorOptions, RunningCoordinator};
use tenure_core::reason::Reason;
use tenure_proto::{
    caller::CallerMetadata,
    status::status_to_refusal,
    v1::{
        self, JobState, agent_service_client::AgentServiceClient, job_service_client::JobServiceClient,
        worker_service_client::WorkerServiceClient,
    },
};
use tenure_testkit::{TestDatabase, wait_for};
use tonic::{
    Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

/// The way to a coordinator, with what its caller brings along.
pub(crate) type Way = InterceptedService<Channel, CallerMetadata>;

/// Long enough for a machine that is busy; no test measures it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What an agent says where a test does not care.
pub(crate) const PLAIN_AGENT: &str = r#"{"command":["true"]}"#;

pub(crate) struct Fleet {
    pub(crate) coordinator: RunningCoordinator,
    pub(crate) channel: Way,
    database: TestDatabase,
    /// How every coordinator's settings differ from the defaults.
    change: Box<dyn Fn(&mut CoordinatorOptions)>,
}

impl Fleet {
    /// A fresh database, one coordinator, and an agent `plain`.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same with other settings of the coordinator.
    pub(crate) async fn start_with(change: impl Fn(&mut CoordinatorOptions) + 'static) -> Self {
        Self::start_on(TestDatabase::create().await.unwrap(), change).await
    }

    /// The same on a database that is there.
    pub(crate) async fn start_on(
        database: TestDatabase,
        change: impl Fn(&mut CoordinatorOptions) + 'static,
    ) -> Self {
        let (coordinator, channel) = start_coordinator_with(database.url(), &change).await;
        let fleet = Self { coordinator, channel, database, change: Box::new(change) };
        fleet.apply("plain", PLAIN_AGENT).await;
        fleet
    }

    /// Another coordinator on the same database.
    pub(crate) async fn start_another(&self) -> (RunningCoordinator, Way) {
        start_coordinator_with(self.database.url(), &self.change).await
    }

    /// The same with settings of its own.
    pub(crate) async fn start_another_with(
        &self,
        change: impl FnOnce(&mut CoordinatorOptions),
    ) -> (RunningCoordinator, Way) {
        start_coordinator_with(self.database.url(), change).await
    }

    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    /// The database, to look into and to move clocks in.
    pub(crate) async fn pool(&self) -> PgPool {
        self.database.connect(3).await.unwrap()
    }

    pub(crate) fn jobs(&self) -> JobServiceClient<Way> {
        JobServiceClient::new(self.channel.clone())
    }

    pub(crate) fn agents(&self) -> AgentServiceClient<Way> {
        AgentServiceClient::new(self.channel.clone())
    }

    pub(crate) fn workers(&self) -> WorkerServiceClient<Way> {
        WorkerServiceClient::new(self.channel.clone())
    }

    pub(crate) async fn apply(&self, name: &str, document: &str) {
        let agents = vec![v1::AgentDeclaration { name: name.into(), document: document.to_owned().into() }];
        let request = v1::ApplyAgentsRequest { agents, ..Default::default() };
        self.agents().apply_agents(request).await.unwrap();
    }

    /// Submits and returns the job's id.
    pub(crate) async fn submit(&self, agent: &str) -> String {
        self.submit_with(submission(agent)).await.unwrap().job_id
    }

    pub(crate) async fn submit_with(&self, submission: v1::Submission) -> Result<v1::Admitted, Status> {
        let request = v1::SubmitJobRequest { submission: Some(submission) };
        Ok(self.jobs().submit_job(request).await?.into_inner().admitted.unwrap())
    }

    pub(crate) async fn job(&self, job: &str) -> v1::Job {
        let request = v1::GetJobRequest { job: job.into() };
        self.jobs().get_job(request).await.unwrap().into_inner().job.unwrap()
    }

    /// The job, once it is in this state.
    pub(crate) async fn job_in(&self, job: &str, state: JobState) -> v1::Job {
        wait_for(&format!("job {job} to be {state:?}"), PATIENCE, async || {
            let present = self.job(job).await;
            if present.state() == state { Ok(present) } else { Err(present.state()) }
        })
        .await
    }

    pub(crate) async fn records(&self, job: &str) -> Vec<v1::Record> {
        let (mut records, mut from_seq) = (Vec::new(), 1);
        while from_seq != 0 {
            let request = v1::ListRecordsRequest { job: job.into(), from_seq, ..Default::default() };
            let page = self.jobs().list_records(request).await.unwrap().into_inner();
            records.extend(page.records);
            from_seq = page.next_seq;
        }
        records
    }

    /// The kinds of a job's records, in order.
    pub(crate) async fn kinds(&self, job: &str) -> Vec<String> {
        self.records(job).await.into_iter().map(|record| record.kind).collect()
    }

    pub(crate) async fn cancel(&self, job: &str) -> Result<v1::CancelJobResponse, Status> {
        let request = v1::CancelJobRequest { job: job.into(), why: "no longer wanted".into() };
        Ok(self.jobs().cancel_job(request).await?.into_inner())
    }
}

pub(crate) async fn start_coordinator(database_url: &str) -> (RunningCoordinator, Way) {
    start_coordinator_with(database_url, |_| {}).await
}

async fn start_coordinator_with(
    database_url: &str,
    change: impl FnOnce(&mut CoordinatorOptions),
) -> (RunningCoordinator, Way) {
    let mut options = CoordinatorOptions::new(database_url, "127.0.0.1:0".parse().unwrap());
    change(&mut options);
    let coordinator = Coordinator::start(options).await.unwrap();
    let channel = open_way(&coordinator, CallerMetadata::default());
    (coordinator, channel)
}

/// A way to a coordinator in plain text, for a caller who brings this along.
pub(crate) fn open_way(coordinator: &RunningCoordinator, caller: CallerMetadata) -> Way {
    let endpoint = Endpoint::from_shared(format!("http://{}", coordinator.local_addr())).unwrap();
    InterceptedService::new(endpoint.connect_timeout(PATIENCE).connect_lazy(), caller)
}

pub(crate) fn submission(agent: &str) -> v1::Submission {
    v1::Submission { agent: agent.into(), input: "the input".into(), ..Default::default() }
}

/// The stable reason of a refused call.
pub(crate) fn reason<T: std::fmt::Debug>(outcome: Result<T, Status>) -> Reason {
    let status = outcome.expect_err("a refusal");
    status_to_refusal(&status).unwrap_or_else(|| panic!("a refusal of ours, and not {status:?}")).reason
}
