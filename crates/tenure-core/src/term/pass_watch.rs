//! Was the database away? A coordinator closes a term only after one full ttl of that term of its own unbroken passes, in
//! which the database's clock advanced in all as its own monotonic clock did. So after an outage, a freeze, a long pause of
//! this process or a jump of a clock nobody is declared dead before everybody could come back: the counting starts again.
//! It keeps a bounded history of passes and touches no database.

use std::{collections::VecDeque, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    limits::{CLOSING_DELAY_MAX, PASS_GAP_MAX, PASS_SPACING_MIN, TTL_MAX},
    term::margin,
};

/// What a coordinator has seen in its passes.
#[derive(Debug, Clone, Default)]
pub struct PassWatch {
    /// Oldest first, no gap beyond `PASS_GAP_MAX`, at most a little more than the longest ttl.
    passes: VecDeque<Pass>,
    /// The last pass, which is not always kept in the history.
    last: Option<Pass>,
}

#[derive(Debug, Clone, Copy)]
struct Pass {
    /// This process's monotonic clock.
    own: Duration,
    /// The database's clock in the same moment.
    database: Timestamp,
}

impl PassWatch {
    /// A watch that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a pass that read the database's clock. A gap, or a monotonic clock that went back, begins anew.
    pub fn note_pass(&mut self, own: Duration, database: Timestamp) {
        let pass = Pass { own, database };
        let unbroken = self.last.is_some_and(|last| own >= last.own && own - last.own <= PASS_GAP_MAX);
        if !unbroken {
            self.passes.clear();
        }
        self.last = Some(pass);
        if self.passes.back().is_none_or(|kept| own - kept.own >= PASS_SPACING_MIN) {
            self.passes.push_back(pass);
        }
        self.forget_old(own);
    }

    /// Forgets everything: what was seen does not count any longer, for example after a failed pass.
    pub fn begin_anew(&mut self) {
        self.passes.clear();
        self.last = None;
    }

    /// True where a lapsed term of this ttl may be closed now.
    #[must_use]
    pub fn may_close(&self, ttl: Duration) -> bool {
        let Some(last) = self.last else { return false };
        let begin = self.passes.iter().rev().find(|pass| last.own - pass.own >= ttl);
        begin.is_some_and(|begin| drift(begin, &last) <= Self::tolerance(ttl))
    }

    /// How far the two clocks may differ over one ttl, and how far the closing statement's own time may be from the
    /// expected instant: half the margin of that term.
    #[must_use]
    pub fn tolerance(ttl: Duration) -> Duration {
        margin(ttl) / 2
    }

    /// What the database's clock should show at this instant of the monotonic clock; the closing statement compares. None
    /// where the last pass is too long ago: since then the database may have been away, and who it kept from renewing looks
    /// lapsed by now.
    #[must_use]
    pub fn expected_now(&self, own: Duration) -> Option<Timestamp> {
        let last = self.last?;
        let since = own.checked_sub(last.own).filter(|since| *since <= CLOSING_DELAY_MAX)?;
        last.database.checked_add(SignedDuration::try_from(since).ok()?).ok()
    }

    /// Keeps one pass that is older than the longest ttl, so that such a term can be judged.
    fn forget_old(&mut self, own: Duration) {
        while self.passes.get(1).is_some_and(|second| own - second.own >= TTL_MAX) {
            self.passes.pop_front();
        }
    }
}

