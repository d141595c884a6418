//! What persons redirected a job with. Every run after is told, not the next alone: whoever recovers a redirected run follows
//! what it was redirected to. The latest are told that fit, the last whole in any case.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::limits::HANDOVER_STEERS_MAX_BYTES;

/// A note with which a person redirected the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierSteer {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// What it says. None: it was erased.
    pub note: Option<String>,
}

/// What is kept of them while a journal is read.
#[derive(Debug, Clone, Default)]
pub(super) struct SteersKept {
    kept: VecDeque<EarlierSteer>,
    bytes: usize,
    left_out: usize,
}

impl SteersKept {
    pub(super) fn keep(&mut self, steer: EarlierSteer) {
        self.bytes += written_bytes(&steer);
        self.kept.push_back(steer);
        while self.bytes > HANDOVER_STEERS_MAX_BYTES
            && self.kept.len() > 1
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= written_bytes(&oldest);
            self.left_out += 1;
        }
    }

    /// Them in their order, and how many were left out.
    pub(super) fn into_told(self) -> (Vec<EarlierSteer>, usize) {
        (self.kept.into(), self.left_out)
    }
}

fn written_bytes(steer: &EarlierSteer) -> usize {
    // It is text and an instant, and writing those cannot fail.
    serde_json::to_vec(steer).map_or(0, |json| json.len())
}
