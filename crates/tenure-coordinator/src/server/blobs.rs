//! The calls about values in the blob store: an input that comes before its submission, a result that comes before its run's
//! end, and both as they are read. Who may is decided by the caller's tenant, or by the run's own secret. Neighbours:
//! `job_service` and `worker_service` take the calls, `blob_transfer` moves the pieces.

use bytes::Bytes;
use prost::Message;
use tenure_core::{
    id::Digest,
    limits::BLOB_CHUNK_WITHIN,
    reason::Reason,
    record::{ErasedPart, KeptValue, RecordKind, ValueRef},
    refusal::Refusal,
};
use tenure_proto::{
    convert::{InvalidField, blob::write_blob_ref, id::read_digest, require, run::read_run_ref},
    v1::{self, get_blob_response, put_blob_request, put_result_request, read_input_response},
};
use tenure_store::JobRow;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::{
    caller::{Caller, FleetCaller},
    effects::{check_holder, read_secret},
    find_job::find_job,
    followers::{Reader, Stream},
};
use crate::{
    blob_transfer::{OpenBlob, Upload, Wire, check_size, open_blob, refuse_erased, send_blob},
    coordinator::Parts,
    credentials::standing::Standing,
};

/// Records of erasures that are read to say that a value was erased.
const ERASURES_READ: u32 = 100;

/// Stores an input.
pub(super) async fn put_input(
    parts: &Parts,
    caller: &Caller,
    mut inbound: Streaming<v1::PutBlobRequest>,
) -> Result<v1::PutBlobResponse, Refusal> {
    let (mut expected, mut upload) = (None, None);
    while let Some(message) = next_message(&mut inbound).await? {
        match (require("part", message.part)?, &mut upload) {
            (put_blob_request::Part::Bytes(bytes), None) if expected.is_none() => {
                check_size(parts, "input", bytes)?;
                expected = Some(bytes);
            }
            (put_blob_request::Part::Bytes(_), _) => return Err(refuse_order("bytes")),
            (put_blob_request::Part::Chunk(chunk), None) => {
                let mut begun = Upload::begin(parts, &caller.tenant, "input", expected).await?;
                begun.add(chunk).await?;
                upload = Some(begun);
            }
            (put_blob_request::Part::Chunk(chunk), Some(upload)) => upload.add(chunk).await?,
        }
    }
    let blob = require("chunk", upload)?.finish(None).await?;
    Ok(v1::PutBlobResponse { blob: Some(write_blob_ref(blob)) })
}

/// Stores what a run returned. Its lease is looked at before and after: a value of a run that was fenced meanwhile is bound
/// to nothing.
pub(super) async fn put_result(
    parts: &Parts,
    caller: &FleetCaller,
    mut inbound: Streaming<v1::PutResultRequest>,
) -> Result<v1::PutResultResponse, Refusal> {
    let first = next_message(&mut inbound).await?.and_then(|message| message.part);
    let Some(put_result_request::Part::Head(head)) = first else { return Err(refuse_order("head")) };
    let run = read_run_ref(head.run.as_ref())?;
    let secret = read_secret(parts, caller, &run, &head.secret)?;
    check_holder(parts, &run, &secret).await?;
    check_size(parts, "result", head.bytes)?;
    let mut upload =
        Upload::begin(parts, &run.tenant, "result", Some(head.bytes).filter(|bytes| *bytes > 0)).await?;
    while let Some(message) = next_message(&mut inbound).await? {
        match require("part", message.part)? {
            put_result_request::Part::Chunk(chunk) => upload.add(chunk).await?,
            put_result_request::Part::Head(_) => return Err(refuse_order("head")),
        }
    }
    check_holder(parts, &run, &secret).await?;
    let blob = upload.finish(Some(run.job)).await?;
    Ok(v1::PutResultResponse { blob: Some(write_blob_ref(blob)) })
}

/// Gives a value of a job to whoever may read the job.
pub(super) async fn get_blob(
    parts: &Parts,
    caller: Caller,
    request: v1::GetBlobRequest,
) -> Result<Stream<v1::GetBlobResponse>, Refusal> {
    let name = read_digest("sha256", &request.sha256)?;
    let row = find_job(parts, &caller.tenant, &request.job).await?;
    let blob = open_or_say_erased(parts, &row, name).await?;
    let wire = Wire {
        head: |head| v1::GetBlobResponse { part: Some(get_blob_response::Part::Head(head)) },
        chunk: |chunk| v1::GetBlobResponse { part: Some(get_blob_response::Part::Chunk(chunk)) },
    };
    start_sending(parts, caller.standing, blob, wire)
}

