//! Whether a resume was honest, from what the database says. Each thing that must hold is looked at by itself, and all that
//! did not hold are told. Neighbours: `checker`, whose chain check this uses; `backstop`.

use std::fmt::Display;

use anyhow::{Context as _, Result};
use tenure_core::{
    effect::EffectKey,
    id::Epoch,
    job::State,
    record::{Record, RecordKind},
};

use super::{CrashPoint, RebuiltJob, backstop::read_stopped};
use crate::check_chains;

/// How a coordinator words its refusal of what the journal does not admit.
const REFUSED: &str = "does not follow from what is recorded";

/// The records that came after the crash.
const AFTER: &str = "SELECT bytes FROM journal WHERE tenant = $1 AND job = $2 AND seq > $3 ORDER BY seq";

/// What the runs after the crash wrote.
const OUTPUT: &str =
    "SELECT bytes FROM output WHERE tenant = $1 AND job = $2 AND run > $3 ORDER BY run, chunk";

/// What the job gave to agents.
const GIVEN: &str = "SELECT key_hash, child FROM sends WHERE tenant = $1 AND job = $2";

/// Panics, naming the point, unless the resume was honest: the chain verifies; the unique index of announcements never was what
/// stopped the run, nor the check before it; an error is there only where the prefix froze no plan; the job is quarantined only
/// where an effect was in flight; the resume claimed one epoch higher; nothing that was done was announced again; and what had been
/// given to agents before was not given again: where it ends as the original did, it gave what the original gave.
///
/// `result` is what the resume came to: mostly what [`RebuiltJob::wait_for_rest`] returned.
///
/// # Panics
/// It was not, or the database cannot be read.
#[expect(clippy::panic, reason = "a test whose resume was not honest has failed")]
pub async fn assert_resumed_honestly<E: Display>(
    point: &CrashPoint,
    job: &RebuiltJob,
    result: &Result<State, E>,
) {
    match list_dishonesties(point, job, result).await {
        Ok(found) if found.is_empty() => {}
        Ok(found) => panic!("{point} was not resumed honestly: {}", found.join("; ")),
        Err(error) => panic!("{point} cannot be judged: {error:#}"),
    }
}

/// The same, for whoever counts: everything that was not honest, in words.
///
/// # Errors
/// The database cannot be read.
pub async fn list_dishonesties<E: Display>(
    point: &CrashPoint,
    job: &RebuiltJob,
    result: &Result<State, E>,
) -> Result<Vec<String>> {
    let mut found: Vec<String> =
        check_chains(&job.pool).await?.iter().map(|finding| format!("the chain: {finding}")).collect();
    if let Some(stopped) = read_stopped(&job.pool).await? {
        found.push(format!(
            "the unique index {} was what stopped an announcement ({} times): the read-back did not hold",
            stopped.index, stopped.times
        ));
    }
    let after = read_after(job).await?;
    found.extend(judge_result(point, result));
    found.extend(judge_claim(job.epoch, &after));
    let ended_alike = result.as_ref().is_ok_and(|state| *state == job.original.job.state);
    found.extend(judge_gifts(point, job, ended_alike).await?);
    found.extend(point.done().iter().filter_map(|done| judge_repeated(&done.key, &after)));
    if says_refused(job, &after).await? {
        found
            .push("a run was refused what the journal does not admit: the read-back did not hold".to_owned());
    }
    Ok(found)
}

fn judge_result<E: Display>(point: &CrashPoint, result: &Result<State, E>) -> Option<String> {
    match result {
        Err(error) if point.froze_a_plan() => {
            Some(format!("it ended with an error, although a plan was frozen: {error}"))
        }
        Ok(State::Quarantined) if !point.in_flight().iter().any(|effect| effect.last.mutates) => {
            Some("it was quarantined, and no effect was in flight".to_owned())
        }
        Ok(_) | Err(_) => None,
    }
}

/// The first claim after the crash.
fn judge_claim(left: Epoch, after: &[Record]) -> Option<String> {
    let claim = after.iter().find(|record| matches!(record.kind, RecordKind::RunStarted { .. }))?;
    (claim.epoch != left.next())
        .then(|| format!("it was claimed under epoch {}, and the crash left epoch {left}", claim.epoch))
}

fn judge_repeated(done: &EffectKey, after: &[Record]) -> Option<String> {
    let again =
        |record: &&Record| matches!(&record.kind, RecordKind::EffectStarted { key, .. } if key == done);
    let again = after.iter().find(again)?;
    Some(format!("{done} was done, and record {} announces it again", again.seq))
}

/// What was given before the crash is the same job still, and nothing was given besides what the original gave.
async fn judge_gifts(point: &CrashPoint, job: &RebuiltJob, ended_alike: bool) -> Result<Vec<String>> {
    let rows: Vec<(Vec<u8>, uuid::Uuid)> = sqlx::query_as(GIVEN)
        .bind(job.tenant.as_str())
        .bind(job.job.0)
        .fetch_all(&job.pool)
        .await
        .context("reading what the job gave")?;
    let mut found = Vec::new();
    for gift in &job.original.gifts {
        let given = rows.iter().find(|(hash, _)| hash[..] == gift.key_hash().0);
        let was_given = gift.seq.0 <= point.appended as u64;
        match given {
            None if was_given || ended_alike => {
                found.push(format!("what record {} of the original gave was not given", gift.seq));
            }
            Some((_, child)) if was_given && *child != gift.child().0 => {
                found.push(format!("what record {} gave was given again, to job {child}", gift.seq));
            }
            None | Some(_) => {}
        }
    }
    if ended_alike && rows.len() != job.original.gifts.len() {
        let (given, all) = (rows.len(), job.original.gifts.len());
        found.push(format!("it gave {given} times, and the original {all} times"));
    }
    Ok(found)
}

async fn read_after(job: &RebuiltJob) -> Result<Vec<Record>> {
    let rows: Vec<(Vec<u8>,)> = sqlx::query_as(AFTER)
        .bind(job.tenant.as_str())
        .bind(job.job.0)
        .bind(i64::try_from(job.appended)?)
        .fetch_all(&job.pool)
        .await
        .context("reading what came after the crash")?;
    rows.iter().map(|(bytes,)| serde_json::from_slice(bytes).context("reading a record")).collect()
}

/// Whether a run says that it was refused: a handler in its error, a program on what it printed.
async fn says_refused(job: &RebuiltJob, after: &[Record]) -> Result<bool> {
    let is_refused = |record: &Record| match &record.kind {
        RecordKind::RunInterrupted { interruption, .. } => interruption.sentence().contains(REFUSED),
        _ => false,
    };
    let first = after.iter().map(|record| record.run.0).filter(|run| *run > 0).min().unwrap_or(u32::MAX);
    let chunks: Vec<(Vec<u8>,)> = sqlx::query_as(OUTPUT)
        .bind(job.tenant.as_str())
        .bind(job.job.0)
        .bind(i32::try_from(first).unwrap_or(i32::MAX).saturating_sub(1))
        .fetch_all(&job.pool)
        .await
        .context("reading what the runs after the crash wrote")?;
    let written: Vec<u8> = chunks.into_iter().flat_map(|(bytes,)| bytes).collect();
    Ok(after.iter().any(is_refused) || String::from_utf8_lossy(&written).contains(REFUSED))
}
