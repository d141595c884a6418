//! The last words to a caller: the effect was done, or it failed; by this call, or as it is recorded.

use bytes::Bytes;
use tenure_core::effect::Disposition;
use tenure_proto::{convert::effect::write_disposition, v1};

use super::lookup::RecordedAttempt;
use crate::metrics::EffectOutcome;

/// What came of an effect.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    attempt: u32,
    how: How,
    /// True where nothing was run now.
    read_back: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum How {
    Done { output: Bytes, truncated: bool, erased: bool },
    Failed { disposition: Disposition, exit_code: Option<i32>, error: Bytes },
}

impl Answer {
    /// It was done by this call.
    pub(super) fn done(attempt: u32, output: Bytes, truncated: bool) -> Self {
        Self { attempt, how: How::Done { output, truncated, erased: false }, read_back: false }
    }

    /// It failed in this call.
    pub(super) fn failed(
        attempt: u32,
        disposition: Disposition,
        exit_code: Option<i32>,
        error: Bytes,
    ) -> Self {
        Self { attempt, how: How::Failed { disposition, exit_code, error }, read_back: false }
    }

    /// It was done before.
    pub(super) fn done_before(recorded: RecordedAttempt) -> Self {
        let erased = recorded.erased;
        let output = recorded.value.unwrap_or_default();
        let how = How::Done { output, truncated: recorded.truncated, erased };
        Self { attempt: recorded.last.attempt, how, read_back: true }
    }

    /// It took effect before, and its answer was unusable.
    pub(super) fn failed_for_good(recorded: RecordedAttempt) -> Self {
        let error = recorded.value.unwrap_or_default();
        let how = How::Failed { disposition: Disposition::Landed, exit_code: recorded.exit_code, error };
        Self { attempt: recorded.last.attempt, how, read_back: true }
    }

    /// What it counts as.
    pub(super) fn outcome(&self) -> EffectOutcome {
        match (&self.how, self.read_back) {
            (_, true) => EffectOutcome::ReadBack,
            (How::Done { .. }, false) => EffectOutcome::Done,
            (How::Failed { .. }, false) => EffectOutcome::Failed,
        }
    }

    /// Why it is no success; none: it is one.
    pub(super) fn failure(&self) -> Option<String> {
        match &self.how {
            How::Done { .. } => None,
            How::Failed { disposition, exit_code: Some(code), .. } => {
                Some(format!("exit code {code}, {}", disposition.word()))
            }
            How::Failed { disposition, exit_code: None, .. } => Some(disposition.word().to_owned()),
        }
    }

    /// The same with the end of what it said, for a person.
    pub(super) fn failure_words(&self) -> Option<String> {
        let failure = self.failure()?;
        let How::Failed { error, .. } = &self.how else { return Some(failure) };
        let said = String::from_utf8_lossy(error);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        Some(last.map_or_else(|| failure.clone(), |last| format!("{failure}: {last}")))
    }

    /// The same, for somebody who ran nothing.
    pub(super) fn as_read_back(&self) -> Self {
        Self { read_back: true, ..self.clone() }
    }

    /// The form on the wire.
    pub(super) fn write(&self) -> v1::perform_effect_response::Message {
        let (attempt, read_back) = (self.attempt, self.read_back);
        match &self.how {
            How::Done { output, truncated, erased } => {
                let (output, truncated, erased) = (output.clone(), *truncated, *erased);
                v1::perform_effect_response::Message::Done(v1::EffectIsDone {
                    attempt,
                    output,
                    truncated,
                    read_back,
                    erased,
                })
            }
            How::Failed { disposition, exit_code, error } => {
                v1::perform_effect_response::Message::Failed(v1::EffectHasFailed {
                    attempt,
                    disposition: write_disposition(*disposition).into(),
                    exit_code: *exit_code,
                    error: error.clone(),
                    read_back,
                })
            }
        }
    }
}
