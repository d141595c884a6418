//! What is worth trying again, and for how long. A status that bears a reason of ours is an answer; one that bears none
//! came from the way there, whatever its code says (a connection that broke also reads as *unknown*), and another
//! coordinator may answer. So may it where one says that it cannot for the moment: it may be cut off from a database that
//! others reach. It owns no connection.

use std::{error::Error as _, time::Duration};

use backon::ExponentialBuilder;
use tenure_core::{
    reason::{Class, Reason},
    refusal::Refusal,
};
use tenure_proto::status::status_to_refusal;
use tonic::{Code, ConnectError, Status};

/// The first pause before another coordinator is asked.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was answered with a refusal.
    Refused(Refusal),
    /// It was answered that it cannot be done there for the moment; a write may have been done.
    Away { endpoint: String, place: usize, refusal: Refusal },
    /// It was never sent: no connection could be made.
    NotSent { endpoint: String, place: usize, status: Status },
    /// It may have been carried out; no answer came.
    NoAnswer { endpoint: String, place: usize, status: Status },
}

impl Failure {
    /// Tells an answer from a broken way. A coordinator that is stopping says so, and that is no answer to what was asked:
    /// it may have taken it before, and another one may be asked.
    pub(crate) fn classify(endpoint: &str, place: usize, status: Status) -> Self {
        let endpoint = endpoint.to_owned();
        if let Some(refusal) = status_to_refusal(&status) {
            return match refusal.reason {
                Reason::CoordinatorUnavailable => Self::NoAnswer { endpoint, place, status },
                _ if refusal.reason.class() == Class::Unavailable => Self::Away { endpoint, place, refusal },
                _ => Self::Refused(refusal),
            };
        }
        match status.code() {
            Code::Unimplemented => Self::Refused(not_known(&status)),
            _ if never_sent(&status) => Self::NotSent { endpoint, place, status },
            _ => Self::NoAnswer { endpoint, place, status },
        }
    }

    /// True where a stream should be opened again: the way broke, or the coordinator cannot for the moment.
    pub(crate) const fn passes(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Away { .. } | Self::NotSent { .. } | Self::NoAnswer { .. } => true,
        }
    }
}

/// Growing, jittered pauses, until so much time has been spent in them.
pub(crate) fn pauses(patience: Duration) -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_min_delay(PAUSE_MIN)
        .with_max_delay(PAUSE_MAX)
        .with_jitter()
        .without_max_times()
        .with_total_delay(Some(patience))
}

fn not_known(status: &Status) -> Refusal {
    let said = status.message();
    Refusal::new(Reason::NotSupported, format!("the coordinator does not know this request: {said}"))
}

fn never_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use tenure_proto::status::refusal_to_status;

    use super::*;

    #[test]
    fn an_answer_with_a_reason_is_no_failure_of_the_way() {
        let refusal = Refusal::new(Reason::JobNotFound, "there is no job 9f3c21");
        let failure = Failure::classify("a", 0, refusal_to_status(&refusal));
        assert!(matches!(&failure, Failure::Refused(r) if *r == refusal));
        assert!(!failure.passes());
    }

    #[test]
    fn whatever_bears_no_reason_is_worth_another_coordinator() {
        for code in [Code::Unknown, Code::Unavailable, Code::Internal, Code::Cancelled] {
            let failure = Failure::classify("a", 0, Status::new(code, "h2 protocol error"));
            assert!(matches!(failure, Failure::NoAnswer { .. }), "{code:?}");
            assert!(failure.passes(), "{code:?}");
        }
    }

    #[test]
    fn a_coordinator_that_is_stopping_is_left_for_another() {
        let refusal = Refusal::new(Reason::CoordinatorUnavailable, "this coordinator is stopping");
        let failure = Failure::classify("a", 3, refusal_to_status(&refusal));
        assert!(matches!(failure, Failure::NoAnswer { place: 3, .. }), "{failure:?}");
    }

    #[test]
    fn a_coordinator_that_cannot_for_the_moment_is_left_and_one_that_refuses_is_not() {
        for reason in Reason::ALL.iter().copied().filter(|reason| *reason != Reason::CoordinatorUnavailable) {
            let failure = Failure::classify("a", 3, refusal_to_status(&Refusal::new(reason, "words")));
            let away =
                matches!(&failure, Failure::Away { place: 3, refusal, .. } if refusal.reason == reason);
            assert_eq!(away, reason.class() == Class::Unavailable, "{failure:?}");
            assert_eq!(failure.passes(), away, "{failure:?}");
        }
    }
}
