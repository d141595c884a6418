//! What a caller wants performed, read and checked before anything is asked of anybody. Secrets are redacted here, because
//! what is read here is what is recorded. It decides nothing about the effect's past.

use std::time::Duration;

use bytes::Bytes;
use tenure_core::{
    effect::{
        Compensation, CompensationCall, Declared, Disposition, EffectKey, EffectRecovery, EffectRequest,
        UNDO_PREFIX,
    },
    id::Digest,
    limits,
    reason::Reason,
    record::Phase,
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        effect::{
            read_compensation, read_disposition, read_effect_key, read_recovery, write_compensation,
            write_recovery,
        },
        time::read_duration,
    },
    v1,
};

use crate::runner::Redactor;

/// What is to be performed, and how it is to be treated.
#[derive(Debug)]
pub(super) struct EffectPlan {
    pub(super) key: EffectKey,
    pub(super) declared: Declared,
    /// What a failure means for the world.
    pub(super) on_failure: Disposition,
    /// Least that must be left of the lease.
    pub(super) min_lease: Duration,
    /// True where another command under the key is refused.
    pub(super) bind: bool,
    /// True where it is only looked up, by a run that undoes.
    pub(super) settles: bool,
    /// SHA-256 of the command.
    pub(super) digest: Digest,
    tool: String,
    /// Command, undo and probe as JSON.
    request: Bytes,
}

impl EffectPlan {
    /// Reads what the caller announces, in a run that works in this direction.
    pub(super) fn read(
        given: &v1::AnnounceEffect,
        redactor: &Redactor,
        ttl: Duration,
        phase: Phase,
    ) -> Result<Self, Refusal> {
        let key = read_effect_key("key", &given.key)?;
        ensure_direction(&key, phase, given.settle_only)?;
        let tool = if given.tool.is_empty() { key.tool().to_owned() } else { given.tool.clone() };
        // A tool is a text of the same form.
        read_effect_key("tool", &tool)?;
        ensure_unredacted("key", &given.key, redactor)?;
        ensure_unredacted("tool", &tool, redactor)?;
        // It is carried out from the record, which has no secret: it would undo nothing.
        ensure_unredacted("undo", &given.undo, redactor)?;
        if given.command.is_empty() != given.settle_only {
            return Err(invalid(
                "command",
                "an effect names a command exactly where it is not only looked up",
            ));
        }
        let declared = read_declared(given)?;
        if given.settle_only && declared.recovery != EffectRecovery::Probe {
            return Err(invalid("recovery", "only what has a probe is looked up"));
        }
        if declared.compensation == Compensation::Undo {
            // Where it is undone, its probe says whether it still stands: it too is carried out from the record.
            ensure_unredacted("probe", &given.probe, redactor)?;
            key.undo_key().map_err(|_| {
                let most = limits::KEY_MAX_BYTES - UNDO_PREFIX.len();
                invalid("key", format!("the key of an effect that can be undone has at most {most} bytes"))
            })?;
        }
        let on_failure = match read_disposition("on_failure", given.on_failure)? {
            Some(said) => said,
            None if declared.mutates => Disposition::InDoubt,
            None => Disposition::DidNotHappen,
        };
        let command: Vec<String> = given.command.iter().map(|word| redactor.redact_text(word)).collect();
        let request = compose_request(&command, given, redactor)?;
        let min_lease = match &given.min_lease {
            Some(given) => read_duration("min_lease", given)?,
            None => limits::EFFECT_MIN_LEASE.min(ttl / 4),
        };
        let digest = Digest::of(&serde_json::to_vec(&command).map_err(unwritable)?);
        Ok(Self {
            key,
            declared,
            on_failure,
            min_lease,
            bind: given.bind,
            settles: given.settle_only,
            digest,
            tool,
            request,
        })
    }

    /// The announcement of an attempt, by whoever has seen the notices up to a seq.
    pub(super) fn compose_announcement(&self, attempt: u32, last_notice_seq: u64) -> v1::NewEffectStarted {
        v1::NewEffectStarted {
            key: self.key.to_string(),
            attempt,
            recovery: write_recovery(self.declared.recovery).into(),
            mutates: self.declared.mutates,
            tool: self.tool.clone(),
            compensation: write_compensation(self.declared.compensation).into(),
            request: self.request.clone(),
            request_digest: Bytes::copy_from_slice(&self.digest.0),
            last_notice_seq,
        }
    }
}

/// The keys of undoing are the fleet's own, and a run that undoes does nothing else.
fn ensure_direction(key: &EffectKey, phase: Phase, settles: bool) -> Result<(), Refusal> {
    match (phase, key.is_undo() != settles) {
        (Phase::Forward, _) if settles => {
            Err(invalid("settle_only", "only a run that undoes looks up what an earlier one announced"))
        }
        (Phase::Forward, false) | (Phase::Compensating, true) => Ok(()),
        (Phase::Forward, true) => {
            let said = format!(
                "the effect's key begins with `{UNDO_PREFIX}`, and such keys name the undoing of effects"
            );
            Err(invalid("key", said))
        }
        (Phase::Compensating, false) => {
            Err(invalid("key", "this run undoes what its job has done, and performs nothing else"))
        }
    }
}

