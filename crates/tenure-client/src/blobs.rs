//! Values that are too large for a message: handed in before the submission that names them, and read in pieces. Whoever reads
//! one computes its digest here, and is given an error where it is not the one that a record names. Promises: one piece is in
//! memory; a value is handed in whole or not at all, because its length goes first; a broken stream is gone on with where it
//! broke.

use std::{io, path::PathBuf, time::Duration};

use bytes::{Bytes, BytesMut};
use tenure_core::{
    chain::ValueDigest,
    id::{Digest, JobId},
    limits::{BLOB_CHUNK_MAX_BYTES, BLOB_MAX_BYTES},
    reason::Reason,
    record::{ErasedPart, ValueRef},
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        blob::{read_blob_ref, write_erased_part},
        require,
    },
    v1::{self, get_blob_response, put_blob_request},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::{
    Client, ClientError, ClientOptions,
    client::{Repeat, job_service},
    job::Job,
    retry::Failure,
    watch::Steadiness,
};

/// How long handing in one value may take.
const PUT_TIMEOUT: Duration = Duration::from_secs(600);
/// Pieces that are read ahead of what is sent.
const QUEUE: usize = 2;

/// A value that is handed in. It can be read again where an attempt broke off.
#[derive(Debug, Clone)]
pub enum LargeValue {
    /// What a file holds.
    File(PathBuf),
    /// Bytes.
    Bytes(Bytes),
}

impl Client {
    /// Stores a value of more than 256 KiB, for a submission that names it as its input.
    ///
    /// # Errors
    /// The file cannot be read; the fleet refuses or does not answer.
    pub async fn put_blob(&self, value: &LargeValue) -> Result<ValueRef, ClientError> {
        // Read before the first attempt, so that what cannot be read is told as that.
        let (_, length) = open_value(value).await?;
        if length > BLOB_MAX_BYTES {
            return Err(ClientError::Refused(refuse_size(length)));
        }
        let mut patient = self.clone();
        patient.options = ClientOptions { call_timeout: PUT_TIMEOUT, ..self.options };
        let ask = |channel| {
            let pieces = send_value(value.clone());
            async move { job_service(channel).put_blob(pieces).await }
        };
        let answer = patient.call(Repeat::Harmless, ask).await?;
        Ok(read_blob_ref("blob", &require("blob", answer.blob)?)?)
    }

    /// Reads a value of a job that a record of it names.
    ///
    /// # Errors
    /// The first attempt is made by the first read.
    #[must_use]
    pub fn read_blob(&self, job: JobId, named: ValueRef) -> BlobReader {
        BlobReader {
            client: self.clone(),
            job,
            named,
            given: 0,
            digest: None,
            skip: 0,
            stream: None,
            steadiness: Steadiness::new(self),
        }
    }

    /// Erases what a job was given or what it wrote; tells how many values and pieces of output that were.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn erase_job(&self, job: &str, part: ErasedPart, why: &str) -> Result<(Job, u64), ClientError> {
        let part = write_erased_part(part).into();
        let request = v1::EraseJobRequest { job: job.to_owned(), part, why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).erase_job(request).await }
        };
        let answer = self.call(Repeat::Harmless, ask).await?;
        Ok((Job::read(answer.job)?, answer.erased))
    }
}

/// A reader of one large value.
#[derive(Debug)]
pub struct BlobReader {
    client: Client,
    job: JobId,
    named: ValueRef,
    /// What was given to the reader so far.
    given: u64,
    /// Of what was given; none before the head came.
    digest: Option<ValueDigest>,
    /// What the present stream repeats.
    skip: u64,
    stream: Option<(usize, Streaming<v1::GetBlobResponse>)>,
    steadiness: Steadiness,
}

