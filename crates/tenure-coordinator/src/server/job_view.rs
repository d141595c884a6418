//! A job and its records as callers see them. Neighbours: `job_service` and its streams; the words of states are in
//! `tenure-proto`.

use jiff::Timestamp;
use tenure_core::{halt::StandingHalt, job::State, plan::LeaseFacts, wait::WaitFacts};
use tenure_proto::{
    convert::{state::write_state, time::write_timestamp},
    v1,
};
use tenure_store::{JobRow, StoredRecord};

/// A job as it goes onto the wire.
pub(crate) fn write_job(row: JobRow) -> v1::Job {
    let (next, now) = (next_commands(&row), row.now);
    v1::Job {
        id: row.job.to_string(),
        session_id: row.session.to_string(),
        agent: row.agent.to_string(),
        declaration_digest: row.declaration.0.to_vec().into(),
        state: write_state(row.state).into(),
        state_since: Some(write_timestamp(row.state_since)),
        reason: row.reason.unwrap_or_default(),
        detail: row.detail.unwrap_or_default(),
        submitted_at: Some(write_timestamp(row.submitted_at)),
        deadline_at: row.deadline_at.map(write_timestamp),
        not_before: row.not_before.map(write_timestamp),
        epoch: row.head_epoch.0,
        run: row.run.0,
        attempt: row.attempts.saturating_add(row.losses).saturating_add(1),
        losses: row.losses,
        cancel_requested: row.cancel_requested.is_some() && !row.state.is_sealed(),
        abandon_requested: row.lease.as_ref().is_some_and(|lease| lease.abandon.is_some()),
        steer_requested: row.lease.as_ref().is_some_and(|lease| lease.steer.is_some()),
        holder: row.lease.map(write_holder),
        labels: row.labels.into_iter().collect(),
        head_seq: row.head.seq.0,
        head_hash: row.head.hash.0.to_vec().into(),
        next,
        unwinding_to: row.unwinding.map_or(0, |unwinding| write_state(unwinding.state()).into()),
        holds_landed_work: row.holds_landed_work,
        halt: row.halt.map(write_standing_halt),
        wait: row.wait.map(|wait| write_job_wait(&wait, now)),
    }
}

fn next_commands(row: &JobRow) -> Vec<String> {
    let unaccounted = row.lease.as_ref().filter(|lease| !lease.live).map(|lease| lease.run_epoch);
    let asked =
        row.cancel_requested.is_some() || row.lease.as_ref().is_some_and(|lease| lease.abandon.is_some());
    let commands =
        tenure_core::job::next_commands(row.job, row.state, unaccounted, asked, row.unwinding.is_some());
    // What a halt keeps waiting goes on when it is lifted.
    let halt = row.halt.as_ref().filter(|_| matches!(row.state, State::Ready | State::Withheld));
    let lift = halt.map(StandingHalt::lift_command);
    let expired = row.wait.as_ref().is_some_and(|wait| wait.has_expired(row.now));
    let resume = expired.then(|| format!("tenure resume {} --why W", row.job.short()));
    lift.into_iter().chain(resume).chain(commands).collect()
}

fn write_standing_halt(halt: StandingHalt) -> v1::StandingHalt {
    v1::StandingHalt { id: halt.id.0, scope: halt.scope.to_string(), why: halt.why }
}

fn write_job_wait(wait: &WaitFacts, now: Timestamp) -> v1::JobWait {
    v1::JobWait {
        name: wait.name.as_str().to_owned(),
        until: Some(write_timestamp(wait.until)),
        jobs: wait.jobs,
        left: wait.left,
        expired: wait.has_expired(now),
    }
}

fn write_holder(lease: LeaseFacts) -> v1::Holder {
    v1::Holder {
        worker: lease.worker.to_string(),
        term: lease.term.0,
        epoch: lease.run_epoch.0,
        granted_at: Some(write_timestamp(lease.granted_at)),
        live: lease.live,
    }
}

/// A record as it goes onto the wire: the stored bytes, never serialised anew.
pub(crate) fn write_record(stored: StoredRecord) -> v1::Record {
    v1::Record {
        seq: stored.seq.0,
        bytes: stored.bytes.into(),
        hash: stored.hash.0.to_vec().into(),
        value: stored.value.map(Into::into),
        salt: stored.salt.map(Into::into),
        stored_at: Some(write_timestamp(stored.stored_at)),
        kind: stored.kind,
    }
}
