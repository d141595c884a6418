//! Values that are too large for a grant or a report, on their way between this host and a coordinator: a job's input before
//! its run starts, a run's result before its end is reported. They are streamed from and into files of the worker's own, and
//! the digest of what came is computed here. A blob store that does not answer is asked again: for an input as long as
//! `limits::BLOB_PATIENCE`, for a result until it is taken or the run is no longer this worker's, because nothing but it is
//! left of the run. Neighbours: `executor` says when, `endpoints` knows the coordinators.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tempfile::TempDir;
use tenure_core::{
    chain::ValueDigest,
    limits::{self, BLOB_CHUNK_MAX_BYTES, BLOB_CHUNK_WITHIN, BLOB_PATIENCE},
    reason::{Class, Reason},
    record::ValueRef,
    refusal::Refusal,
};
use tenure_proto::{
    convert::{blob::read_blob_ref, require, run::write_run_ref},
    status::status_to_refusal,
    v1::{self, put_result_request, read_input_response, worker_service_client::WorkerServiceClient},
};
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tracing::{info, warn};

use crate::{context::WorkerContext, endpoints::reconnect_pauses, grant::RunGrant};

/// Pieces that are read ahead of what is sent.
const QUEUE: usize = 2;
/// The file in a staging directory.
const STAGED_FILE: &str = "value";

/// A file of the worker's own, which is gone with this.
#[derive(Debug)]
pub(crate) struct Staged {
    directory: TempDir,
}

impl Staged {
    /// An empty place below a directory of the worker's. A killed worker leaves it behind as it leaves the directories of
    /// runs, and a later start removes it.
    pub(crate) fn make(below: &Path) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("value-").tempdir_in(below)?;
        Ok(Self { directory })
    }

    /// Where the value is.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(STAGED_FILE)
    }
}

/// How one attempt failed.
enum Failed {
    /// Asking again does not help.
    Final(Refusal),
    /// It may help.
    Passing(String),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        if status.code() == Code::Unimplemented {
            let words = "the coordinator's release knows no values of this size";
            return Self::Final(Refusal::new(Reason::NotSupported, words));
        }
        match status_to_refusal(&status) {
            Some(refusal) if matches!(refusal.reason.class(), Class::Rejected | Class::Fenced) => {
                Self::Final(refusal)
            }
            Some(refusal) => Self::Passing(refusal.message),
            None => Self::Passing(status.message().to_owned()),
        }
    }
}

/// Fetches a job's input. The error says for a person why it could not be had.
pub(crate) async fn fetch_input(
    context: &WorkerContext,
    grant: &RunGrant,
    named: ValueRef,
) -> Result<Staged, String> {
    let staged = Staged::make(context.places.runs())
        .map_err(|error| format!("the input cannot be stored on this host: {error}"))?;
    let until = Instant::now() + BLOB_PATIENCE;
    let mut pauses = reconnect_pauses();
    loop {
        match fetch_once(context, grant, named, &staged.path()).await {
            Ok(()) => return Ok(staged),
            Err(Failed::Final(refusal)) => {
                return Err(format!(
                    "the input cannot be had: {} ({})",
                    refusal.message,
                    refusal.reason.code()
                ));
            }
            Err(Failed::Passing(why)) if Instant::now() >= until => {
                return Err(format!("the input could not be had for {} s: {why}", BLOB_PATIENCE.as_secs()));
            }
            Err(Failed::Passing(why)) => info!(why, "the input could not be had; it is asked for again"),
        }
        sleep(next_pause(&mut pauses)).await;
    }
}

