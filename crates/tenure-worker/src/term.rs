//! The worker's own time to live. It owns the registration, the number that the next renewal echoes, and the local
//! deadline: the moment of *sending* the last successful renewal, on the clock that also counts suspended time, plus the
//! ttl, less the margin. It promises that the local deadline never lies after the instant at which the database may
//! close the term, however late an answer arrived. It renews nothing itself and ends no child.
//! Neighbours: `attachment` sends the renewals and hands the answers in; `executor` and every guardian obey the deadline.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use tenure_core::id::{Generation, Term};
use tenure_proto::{
    convert::{InvalidField, time::read_duration},
    v1::RegisterWorkerResponse,
};
use tokio::sync::watch;

use crate::guardian::BootInstant;

/// What proves that an attach comes from its registration. Printing it prints that there is one.
#[derive(Clone)]
struct AttachSecret(Bytes);

impl fmt::Debug for AttachSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AttachSecret(..)")
    }
}

/// A term that was opened for this worker.
#[derive(Debug)]
pub(crate) struct HeldTerm {
    number: Term,
    generation: Generation,
    secret: AttachSecret,
    ttl: Duration,
    /// The number of the last answer that arrived.
    echo: AtomicU64,
    deadline: watch::Sender<BootInstant>,
}

impl HeldTerm {
    /// The term that a registration sent at `sent` opened.
    pub(crate) fn open(response: RegisterWorkerResponse, sent: BootInstant) -> Result<Self, InvalidField> {
        let ttl = match &response.ttl {
            Some(ttl) => read_duration("ttl", ttl)?,
            None => return Err(InvalidField::Missing { field: "ttl" }),
        };
        Ok(Self {
            number: Term(response.term),
            generation: Generation(response.generation),
            secret: AttachSecret(response.secret),
            ttl,
            echo: AtomicU64::new(response.answer),
            deadline: watch::Sender::new(local_deadline(sent, ttl)),
        })
    }

    /// The number of the term.
    pub(crate) fn number(&self) -> Term {
        self.number
    }

    /// The number of the database's history at the registration.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// What proves that an attach comes from this registration.
    pub(crate) fn secret(&self) -> Bytes {
        self.secret.0.clone()
    }

    /// How long the term lives without a renewal.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long before the database's instant the worker stops on its own.
    pub(crate) fn margin(&self) -> Duration {
        tenure_core::term::margin(self.ttl)
    }

    /// The pause between two renewals.
    pub(crate) fn renew_interval(&self) -> Duration {
        tenure_core::term::renew_interval(self.ttl)
    }

    /// The number that the next renewal echoes.
    pub(crate) fn echo(&self) -> u64 {
        self.echo.load(Ordering::Acquire)
    }

    /// Takes the number of an answer that arrived, whatever it said.
    pub(crate) fn receive_answer(&self, answer: u64) {
        self.echo.fetch_max(answer, Ordering::AcqRel);
    }

    /// The renewal that was sent at `sent` succeeded. The deadline never moves back: answers may overtake each other.
    pub(crate) fn extend(&self, sent: BootInstant) {
        let renewed = local_deadline(sent, self.ttl);
        self.deadline.send_if_modified(|deadline| {
            let later = renewed > *deadline;
            if later {
                *deadline = renewed;
            }
            later
        });
    }

    /// The present local deadline.
    pub(crate) fn deadline(&self) -> BootInstant {
        *self.deadline.borrow()
    }

    /// A child that starts at this instant or later would be asked to end at once: one margin before the local deadline.
    pub(crate) fn latest_start(&self) -> BootInstant {
        self.deadline().minus(self.margin())
    }

    /// The local deadline as it moves.
    pub(crate) fn watch_deadline(&self) -> watch::Receiver<BootInstant> {
        self.deadline.subscribe()
    }
}

fn local_deadline(sent: BootInstant, ttl: Duration) -> BootInstant {
    sent.plus(ttl.saturating_sub(tenure_core::term::margin(ttl)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_nanoseconds(1_000_000_000_000);

    fn term(ttl_s: i64) -> HeldTerm {
        let ttl = Some(prost_types::Duration { seconds: ttl_s, nanos: 0 });
        let response =
            RegisterWorkerResponse { term: 7, ttl, answer: 100, generation: 1, ..Default::default() };
        HeldTerm::open(response, START).unwrap()
    }

    #[test]
    fn the_local_deadline_counts_from_the_moment_of_sending() {
        let term = term(30);
        assert_eq!(term.deadline(), START.plus(Duration::from_secs(27)));
        term.extend(START.plus(Duration::from_secs(10)));
        assert_eq!(term.deadline(), START.plus(Duration::from_secs(37)));
        assert_eq!(term.latest_start(), START.plus(Duration::from_secs(34)));
    }

    #[test]
    fn an_overtaken_answer_moves_neither_deadline_nor_echo_back() {
        let term = term(30);
        term.extend(START.plus(Duration::from_secs(10)));
        term.extend(START.plus(Duration::from_secs(5)));
        assert_eq!(term.deadline(), START.plus(Duration::from_secs(37)));
        term.receive_answer(300);
        term.receive_answer(200);
        assert_eq!(term.echo(), 300);
    }

    #[test]
    fn printing_a_term_does_not_print_its_secret() {
        let ttl = Some(prost_types::Duration { seconds: 30, nanos: 0 });
        let secret = Bytes::from_static(b"hunter2");
        let response = RegisterWorkerResponse { ttl, secret, ..Default::default() };
        let term = HeldTerm::open(response, START).unwrap();
        assert_eq!(term.secret(), "hunter2");
        assert!(!format!("{term:?}").contains("hunter2"));
    }

    #[test]
    fn a_registration_without_a_ttl_opens_no_term() {
        let refused = HeldTerm::open(RegisterWorkerResponse::default(), START).unwrap_err();
        assert_eq!(refused.field(), "ttl");
    }
}
