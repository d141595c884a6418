//! What a handler is told about the runs before its own, read from the handover that came with the grant.

use serde::Deserialize;
use tenure_core::handover::{Cause, EarlierEffect, EarlierGift, EarlierNote};

/// What earlier runs left.
#[derive(Debug, Deserialize)]
pub(crate) struct EarlierRuns {
    pub(crate) cause: Cause,
    #[serde(default)]
    pub(crate) notes: Vec<EarlierNote>,
    #[serde(default)]
    pub(crate) notes_left_out: usize,
    #[serde(default)]
    pub(crate) effects: Vec<EarlierEffect>,
    #[serde(default)]
    pub(crate) effects_left_out: usize,
    #[serde(default)]
    pub(crate) gifts: Vec<EarlierGift>,
    #[serde(default)]
    pub(crate) gifts_left_out: usize,
}

impl EarlierRuns {
    /// Reads a handover. Fields of a later release are left out.
    pub(crate) fn read(handover: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(handover)
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{deadline::Deadline, handover::Handover, id::Run, record::KeptValue};

    use super::*;
    use crate::factory::run_ref;

    #[test]
    fn what_a_coordinator_writes_is_read() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let deadline = Deadline::new(now, None);
        let written =
            Handover::for_dispatch(run_ref(1).job, Run(1), KeptValue::Beside(b"{}".to_vec()), &deadline, now);
        let read = EarlierRuns::read(&written.to_json().unwrap()).unwrap();
        assert_eq!((read.cause, read.notes.len(), read.effects.len()), (Cause::Dispatch, 0, 0));
    }

    #[test]
    fn notes_and_effects_of_earlier_runs_are_read() {
        let handover = br#"{"schema":1,"cause":{"kind":"recovered","previous":1,"interruption":{"kind":"worker_lost"},
            "attempt":2},"notes":[{"run":1,"at":"2026-11-30T09:00:00Z","text":"half"},
            {"run":1,"at":"2026-11-30T09:00:01Z","text":null}],"effects":[{"key":"mail/1","attempt":1,"run":1,
            "at":"2026-11-30T09:00:02Z","mutates":true,"state":"in_doubt","recovery":"probe"}],"effects_left_out":2}"#;
        let read = EarlierRuns::read(handover).unwrap();
        assert_eq!(read.cause.attempt(), 2);
        assert_eq!(read.notes[0].text.as_deref(), Some("half"));
        assert_eq!(read.notes[1].text, None);
        assert_eq!((read.effects[0].key.as_str(), read.effects_left_out), ("mail/1", 2));
    }
}
