//! The deadline of a submission and the refusals of a batch on the wire. Whether a submission is admitted is not decided
//! here.

use tenure_core::{reason::Reason, record::DeadlineSetting, refusal::Refusal};

use super::{
    InvalidField,
    time::{read_duration, read_timestamp, write_duration, write_timestamp},
};
use crate::v1;

/// The deadline that a submission asks for; none where it says nothing.
///
/// # Errors
/// A ceiling that is negative or not in whole seconds, or an instant that is none.
pub fn read_deadline(
    given: Option<&v1::submission::Deadline>,
) -> Result<Option<DeadlineSetting>, InvalidField> {
    match given {
        None => Ok(None),
        Some(v1::submission::Deadline::NoDeadline(_)) => Ok(Some(DeadlineSetting::None)),
        Some(v1::submission::Deadline::DeadlineAt(at)) => {
            read_timestamp("deadline_at", at).map(|at| Some(DeadlineSetting::At(at)))
        }
        Some(v1::submission::Deadline::Ceiling(given)) => {
            let ceiling = read_duration("ceiling", given)?;
            if ceiling.subsec_nanos() != 0 {
                let shown = format!("{} ms", ceiling.as_millis());
                return Err(InvalidField::malformed("ceiling", &shown, "a span of whole seconds"));
            }
            Ok(Some(DeadlineSetting::CeilingS(ceiling.as_secs())))
        }
    }
}

/// The deadline that a submission asks for, as it goes onto the wire.
#[must_use]
pub fn write_deadline(setting: DeadlineSetting) -> v1::submission::Deadline {
    match setting {
        DeadlineSetting::None => v1::submission::Deadline::NoDeadline(v1::NoDeadline {}),
        DeadlineSetting::At(at) => v1::submission::Deadline::DeadlineAt(write_timestamp(at)),
        DeadlineSetting::CeilingS(seconds) => {
            v1::submission::Deadline::Ceiling(write_duration(std::time::Duration::from_secs(seconds)))
        }
    }
}

/// A refusal as an item of a batch.
#[must_use]
pub fn write_refusal(refusal: &Refusal) -> v1::Refusal {
    v1::Refusal {
        code: refusal.reason.code().to_owned(),
        message: refusal.message.clone(),
        retry_after: refusal.retry_after.map(write_duration),
        details: refusal.details.clone().into_iter().collect(),
        next: refusal.next.clone().unwrap_or_default(),
    }
}

/// A refusal from an item of a batch. A code that this release does not know is kept in the details, and reads as an
/// internal one.
///
/// # Errors
/// Its retry hint is no span.
pub fn read_refusal(given: v1::Refusal) -> Result<Refusal, InvalidField> {
    let retry_after =
        given.retry_after.as_ref().map(|given| read_duration("retry_after", given)).transpose()?;
    let mut details: std::collections::BTreeMap<_, _> = given.details.into_iter().collect();
    let reason = Reason::from_code(&given.code).unwrap_or_else(|| {
        details.insert(crate::status::UNKNOWN_CODE_DETAIL.to_owned(), given.code);
        Reason::Internal
    });
    let next = Some(given.next).filter(|next| !next.is_empty());
    Ok(Refusal { reason, message: given.message, details, next, retry_after })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn deadlines_read_back_what_they_wrote() {
        let at = DeadlineSetting::At(jiff::Timestamp::from_second(1_796_000_000).unwrap());
        for setting in
            [DeadlineSetting::None, DeadlineSetting::CeilingS(0), DeadlineSetting::CeilingS(90), at]
        {
            assert_eq!(read_deadline(Some(&write_deadline(setting))), Ok(Some(setting)));
        }
        assert_eq!(read_deadline(None), Ok(None));
    }

    #[test]
    fn a_ceiling_below_a_second_is_refused() {
        let ceiling = v1::submission::Deadline::Ceiling(write_duration(Duration::from_millis(1_500)));
        assert_eq!(read_deadline(Some(&ceiling)).unwrap_err().field(), "ceiling");
    }

    #[test]
    fn refusals_read_back_what_they_wrote() {
        let refusal = Refusal::new(Reason::InputTooLarge, "the input has 3 bytes, and 2 are taken")
            .with_detail("limit_bytes", 2)
            .with_next("tenure agents")
            .with_retry_after(Duration::from_millis(250));
        assert_eq!(read_refusal(write_refusal(&refusal)), Ok(refusal));
    }
}
