//! Calendar months (UTC), and the ids that begin in them. A UUIDv7 begins with its time in milliseconds, so the ids of a
//! month are a range.

use std::fmt;

use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};
use uuid::Uuid;

/// A calendar month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Month {
    first_day: Date,
}

impl Month {
    /// The month that an instant lies in.
    fn of(at: Timestamp) -> Self {
        Self { first_day: TimeZone::UTC.to_datetime(at).date().first_of_month() }
    }

    /// The months of the day before `now`, of `now`, and so many after it. An id may be a little older than the instant at
    /// which it is stored.
    pub(super) fn around(now: Timestamp, ahead: u32) -> Vec<Self> {
        let day_before = now.checked_sub(24.hours()).unwrap_or(now);
        let mut months = vec![Self::of(day_before)];
        let last = (0..ahead).fold(Self::of(now), |month, _| month.next());
        while let Some(month) = months.last().copied().filter(|month| *month < last) {
            months.push(month.next());
        }
        months
    }

    /// The month that a partition is named after; none: it is not named so.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (year, month) = name.split_once('_')?;
        let first_day = Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()?;
        Some(Self { first_day }).filter(|read| read.to_string() == name)
    }

    /// The month after.
    pub(super) fn next(self) -> Self {
        let first_day = self.first_day.checked_add(1.month()).unwrap_or(Date::MAX);
        Self { first_day }
    }

    /// The lowest id of the month.
    pub(super) fn first_id(self) -> Uuid {
        let midnight =
            TimeZone::UTC.to_timestamp(self.first_day.at(0, 0, 0, 0)).map_or(0, Timestamp::as_millisecond);
        Uuid::from_u128(u128::from(midnight.max(0).cast_unsigned()) << 80)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}_{:02}", self.first_day.year(), self.first_day.month())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn months(now: &str, ahead: u32) -> Vec<String> {
        Month::around(now.parse().unwrap(), ahead).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn months_reach_from_yesterday_to_as_many_ahead() {
        assert_eq!(months("2026-11-30T10:00:00Z", 2), ["2026_11", "2026_12", "2027_01"]);
        assert_eq!(months("2026-12-01T00:00:00Z", 1), ["2026_11", "2026_12", "2027_01"]);
        assert_eq!(months("2027-01-15T00:00:00Z", 0), ["2027_01"]);
    }

    #[test]
    fn a_month_is_read_as_it_is_written_and_nothing_else_is() {
        let month = Month::of("2026-11-30T10:00:00Z".parse().unwrap());
        assert_eq!(Month::parse(&month.to_string()), Some(month));
        for name in ["2026_13", "2026_1", "2026", "default", "2026_11_30", "+2026_11"] {
            assert_eq!(Month::parse(name), None, "{name}");
        }
    }

    #[test]
    fn ids_of_a_month_are_a_range() {
        let month = Month::of("2026-11-30T10:00:00Z".parse().unwrap());
        assert_eq!(month.first_id().to_string(), "01a19467-e800-0000-0000-000000000000");
        let last = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 1_796_083_199, 999_999_999));
        let first = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 1_793_491_200, 0));
        assert!(month.first_id() <= first && first < last && last < month.next().first_id());
    }
}
