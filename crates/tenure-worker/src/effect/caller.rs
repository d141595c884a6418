//! The other end of one call: whoever performs, a program inside the run or a function of this one. It hears what to do, says
//! what it did, and is gone when its side of the call is closed.

use std::pin::pin;

use tenure_core::{reason::Reason, refusal::Refusal};
use tenure_proto::{
    status::refusal_to_status,
    v1::{
        PerformEffectRequest, PerformEffectResponse, perform_effect_request::Message as Said,
        perform_effect_response::Message as Told,
    },
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

/// Why a call goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    /// It is refused.
    Refused(Refusal),
    /// Nobody is left to be answered.
    CallerLeft,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Where a caller's words come from.
#[derive(Debug)]
pub(super) enum Words {
    /// A program that speaks to the run's socket.
    Program(Box<Streaming<PerformEffectRequest>>),
    /// A function of this program: nothing of what it performs is a process of its own.
    Function(mpsc::Receiver<Said>),
}

impl Words {
    async fn next(&mut self) -> Result<Said, Stop> {
        match self {
            Self::Program(requests) => match requests.message().await {
                Ok(Some(request)) => request.message.ok_or_else(|| out_of_turn().into()),
                Ok(None) | Err(_) => Err(Stop::CallerLeft),
            },
            Self::Function(words) => words.recv().await.ok_or(Stop::CallerLeft),
        }
    }
}

/// The caller.
#[derive(Debug)]
pub(super) struct Caller {
    words: Words,
    answers: mpsc::Sender<Result<PerformEffectResponse, Status>>,
    /// Cancelled once the run is over.
    over: CancellationToken,
    warning: String,
}

impl Caller {
    pub(super) fn new(
        words: Words,
        answers: mpsc::Sender<Result<PerformEffectResponse, Status>>,
        over: CancellationToken,
    ) -> Self {
        Self { words, answers, over, warning: String::new() }
    }

    /// Whether what it performs are processes, of which something may be left.
    pub(super) fn performs_processes(&self) -> bool {
        matches!(self.words, Words::Program(_))
    }

    /// A remark for a person, with the next words.
    pub(super) fn warn(&mut self, warning: String) {
        self.warning = warning;
    }

    /// The first thing that the caller says.
    pub(super) async fn hear_first(&mut self) -> Result<Said, Stop> {
        let over = self.over.clone();
        over.run_until_cancelled(self.hear()).await.unwrap_or(Err(Stop::CallerLeft))
    }

    /// The next thing that the caller says. It is heard to its end also where the run is over: what it said before stands
    /// in the connection.
    pub(super) async fn hear(&mut self) -> Result<Said, Stop> {
        self.words.next().await
    }

    /// Waits for something while nothing may be said, for as long as the caller is there and the run goes on.
    pub(super) async fn wait_for<T>(&mut self, something: impl Future<Output = T>) -> Result<T, Stop> {
        let mut something = pin!(something);
        tokio::select! {
            biased;
            came = &mut something => Ok(came),
            () = self.over.cancelled() => Err(Stop::CallerLeft),
            said = self.words.next() => Err(said.map_or_else(|stop| stop, |_| out_of_turn().into())),
        }
    }

    /// Tells the caller something.
    pub(super) async fn tell(&mut self, message: Told) -> Result<(), Stop> {
        let warning = std::mem::take(&mut self.warning);
        let told = PerformEffectResponse { message: Some(message), warning };
        self.answers.send(Ok(told)).await.map_err(|_| Stop::CallerLeft)
    }

    /// Refuses, as the last words.
    pub(super) async fn refuse(&mut self, refusal: &Refusal) {
        // Whoever left wants no words.
        let _ = self.answers.send(Err(refusal_to_status(refusal))).await;
    }
}

/// The caller does not keep to its turns.
pub(super) fn out_of_turn() -> Refusal {
    Refusal::new(Reason::InvalidArgument, "the caller said something that was not asked for")
        .with_detail("field", "message")
}
