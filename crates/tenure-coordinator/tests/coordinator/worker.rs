//! A worker that a test plays by hand: it registers, attaches, and says what the test says.

use std::{collections::VecDeque, time::Duration};

use tenure_proto::v1::{
    self, attach_request::Message as Request, attach_response::Message as Response, new_record, run_end::How,
    worker_service_client::WorkerServiceClient,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::fleet::{Fleet, PATIENCE, Way};

/// A registration, with which to attach.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    pub(crate) name: String,
    pub(crate) term: u64,
    pub(crate) secret: Vec<u8>,
    pub(crate) answer: u64,
}

/// How a test's worker registers.
pub(crate) fn introduction(name: &str) -> v1::RegisterWorkerRequest {
    v1::RegisterWorkerRequest {
        name: name.into(),
        slots: 16,
        ttl: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        fencing: v1::Fencing::Kernel.into(),
        version: "test".into(),
        ..Default::default()
    }
}

pub(crate) async fn register(channel: &Way, request: v1::RegisterWorkerRequest) -> Registration {
    let name = request.name.clone();
    let response =
        WorkerServiceClient::new(channel.clone()).register_worker(request).await.unwrap().into_inner();
    Registration { name, term: response.term, secret: response.secret.into(), answer: response.answer }
}

/// An attached worker.
pub(crate) struct Worker {
    pub(crate) registration: Registration,
    pub(crate) attach: u64,
    outbound: mpsc::Sender<v1::AttachRequest>,
    inbound: Streaming<v1::AttachResponse>,
    skipped: VecDeque<Response>,
}

impl Worker {
    /// Registers and attaches, and wants as many runs.
    pub(crate) async fn start(fleet: &Fleet, name: &str, credits: u32) -> Self {
        Self::start_by(&fleet.channel, introduction(name), credits).await
    }

    /// The same, registered so.
    pub(crate) async fn start_as(fleet: &Fleet, request: v1::RegisterWorkerRequest, credits: u32) -> Self {
        Self::start_by(&fleet.channel, request, credits).await
    }

    /// The same by a way of its own.
    pub(crate) async fn start_at(way: &Way, name: &str, credits: u32) -> Self {
        Self::start_by(way, introduction(name), credits).await
    }

    async fn start_by(way: &Way, request: v1::RegisterWorkerRequest, credits: u32) -> Self {
        let registration = register(way, request).await;
        let mut worker = Self::attach(way, &registration).await.unwrap();
        worker.want(credits).await;
        worker
    }

    pub(crate) async fn attach(channel: &Way, registration: &Registration) -> Result<Self, Status> {
        let hello = v1::AttachHello {
            worker: registration.name.clone(),
            term: registration.term,
            secret: registration.secret.clone().into(),
            runs: Vec::new(),
        };
        let (outbound, messages) = mpsc::channel(256);
        outbound.send(v1::AttachRequest { message: Some(Request::Hello(hello)) }).await.unwrap();
        let mut client = WorkerServiceClient::new(channel.clone()).max_decoding_message_size(8 << 20);
        let inbound = client.attach(ReceiverStream::new(messages)).await?.into_inner();
        let (registration, skipped) = (registration.clone(), VecDeque::new());
        let mut worker = Self { registration, attach: 0, outbound, inbound, skipped };
        worker.attach = worker
            .hear(|message| match message {
                Response::Attached(attached) => Some(attached.attach),
                _ => None,
            })
            .await;
        Ok(worker)
    }

    pub(crate) async fn say(&mut self, message: Request) {
        self.outbound.send(v1::AttachRequest { message: Some(message) }).await.unwrap();
    }

    pub(crate) async fn want(&mut self, more: u32) {
        self.say(Request::Credits(v1::Credits { more, withdrawn: false })).await;
    }