/// Gives the input of its job to a run.
pub(super) async fn read_input(
    parts: &Parts,
    caller: FleetCaller,
    request: v1::ReadInputRequest,
) -> Result<Stream<v1::ReadInputResponse>, Refusal> {
    let run = read_run_ref(request.run.as_ref())?;
    let name = read_digest("sha256", &request.sha256)?;
    let secret = read_secret(parts, &caller, &run, &request.secret)?;
    let row = find_job(parts, &run.tenant, &run.job.to_string()).await?;
    let blob = open_or_say_erased(parts, &row, name).await?;
    check_holder(parts, &run, &secret).await?;
    let wire = Wire {
        head: |head| v1::ReadInputResponse { part: Some(read_input_response::Part::Head(head)) },
        chunk: |chunk| v1::ReadInputResponse { part: Some(read_input_response::Part::Chunk(chunk)) },
    };
    start_sending(parts, caller.standing, blob, wire)
}

/// What a job returned, as it goes onto the wire.
pub(super) async fn write_result(
    parts: &Parts,
    row: &JobRow,
    result: KeptValue,
    accept_blob: bool,
) -> Result<v1::GetResultResponse, Refusal> {
    match result {
        KeptValue::Beside(result) => Ok(v1::GetResultResponse { result: result.into(), blob: None }),
        KeptValue::Blob(reference) if was_erased(parts, row, reference.sha256).await? => {
            Err(refuse_erased(row.job))
        }
        KeptValue::Blob(reference) if accept_blob => {
            Ok(v1::GetResultResponse { result: Bytes::new(), blob: Some(write_blob_ref(reference)) })
        }
        KeptValue::Blob(reference) => Err(refuse_large(reference)),
        KeptValue::Erased => Err(refuse_erased(row.job)),
    }
}

/// A caller that would take an empty result for the whole.
fn refuse_large(reference: ValueRef) -> Refusal {
    let words = format!("the result has {} bytes, and is read by GetBlob", reference.bytes);
    Refusal::new(Reason::NotSupported, words).with_detail("sha256", reference.sha256)
}

/// A value that is not there because it was erased is told as that.
async fn open_or_say_erased(parts: &Parts, row: &JobRow, name: Digest) -> Result<OpenBlob, Refusal> {
    match open_blob(parts, &row.tenant, row.job, name).await {
        Err(refusal) if refusal.reason == Reason::BlobNotFound && was_erased(parts, row, name).await? => {
            Err(refuse_erased(row.job))
        }
        outcome => outcome,
    }
}

/// Whether a record says that the part was erased to which the value of this name belonged.
async fn was_erased(parts: &Parts, row: &JobRow, name: Digest) -> Result<bool, Refusal> {
    let kinds = ["job_admitted", "job_concluded", "operator_acted"].map(str::to_owned);
    let from = tenure_core::id::Seq(1);
    let page = parts.store.read_records(&row.tenant, row.job, from, &kinds, ERASURES_READ);
    let page = parts.bulk.ask(page).await?;
    let mut named: Option<ErasedPart> = None;
    for record in page.records.iter().filter_map(|stored| stored.parse().ok()) {
        match record.kind {
            RecordKind::JobAdmitted { input, .. } if input.sha256 == name => named = Some(ErasedPart::Input),
            RecordKind::JobConcluded { result: Some(result), .. } if result.sha256 == name => {
                named = Some(ErasedPart::Output);
            }
            RecordKind::OperatorActed { erased, .. } if erased.is_some() && erased == named => {
                return Ok(true);
            }
            _ => {}
        }
    }
    Ok(false)
}

fn start_sending<M: Send + 'static>(
    parts: &Parts,
    standing: Standing,
    blob: OpenBlob,
    wire: Wire<M>,
) -> Result<Stream<M>, Refusal> {
    let turn = parts.blobs.take_turn()?;
    let (reader, stream) = Reader::open();
    let end = reader.end();
    let sending = send_blob(parts.clone(), blob, wire, reader, turn);
    parts.tasks.spawn(super::job_service::send_while_standing(standing, end, sending));
    Ok(stream)
}

/// The next message of an upload, which does not come for ever.
async fn next_message<M: Message + Default>(inbound: &mut Streaming<M>) -> Result<Option<M>, Refusal> {
    match timeout(BLOB_CHUNK_WITHIN, inbound.message()).await {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(status)) => Err(refuse_broken(&status)),
        Err(_) => {
            let words = format!("nothing more of the value came within {} s", BLOB_CHUNK_WITHIN.as_secs());
            Err(Refusal::new(Reason::RequestTooSlow, words))
        }
    }
}

fn refuse_broken(status: &Status) -> Refusal {
    tenure_proto::status::status_to_refusal(status).unwrap_or_else(|| {
        Refusal::new(Reason::InvalidArgument, format!("the upload broke off: {}", status.message()))
    })
}

fn refuse_order(field: &'static str) -> Refusal {
    let given = InvalidField::Missing { field };
    Refusal::new(Reason::InvalidArgument, format!("an upload begins with its head, and has one: {given}"))
        .with_detail("field", field)
}
