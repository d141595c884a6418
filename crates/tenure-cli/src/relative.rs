//! Spans and instants as people say them: `3m 12s`, `3m 12s ago`, `in 5s`. At most two units, cut off and not rounded.

use std::time::Duration;

use jiff::Timestamp;

/// A span in its two largest units.
pub(crate) fn format_span(span: Duration) -> String {
    let whole = humantime::format_duration(Duration::from_secs(span.as_secs())).to_string();
    let mut units = whole.split(' ');
    match (units.next(), units.next()) {
        (Some(first), Some(second)) => format!("{first} {second}"),
        (Some(only), None) => only.to_owned(),
        (None, _) => "0s".to_owned(),
    }
}

/// How long ago an instant was, by this machine's clock; one that is still to come counts as now.
pub(crate) fn format_since(at: Timestamp, now: Timestamp) -> String {
    format_span(between(at, now))
}

/// An instant seen from now.
pub(crate) fn format_instant(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", format_span(between(now, at)))
    } else {
        format!("{} ago", format_since(at, now))
    }
}

fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// Reads a span such as `90s` or `1h30m`; for the parser of the command line.
pub(crate) fn parse_span(given: &str) -> Result<Duration, String> {
    humantime::parse_duration(given).map_err(|error| format!("{error}; a span is written 90s or 1h30m"))
}

/// Reads an instant with its offset; for the parser of the command line.
pub(crate) fn parse_instant(given: &str) -> Result<Timestamp, String> {
    given.parse().map_err(|error| format!("{error}; an instant is written 2026-12-01T18:00:00+01:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        assert_eq!(format_span(Duration::from_millis(900)), "0s");
        assert_eq!(format_span(Duration::from_secs(192)), "3m 12s");
        assert_eq!(format_span(Duration::from_secs(90_061)), "1day 1h");
    }

    #[test]
    fn instants_are_seen_from_now() {
        let now = Timestamp::from_second(1_000).unwrap();
        assert_eq!(format_instant(Timestamp::from_second(995).unwrap(), now), "5s ago");
        assert_eq!(format_instant(Timestamp::from_second(1_090).unwrap(), now), "in 1m 30s");
        assert_eq!(format_since(Timestamp::from_second(1_090).unwrap(), now), "0s");
    }

    #[test]
    fn spans_are_read_as_they_stand_in_fleet_files() {
        assert_eq!(parse_span("1h30m"), Ok(Duration::from_secs(5_400)));
        assert!(parse_span("90").is_err());
    }

    #[test]
    fn an_instant_without_an_offset_is_refused() {
        assert!(parse_instant("2026-12-01T18:00:00+01:00").is_ok());
        assert!(parse_instant("2026-12-01T18:00:00").is_err());
    }
}
