//! What callers of `JobService` ask, read from the wire and bounded, and what becomes of each of a batch. Neighbours:
//! `job_service`.

use tenure_core::{
    id::{JobId, Run},
    limits::{BATCH_MAX_BYTES, BATCH_MAX_JOBS, PAGE_DEFAULT},
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        id::read_agent_name, state::read_state, submission::write_refusal, time::read_optional_timestamp,
    },
    v1::{self, submit_jobs_item},
};
use tenure_store::{JobFilter, JobRow, OutputStream};

use super::{
    call::{read_limit, refuse_cursor},
    caller::Caller,
    output_stream::OutputWish,
};

/// A batch is taken whole or not at all as far as its size goes.
pub(super) fn check_batch(submissions: &[v1::Submission]) -> Result<(), Refusal> {
    let bytes: usize = submissions.iter().map(|submission| submission.input.len()).sum();
    if submissions.len() > BATCH_MAX_JOBS || bytes > BATCH_MAX_BYTES {
        let words = format!(
            "the batch has {} submissions with {bytes} bytes of input, and at most {BATCH_MAX_JOBS} with \
             {BATCH_MAX_BYTES} bytes are taken",
            submissions.len()
        );
        return Err(Refusal::new(Reason::BatchTooLarge, words));
    }
    Ok(())
}

/// What became of one of a batch.
pub(super) fn write_item(outcome: Result<v1::Admitted, Refusal>) -> v1::SubmitJobsItem {
    let outcome = match outcome {
        Ok(admitted) => submit_jobs_item::Outcome::Admitted(admitted),
        Err(refusal) => submit_jobs_item::Outcome::Refused(write_refusal(&refusal)),
    };
    v1::SubmitJobsItem { outcome: Some(outcome) }
}

/// Which jobs are to be listed.
pub(super) fn read_filter(request: v1::ListJobsRequest) -> Result<JobFilter, Refusal> {
    let states = request.states.iter().map(|state| read_state("states", *state)).collect::<Result<_, _>>()?;
    let agent = Some(request.agent).filter(|agent| !agent.is_empty());
    let before = match request.cursor.as_str() {
        "" => None,
        cursor => Some(cursor.parse::<JobId>().map_err(|_| refuse_cursor(cursor))?),
    };
    Ok(JobFilter {
        states,
        agent: agent.map(|agent| read_agent_name("agent", &agent)).transpose()?,
        since: read_optional_timestamp("since", request.since.as_ref())?,
        labels: request.labels.into_iter().collect(),
        before,
        limit: read_limit(request.limit, PAGE_DEFAULT)?,
    })
}

/// Which output is wanted.
pub(super) fn read_wish(
    caller: Caller,
    row: &JobRow,
    request: &v1::ReadOutputRequest,
) -> Result<OutputWish, Refusal> {
    let stream = match v1::OutputStream::try_from(request.stream) {
        Ok(v1::OutputStream::Unspecified) => None,
        Ok(v1::OutputStream::Stdout) => Some(OutputStream::Stdout),
        Ok(v1::OutputStream::Stderr) => Some(OutputStream::Stderr),
        Err(_) => return Err(Refusal::new(Reason::InvalidArgument, "the field stream has an unknown value")),
    };
    if request.run > row.run.0 {
        let words = format!(
            "job {} has had {} runs, and run {} was asked for",
            row.job.short(),
            row.run,
            request.run
        );
        return Err(Refusal::new(Reason::RunNotFound, words).with_detail("runs", row.run));
    }
    let run = if request.run == 0 { row.run } else { Run(request.run) };
    Ok(OutputWish {
        tenant: caller.tenant,
        job: row.job,
        run,
        later_runs: request.run == 0 && request.follow,
        follow: request.follow,
        stream,
        skip_chunks: request.skip_chunks,
    })
}
