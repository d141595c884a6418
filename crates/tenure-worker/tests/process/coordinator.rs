//! A coordinator as far as a guardian knows one: a real gRPC server that records reports.

use std::sync::{Arc, Mutex};

use tenure_proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use tenure_proto::v1::{
    AttachRequest, AttachResponse, ListWorkersRequest, ListWorkersResponse, ReadEffectRequest,
    ReadEffectResponse, ReadStepToUndoRequest, ReadStepToUndoResponse, ReadStepsRequest, ReadStepsResponse,
    RegisterWorkerRequest, RegisterWorkerResponse, ReportGoneRequest, ReportGoneResponse,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use super::scene::find_processes;

/// A report, and who of the run was alive when it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) report: ReportGoneRequest,
    pub(crate) living: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Coordinator {
    pub(crate) endpoint: String,
    reports: Arc<Mutex<Vec<Recorded>>>,
}

#[derive(Debug)]
struct Service {
    reports: Arc<Mutex<Vec<Recorded>>>,
    /// What children of the scene bear in their arguments.
    marker: String,
    refusal: Option<Status>,
}

impl Coordinator {
    /// Acknowledges every report.
    pub(crate) async fn start(marker: &std::path::Path) -> Self {
        Self::start_with(marker, None).await
    }

    /// Refuses every report, and records it all the same.
    pub(crate) async fn start_refusing(marker: &std::path::Path, refusal: Status) -> Self {
        Self::start_with(marker, Some(refusal)).await
    }

    async fn start_with(marker: &std::path::Path, refusal: Option<Status>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let reports = Arc::new(Mutex::new(Vec::new()));
        let service =
            Service { reports: reports.clone(), marker: marker.to_string_lossy().into_owned(), refusal };
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(WorkerServiceServer::new(service))
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        Self { endpoint, reports }
    }

    pub(crate) fn reports(&self) -> Vec<Recorded> {
        self.reports.lock().unwrap().clone()
    }
}

#[tonic::async_trait]
impl WorkerService for Service {
    type AttachStream = tokio_stream::Empty<Result<AttachResponse, Status>>;
    type ReadInputStream = tokio_stream::Empty<Result<tenure_proto::v1::ReadInputResponse, Status>>;

    async fn register_worker(
        &self,
        _: Request<RegisterWorkerRequest>,
    ) -> Result<Response<RegisterWorkerResponse>, Status> {
        Err(Status::unimplemented("guardians do not register"))
    }

    async fn attach(
        &self,
        _: Request<Streaming<AttachRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        Err(Status::unimplemented("guardians do not attach"))
    }

    async fn report_gone(
        &self,
        request: Request<ReportGoneRequest>,
    ) -> Result<Response<ReportGoneResponse>, Status> {
        let living = find_processes(&self.marker);
        self.reports.lock().unwrap().push(Recorded { report: request.into_inner(), living });
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(Response::new(ReportGoneResponse { already_known: false })),
        }
    }

    async fn read_effect(
        &self,
        _: Request<ReadEffectRequest>,
    ) -> Result<Response<ReadEffectResponse>, Status> {
        Err(Status::unimplemented("guardians read no effects"))
    }

    async fn read_steps(&self, _: Request<ReadStepsRequest>) -> Result<Response<ReadStepsResponse>, Status> {
        Err(Status::unimplemented("guardians do not read steps"))
    }

    async fn read_step_to_undo(
        &self,
        _: Request<ReadStepToUndoRequest>,
    ) -> Result<Response<ReadStepToUndoResponse>, Status> {
        Err(Status::unimplemented("guardians undo nothing"))
    }

    async fn read_input(
        &self,
        _: Request<tenure_proto::v1::ReadInputRequest>,
    ) -> Result<Response<Self::ReadInputStream>, Status> {
        Err(Status::unimplemented("guardians move no values"))
    }

    async fn put_result(
        &self,
        _: Request<Streaming<tenure_proto::v1::PutResultRequest>>,
    ) -> Result<Response<tenure_proto::v1::PutResultResponse>, Status> {
        Err(Status::unimplemented("guardians move no values"))
    }

    async fn send_job(
        &self,
        _: Request<tenure_proto::v1::SendJobRequest>,
    ) -> Result<Response<tenure_proto::v1::SendJobResponse>, Status> {
        Err(Status::unimplemented("guardians give no work"))
    }

    async fn ask_wait(
        &self,
        _: Request<tenure_proto::v1::AskWaitRequest>,
    ) -> Result<Response<tenure_proto::v1::AskWaitResponse>, Status> {
        Err(Status::unimplemented("guardians ask for no wait"))
    }

    async fn book_layover(
        &self,
        _: Request<tenure_proto::v1::BookLayoverRequest>,
    ) -> Result<Response<tenure_proto::v1::BookLayoverResponse>, Status> {
        Err(Status::unimplemented("guardians ask for no wait"))
    }

    async fn list_workers(
        &self,
        _: Request<ListWorkersRequest>,
    ) -> Result<Response<ListWorkersResponse>, Status> {
        Err(Status::unimplemented("guardians do not list workers"))
    }
}
