//! The words that are said about effects, on the wire.

use tenure_core::{
    effect::{Compensation, Disposition, EffectKey, EffectRecovery, Outcome},
    id::Digest,
};

use super::InvalidField;
use crate::v1;

/// The key of an effect from the wire.
///
/// # Errors
/// It is empty, longer than 512 bytes, or has control characters.
pub fn read_effect_key(field: &'static str, given: &str) -> Result<EffectKey, InvalidField> {
    given.parse().map_err(|_| {
        InvalidField::malformed(field, given, "1 to 512 bytes of text without control characters")
    })
}

/// A SHA-256 from the wire.
///
/// # Errors
/// It does not have 32 bytes.
pub fn read_request_digest(field: &'static str, given: &[u8]) -> Result<Digest, InvalidField> {
    Digest::from_slice(given)
        .ok_or_else(|| InvalidField::malformed(field, &format!("{} bytes", given.len()), "32 bytes"))
}

/// A recovery as it goes onto the wire.
#[must_use]
pub const fn write_recovery(recovery: EffectRecovery) -> v1::EffectRecovery {
    match recovery {
        EffectRecovery::Retry => v1::EffectRecovery::Retry,
        EffectRecovery::Idempotent => v1::EffectRecovery::Idempotent,
        EffectRecovery::Probe => v1::EffectRecovery::Probe,
        EffectRecovery::Ask => v1::EffectRecovery::Ask,
    }
}

/// A recovery from the wire. None: nothing was said.
///
/// # Errors
/// This release does not know it.
pub fn read_recovery(field: &'static str, given: i32) -> Result<Option<EffectRecovery>, InvalidField> {
    match v1::EffectRecovery::try_from(given) {
        Ok(v1::EffectRecovery::Unspecified) => Ok(None),
        Ok(v1::EffectRecovery::Retry) => Ok(Some(EffectRecovery::Retry)),
        Ok(v1::EffectRecovery::Idempotent) => Ok(Some(EffectRecovery::Idempotent)),
        Ok(v1::EffectRecovery::Probe) => Ok(Some(EffectRecovery::Probe)),
        Ok(v1::EffectRecovery::Ask) => Ok(Some(EffectRecovery::Ask)),
        Err(_) => Err(InvalidField::Unknown { field, value: given }),
    }
}

/// What became of the world, as it goes onto the wire.
#[must_use]
pub const fn write_disposition(disposition: Disposition) -> v1::EffectDisposition {
    match disposition {
        Disposition::DidNotHappen => v1::EffectDisposition::DidNotHappen,
        Disposition::InDoubt => v1::EffectDisposition::InDoubt,
        Disposition::Landed => v1::EffectDisposition::Landed,
    }
}

/// What became of the world, from the wire. None: nothing was said.
///
/// # Errors
/// This release does not know it.
pub fn read_disposition(field: &'static str, given: i32) -> Result<Option<Disposition>, InvalidField> {
    match v1::EffectDisposition::try_from(given) {
        Ok(v1::EffectDisposition::Unspecified) => Ok(None),
        Ok(v1::EffectDisposition::DidNotHappen) => Ok(Some(Disposition::DidNotHappen)),
        Ok(v1::EffectDisposition::InDoubt) => Ok(Some(Disposition::InDoubt)),
        Ok(v1::EffectDisposition::Landed) => Ok(Some(Disposition::Landed)),
        Err(_) => Err(InvalidField::Unknown { field, value: given }),
    }
}

/// How an attempt stands, as it goes onto the wire: the state, and what became of the world beside it.
#[must_use]
pub const fn write_outcome(outcome: Outcome) -> (v1::EffectState, v1::EffectDisposition) {
    let state = match outcome {
        Outcome::Open => v1::EffectState::Started,
        Outcome::Done => v1::EffectState::Done,
        Outcome::Failed(_) => v1::EffectState::Failed,
        Outcome::Reconciled(_) => v1::EffectState::Reconciled,
    };
    let disposition = match outcome.disposition() {
        None => v1::EffectDisposition::Unspecified,
        Some(disposition) => write_disposition(disposition),
    };
    (state, disposition)
}

/// How an attempt stands, from the wire.
///
/// # Errors
/// This release does not know the state, or the disposition is not there where the state needs it.
pub fn read_outcome(field: &'static str, state: i32, disposition: i32) -> Result<Outcome, InvalidField> {
    let disposition = read_disposition(field, disposition)?;
    let told = || disposition.ok_or(InvalidField::Missing { field });
    match v1::EffectState::try_from(state) {
        Ok(v1::EffectState::Started) => Ok(Outcome::Open),
        Ok(v1::EffectState::Done) => Ok(Outcome::Done),
        Ok(v1::EffectState::Failed) => told().map(Outcome::Failed),
        Ok(v1::EffectState::Reconciled) => told().map(Outcome::Reconciled),
        Ok(v1::EffectState::Unspecified) => Err(InvalidField::Missing { field }),
        Err(_) => Err(InvalidField::Unknown { field, value: state }),
    }
}

/// How a step is undone, as it goes onto the wire.
#[must_use]
pub const fn write_compensation(compensation: Compensation) -> v1::EffectCompensation {
    match compensation {
        Compensation::Undeclared => v1::EffectCompensation::Unspecified,
        Compensation::Undo => v1::EffectCompensation::Undo,
        Compensation::Pivot => v1::EffectCompensation::Pivot,
        Compensation::Unnecessary => v1::EffectCompensation::Unnecessary,
    }
}

/// How a step is undone, from the wire.
///
/// # Errors
/// This release does not know it.
pub fn read_compensation(field: &'static str, given: i32) -> Result<Compensation, InvalidField> {
    match v1::EffectCompensation::try_from(given) {
        Ok(v1::EffectCompensation::Unspecified) => Ok(Compensation::Undeclared),
        Ok(v1::EffectCompensation::Undo) => Ok(Compensation::Undo),
        Ok(v1::EffectCompensation::Pivot) => Ok(Compensation::Pivot),
        Ok(v1::EffectCompensation::Unnecessary) => Ok(Compensation::Unnecessary),
        Err(_) => Err(InvalidField::Unknown { field, value: given }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_and_an_unknown_one_is_refused() {
        for recovery in EffectRecovery::ALL {
            assert_eq!(read_recovery("recovery", write_recovery(*recovery).into()), Ok(Some(*recovery)));
        }
        for disposition in Disposition::ALL {
            let written = write_disposition(*disposition).into();
            assert_eq!(read_disposition("disposition", written), Ok(Some(*disposition)));
        }
        for compensation in Compensation::ALL {
            let written = write_compensation(*compensation).into();
            assert_eq!(read_compensation("compensation", written), Ok(*compensation));
        }
        for outcome in Outcome::ALL {
            let (state, disposition) = write_outcome(*outcome);
            assert_eq!(read_outcome("state", state.into(), disposition.into()), Ok(*outcome));
        }
        assert!(read_outcome("state", 0, 0).is_err() && read_outcome("state", 99, 0).is_err());
        assert!(read_outcome("state", v1::EffectState::Failed.into(), 0).is_err());
        assert!(read_recovery("recovery", 99).is_err());
        assert!(read_disposition("disposition", 99).is_err());
        assert!(read_compensation("compensation", 99).is_err());
    }
}
