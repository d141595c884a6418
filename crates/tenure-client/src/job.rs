//! A job, a page of jobs, and what stands in them, as a caller reads them. The names of the fields in JSON are those of
//! the protocol; instants are RFC 3339.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use tenure_core::{
    id::{AgentName, Digest, Epoch, HaltId, JobId, Run, Seq, SessionId, Term, WorkerName},
    job::State,
};
use tenure_proto::{
    convert::{
        InvalidField,
        id::{read_agent_name, read_digest, read_job_id, read_session_id, read_worker_name},
        require,
        state::read_state,
        time::{read_optional_timestamp, read_timestamp},
    },
    v1,
};

/// A job as it stood when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Which.
    pub id: JobId,
    /// The session that owns the deadline and the shared limits.
    pub session_id: SessionId,
    /// The agent.
    pub agent: AgentName,
    /// The declaration it was admitted under.
    pub declaration_digest: Digest,
    /// Where it stands.
    pub state: State,
    /// Since when.
    pub state_since: Timestamp,
    /// Why, as a stable word; empty where nothing is to be said.
    pub reason: String,
    /// The same for a person.
    pub detail: String,
    /// When it was admitted.
    pub submitted_at: Timestamp,
    /// The session's deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// Not to be started before; none: at once.
    pub not_before: Option<Timestamp>,
    /// The highest epoch in its journal; 0 before the first claim.
    pub epoch: Epoch,
    /// Runs so far.
    pub run: Run,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Restarts that drew on max-losses.
    pub losses: u32,
    /// Who holds the lease; none: nobody.
    pub holder: Option<Holder>,
    /// True where a cancel was asked for and is not yet done.
    pub cancel_requested: bool,
    /// Somebody gave it up, and its run has not ended yet.
    pub abandon_requested: bool,
    /// Somebody redirected it, and its run has not ended yet.
    pub steer_requested: bool,
    /// What the submitter attached.
    pub labels: BTreeMap<String, String>,
    /// The highest seq of its journal.
    pub head_seq: Seq,
    /// The hash of the head.
    pub head_hash: Digest,
    /// The commands that go on from here, the most fitting first.
    pub next: Vec<String>,
    /// What it becomes once what it has done is undone; none: it works forward.
    pub unwinding_to: Option<State>,
    /// True where an effect that is not known not to have happened stands, and was not undone; none: nobody looked.
    pub holds_landed_work: Option<bool>,
    /// The broadest halt that stands against it; none also where it was listed among others, and nobody looked.
    pub halt: Option<StandingHalt>,
    /// What it waits for; none: it is not suspended, or was listed among others.
    pub wait: Option<JobWait>,
}

/// A halt that stands against a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StandingHalt {
    /// Its number.
    pub id: HaltId,
    /// What it holds for.
    pub scope: String,
    /// Why it was thrown.
    pub why: String,
}

/// What a suspended job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobWait {
    /// The name of the wait.
    pub name: String,
    /// For an instant, that instant; for jobs, when the wait for them expires.
    pub until: Timestamp,
    /// How many jobs it is for; 0: for the instant.
    pub jobs: u64,
    /// How many of them have not concluded.
    pub left: u64,
    /// True where its instant passed before its jobs had concluded: a person has it go on.
    pub expired: bool,
}

/// The worker that holds a job's lease, or whose child is not known to be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The worker.
    pub worker: WorkerName,
    /// Its term.
    pub term: Term,
    /// The epoch under which the run was claimed.
    pub epoch: Epoch,
    /// When the lease was granted; none where an older coordinator does not say.
    pub granted_at: Option<Timestamp>,
    /// False where the run is settled and its child is not known to be gone.
    pub live: bool,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where the next page begins; none: this was the last.
    pub cursor: Option<String>,
}

impl Job {
    pub(crate) fn read(given: Option<v1::Job>) -> Result<Self, InvalidField> {
        let given = require("job", given)?;
        Ok(Self {
            id: read_job_id("job.id", &given.id)?,
            session_id: read_session_id("job.session_id", &given.session_id)?,
            agent: read_agent_name("job.agent", &given.agent)?,
            declaration_digest: read_digest("job.declaration_digest", &given.declaration_digest)?,
            state: read_state("job.state", given.state)?,
            state_since: read_instant("job.state_since", given.state_since.as_ref())?,
            submitted_at: read_instant("job.submitted_at", given.submitted_at.as_ref())?,
            deadline_at: read_optional_timestamp("job.deadline_at", given.deadline_at.as_ref())?,
            not_before: read_optional_timestamp("job.not_before", given.not_before.as_ref())?,
            holder: given.holder.map(Holder::read).transpose()?,
            head_hash: read_digest("job.head_hash", &given.head_hash)?,
            reason: given.reason,
            detail: given.detail,
            epoch: Epoch(given.epoch),
            run: Run(given.run),
            attempt: given.attempt,
            losses: given.losses,
            cancel_requested: given.cancel_requested,
            abandon_requested: given.abandon_requested,
            steer_requested: given.steer_requested,
            labels: given.labels.into_iter().collect(),
            head_seq: Seq(given.head_seq),
            next: given.next,
            unwinding_to: Some(given.unwinding_to)
                .filter(|state| *state != 0)
                .map(|state| read_state("job.unwinding_to", state))
                .transpose()?,
            holds_landed_work: given.holds_landed_work,
            halt: given.halt.map(|halt| StandingHalt {
                id: HaltId(halt.id),
                scope: halt.scope,
                why: halt.why,
            }),
            wait: given.wait.map(JobWait::read).transpose()?,
        })
    }
}

impl JobWait {
    fn read(given: v1::JobWait) -> Result<Self, InvalidField> {
        Ok(Self {
            until: read_instant("job.wait.until", given.until.as_ref())?,
            name: given.name,
            jobs: given.jobs,
            left: given.left,
            expired: given.expired,
        })
    }
}

impl Holder {
    fn read(given: v1::Holder) -> Result<Self, InvalidField> {
        Ok(Self {
            worker: read_worker_name("job.holder.worker", &given.worker)?,
            term: Term(given.term),
            epoch: Epoch(given.epoch),
            granted_at: read_optional_timestamp("job.holder.granted_at", given.granted_at.as_ref())?,
            live: given.live,
        })
    }
}

impl JobPage {
    pub(crate) fn read(given: v1::ListJobsResponse) -> Result<Self, InvalidField> {
        let jobs = given.jobs.into_iter().map(|job| Job::read(Some(job))).collect::<Result<_, _>>()?;
        Ok(Self { jobs, cursor: Some(given.cursor).filter(|cursor| !cursor.is_empty()) })
    }
}

/// True where nothing goes on by itself any longer: sealed, or a person is to decide.
#[must_use]
pub const fn is_at_rest(state: State) -> bool {
    match state {
        State::Ready | State::Running | State::Suspended => false,
        State::Interrupted
        | State::Succeeded
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Cancelled
        | State::Abandoned
        | State::Expired => true,
    }
}

pub(crate) fn read_instant(
    field: &'static str,
    given: Option<&prost_types::Timestamp>,
) -> Result<Timestamp, InvalidField> {
    read_timestamp(field, require(field, given)?)
}
