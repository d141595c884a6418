//! Whoever does not answer for an interruption does not pay for it: a restart draws on attempts only after an end that was the
//! child's own, or where nobody saw how the child was; a child that somebody saw well, and whose worker or guardian was lost,
//! draws on losses; a run that was moved or redirected draws on neither. And what a job's row counts is what its journal
//! granted.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};

const GRANTS: &str = "
    SELECT job, bytes FROM journal
    WHERE kind IN ('child_gone', 'run_interrupted', 'run_handed_over')
    ORDER BY tenant, job, seq";

/// Jobs on which nobody acted: a person may have them restarted as often as they want, and undoing counts anew.
const COUNTED: &str = "
    SELECT job, attempts, losses FROM jobs AS j
    WHERE NOT EXISTS (
        SELECT FROM journal AS r
        WHERE r.tenant = j.tenant AND r.job = j.job
            AND r.kind IN ('operator_acted', 'reopened', 'resumed', 'unwind_started'))
    ORDER BY job";

/// What a job's restarts drew on, as its journal says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Drawn {
    attempts: i32,
    losses: i32,
}

/// Looks at every restart that was granted without a person.
///
/// # Errors
/// The database cannot be read, or a record is not one.
pub async fn check_prices(database: &PgPool) -> Result<Vec<Finding>> {
    let rows: Vec<(Uuid, Vec<u8>)> =
        sqlx::query_as(GRANTS).fetch_all(database).await.context("reading the restarts")?;
    let mut proofs: BTreeMap<(Uuid, u64), String> = BTreeMap::new();
    let mut drawn: BTreeMap<Uuid, Drawn> = BTreeMap::new();
    // A run that was interrupted while its child was unknown is judged again by how the child turns out to have ended.
    let mut interrupted: BTreeSet<(Uuid, u64)> = BTreeSet::new();
    let mut findings = Vec::new();
    for (job, bytes) in rows {
        let record: Value = serde_json::from_slice(&bytes).context("reading a restart")?;
        let epoch = record["of_epoch"].as_u64().context("a restart of no epoch")?;
        if record["kind"] == "child_gone" {
            proofs.insert((job, epoch), record["proof"].as_str().unwrap_or_default().to_owned());
            continue;
        }
        let is_first = interrupted.insert((job, epoch));
        let Some(pays) = record["restart"]["pays"].as_str() else { continue };
        let of_job = drawn.entry(job).or_default();
        of_job.attempts += i32::from(pays == "attempt");
        of_job.losses += i32::from(pays == "loss");
        let proof = proofs.get(&(job, epoch)).map_or("", String::as_str);
        let wrong = if is_first { judge(&record, proof, pays) } else { None };
        findings.extend(
            wrong.map(|words| Finding::new(Concern::Price, job, format!("the run of epoch {epoch} {words}"))),
        );
    }
    findings.extend(compare_counts(database, &drawn).await?);
    Ok(findings)
}

/// What is wrong with what a restart draws on.
fn judge(record: &Value, proof: &str, pays: &str) -> Option<String> {
    let why = record["interruption"]["kind"].as_str();
    let wanted: &[&str] = match (why, proof) {
        (None, _) => &["hop", "run"],
        (Some("crashed" | "timed_out"), _) => &["attempt"],
        (Some(_), "guardian" | "observed") => &["loss"],
        (Some(_), _) => &["attempt"],
    };
    let why = why.unwrap_or("handed over");
    (!wanted.contains(&pays))
        .then(|| format!("was {why}, its end known by {proof:?}, and its restart draws on {pays}"))
}

async fn compare_counts(database: &PgPool, drawn: &BTreeMap<Uuid, Drawn>) -> Result<Vec<Finding>> {
    let counted: Vec<(Uuid, i32, i32)> =
        sqlx::query_as(COUNTED).fetch_all(database).await.context("reading what jobs used")?;
    let none = Drawn::default();
    let compare = |(job, attempts, losses): (Uuid, i32, i32)| {
        let granted = drawn.get(&job).unwrap_or(&none);
        let words = format!(
            "its row counts {attempts} attempts and {losses} losses, and its journal granted {} and {}",
            granted.attempts, granted.losses
        );
        (granted != &Drawn { attempts, losses }).then(|| Finding::new(Concern::Price, job, words))
    };
    Ok(counted.into_iter().filter_map(compare).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn innocents_draw_on_losses_and_whoever_answers_for_an_end_on_attempts() {
        let of = |kind: &str| json!({"interruption": {"kind": kind}});
        let moved = json!({"because": "drained"});
        let priced = [
            (of("worker_lost"), "guardian", "loss"),
            (of("lost_contact"), "observed", "loss"),
            (of("lost_contact"), "term_lapsed", "attempt"),
            (of("crashed"), "observed", "attempt"),
            (of("crashed"), "guardian", "attempt"),
            (of("timed_out"), "observed", "attempt"),
            (moved.clone(), "observed", "run"),
            (moved, "observed", "hop"),
        ];
        for (record, proof, right) in priced {
            for pays in ["attempt", "loss", "run", "hop"] {
                let is_handed_over = record.get("because").is_some() && ["run", "hop"].contains(&pays);
                let is_right = pays == right || is_handed_over;
                assert_eq!(judge(&record, proof, pays).is_none(), is_right, "{record} {proof} {pays}");
            }
        }
    }
}
