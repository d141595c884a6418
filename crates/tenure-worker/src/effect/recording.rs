//! What is recorded once an attempt is over: its output or its error, redacted and cut to their limits. Whoever waits for a
//! record waits until it is durable; where the caller leaves meanwhile the record is waited for all the same, so that
//! nobody is told about the effect from a journal that does not have it yet.

use bytes::Bytes;
use tenure_core::{
    effect::Disposition,
    limits::{EFFECT_ERROR_MAX_BYTES, EFFECT_OUTPUT_MAX_BYTES},
};
use tenure_proto::{
    convert::effect::{read_disposition, write_disposition},
    v1::{EffectCommandEnded, NewEffectDone, NewEffectFailed, new_record::Kind},
};

use super::{answer::Answer, caller::Stop, performance::Performance};
use crate::{journal::Report, runner::Redactor};

/// How a command ended, as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EndedCommand {
    exit_code: Option<i32>,
    output: Bytes,
    truncated: bool,
    error: Bytes,
    not_started: bool,
    /// What became of the world, where the caller says it.
    disposition: Option<Disposition>,
}

impl EndedCommand {
    /// Reads what the caller says.
    pub(super) fn read(given: EffectCommandEnded, redactor: &Redactor) -> Self {
        let (output, truncated) =
            cut_output(redactor, &given.output, given.truncated, EFFECT_OUTPUT_MAX_BYTES);
        Self {
            exit_code: given.exit_code,
            output,
            truncated,
            error: cut_error(redactor, &given.error),
            not_started: given.not_started,
            // What this release does not know says nothing.
            disposition: read_disposition("ended.disposition", given.disposition).ok().flatten(),
        }
    }

    /// True where it ran and exited with 0.
    pub(super) fn succeeded(&self) -> bool {
        !self.not_started && self.exit_code == Some(0)
    }

    /// What became of the world, where it failed: what never started did not happen; else the caller's word goes before what
    /// was declared.
    pub(super) fn judge(&self, on_failure: Disposition) -> Option<Disposition> {
        match (self.not_started, self.exit_code) {
            (true, _) => Some(Disposition::DidNotHappen),
            (false, Some(0)) => None,
            (false, _) => Some(self.disposition.unwrap_or(on_failure)),
        }
    }

    /// The last words about its failure.
    pub(super) fn to_answer(&self, attempt: u32, disposition: Disposition) -> Answer {
        Answer::failed(attempt, disposition, self.exit_code, self.error.clone())
    }
}

impl Performance<'_> {
    /// The attempt was performed.
    pub(super) async fn record_done(&mut self, attempt: u32, ended: EndedCommand) -> Result<Answer, Stop> {
        let done = NewEffectDone {
            key: self.plan.key.to_string(),
            attempt,
            output: ended.output.clone(),
            truncated: ended.truncated,
        };
        self.record(vec![Kind::EffectDone(done)]).await?;
        Ok(Answer::done(attempt, ended.output, ended.truncated))
    }

    /// The attempt failed.
    pub(super) async fn record_failed(
        &mut self,
        attempt: u32,
        disposition: Disposition,
        ended: &EndedCommand,
    ) -> Result<Answer, Stop> {
        let failed = self.compose_failed(attempt, disposition, ended.exit_code, ended.error.clone());
        self.record(vec![failed]).await?;
        Ok(ended.to_answer(attempt, disposition))
    }

    /// The attempt was announced, and nobody performed it.
    pub(super) async fn record_unperformed(&mut self, attempt: u32, why: &str) -> Result<(), Stop> {
        let why = Bytes::copy_from_slice(why.as_bytes());
        let failed = self.compose_failed(attempt, Disposition::DidNotHappen, None, why);
        self.record(vec![failed]).await
    }

    /// The same, and nobody waits for it: the run is fenced, and it can be no more than testimony.
    pub(super) fn note_unperformed(&self, attempt: u32, why: &str) {
        let why = Bytes::copy_from_slice(why.as_bytes());
        let failed = self.compose_failed(attempt, Disposition::DidNotHappen, None, why);
        let standing = &self.effects.standing;
        drop(standing.context.outbox.add_report(&standing.grant.run, Report::Effect(vec![failed])));
    }

    fn compose_failed(
        &self,
        attempt: u32,
        disposition: Disposition,
        exit_code: Option<i32>,
        error: Bytes,
    ) -> Kind {
        let disposition = write_disposition(disposition).into();
        Kind::EffectFailed(NewEffectFailed {
            key: self.plan.key.to_string(),
            attempt,
            disposition,
            exit_code,
            error,
        })
    }

    /// Records, and waits until it is durable.
    pub(super) async fn record(&mut self, records: Vec<Kind>) -> Result<(), Stop> {
        let standing = &self.effects.standing;
        let mut answer = standing.context.outbox.add_report(&standing.grant.run, Report::Effect(records));
        match self.caller.wait_for(&mut answer).await {
            Ok(answer) => {
                standing.read_durable(answer.ok())?;
                Ok(())
            }
            Err(stop) => {
                self.saying = None;
                // Whatever it is: the next who asks looks it up.
                let _ = answer.await;
                Err(stop)
            }
        }
    }
}

