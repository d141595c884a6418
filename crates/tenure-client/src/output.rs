//! Captured output, once or as it comes. A follower goes on from run to run, because a job's next run continues its work;
//! it remembers run and chunk, so that a broken stream costs nothing and repeats nothing.

use bytes::Bytes;
use tenure_core::id::{JobId, Run};
use tenure_proto::{convert::InvalidField, v1};
use tonic::Streaming;

use crate::{Client, ClientError, client::job_service, job::is_at_rest, retry::Failure, watch::Steadiness};

/// One of a run's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of captured output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// The run that wrote it.
    pub run: Run,
    /// From 0, in the order of capture, over both streams of the run.
    pub chunk: u64,
    /// Which stream.
    pub stream: OutputStream,
    /// The bytes.
    pub bytes: Bytes,
}

/// Which output is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputRequest {
    /// Only this run; none: the last, and when following also those after it.
    pub run: Option<Run>,
    /// Go on with what is added.
    pub follow: bool,
    /// Only this stream; none: both.
    pub stream: Option<OutputStream>,
}

/// A reader of one job's output.
#[derive(Debug)]
pub struct OutputReader {
    client: Client,
    job: JobId,
    request: OutputRequest,
    /// The run that is read; none before the first chunk, where no run was named.
    run: Option<Run>,
    next_chunk: u64,
    /// The stream, and the place at which it was opened.
    stream: Option<(usize, Streaming<v1::ReadOutputResponse>)>,
    steadiness: Steadiness,
}

impl Client {
    /// Reads a job's output, and follows it where that is asked for.
    ///
    /// # Errors
    /// There is no such job, several, or no answer.
    pub async fn read_output(&self, job: &str, request: OutputRequest) -> Result<OutputReader, ClientError> {
        let job = self.get_job(job).await?.id;
        let (client, run) = (self.clone(), request.run);
        let steadiness = Steadiness::new(self);
        Ok(OutputReader { client, job, request, run, next_chunk: 0, stream: None, steadiness })
    }
}

impl OutputReader {
    /// The next piece; none where there is no more, or, when following, where nothing more can come.
    ///
    /// # Errors
    /// The fleet refuses, or patience ran out before the stream went on.
    pub async fn next(&mut self) -> Result<Option<OutputChunk>, ClientError> {
        loop {
            match self.advance().await {
                Ok(Some(response)) => {
                    let chunk = OutputChunk::read(response)?;
                    if self.accept(&chunk) {
                        self.steadiness.renew();
                        return Ok(Some(chunk));
                    }
                }
                Ok(None) => {
                    self.stream = None;
                    match self.look_further().await? {
                        Further::End => return Ok(None),
                        Further::NextRun(run) => (self.run, self.next_chunk) = (Some(run), 0),
                        Further::Wait => self.steadiness.rest().await,
                    }
                }
                Err(failure) => {
                    self.stream = None;
                    self.steadiness.pause(&self.client, failure).await?;
                }
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<v1::ReadOutputResponse>, Failure> {
        if self.stream.is_none() {
            let request = self.write_request();
            let open = |channel| {
                let request = request.clone();
                async move { job_service(channel).read_output(request).await }
            };
            self.stream = Some(self.client.open(&open).await?);
        }
        match &mut self.stream {
            Some((place, stream)) => {
                stream.message().await.map_err(|status| self.client.broken(*place, status))
            }
            None => Ok(None),
        }
    }

    fn write_request(&self) -> v1::ReadOutputRequest {
        v1::ReadOutputRequest {
            job: self.job.to_string(),
            run: self.run.map_or(0, |run| run.0),
            follow: self.request.follow,
            stream: self.request.stream.map_or(0, |stream| stream.write() as i32),
            skip_chunks: self.next_chunk,
        }
    }

    /// Takes note of a chunk; false where it came before.
    fn accept(&mut self, chunk: &OutputChunk) -> bool {
        let repeated = self.run == Some(chunk.run) && chunk.chunk < self.next_chunk;
        if !repeated {
            (self.run, self.next_chunk) = (Some(chunk.run), chunk.chunk + 1);
        }
        !repeated
    }

    /// What comes after the end of a stream: a follower of all runs goes on while the job does.
    async fn look_further(&self) -> Result<Further, ClientError> {
        if !self.request.follow || self.request.run.is_some() {
            return Ok(Further::End);
        }
        let job = self.client.get_job(&self.job.to_string()).await?;
        let seen = self.run.unwrap_or_default();
        Ok(if job.run > seen && seen != Run(0) {
            Further::NextRun(seen.next())
        } else if is_at_rest(job.state) {
            Further::End
        } else {
            Further::Wait
        })
    }
}

enum Further {
    End,
    NextRun(Run),
    Wait,
}

impl OutputStream {
    const fn write(self) -> v1::OutputStream {
        match self {
            Self::Stdout => v1::OutputStream::Stdout,
            Self::Stderr => v1::OutputStream::Stderr,
        }
    }
}

impl OutputChunk {
    fn read(given: v1::ReadOutputResponse) -> Result<Self, InvalidField> {
        let stream = match v1::OutputStream::try_from(given.stream) {
            Ok(v1::OutputStream::Stdout) => OutputStream::Stdout,
            Ok(v1::OutputStream::Stderr) => OutputStream::Stderr,
            Ok(v1::OutputStream::Unspecified) | Err(_) => {
                return Err(InvalidField::Unknown { field: "stream", value: given.stream });
            }
        };
        Ok(Self { run: Run(given.run), chunk: given.chunk, stream, bytes: given.bytes })
    }
}
