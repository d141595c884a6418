//! The handover as a program reads it, in the file that TENURE_HANDOVER names:
//!
//! ```json
//! {"schema": 1, "job": "019…", "run": 2, "attempt": 2,
//!  "cause": {"kind": "recovered", "previous": 1, "interruption": {"kind": "worker_lost"}, "attempt": 2},
//!  "input": {"encoding": "utf-8", "value": "…"},
//!  "notes": [{"run": 1, "at": "2026-11-30T09:00:00.000001Z", "text": "…"}],
//!  "effects": [{"key": "git/push", "attempt": 1, "run": 1, "at": "2026-11-30T09:00:01Z", "mutates": true, "state": "done",
//!               "recovery": "probe", "output": "…"}],
//!  "gifts": [{"run": 1, "at": "2026-11-30T09:00:02Z", "agent": "reviewer", "job": "019…"}],
//!  "steers": [{"at": "2026-11-30T09:05:00Z", "by": "ada", "note": "…"}],
//!  "deadline": {"at": "2026-11-30T10:00:00Z", "remaining_s": 3120}}
//! ```
//!
//! `state` is `done`, `landed` (it took effect, its answer is unusable), `did_not_happen`, `in_doubt` (asking for it settles it
//! by its `recovery`) or `undecided` (only a person can say). `output` is what it returned or its error, as text; `shortened` is
//! there only where it was cut off, and the whole is read back by asking for the effect under its key.
//! `voided_booking` is there only where an earlier run had set the work down and did not end with success: `{"run", "until",
//! "waiting_for"}`. `awaited` is there only where the run before waited for jobs: what came of the first of them, `{"job", "outcome", "reason",
//! "result", "shortened"}`. `encoding` is `base64` where the input is no UTF-8, and `file`, with its length in `bytes`, where it is too large to be
//! repeated here: it is in the file that TENURE_INPUT names; `input` is null where it was erased, `text` likewise; `deadline` is
//! null where there is no ceiling; `gifts` is there where earlier runs gave work to agents (`spawned` and `key` where they are so);
//! `notes_left_out`, `effects_left_out`, `gifts_left_out` and `steers_left_out` are there only where older ones were left out, and
//! `steers` only where a person redirected the job: the last goes before the others and before the input. The cause of a run
//! that starts for it, `steered`, says `note`, `at` and `by` itself. Fields may be added.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::{Cause, EarlierEffect, EarlierGift, EarlierNote, EarlierSteer, Handover, RemainingDeadline};
use crate::{
    id::{JobId, Run},
    layover::VoidedBooking,
    record::KeptValue,
    wait::AwaitedResult,
};

/// The version of the form.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Form<'a> {
    schema: u32,
    job: JobId,
    run: Run,
    attempt: u32,
    cause: CauseForm<'a>,
    input: Option<Input<'a>>,
    notes: &'a [EarlierNote],
    #[serde(skip_serializing_if = "is_zero")]
    notes_left_out: usize,
    effects: &'a [EarlierEffect],
    #[serde(skip_serializing_if = "is_zero")]
    effects_left_out: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    gifts: &'a [EarlierGift],
    #[serde(skip_serializing_if = "is_zero")]
    gifts_left_out: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    voided_booking: Option<&'a VoidedBooking>,
    #[serde(skip_serializing_if = "<[AwaitedResult]>::is_empty")]
    awaited: &'a [AwaitedResult],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    steers: &'a [EarlierSteer],
    #[serde(skip_serializing_if = "is_zero")]
    steers_left_out: usize,
    deadline: Option<RemainingDeadline>,
}

/// The cause, with what lies beside the record that it names.
#[derive(Serialize)]
struct CauseForm<'a> {
    #[serde(flatten)]
    cause: &'a Cause,
    #[serde(flatten)]
    steer: Option<&'a EarlierSteer>,
}

#[derive(Serialize)]
#[serde(tag = "encoding", content = "value")]
enum Input<'a> {
    #[serde(rename = "utf-8")]
    Text(&'a str),
    #[serde(rename = "base64")]
    Base64(String),
    #[serde(rename = "file")]
    File { bytes: u64 },
}

impl Handover {
    /// The JSON for a child.
    ///
    /// # Errors
    /// It could not be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Form {
            schema: SCHEMA,
            job: self.job,
            run: self.run,
            attempt: self.cause.attempt(),
            cause: CauseForm { cause: &self.cause, steer: self.steer_of_cause() },
            input: encode_input(&self.input),
            notes: &self.notes,
            notes_left_out: self.notes_left_out,
            effects: &self.effects,
            effects_left_out: self.effects_left_out,
            gifts: &self.gifts,
            gifts_left_out: self.gifts_left_out,
            voided_booking: self.voided.as_ref(),
            awaited: &self.awaited,
            steers: &self.steers,
            steers_left_out: self.steers_left_out,
            deadline: self.deadline,
        })
    }
}

impl Handover {
    /// What a person redirected the job with, where the run starts for that: nothing was left after it.
    pub(crate) fn steer_of_cause(&self) -> Option<&EarlierSteer> {
        match &self.cause {
            Cause::Steered { .. } => self.steers.last(),
            Cause::Dispatch
            | Cause::Recovered { .. }
            | Cause::Continued { .. }
            | Cause::Resumed { .. }
            | Cause::Woken { .. }
            | Cause::Drained { .. }
            | Cause::Unwinding { .. } => None,
        }
    }
}

fn encode_input(input: &KeptValue) -> Option<Input<'_>> {
    match input {
        KeptValue::Beside(bytes) => Some(
            std::str::from_utf8(bytes).map_or_else(|_| Input::Base64(STANDARD.encode(bytes)), Input::Text),
        ),
        KeptValue::Blob(reference) => Some(Input::File { bytes: reference.bytes }),
        KeptValue::Erased => None,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}