/// Output, redacted and cut at its limit; whether it was cut, here or before: then its end may be the beginning of a
/// secret, and that is left out.
pub(super) fn cut_output(
    redactor: &Redactor,
    given: &[u8],
    was_cut: bool,
    limit_bytes: usize,
) -> (Bytes, bool) {
    let mut redacted = if was_cut { redactor.stream().push(given) } else { redactor.redact(given) };
    let is_cut = was_cut || redacted.len() > limit_bytes;
    redacted.truncate(limit_bytes);
    (redacted.into(), is_cut)
}

/// The end of an error, redacted. One that is as long as may be was probably cut, and may begin with the end of a secret.
fn cut_error(redactor: &Redactor, given: &[u8]) -> Bytes {
    let was_cut = given.len() >= EFFECT_ERROR_MAX_BYTES;
    let redacted = Bytes::from(if was_cut { redactor.redact_end(given) } else { redactor.redact(given) });
    redacted.slice(redacted.len().saturating_sub(EFFECT_ERROR_MAX_BYTES)..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(given: EffectCommandEnded) -> EndedCommand {
        EndedCommand::read(given, &Redactor::new([("TOKEN".to_owned(), "s3cret".to_owned())]).unwrap())
    }

    #[test]
    fn only_exit_code_0_of_a_command_that_ran_is_a_success() {
        let failure = Disposition::Landed;
        let judged = |exit_code, not_started| {
            ended(EffectCommandEnded { exit_code, not_started, ..Default::default() }).judge(failure)
        };
        assert_eq!(judged(Some(0), false), None);
        assert_eq!(judged(Some(3), false), Some(failure));
        assert_eq!(judged(None, false), Some(failure), "a signal ended it");
        assert_eq!(judged(None, true), Some(Disposition::DidNotHappen), "whatever was declared");
    }

    #[test]
    fn what_the_caller_knows_of_the_world_goes_before_what_was_declared() {
        let failed = |disposition| {
            let disposition = write_disposition(disposition).into();
            ended(EffectCommandEnded { exit_code: Some(1), disposition, ..Default::default() })
        };
        for known in [Disposition::DidNotHappen, Disposition::InDoubt, Disposition::Landed] {
            assert_eq!(failed(known).judge(Disposition::InDoubt), Some(known));
        }
        let unknown = EffectCommandEnded { exit_code: Some(1), disposition: 99, ..Default::default() };
        assert_eq!(ended(unknown).judge(Disposition::Landed), Some(Disposition::Landed));
    }

    #[test]
    fn the_part_of_a_secret_at_a_cut_is_not_kept() {
        let output = [&vec![b'x'; EFFECT_OUTPUT_MAX_BYTES - 5][..], b"s3cre"].concat();
        let error = [b"cret", &vec![b'y'; EFFECT_ERROR_MAX_BYTES - 4][..]].concat();
        let given = EffectCommandEnded { output: output.into(), error: error.into(), ..Default::default() };
        let read = ended(EffectCommandEnded { truncated: true, ..given.clone() });
        assert_eq!((read.output.len(), read.truncated), (EFFECT_OUTPUT_MAX_BYTES - 5, true));
        assert!(read.error.starts_with(b"ted]yyy"), "the mark takes room too: {:?}", read.error.slice(..20));
        let read = ended(given);
        assert!(read.output.ends_with(b"s3cre") && !read.truncated, "a whole output ends as it ends");
    }

    #[test]
    fn output_is_redacted_before_it_is_cut_and_of_an_error_the_end_is_kept() {
        let output = [&b"s3cret"[..], &vec![b'x'; EFFECT_OUTPUT_MAX_BYTES - 6]].concat();
        let error = [&vec![b'y'; EFFECT_ERROR_MAX_BYTES][..], b"s3cret"].concat();
        let read =
            ended(EffectCommandEnded { output: output.into(), error: error.into(), ..Default::default() });
        assert!(read.output.starts_with(b"[redacted:TOKEN]xxx"));
        assert_eq!((read.output.len(), read.truncated), (EFFECT_OUTPUT_MAX_BYTES, true));
        assert!(read.error.ends_with(b"yyy[redacted:TOKEN]"));
        assert_eq!(read.error.len(), EFFECT_ERROR_MAX_BYTES);
    }
}