/// By how much the database's clock advanced more or less than the own one.
fn drift(begin: &Pass, end: &Pass) -> Duration {
    let own = SignedDuration::try_from(end.own - begin.own).unwrap_or(SignedDuration::MAX);
    end.database.duration_since(begin.database).saturating_sub(own).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{factory::start, limits::TTL_MIN};

    const TTL: Duration = Duration::from_secs(30);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Notes a pass every second from one second to another, the database's clock ahead by so much.
    fn pass_through(watch: &mut PassWatch, from_s: u64, to_s: u64, ahead_ms: i64) {
        for second in from_s..=to_s {
            let database = start()
                + SignedDuration::from_secs(i64::try_from(second).unwrap())
                + SignedDuration::from_millis(ahead_ms);
            watch.note_pass(Duration::from_secs(second), database);
        }
    }

    #[test]
    fn nothing_is_closed_before_one_full_ttl_of_that_term() {
        let mut watch = PassWatch::new();
        assert!(!watch.may_close(TTL));
        pass_through(&mut watch, 0, 29, 0);
        assert!(watch.may_close(Duration::from_secs(5)));
        assert!(!watch.may_close(TTL));
        pass_through(&mut watch, 30, 30, 0);
        assert!(watch.may_close(TTL));
        assert!(!watch.may_close(Duration::from_secs(31)));
    }

    #[test]
    fn a_gap_begins_anew_and_three_seconds_are_none() {
        let mut watch = PassWatch::new();
        pass_through(&mut watch, 0, 30, 0);
        pass_through(&mut watch, 33, 33, 0);
        assert!(watch.may_close(TTL));
        watch.note_pass(ms(36_001), start() + SignedDuration::from_millis(36_001));
        assert!(!watch.may_close(Duration::from_secs(5)));
    }

    #[test]
    fn a_jump_of_the_databases_clock_stops_closing_for_one_ttl() {
        for jump_ms in [20_000, -20_000, 1_501, -1_501] {
            let mut watch = PassWatch::new();
            pass_through(&mut watch, 0, 40, 0);
            pass_through(&mut watch, 41, 69, jump_ms);
            assert!(!watch.may_close(TTL), "{jump_ms}");
            pass_through(&mut watch, 70, 71, jump_ms);
            assert!(watch.may_close(TTL), "{jump_ms}");
        }
    }

    #[test]
    fn half_the_terms_own_margin_of_drift_is_tolerated() {
        let mut watch = PassWatch::new();
        pass_through(&mut watch, 0, 300, 0);
        pass_through(&mut watch, 301, 302, 1_500);
        assert!(watch.may_close(TTL));
        assert!(!watch.may_close(Duration::from_secs(5)));
        assert!(watch.may_close(Duration::from_secs(300)));
        assert_eq!(PassWatch::tolerance(TTL), ms(1_500));
    }

    #[test]
    fn a_monotonic_clock_that_went_back_and_a_failed_pass_begin_anew() {
        let mut watch = PassWatch::new();
        pass_through(&mut watch, 10, 50, 0);
        pass_through(&mut watch, 9, 9, 0);
        assert!(!watch.may_close(Duration::from_secs(5)));
        pass_through(&mut watch, 10, 50, 0);
        watch.begin_anew();
        assert!(!watch.may_close(Duration::from_secs(5)));
        assert_eq!(watch.expected_now(ms(51_000)), None);
    }

    #[test]
    fn the_expected_instant_advances_with_the_own_clock() {
        let mut watch = PassWatch::new();
        pass_through(&mut watch, 0, 10, 250);
        assert_eq!(watch.expected_now(ms(10_500)), Some(start() + SignedDuration::from_millis(10_750)));
        assert_eq!(watch.expected_now(ms(9_999)), None);
    }

    #[test]
    fn nothing_is_expected_where_the_database_was_not_heard_since() {
        let mut watch = PassWatch::new();
        pass_through(&mut watch, 0, 10, 0);
        let last = Duration::from_secs(10);
        assert!(watch.expected_now(last + CLOSING_DELAY_MAX).is_some());
        assert_eq!(watch.expected_now(last + CLOSING_DELAY_MAX + ms(1)), None);
        // Whoever has the shortest ttl renews a third of it before its end, and so had the time.
        assert!(CLOSING_DELAY_MAX < TTL_MIN / 3);
    }

    #[test]
    fn the_history_is_bounded_however_often_passes_come() {
        let mut watch = PassWatch::new();
        for tick in 0..100_000u64 {
            watch.note_pass(
                ms(tick * 10),
                start() + SignedDuration::from_millis(i64::try_from(tick * 10).unwrap()),
            );
        }
        assert!(watch.may_close(TTL_MAX));
        assert!(watch.passes.len() <= 1_202, "{}", watch.passes.len());
    }
}
