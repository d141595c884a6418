//! Instants and spans on the wire. Instants are exact to the microsecond, as everywhere in Tenure: what is finer is cut
//! off. Spans are never negative.

use std::time::Duration;

use jiff::Timestamp;

use super::InvalidField;

const NANOS_PER_MICRO: i32 = 1_000;

/// An instant as it goes onto the wire.
#[must_use]
pub fn write_timestamp(at: Timestamp) -> prost_types::Timestamp {
    // The wire wants the nanoseconds after the second, also before 1970; jiff's share the sign of the whole.
    let micros = at.as_microsecond();
    let seconds = micros.div_euclid(1_000_000);
    let below_second = i32::try_from(micros.rem_euclid(1_000_000)).unwrap_or_default();
    prost_types::Timestamp { seconds, nanos: below_second * NANOS_PER_MICRO }
}

/// An instant from the wire.
///
/// # Errors
/// It is outside what a calendar knows, or its nanoseconds are no part of a second.
pub fn read_timestamp(
    field: &'static str,
    given: &prost_types::Timestamp,
) -> Result<Timestamp, InvalidField> {
    let malformed = || {
        let shown = format!("{} s and {} ns", given.seconds, given.nanos);
        InvalidField::malformed(field, &shown, "an instant")
    };
    if !(0..1_000_000_000).contains(&given.nanos) {
        return Err(malformed());
    }
    let micros = given
        .seconds
        .checked_mul(1_000_000)
        .and_then(|micros| micros.checked_add(i64::from(given.nanos / NANOS_PER_MICRO)))
        .ok_or_else(malformed)?;
    Timestamp::from_microsecond(micros).map_err(|_| malformed())
}

/// An instant from the wire, where it may be absent.
///
/// # Errors
/// It is there and cannot be read.
pub fn read_optional_timestamp(
    field: &'static str,
    given: Option<&prost_types::Timestamp>,
) -> Result<Option<Timestamp>, InvalidField> {
    given.map(|given| read_timestamp(field, given)).transpose()
}

/// A span as it goes onto the wire; what the wire cannot hold becomes the longest that it can.
#[must_use]
pub fn write_duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}

/// A span from the wire.
///
/// # Errors
/// It is negative, or its nanoseconds are no part of a second.
pub fn read_duration(field: &'static str, given: &prost_types::Duration) -> Result<Duration, InvalidField> {
    match (u64::try_from(given.seconds), u32::try_from(given.nanos)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => {
            let shown = format!("{} s and {} ns", given.seconds, given.nanos);
            Err(InvalidField::malformed(field, &shown, "a span that is not negative"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_back_what_they_wrote_also_before_1970() {
        for micros in [0, 1, -1, -1_000_001, 1_796_000_000_123_456] {
            let at = Timestamp::from_microsecond(micros).unwrap();
            assert_eq!(read_timestamp("at", &write_timestamp(at)), Ok(at), "{micros}");
        }
    }

    #[test]
    fn spans_read_back_what_they_wrote() {
        for span in [Duration::ZERO, Duration::from_micros(1_500_000), Duration::from_hours(100)] {
            assert_eq!(read_duration("ttl", &write_duration(span)), Ok(span));
        }
    }

    #[test]
    fn negative_spans_and_impossible_instants_are_refused_by_name() {
        let span = prost_types::Duration { seconds: -1, nanos: 0 };
        assert_eq!(read_duration("ttl", &span).unwrap_err().field(), "ttl");
        let at = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
        assert_eq!(read_timestamp("since", &at).unwrap_err().field(), "since");
        let at = prost_types::Timestamp { seconds: 0, nanos: -1 };
        assert!(read_timestamp("since", &at).is_err());
    }
}
