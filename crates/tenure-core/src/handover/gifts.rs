//! What a handover tells of work that earlier runs gave to agents: to whom, and which job came of it.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    id::{AgentName, JobId, Run},
    limits::HANDOVER_GIFTS_MAX,
    record::{Record, RecordKind},
};

/// Work that an earlier run gave to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierGift {
    /// The run that gave it.
    pub run: Run,
    /// When.
    pub at: Timestamp,
    /// To whom.
    pub agent: AgentName,
    /// The job that came of it.
    pub job: JobId,
    /// True where it is a session of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub spawned: bool,
    /// The key under which it was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
}

/// The latest that fit.
#[derive(Debug, Clone, Default)]
pub(super) struct GiftsKept {
    pub(super) kept: VecDeque<EarlierGift>,
    pub(super) left_out: usize,
}

impl GiftsKept {
    /// Takes a record; one that gives nothing says nothing here.
    pub(super) fn keep(&mut self, record: &Record) {
        let (given, spawned) = match &record.kind {
            RecordKind::Sent(given) => (given, false),
            RecordKind::Spawned(given) => (given, true),
            _ => return,
        };
        self.kept.push_back(EarlierGift {
            run: record.run,
            at: record.at,
            agent: given.agent.clone(),
            job: given.child,
            spawned,
            key: given.key.clone(),
        });
        if self.kept.len() > HANDOVER_GIFTS_MAX {
            self.kept.pop_front();
            self.left_out += 1;
        }
    }
}