fn read_declared(given: &v1::AnnounceEffect) -> Result<Declared, Refusal> {
    let mutates = !given.read_only;
    let recovery = match read_recovery("recovery", given.recovery)? {
        Some(said) => said,
        None if mutates => EffectRecovery::Ask,
        None => EffectRecovery::Retry,
    };
    if !mutates && !recovery.performs_again() {
        let said = format!(
            "an effect that changes nothing is performed again, and `{}` is for one that changes something",
            recovery.word()
        );
        return Err(invalid("recovery", said));
    }
    if (recovery == EffectRecovery::Probe) == given.probe.is_empty() {
        return Err(invalid("probe", "a probe is given exactly where the recovery is `probe`"));
    }
    let compensation = read_compensation("compensation", given.compensation)?;
    let ways = usize::from(!given.undo.is_empty()) + usize::from(given.undo_by.is_some());
    if ways != usize::from(compensation == Compensation::Undo) {
        return Err(invalid(
            "undo",
            "what undoes it is given exactly where the compensation is `undo`: a command, or a function by its name",
        ));
    }
    Ok(Declared { recovery, mutates, compensation })
}

fn compose_request(
    command: &[String],
    given: &v1::AnnounceEffect,
    redactor: &Redactor,
) -> Result<Bytes, Refusal> {
    let given_text = |text: &str| (!text.is_empty()).then(|| redactor.redact_text(text));
    let request = EffectRequest {
        command: command.to_vec(),
        undo: given_text(&given.undo),
        compensation: given.undo_by.as_ref().map(|call| CompensationCall {
            name: call.name.clone(),
            arguments: redactor.redact_text(&call.arguments),
        }),
        probe: given_text(&given.probe),
    };
    let request = serde_json::to_vec(&request).map_err(unwritable)?;
    let (size, limit) = (request.len(), limits::EFFECT_REQUEST_MAX_BYTES);
    if size > limit {
        let said =
            format!("the effect's command, undo and probe have {size} bytes together, and {limit} are taken");
        return Err(Refusal::new(Reason::EffectTooLarge, said)
            .with_detail("size_bytes", size)
            .with_detail("limit_bytes", limit));
    }
    Ok(request.into())
}

/// What everybody may read cannot contain a secret, and two keys that differ in one alone must not become the same.
fn ensure_unredacted(field: &'static str, given: &str, redactor: &Redactor) -> Result<(), Refusal> {
    if redactor.redact_text(given) == given {
        return Ok(());
    }
    Err(invalid(field, format!("the effect's {field} contains the value of a secret")))
}

fn invalid(field: &'static str, said: impl Into<String>) -> Refusal {
    Refusal::new(Reason::InvalidArgument, said).with_detail("field", field)
}

