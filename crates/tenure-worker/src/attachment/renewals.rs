//! The renewals of one stream: since when one is wanted, which number was sent when, and which are unanswered.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::guardian::BootInstant;

/// The renewals of one stream.
#[derive(Debug)]
pub(super) struct Renewals {
    next_no: u64,
    unanswered: VecDeque<SentRenewal>,
    /// Since when one is to be sent.
    requested: Option<Instant>,
    /// The version of the list of held runs that the coordinator was last sent.
    list_version: u64,
}

#[derive(Debug)]
struct SentRenewal {
    no: u64,
    sent: BootInstant,
    /// When it was asked for, on the runtime's clock, for its timers.
    requested: Instant,
}

impl Renewals {
    /// None yet; the hello bore the list of this version.
    pub(super) fn new(list_version: u64) -> Self {
        Self { next_no: 1, unanswered: VecDeque::new(), requested: None, list_version }
    }

    /// Whether the list is another than the coordinator knows.
    pub(super) fn list_changed(&self, version: u64) -> bool {
        self.list_version != version
    }

    /// Records that a renewal is to be sent as soon as the connection takes it.
    pub(super) fn record_request(&mut self) {
        self.requested.get_or_insert_with(Instant::now);
    }

    /// Records that a renewal is being sent. Returns its number.
    pub(super) fn record_sent(&mut self, sent: BootInstant, list_version: u64) -> u64 {
        let no = self.next_no;
        self.next_no += 1;
        self.list_version = list_version;
        let requested = self.requested.take().unwrap_or_else(Instant::now);
        self.unanswered.push_back(SentRenewal { no, sent, requested });
        no
    }

    /// Takes the answer to a renewal: when that was sent. Earlier ones are answered with it.
    pub(super) fn take_answered(&mut self, no: u64) -> Option<BootInstant> {
        let mut answered = None;
        while self.unanswered.front().is_some_and(|sent| sent.no <= no) {
            answered = self.unanswered.pop_front();
        }
        answered.filter(|sent| sent.no == no).map(|sent| sent.sent)
    }

    /// When the oldest unanswered one was asked for: one that the connection does not even take is unanswered, too.
    pub(super) fn oldest_unanswered(&self) -> Option<Instant> {
        self.unanswered.front().map(|sent| sent.requested).or(self.requested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanoseconds: u64) -> BootInstant {
        BootInstant::from_nanoseconds(nanoseconds)
    }

    #[tokio::test]
    async fn an_answer_is_matched_with_the_moment_of_sending() {
        let mut renewals = Renewals::new(0);
        assert_eq!(renewals.record_sent(at(10), 0), 1);
        assert_eq!(renewals.record_sent(at(20), 0), 2);
        assert_eq!(renewals.take_answered(1), Some(at(10)));
        assert_eq!(renewals.take_answered(1), None, "an answer counts once");
        assert_eq!(renewals.take_answered(2), Some(at(20)));
        assert_eq!(renewals.oldest_unanswered(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_unanswered_from_the_moment_it_was_asked_for() {
        let mut renewals = Renewals::new(0);
        let asked_at = Instant::now();
        renewals.record_request();
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        renewals.record_request();
        assert_eq!(renewals.oldest_unanswered(), Some(asked_at), "the connection has not taken it");
        let no = renewals.record_sent(at(10), 0);
        assert_eq!(renewals.oldest_unanswered(), Some(asked_at));
        renewals.take_answered(no);
        assert_eq!(renewals.oldest_unanswered(), None);
    }

    #[tokio::test]
    async fn an_answer_to_nothing_that_was_sent_counts_for_nothing() {
        let mut renewals = Renewals::new(0);
        assert_eq!(renewals.record_sent(at(10), 0), 1);
        assert_eq!(renewals.take_answered(9), None);
    }

    #[tokio::test]
    async fn the_list_is_sent_where_it_changed() {
        let mut renewals = Renewals::new(4);
        assert!(!renewals.list_changed(4));
        assert!(renewals.list_changed(5));
        renewals.record_sent(at(10), 5);
        assert!(!renewals.list_changed(5));
    }
}
