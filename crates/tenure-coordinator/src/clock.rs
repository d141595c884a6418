//! The database's clock as this coordinator measures it. It owns one pair (the database's instant, our monotonic one) and
//! answers `now` from it without asking. Such a reading stands in records (`at`) and in ids; nothing is decided from it:
//! decisions about time are made in statements. It is measured at the start, every few seconds, and wherever a statement
//! brought the database's time along. Neighbours: `mint` makes ids from it, lanes stamp records with it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use tenure_store::{Store, StoreError};

/// The database's clock, read without asking the database. Clones share the measurement.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseClock {
    reading: Arc<Mutex<Reading>>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    instant: Instant,
    database: Timestamp,
}

impl DatabaseClock {
    /// Measures for the first time.
    pub(crate) async fn measure(store: &Store) -> Result<Self, StoreError> {
        let reading = take_reading(store).await?;
        Ok(Self { reading: Arc::new(Mutex::new(reading)) })
    }

    /// A clock that was measured once, for tests that decide by it.
    #[cfg(test)]
    pub(crate) fn fixed(database: Timestamp) -> Self {
        Self { reading: Arc::new(Mutex::new(Reading { instant: Instant::now(), database })) }
    }

    /// Measures again.
    pub(crate) async fn measure_again(&self, store: &Store) -> Result<(), StoreError> {
        let reading = take_reading(store).await?;
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = reading;
        Ok(())
    }

    /// The database's present time in whole microseconds, as last measured.
    pub(crate) fn now(&self) -> Timestamp {
        let reading = *self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.at(reading.instant.elapsed())
    }
}

impl Reading {
    fn at(self, elapsed: Duration) -> Timestamp {
        let elapsed = SignedDuration::from_micros(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX));
        self.database.saturating_add(elapsed).unwrap_or(self.database)
    }
}

/// The answer was made between asking and hearing it; the middle is off by half a round trip at most.
async fn take_reading(store: &Store) -> Result<Reading, StoreError> {
    let asked = Instant::now();
    let database = store.read_clock().await?;
    Ok(Reading { instant: asked + asked.elapsed() / 2, database: floor_to_microsecond(database) })
}

fn floor_to_microsecond(instant: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(instant.as_microsecond()).unwrap_or(instant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_advances_with_the_monotonic_clock_in_whole_microseconds() {
        let database: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let reading = Reading { instant: Instant::now(), database };
        let later = reading.at(Duration::from_nanos(1_500_999));
        assert_eq!(later.as_microsecond() - database.as_microsecond(), 1_500);
        assert_eq!(later.subsec_nanosecond() % 1_000, 0);
    }
}