fn unwritable(error: serde_json::Error) -> Refusal {
    Refusal::new(Reason::Internal, format!("the effect's command cannot be written as JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announce() -> v1::AnnounceEffect {
        v1::AnnounceEffect {
            key: "mail/1".to_owned(),
            command: vec!["send".to_owned()],
            ..Default::default()
        }
    }

    fn read(given: &v1::AnnounceEffect) -> Result<EffectPlan, Refusal> {
        let redactor = Redactor::new([("TOKEN".to_owned(), "s3cret".to_owned())]).unwrap();
        EffectPlan::read(given, &redactor, Duration::from_secs(5), Phase::Forward)
    }

    #[test]
    fn what_is_left_unsaid_is_the_careful_thing() {
        let plan = read(&announce()).unwrap();
        assert_eq!((plan.declared.recovery, plan.declared.mutates), (EffectRecovery::Ask, true));
        assert_eq!((plan.on_failure, plan.tool.as_str()), (Disposition::InDoubt, "mail"));
        assert_eq!(plan.min_lease, Duration::from_millis(1_250), "a quarter of the ttl");
        let plan = read(&v1::AnnounceEffect { read_only: true, ..announce() }).unwrap();
        assert_eq!(
            (plan.declared.recovery, plan.on_failure),
            (EffectRecovery::Retry, Disposition::DidNotHappen)
        );
    }

    #[test]
    fn secrets_are_not_recorded_and_do_not_tell_commands_apart() {
        let with =
            |secret: &str| v1::AnnounceEffect { command: vec![format!("--token={secret}")], ..announce() };
        let plan = read(&with("s3cret")).unwrap();
        assert_eq!(plan.request, r#"{"command":["--token=[redacted:TOKEN]"]}"#);
        assert_eq!(plan.digest, Digest::of(br#"["--token=[redacted:TOKEN]"]"#));
        assert_ne!(plan.digest, read(&with("other")).unwrap().digest);
        let named = v1::AnnounceEffect { key: "mail/s3cret".to_owned(), ..announce() };
        assert_eq!(read(&named).unwrap_err().details["field"], "key");
        let undo = v1::AnnounceEffect {
            compensation: v1::EffectCompensation::Undo.into(),
            undo: "unsend --token=s3cret".to_owned(),
            ..announce()
        };
        assert_eq!(read(&undo).unwrap_err().details["field"], "undo", "it would be recorded without it");
    }

    #[test]
    fn what_contradicts_itself_is_refused_by_its_field() {
        let probe = v1::EffectRecovery::Probe.into();
        let cases = [
            ("key", v1::AnnounceEffect { key: String::new(), ..announce() }),
            ("tool", v1::AnnounceEffect { tool: "a\nb".to_owned(), ..announce() }),
            ("command", v1::AnnounceEffect { command: Vec::new(), ..announce() }),
            ("probe", v1::AnnounceEffect { recovery: probe, ..announce() }),
            ("probe", v1::AnnounceEffect { probe: "true".to_owned(), ..announce() }),
            ("undo", v1::AnnounceEffect { undo: "true".to_owned(), ..announce() }),
            ("recovery", v1::AnnounceEffect { read_only: true, recovery: probe, ..announce() }),
            ("recovery", v1::AnnounceEffect { recovery: 99, ..announce() }),
        ];
        for (field, given) in cases {
            let refusal = read(&given).unwrap_err();
            assert_eq!((refusal.reason, refusal.details["field"].as_str()), (Reason::InvalidArgument, field));
        }
    }

    #[test]
    fn keys_of_undoing_are_taken_by_a_run_that_undoes_and_by_no_other() {
        let undoing = v1::AnnounceEffect { key: "undo:mail/1".to_owned(), ..announce() };
        let redactor = Redactor::default();
        let read_in = |given: &v1::AnnounceEffect, phase| {
            EffectPlan::read(given, &redactor, Duration::from_secs(5), phase).map(|plan| plan.key.to_string())
        };
        assert_eq!(read_in(&undoing, Phase::Compensating), Ok("undo:mail/1".to_owned()));
        for (given, phase) in [(&undoing, Phase::Forward), (&announce(), Phase::Compensating)] {
            assert_eq!(read_in(given, phase).unwrap_err().details["field"], "key", "{phase:?}");
        }
    }

    #[test]
    fn only_a_run_that_undoes_looks_up_what_was_announced_and_only_by_a_probe() {
        let settling = v1::AnnounceEffect {
            command: Vec::new(),
            recovery: v1::EffectRecovery::Probe.into(),
            probe: "sent".to_owned(),
            settle_only: true,
            ..announce()
        };
        let redactor = Redactor::default();
        let read_in = |given: &v1::AnnounceEffect, phase| {
            EffectPlan::read(given, &redactor, Duration::from_secs(5), phase).map(|plan| plan.settles)
        };
        assert_eq!(read_in(&settling, Phase::Compensating), Ok(true));
        let retried = v1::EffectRecovery::Retry.into();
        for (field, phase, given) in [
            ("settle_only", Phase::Forward, settling.clone()),
            (
                "key",
                Phase::Compensating,
                v1::AnnounceEffect { key: "undo:mail/1".into(), ..settling.clone() },
            ),
            (
                "command",
                Phase::Compensating,
                v1::AnnounceEffect { command: vec!["send".into()], ..settling.clone() },
            ),
            (
                "recovery",
                Phase::Compensating,
                v1::AnnounceEffect { recovery: retried, probe: String::new(), ..settling.clone() },
            ),
        ] {
            assert_eq!(read_in(&given, phase).unwrap_err().details["field"], field);
        }
    }

    #[test]
    fn what_is_undone_from_the_record_has_no_secret_in_it_and_a_key_with_room_for_another() {
        let undone = v1::AnnounceEffect {
            compensation: v1::EffectCompensation::Undo.into(),
            undo: "unsend".to_owned(),
            ..announce()
        };
        let probed = v1::AnnounceEffect {
            recovery: v1::EffectRecovery::Probe.into(),
            probe: "sent --token=s3cret".to_owned(),
            ..undone.clone()
        };
        assert_eq!(read(&probed).unwrap_err().details["field"], "probe");
        let long = |bytes: usize| v1::AnnounceEffect { key: "k".repeat(bytes), ..undone.clone() };
        assert_eq!(read(&long(508)).unwrap_err().details["field"], "key");
        assert!(read(&long(507)).is_ok());
    }

    #[test]
    fn a_command_that_is_too_large_is_refused_with_both_numbers() {
        let command = vec!["x".repeat(limits::EFFECT_REQUEST_MAX_BYTES)];
        let refusal = read(&v1::AnnounceEffect { command, ..announce() }).unwrap_err();
        assert_eq!(refusal.reason, Reason::EffectTooLarge);
        assert_eq!(refusal.details["limit_bytes"], "65536");
    }
}
