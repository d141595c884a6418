//! Whether a submission becomes a job, and with which settings. What it does not say, the agent's declaration says, then the
//! tenant's bundle, then the built-in default.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::{
    deadline::Deadline,
    declaration::{Declaration, PolicyBundle},
    handler::handler_label,
    handover::Cause,
    id::{AgentName, Digest, SessionId},
    layover::PickedUp,
    limits::{
        DURATION_MAX, KEY_MAX_BYTES, LABEL_MAX_BYTES, LABELS_MAX, PRIORITY_DEFAULT, PRIORITY_MAX,
        TRACEPARENT_MAX_BYTES,
    },
    money::Micros,
    principal::Principal,
    reason::Reason,
    record::{DeadlineSetting, Draft, NewValue, RecordKind, SaltedValue, ValueRef},
    recovery::RecoveryPolicy,
    refusal::Refusal,
    sending::Sender,
};

/// What a submitter asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Which agent.
    pub agent: AgentName,
    /// The raw input.
    pub input: Input,
    /// The idempotency key.
    pub key: Option<String>,
    /// When the session must be over; none: what the agent says.
    pub deadline: Option<DeadlineSetting>,
    /// What the submitter attaches.
    pub labels: BTreeMap<String, String>,
    /// 0 to 3; none: normal.
    pub priority: Option<u32>,
    /// Not to be started before.
    pub not_before: Option<Timestamp>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Where it picks up work that was set down: which.
    pub layover: Option<PickedUp>,
}

/// What a job is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// It came with the submission.
    Bytes(Vec<u8>),
    /// It was stored in the blob store before.
    Blob {
        /// What the record names it by.
        reference: ValueRef,
        /// SHA-256 of the input alone: the salt of its reference is another one each time that it is stored.
        content: Digest,
    },
}

impl Input {
    /// Its length.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Blob { reference, .. } => reference.bytes,
        }
    }

    fn content_digest(&self) -> Digest {
        match self {
            Self::Bytes(bytes) => Digest::of(bytes),
            Self::Blob { content, .. } => *content,
        }
    }
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// A submission that is let in, with everything settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// What was asked for.
    pub submission: Submission,
    /// The declaration that the job is held to.
    pub declaration: Digest,
    /// The bundle that it is held to.
    pub bundle: Option<Digest>,
    /// How it may be restarted.
    pub recovery: RecoveryPolicy,
    /// The deadline as it was settled.
    pub deadline: DeadlineSetting,
    /// When the session starts: the later of the submission and the requested start.
    pub started_at: Timestamp,
    /// The instant that follows; the statement that stores it counts a ceiling from the database's own time.
    pub deadline_at: Option<Timestamp>,
    /// 0 to 3.
    pub priority: u8,
    /// The requested start, where it lies in the future.
    pub not_before: Option<Timestamp>,
    /// Hops of the first run.
    pub hops: u32,
    /// Runs of the session.
    pub run_cap: u32,
    /// What the session may spend.
    pub budget: Micros,
    /// Labels that its worker must have.
    pub requires: Vec<String>,
    /// Whose run gave it the work, where one did.
    pub sender: Option<Sender>,
}

impl Submission {
    /// SHA-256 of the idempotency key.
    #[must_use]
    pub fn key_digest(&self) -> Option<Digest> {
        self.key.as_ref().map(|key| Digest::of(key.as_bytes()))
    }

    /// What makes two submissions under one key the same: everything that the submitter gave, but not the trace context,
    /// and not the declaration, which may have changed in between.
    #[must_use]
    pub fn payload_digest(&self) -> Digest {
        let payload = serde_json::json!({
            "agent": self.agent,
            "input": self.input.content_digest(),
            "deadline": self.deadline,
            "labels": self.labels,
            "priority": self.priority,
            "not_before": self.not_before,
        });
        crate::canonical::digest_canonical(&payload)
    }
}

impl Submission {
    /// Why the first run starts.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self.layover.clone() {
            None => Cause::Dispatch,
            Some(PickedUp { session, job, seq: _, booked_at, waiting_for, checks }) => {
                Cause::Resumed { booked_by: session, job, waiting_for, booked_at, checks }
            }
        }
    }
}

impl Admitted {
    /// The first two records of the job. `salt` is random, for an input that came with the submission.
    #[must_use]
    pub fn drafts(&self, session: SessionId, by: Principal, salt: [u8; 16]) -> Vec<Draft> {
        let given = &self.submission;
        let input = match &given.input {
            Input::Bytes(value) => NewValue::Beside(SaltedValue { value: value.clone(), salt }),
            Input::Blob { reference, .. } => NewValue::Blob(*reference),
        };
        let admitted = Draft::with_new_value(input, |input| RecordKind::JobAdmitted {
            session,
            agent: given.agent.clone(),
            declaration: self.declaration,
            bundle: self.bundle,
            input,
            by,
            key: given.key_digest(),
            labels: given.labels.clone(),
            deadline: self.deadline,
            priority: self.priority,
            not_before: self.not_before,
            traceparent: given.traceparent.clone(),
            sender: self.sender.clone().map(Box::new),
            layover: given.layover.clone(),
        });
        let frozen =
            RecordKind::PlanFrozen { recovery: self.recovery.clone(), hops: self.hops, rungs: Vec::new() };
        vec![admitted, Draft::bare(frozen)]
    }
}

