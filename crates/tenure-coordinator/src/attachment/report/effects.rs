//! What a worker's report says about effects, from the wire: each record in its form and within its limits, and in an order
//! in which the store can write it. Whether it follows from what is recorded is the statement's to say.

use std::collections::BTreeMap;

use tenure_core::{
    effect::{Disposition, EffectAct, EffectKey, EffectMark, EffectRequest},
    id::Seq,
    limits::{
        EFFECT_ERROR_MAX_BYTES, EFFECT_OUTPUT_MAX_BYTES, EFFECT_REQUEST_MAX_BYTES, KEY_MAX_BYTES,
        UNASKED_KEYS_MAX,
    },
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind},
    refusal::Refusal,
    settlement::Unasked,
};
use tenure_proto::{
    convert::{
        InvalidField,
        effect::{read_compensation, read_disposition, read_effect_key, read_recovery, read_request_digest},
    },
    v1::{self, new_record},
};

use crate::mint::salt_value;

/// Takes the last notice that the writer of an announcement has seen out of it: it changes when the report is sent again.
/// None where nothing is announced.
pub(super) fn take_last_notice(records: &mut [v1::NewRecord]) -> Result<Option<Seq>, Refusal> {
    let last = records.len().saturating_sub(1);
    let mut seen = None;
    for (place, record) in records.iter_mut().enumerate() {
        if let Some(new_record::Kind::EffectStarted(started)) = &mut record.kind {
            if place != last {
                return Err(refuse("an announcement is taken only as the last record of an append"));
            }
            seen = Some(Seq(std::mem::take(&mut started.last_notice_seq)));
        }
    }
    Ok(seen)
}

pub(super) fn read_started(started: v1::NewEffectStarted) -> Result<Draft, Refusal> {
    let (key, attempt) = read_attempt(&started.key, started.attempt)?;
    let recovery = read_recovery("effect_started.recovery", started.recovery)?
        .ok_or(InvalidField::Missing { field: "effect_started.recovery" })?;
    let compensation = read_compensation("effect_started.compensation", started.compensation)?;
    let request = started.request.to_vec();
    if request.len() > EFFECT_REQUEST_MAX_BYTES {
        let words = format!(
            "the command of effect {key:?} has {} bytes with its undo and probe, and at most \
             {EFFECT_REQUEST_MAX_BYTES} are taken",
            request.len()
        );
        return Err(Refusal::new(Reason::EffectTooLarge, words).with_detail("key", &key));
    }
    if let Err(error) = EffectRequest::parse(&request) {
        let words = format!("what is announced of effect {key:?} cannot be read as its command: {error}");
        return Err(refuse(&words).with_detail("field", "request"));
    }
    let digest = read_request_digest("effect_started.request_digest", &started.request_digest)?;
    let tool = if started.tool.is_empty() { key.tool().to_owned() } else { started.tool };
    if tool.len() > KEY_MAX_BYTES || tool.chars().any(char::is_control) {
        let words = format!(
            "the tool of effect {key:?} has {} bytes, and at most {KEY_MAX_BYTES} without control characters are taken",
            tool.len()
        );
        return Err(refuse(&words).with_detail("field", "tool"));
    }
    let mutates = started.mutates;
    let draft = Draft::with_value(salt_value(request), |request| RecordKind::EffectStarted {
        key,
        attempt,
        recovery,
        mutates,
        tool,
        compensation,
        request,
    });
    Ok(Draft { request: Some(digest), ..draft })
}

pub(super) fn read_done(done: v1::NewEffectDone) -> Result<Draft, Refusal> {
    let (key, attempt) = read_attempt(&done.key, done.attempt)?;
    let output = check_size(&key, "output", done.output.to_vec(), EFFECT_OUTPUT_MAX_BYTES)?;
    let truncated = done.truncated;
    Ok(Draft::with_value(salt_value(output), |output| RecordKind::EffectDone {
        key,
        attempt,
        output,
        truncated,
    }))
}

pub(super) fn read_failed(failed: v1::NewEffectFailed) -> Result<Draft, Refusal> {
    let (key, attempt) = read_attempt(&failed.key, failed.attempt)?;
    let disposition = read_disposition("effect_failed.disposition", failed.disposition)?
        .ok_or(InvalidField::Missing { field: "effect_failed.disposition" })?;
    let error = check_size(&key, "error", failed.error.to_vec(), EFFECT_ERROR_MAX_BYTES)?;
    let exit_code = failed.exit_code;
    Ok(Draft::with_value(salt_value(error), |error| RecordKind::EffectFailed {
        key,
        attempt,
        disposition,
        exit_code,
        error,
    }))
}