impl BlobReader {
    /// The next piece; none where all of it came and its digest is the one that was named.
    ///
    /// # Errors
    /// It is another value than the one that was named, or not there; the fleet refuses; patience ran out.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.advance().await {
                Ok(Some(response)) => {
                    if let Some(piece) = self.take(response) {
                        self.steadiness.renew();
                        return Ok(Some(piece));
                    }
                }
                Ok(None) => return self.finish().map(|()| None),
                Err(failure) => {
                    self.stream = None;
                    self.steadiness.pause(&self.client, failure).await?;
                }
            }
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// As `next`.
    pub async fn read_whole(mut self) -> Result<Bytes, ClientError> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    async fn advance(&mut self) -> Result<Option<v1::GetBlobResponse>, Failure> {
        if self.stream.is_none() {
            let sha256 = Bytes::copy_from_slice(&self.named.sha256.0);
            let request = v1::GetBlobRequest { job: self.job.to_string(), sha256 };
            let open = |channel| {
                let request = request.clone();
                async move { job_service(channel).get_blob(request).await }
            };
            self.stream = Some(self.client.open(&open).await?);
            self.skip = self.given;
        }
        match &mut self.stream {
            Some((place, stream)) => {
                stream.message().await.map_err(|status| self.client.broken(*place, status))
            }
            None => Ok(None),
        }
    }

    /// What is new in a message.
    fn take(&mut self, response: v1::GetBlobResponse) -> Option<Bytes> {
        match response.part? {
            get_blob_response::Part::Head(head) => {
                self.digest.get_or_insert_with(|| ValueDigest::begin(&head.salt));
                None
            }
            get_blob_response::Part::Chunk(mut chunk) => {
                let repeated = self.skip.min(chunk.len() as u64);
                self.skip -= repeated;
                let new = chunk.split_off(usize::try_from(repeated).unwrap_or(usize::MAX));
                self.given += new.len() as u64;
                self.digest.as_mut()?.add(&new);
                (!new.is_empty()).then_some(new)
            }
        }
    }

    fn finish(&mut self) -> Result<(), ClientError> {
        let digest = self.digest.take().map(ValueDigest::finish);
        if digest == Some(self.named.sha256) && self.given == self.named.bytes {
            return Ok(());
        }
        Err(ClientError::Refused(refuse_different(self.named.sha256)))
    }
}

fn refuse_different(name: Digest) -> Refusal {
    let words = format!("the value that came is not {name}: its digest differs");
    Refusal::new(Reason::BlobDiffers, words).with_detail("sha256", name)
}

fn refuse_size(length: u64) -> Refusal {
    let words = format!("the input has {length} bytes, and at most {BLOB_MAX_BYTES} are taken");
    Refusal::new(Reason::InputTooLarge, words)
        .with_detail("field", "input")
        .with_detail("bytes", length)
        .with_detail("limit_bytes", BLOB_MAX_BYTES)
}

type Source = Box<dyn AsyncRead + Send + Unpin>;

async fn open_value(value: &LargeValue) -> Result<(Source, u64), ClientError> {
    match value {
        LargeValue::Bytes(bytes) => Ok((Box::new(io::Cursor::new(bytes.clone())), bytes.len() as u64)),
        LargeValue::File(path) => {
            let unreadable = |source| ClientError::InputUnreadable { path: path.clone(), source };
            let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
            let length = file.metadata().await.map_err(unreadable)?.len();
            Ok((Box::new(file), length))
        }
    }
}

/// The messages of one attempt. Where the value cannot be read to its end, less comes than was said, and the coordinator
/// refuses it.
fn send_value(value: LargeValue) -> ReceiverStream<v1::PutBlobRequest> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let message = |part| v1::PutBlobRequest { part: Some(part) };
        let Ok((mut source, length)) = open_value(&value).await else { return };
        if sender.send(message(put_blob_request::Part::Bytes(length))).await.is_err() {
            return;
        }
        loop {
            let mut chunk = BytesMut::with_capacity(BLOB_CHUNK_MAX_BYTES);
            while chunk.len() < BLOB_CHUNK_MAX_BYTES {
                let room = BLOB_CHUNK_MAX_BYTES - chunk.len();
                match (&mut source).take(room as u64).read_buf(&mut chunk).await {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "the input cannot be read to its end");
                        return;
                    }
                }
            }
            let part = put_blob_request::Part::Chunk(chunk.freeze());
            let is_end = matches!(&part, put_blob_request::Part::Chunk(chunk) if chunk.is_empty());
            if is_end || sender.send(message(part)).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(receiver)
}