async fn fetch_once(
    context: &WorkerContext,
    grant: &RunGrant,
    named: ValueRef,
    path: &Path,
) -> Result<(), Failed> {
    let request = v1::ReadInputRequest {
        run: Some(write_run_ref(&grant.run)),
        secret: Bytes::copy_from_slice(grant.secret.as_bytes()),
        sha256: Bytes::copy_from_slice(&named.sha256.0),
    };
    let way = context.endpoints.connect_next().await?;
    let answered = timeout(limits::ATTACH_TIMEOUT, WorkerServiceClient::new(way).read_input(request)).await;
    let mut stream = answered.map_err(|_| silent())??.into_inner();
    let unwritable = |error: io::Error| {
        let words = format!("the input cannot be stored on this host: {error}");
        Failed::Final(Refusal::new(Reason::Internal, words))
    };
    let mut file = File::create(path).await.map_err(unwritable)?;
    let (mut digest, mut bytes) = (None, 0_u64);
    while let Some(message) = timeout(BLOB_CHUNK_WITHIN, stream.message()).await.map_err(|_| silent())?? {
        match (message.part, &mut digest) {
            (Some(read_input_response::Part::Head(head)), None) => {
                digest = Some(ValueDigest::begin(&head.salt));
            }
            (Some(read_input_response::Part::Chunk(chunk)), Some(digest)) => {
                bytes += chunk.len() as u64;
                digest.add(&chunk);
                file.write_all(&chunk).await.map_err(unwritable)?;
            }
            (Some(_) | None, _) => return Err(Failed::Passing("its pieces came out of order".to_owned())),
        }
    }
    file.flush().await.map_err(unwritable)?;
    let came = digest.map(|digest| ValueRef { sha256: digest.finish(), bytes });
    if came == Some(named) {
        return Ok(());
    }
    let words = format!("what came is not {}: its digest differs", named.sha256);
    Err(Failed::Final(Refusal::new(Reason::BlobDiffers, words)))
}

/// Hands a result on until it is taken. The error says for a person why it never will be.
pub(crate) async fn hand_result(
    context: &WorkerContext,
    grant: &RunGrant,
    path: &Path,
    bytes: u64,
) -> Result<ValueRef, String> {
    let mut pauses = reconnect_pauses();
    loop {
        match hand_once(context, grant, path, bytes).await {
            Ok(named) => return Ok(named),
            Err(Failed::Final(refusal)) => return Err(refusal.message),
            Err(Failed::Passing(why)) => warn!(why, "the result was not taken; it is handed on again"),
        }
        sleep(next_pause(&mut pauses)).await;
    }
}

async fn hand_once(
    context: &WorkerContext,
    grant: &RunGrant,
    path: &Path,
    bytes: u64,
) -> Result<ValueRef, Failed> {
    let head = v1::ResultHead {
        run: Some(write_run_ref(&grant.run)),
        secret: Bytes::copy_from_slice(grant.secret.as_bytes()),
        bytes,
    };
    let way = context.endpoints.connect_next().await?;
    let (sender, receiver) = mpsc::channel(QUEUE);
    let sending = tokio::spawn(send_pieces(path.to_owned(), head, sender));
    let answer = WorkerServiceClient::new(way).put_result(ReceiverStream::new(receiver)).await;
    sending.abort();
    let invalid = |error: tenure_proto::convert::InvalidField| Failed::Passing(error.to_string());
    let blob = require("blob", answer?.into_inner().blob).map_err(invalid)?;
    read_blob_ref("blob", &blob).map_err(invalid)
}

/// Where the file cannot be read to its end less comes than the head says, and the coordinator refuses it.
async fn send_pieces(path: PathBuf, head: v1::ResultHead, sender: mpsc::Sender<v1::PutResultRequest>) {
    let message = |part| v1::PutResultRequest { part: Some(part) };
    if sender.send(message(put_result_request::Part::Head(head))).await.is_err() {
        return;
    }
    let mut file = match File::open(&path).await {
        Ok(file) => file,
        Err(error) => return warn!(%error, "the result cannot be read"),
    };
    loop {
        let mut chunk = BytesMut::with_capacity(BLOB_CHUNK_MAX_BYTES);
        match (&mut file).take(BLOB_CHUNK_MAX_BYTES as u64).read_buf(&mut chunk).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return warn!(%error, "the result cannot be read to its end"),
        }
        let part = put_result_request::Part::Chunk(chunk.freeze());
        if sender.send(message(part)).await.is_err() {
            return;
        }
    }
}

fn silent() -> Failed {
    Failed::Passing("the coordinator does not answer".to_owned())
}

fn next_pause(pauses: &mut impl Iterator<Item = Duration>) -> Duration {
    pauses.next().unwrap_or(limits::RECONNECT_MAX)
}