    /// The first message that fits; others are kept.
    pub(crate) async fn hear<T>(&mut self, mut fits: impl FnMut(&Response) -> Option<T>) -> T {
        if let Some((place, found)) =
            self.skipped.iter().enumerate().find_map(|(place, message)| Some((place, fits(message)?)))
        {
            self.skipped.remove(place);
            return found;
        }
        loop {
            let message = tokio::time::timeout(PATIENCE, self.inbound.message())
                .await
                .unwrap_or_else(|_| panic!("no fitting message came; others were {:?}", self.skipped));
            let message = message.unwrap().expect("the stream goes on").message.unwrap();
            match fits(&message) {
                Some(found) => return found,
                None => self.skipped.push_back(message),
            }
        }
    }

    /// The end of the stream: its status.
    pub(crate) async fn hear_end(&mut self) -> Status {
        loop {
            let message =
                tokio::time::timeout(PATIENCE, self.inbound.message()).await.expect("the stream ends");
            match message {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without a reason"),
                Err(status) => return status,
            }
        }
    }

    pub(crate) async fn hear_grant(&mut self) -> v1::Grant {
        self.hear(|message| match message {
            Response::Grant(grant) => Some(grant.clone()),
            _ => None,
        })
        .await
    }

    /// What is there already, without waiting: the grants among it.
    pub(crate) async fn grants_so_far(&mut self) -> usize {
        while let Ok(Ok(Some(message))) =
            tokio::time::timeout(Duration::from_millis(1), self.inbound.message()).await
        {
            self.skipped.extend(message.message);
        }
        self.skipped.iter().filter(|message| matches!(message, Response::Grant(_))).count()
    }

    pub(crate) async fn hear_appended(&mut self, n: u64) -> v1::appended::Outcome {
        self.hear(|message| match message {
            Response::Appended(appended) if appended.n == n => appended.outcome.clone(),
            _ => None,
        })
        .await
    }

    pub(crate) async fn hear_order(&mut self) -> v1::Order {
        self.hear(|message| match message {
            Response::Order(order) => Some(order.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn note(&mut self, grant: &v1::Grant, n: u64, text: &str) -> v1::appended::Outcome {
        self.say(Request::Append(note(grant, n, text))).await;
        self.hear_appended(n).await
    }

    pub(crate) async fn end(&mut self, grant: &v1::Grant, n: u64, how: How) -> v1::appended::Outcome {
        self.say(Request::EndRun(end(grant, n, how))).await;
        self.hear_appended(n).await
    }

    pub(crate) async fn renew(&mut self, runs: Option<Vec<v1::RunRef>>) -> v1::Renewed {
        let renew = v1::Renew {
            echo: self.registration.answer,
            runs_given: runs.is_some(),
            runs: runs.unwrap_or_default(),
            no: 7,
        };
        self.say(Request::Renew(renew)).await;
        let renewed = self
            .hear(|message| match message {
                Response::Renewed(renewed) => Some(renewed.clone()),
                _ => None,
            })
            .await;
        self.registration.answer = renewed.answer;
        renewed
    }
}

pub(crate) fn note(grant: &v1::Grant, n: u64, text: &str) -> v1::Append {
    let note = v1::NewNote { text: text.into() };
    v1::Append {
        run: grant.run.clone(),
        n,
        acknowledged_seq: grant.seq,
        records: vec![v1::NewRecord { kind: Some(new_record::Kind::Note(note)) }],
    }
}

pub(crate) fn end(grant: &v1::Grant, n: u64, how: How) -> v1::EndRun {
    v1::EndRun {
        run: grant.run.clone(),
        n,
        acknowledged_seq: grant.seq,
        end: Some(v1::RunEnd { how: Some(how) }),
        ..Default::default()
    }
}

/// The seq of an append that was accepted.
pub(crate) fn applied(outcome: v1::appended::Outcome) -> u64 {
    match outcome {
        v1::appended::Outcome::Applied(applied) => applied.seq,
        other => panic!("applied, and not {other:?}"),
    }
}

pub(crate) fn gone(grant: &v1::Grant) -> v1::ReportGoneRequest {
    let run = grant.run.clone().unwrap();
    v1::ReportGoneRequest {
        tenant: run.tenant,
        job_id: run.job_id,
        epoch: run.epoch,
        generation: run.generation,
        secret: grant.secret.clone(),
        end: Some(v1::RunEnd { how: Some(How::Signal(9)) }),
        ended_by_guardian: true,
    }
}