/// Whether a submission becomes a job.
///
/// # Errors
/// A field of it is out of bounds; the refusal names the field and both sizes.
pub fn admit_submission(
    submission: Submission,
    declaration: &Declaration,
    bundle: Option<&PolicyBundle>,
    now: Timestamp,
) -> Result<Admitted, Refusal> {
    check_input(&submission, declaration)?;
    check_key(submission.key.as_deref())?;
    check_labels(&submission.labels)?;
    check_traceparent(submission.traceparent.as_deref())?;
    let priority = check_priority(submission.priority)?;
    let not_before = submission.not_before.filter(|start| *start > now);
    let started_at = not_before.unwrap_or(now);
    check_start(now, started_at)?;
    let deadline = settle_deadline(submission.deadline, declaration, bundle, started_at)?;
    Ok(Admitted {
        declaration: declaration.digest(),
        bundle: bundle.map(PolicyBundle::digest),
        recovery: declaration.recovery_policy(bundle),
        deadline,
        started_at,
        deadline_at: Deadline::from_setting(started_at, deadline).deadline_at(),
        priority,
        not_before,
        hops: declaration.hops(bundle),
        run_cap: declaration.run_cap(bundle),
        budget: declaration.budget(bundle),
        requires: list_requirements(&submission.agent, declaration),
        sender: None,
        submission,
    })
}

/// What its agent says, and for a handler its version.
#[must_use]
pub fn list_requirements(agent: &AgentName, declaration: &Declaration) -> Vec<String> {
    let mut requires = declaration.requires();
    requires.extend(declaration.handler().map(|version| handler_label(agent, &version)));
    requires
}

fn check_input(submission: &Submission, declaration: &Declaration) -> Result<(), Refusal> {
    let (bytes, limit) = (submission.input.bytes(), declaration.input_limit_bytes());
    if bytes <= limit {
        return Ok(());
    }
    let words = format!("the input has {bytes} bytes, and agent {} takes at most {limit}", submission.agent);
    Err(Refusal::new(Reason::InputTooLarge, words)
        .with_detail("field", "input")
        .with_detail("bytes", bytes)
        .with_detail("limit_bytes", limit))
}

fn check_key(key: Option<&str>) -> Result<(), Refusal> {
    match key {
        Some("") => Err(invalid("key", "the idempotency key is empty")),
        Some(key) if key.len() > KEY_MAX_BYTES => Err(too_long("key", key.len(), KEY_MAX_BYTES)),
        Some(_) | None => Ok(()),
    }
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if labels.len() > LABELS_MAX {
        return Err(invalid(
            "labels",
            &format!("{} labels are too many, and {LABELS_MAX} are taken", labels.len()),
        ));
    }
    for (key, value) in labels {
        if key.trim().is_empty() {
            return Err(invalid("labels", "the key of a label is blank"));
        }
        if let Some(text) = [key, value].into_iter().find(|text| text.len() > LABEL_MAX_BYTES) {
            return Err(too_long("labels", text.len(), LABEL_MAX_BYTES));
        }
        if key.contains('\0') || value.contains('\0') {
            return Err(invalid("labels", "a label contains a NUL character"));
        }
    }
    Ok(())
}

fn check_traceparent(traceparent: Option<&str>) -> Result<(), Refusal> {
    match traceparent {
        Some(text) if text.len() > TRACEPARENT_MAX_BYTES => {
            Err(too_long("traceparent", text.len(), TRACEPARENT_MAX_BYTES))
        }
        Some(text) if !text.bytes().all(|b| b.is_ascii_graphic()) => {
            Err(invalid("traceparent", "the trace context is not plain ASCII"))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_priority(priority: Option<u32>) -> Result<u8, Refusal> {
    let given = priority.unwrap_or_else(|| PRIORITY_DEFAULT.into());
    let priority = u8::try_from(given).ok().filter(|priority| *priority <= PRIORITY_MAX);
    priority.ok_or_else(|| invalid("priority", &format!("priority {given} is not from 0 to {PRIORITY_MAX}")))
}

fn check_start(now: Timestamp, started_at: Timestamp) -> Result<(), Refusal> {
    if crate::deadline::between(now, started_at) > DURATION_MAX {
        return Err(invalid("not_before", "the requested start is more than ten years away"));
    }
    Ok(())
}

fn settle_deadline(
    asked: Option<DeadlineSetting>,
    declaration: &Declaration,
    bundle: Option<&PolicyBundle>,
    started_at: Timestamp,
) -> Result<DeadlineSetting, Refusal> {
    match asked {
        None => Ok(DeadlineSetting::CeilingS(crate::deadline::ceil_seconds(declaration.deadline(bundle)))),
        Some(DeadlineSetting::CeilingS(ceiling_s)) if Duration::from_secs(ceiling_s) > DURATION_MAX => {
            Err(invalid("deadline", &format!("a ceiling of {ceiling_s} s is longer than ten years")))
        }
        Some(DeadlineSetting::At(instant)) if instant < started_at => {
            let words = format!("the deadline {instant} lies before the start {started_at}");
            Err(invalid("deadline", &words))
        }
        Some(setting) => Ok(setting),
    }
}

fn invalid(field: &str, words: &str) -> Refusal {
    Refusal::new(Reason::InvalidArgument, words).with_detail("field", field)
}

fn too_long(field: &str, bytes: usize, limit_bytes: usize) -> Refusal {
    invalid(field, &format!("{field} has {bytes} bytes, and at most {limit_bytes} are taken"))
        .with_detail("bytes", bytes)
        .with_detail("limit_bytes", limit_bytes)
}
