//! States of jobs and kinds of fencing on the wire. The unspecified value and every value that this release does not know
//! are refused.

use tenure_core::{job::State, plan::Fencing};

use super::InvalidField;
use crate::v1;

/// A job's state as it goes onto the wire.
#[must_use]
pub const fn write_state(state: State) -> v1::JobState {
    match state {
        State::Ready => v1::JobState::Ready,
        State::Running => v1::JobState::Running,
        State::Suspended => v1::JobState::Suspended,
        State::Interrupted => v1::JobState::Interrupted,
        State::Succeeded => v1::JobState::Succeeded,
        State::Failed => v1::JobState::Failed,
        State::Exhausted => v1::JobState::Exhausted,
        State::Withheld => v1::JobState::Withheld,
        State::Quarantined => v1::JobState::Quarantined,
        State::Cancelled => v1::JobState::Cancelled,
        State::Abandoned => v1::JobState::Abandoned,
        State::Expired => v1::JobState::Expired,
    }
}

/// A job's state from the wire.
///
/// # Errors
/// It is unspecified or unknown.
pub fn read_state(field: &'static str, given: i32) -> Result<State, InvalidField> {
    match v1::JobState::try_from(given) {
        Ok(v1::JobState::Ready) => Ok(State::Ready),
        Ok(v1::JobState::Running) => Ok(State::Running),
        Ok(v1::JobState::Suspended) => Ok(State::Suspended),
        Ok(v1::JobState::Interrupted) => Ok(State::Interrupted),
        Ok(v1::JobState::Succeeded) => Ok(State::Succeeded),
        Ok(v1::JobState::Failed) => Ok(State::Failed),
        Ok(v1::JobState::Exhausted) => Ok(State::Exhausted),
        Ok(v1::JobState::Withheld) => Ok(State::Withheld),
        Ok(v1::JobState::Quarantined) => Ok(State::Quarantined),
        Ok(v1::JobState::Cancelled) => Ok(State::Cancelled),
        Ok(v1::JobState::Abandoned) => Ok(State::Abandoned),
        Ok(v1::JobState::Expired) => Ok(State::Expired),
        Ok(v1::JobState::Unspecified) | Err(_) => Err(InvalidField::Unknown { field, value: given }),
    }
}

/// A kind of fencing as it goes onto the wire.
#[must_use]
pub const fn write_fencing(fencing: Fencing) -> v1::Fencing {
    match fencing {
        Fencing::None => v1::Fencing::None,
        Fencing::Guardian => v1::Fencing::Guardian,
        Fencing::Kernel => v1::Fencing::Kernel,
    }
}

/// A kind of fencing from the wire.
///
/// # Errors
/// It is unspecified or unknown.
pub fn read_fencing(field: &'static str, given: i32) -> Result<Fencing, InvalidField> {
    match v1::Fencing::try_from(given) {
        Ok(v1::Fencing::None) => Ok(Fencing::None),
        Ok(v1::Fencing::Guardian) => Ok(Fencing::Guardian),
        Ok(v1::Fencing::Kernel) => Ok(Fencing::Kernel),
        Ok(v1::Fencing::Unspecified) | Err(_) => Err(InvalidField::Unknown { field, value: given }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_state_reads_back_and_every_other_is_refused() {
        let known: Vec<i32> = (-1..100).filter(|value| read_state("state", *value).is_ok()).collect();
        assert_eq!(known, (1..=12).collect::<Vec<i32>>());
        for value in known {
            assert_eq!(write_state(read_state("state", value).unwrap()) as i32, value);
        }
    }

    #[test]
    fn every_known_fencing_reads_back_and_every_other_is_refused() {
        for value in 1..=3 {
            assert_eq!(write_fencing(read_fencing("fencing", value).unwrap()) as i32, value);
        }
        for value in [-1, 0, 4] {
            assert_eq!(
                read_fencing("fencing", value),
                Err(InvalidField::Unknown { field: "fencing", value })
            );
        }
    }
}
