//! What needs a person.

use jiff::Timestamp;
use serde::Serialize;
use tenure_core::attention::Ages;
use tenure_proto::{
    convert::{
        InvalidField, require,
        time::{write_duration, write_timestamp},
    },
    v1,
};

use crate::{
    Client, ClientError,
    client::{Repeat, attention_service},
    job::read_instant,
};

/// How to look for what needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// The instant at which conditions are judged; none: now, by the database's clock.
    pub at: Option<Timestamp>,
    /// At most so many of each kind are read, 1 to 10,000; 0 leaves that to the fleet.
    pub page: u32,
    /// For how long something is so before it counts.
    pub ages: Ages,
}

/// What a look for what needs a person found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// The instant at which it was judged.
    pub at: Timestamp,
    /// In a fixed order; empty: nothing needs a person.
    pub conditions: Vec<Condition>,
    /// What was not looked for.
    pub not_checked: Vec<NotChecked>,
}

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// What: a stable key such as `job.quarantined`.
    pub kind: String,
    /// How many on the page that was read; at least 1.
    pub found: u32,
    /// The page was full: the real number is `found` or more.
    pub at_least: bool,
    /// Since when the oldest of them stands.
    pub since: Timestamp,
    /// At most 10 names that the remedy's verb takes.
    pub subjects: Vec<String>,
    /// How many of `found` are not among the subjects.
    pub unlisted: u32,
    /// What answers it.
    pub remedy: Remedy,
}

/// What answers a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Commands, told with the first subject, with `   or: ` between them; or `no verb: `, and why.
    pub command_line: String,
    /// The calls that do the same; or `no call: `, and why.
    pub grpc: String,
}

/// Something that was not looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotChecked {
    /// The key that its condition would have.
    pub kind: String,
    /// Why.
    pub why: String,
}

impl Client {
    /// Looks for what needs a person.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn get_attention(&self, look: &Look) -> Result<Attention, ClientError> {
        let request = v1::GetAttentionRequest {
            at: look.at.map(write_timestamp),
            page: look.page,
            unclaimable_after: Some(write_duration(look.ages.unclaimable)),
            abandoned_after: Some(write_duration(look.ages.abandoned_lease)),
            halt_after: Some(write_duration(look.ages.halt)),
        };
        let ask = |channel| async move { attention_service(channel).get_attention(request).await };
        Ok(Attention::read(self.call(Repeat::Reads, ask).await?)?)
    }
}

impl Attention {
    fn read(given: v1::GetAttentionResponse) -> Result<Self, InvalidField> {
        let not_checked =
            given.not_checked.into_iter().map(|one| NotChecked { kind: one.kind, why: one.why });
        Ok(Self {
            at: read_instant("at", given.at.as_ref())?,
            conditions: given.conditions.into_iter().map(Condition::read).collect::<Result<_, _>>()?,
            not_checked: not_checked.collect(),
        })
    }
}

impl Condition {
    fn read(given: v1::Condition) -> Result<Self, InvalidField> {
        let remedy = require("conditions.remedy", given.remedy)?;
        Ok(Self {
            kind: given.kind,
            found: given.found,
            at_least: given.at_least,
            since: read_instant("conditions.since", given.since.as_ref())?,
            subjects: given.subjects,
            unlisted: given.unlisted,
            remedy: Remedy { command_line: remedy.command_line, grpc: remedy.grpc },
        })
    }
}
