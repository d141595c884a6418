//! The one listener for the wake-ups of other coordinators, on a connection of its own. Whenever it is not sure to have heard
//! all, everybody here looks at everything: at its start, and after each loss of the connection. Then it also greets: it
//! expects to hear this coordinator itself, and where nobody else answers, this one is alone and need tell nothing. A
//! connection that is silent is asked whether it lives. While nothing can be heard, the polls go on, so it never keeps a coordinator from its work.
//! Neighbours: `wake` takes what is heard, the store owns the connection.

use std::time::Duration;

use tenure_core::limits::LISTENER_SILENCE;
use tenure_store::{Heard, Listener, StoreError};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Speaker, Wakes};
use crate::{coordinator::Parts, refusals::chain};

/// The pause before a lost connection is made again.
const PAUSE: Duration = Duration::from_secs(1);
/// The name in `pg_stat_activity`.
const APPLICATION_NAME: &str = "tenure listener";

/// Why a connection is given up.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the listener's connection did not answer within {} s", LISTENER_SILENCE.as_secs())]
    Silent,
}

/// Listens until the coordinator stops.
pub(crate) async fn run_listener(parts: Parts, url: String) {
    let mut told = false;
    while !parts.stopping.is_cancelled() {
        let listening = async {
            let listener = Listener::connect(&url, APPLICATION_NAME).await?;
            told = false;
            listen(&parts, listener).await
        };
        let ended = tokio::select! {
            () = parts.stopping.cancelled() => return,
            ended = listening => ended,
        };
        if let Err(error) = ended
            && !std::mem::replace(&mut told, true)
        {
            let error = chain(&error);
            tracing::warn!(error, "other coordinators are not heard; what they do is found by polling");
        }
        sleep(PAUSE).await;
    }
}

/// Hears until the connection is lost.
async fn listen(parts: &Parts, mut listener: Listener) -> Result<(), ListenError> {
    let mut greeting = Some(Greeting::begin(&parts.wakes));
    loop {
        let answers_until = greeting.as_ref().map_or_else(Instant::now, |greeting| greeting.until);
        tokio::select! {
            heard = listener.hear() => match heard? {
                Heard::Payload(payload) => {
                    let speaker = parts.wakes.hear(&payload);
                    greeting.iter_mut().for_each(|greeting| greeting.note(speaker));
                }
                Heard::Gap => greeting = Some(Greeting::begin(&parts.wakes)),
            },
            () = sleep_until(answers_until), if greeting.is_some() => {
                if let Some(greeting) = greeting.take() {
                    greeting.conclude(&parts.wakes);
                }
            }
            () = sleep(LISTENER_SILENCE) => {
                timeout(LISTENER_SILENCE, listener.check()).await.map_err(|_| ListenError::Silent)??;
            }
        }
    }
}

/// What became of a greeting so far.
struct Greeting {
    until: Instant,
    heard_itself: bool,
    heard_another: bool,
}

impl Greeting {
    /// What happened before is not known, and who is there neither.
    fn begin(wakes: &Wakes) -> Self {
        wakes.look_at_everything();
        wakes.greet();
        Self { until: Instant::now() + LISTENER_SILENCE, heard_itself: false, heard_another: false }
    }

    fn note(&mut self, speaker: Speaker) {
        match speaker {
            Speaker::Itself => self.heard_itself = true,
            Speaker::Another => self.heard_another = true,
        }
    }

    fn conclude(self, wakes: &Wakes) {
        match (self.heard_itself, self.heard_another) {
            (false, _) => warn_of_silence(),
            (true, false) => wakes.note_alone(),
            (true, true) => {}
        }
    }
}

/// A pooler that shares connections by the transaction takes a `LISTEN` and drops what it should bring.
fn warn_of_silence() {
    tracing::warn!(
        "the listener does not hear what this coordinator itself sends: give the address of the database behind a pooler, or \
         of the same database, as --listen-database-url"
    );
}