pub(super) fn read_reconciled(reconciled: v1::NewEffectReconciled, by: Principal) -> Result<Draft, Refusal> {
    let (key, attempt) = read_attempt(&reconciled.key, reconciled.attempt)?;
    let verdict = read_disposition("effect_reconciled.verdict", reconciled.verdict)?
        .ok_or(InvalidField::Missing { field: "effect_reconciled.verdict" })?;
    let record = |value| RecordKind::EffectReconciled { key: key.clone(), attempt, verdict, by, value };
    match reconciled.value {
        None => Ok(Draft::bare(record(None))),
        Some(value) => {
            let value = check_size(&key, "value", value.to_vec(), EFFECT_OUTPUT_MAX_BYTES)?;
            Ok(Draft::with_value(salt_value(value), |value| record(Some(value))))
        }
    }
}

/// A key occurs once in an append; or twice, where the announcement of the next attempt follows on the verdict that the one
/// before did not happen, with nothing about another effect between them. That verdict lets the effect be performed again, so it
/// is taken only so.
pub(super) fn check_order(drafts: &[Draft]) -> Result<(), Refusal> {
    let mut before: BTreeMap<EffectKey, EffectMark> = BTreeMap::new();
    let mut previous: Option<EffectMark> = None;
    for mark in drafts.iter().filter_map(|draft| draft.kind.effect_mark(draft.request)) {
        let follows = previous.as_ref().is_some_and(|previous| lets_announce(previous, &mark));
        if before.contains_key(&mark.key) && !follows {
            let words = format!("the append speaks of effect {:?} more than once", mark.key);
            return Err(refuse(&words).with_detail("key", &mark.key));
        }
        previous = Some(mark.clone());
        before.insert(mark.key.clone(), mark);
    }
    let alone = before.values().find(|last| last.act == EffectAct::Reconciled(Disposition::DidNotHappen));
    alone.map_or(Ok(()), |mark| {
        let words = format!(
            "that attempt {} of effect {:?} did not happen is taken only together with the announcement of the next",
            mark.attempt, mark.key
        );
        Err(refuse(&words).with_detail("key", &mark.key))
    })
}

fn lets_announce(before: &EffectMark, mark: &EffectMark) -> bool {
    before.key == mark.key
        && before.act == EffectAct::Reconciled(Disposition::DidNotHappen)
        && matches!(mark.act, EffectAct::Announced { .. })
        && before.attempt.checked_add(1) == Some(mark.attempt)
}

/// The keys that a run did not ask for; none where there are none.
pub(super) fn read_unasked(keys: Vec<String>, count: u64) -> Result<Option<Unasked>, Refusal> {
    if keys.is_empty() {
        return Ok(None);
    }
    if keys.len() > UNASKED_KEYS_MAX || count < keys.len() as u64 {
        let words = format!(
            "{} keys that were not asked for were named of {count}, and at most {UNASKED_KEYS_MAX} are taken",
            keys.len()
        );
        return Err(refuse(&words).with_detail("field", "unasked_keys"));
    }
    let keys = keys.iter().map(|key| read_effect_key("unasked_keys", key)).collect::<Result<_, _>>()?;
    Ok(Some(Unasked { keys, count }))
}

fn read_attempt(key: &str, attempt: u32) -> Result<(EffectKey, u32), Refusal> {
    let key = read_effect_key("key", key)?;
    if attempt == 0 {
        return Err(refuse("attempts are counted from 1, and attempt 0 was named").with_detail("key", &key));
    }
    Ok((key, attempt))
}

fn check_size(key: &EffectKey, what: &str, value: Vec<u8>, max_bytes: usize) -> Result<Vec<u8>, Refusal> {
    if value.len() > max_bytes {
        let words = format!(
            "the {what} of effect {key:?} has {} bytes, and at most {max_bytes} are taken",
            value.len()
        );
        return Err(refuse(&words).with_detail("field", what));
    }
    Ok(value)
}

fn refuse(words: &str) -> Refusal {
    Refusal::new(Reason::InvalidArgument, words)
}
