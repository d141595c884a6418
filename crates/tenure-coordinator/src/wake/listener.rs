//! The one listener for the wake-ups of other coordinators, on a connection of its own. Whenever it is not sure to have heard
//! all, everybody here looks at everything: at the start of each connection; a lost one is made anew. Then it also greets: it
//! expects to hear this coordinator itself, and where nobody else answers, this one is alone and need tell nothing. A
//! connection that is silent is asked whether it lives. While nothing can be heard, the polls go on, so it never keeps a coordinator from its work.
//! Neighbours: `wake` takes what is heard, the store owns the connection.

use std::time::Duration;

use tenure_core::limits::LISTENER_SILENCE;
use tenure_store::{Listener, StoreError};
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
        let listening = listen(&parts.wakes, &url, || told = false);
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

/// Connects, says so, and hears until the connection is lost. Whoever comes after that is not heard, and nobody is alone who
/// does not hear.
async fn listen(wakes: &Wakes, url: &str, connected: impl FnOnce()) -> Result<(), ListenError> {
    let listener = Listener::connect(url, APPLICATION_NAME).await?;
    connected();
    let ended = hear_all(wakes, listener).await;
    wakes.note_deaf();
    ended
}

async fn hear_all(wakes: &Wakes, mut listener: Listener) -> Result<(), ListenError> {
    let mut greeting = Some(Greeting::begin(wakes));
    loop {
        let answers_until = greeting.as_ref().map_or_else(Instant::now, |greeting| greeting.until);
        tokio::select! {
            heard = listener.hear() => {
                let speaker = wakes.hear(&heard?);
                greeting.iter_mut().for_each(|greeting| greeting.note(speaker));
            }
            () = sleep_until(answers_until), if greeting.is_some() => {
                if let Some(greeting) = greeting.take() {
                    greeting.conclude(wakes);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use tenure_store::{Store, StoreOptions};
    use tenure_testkit::{TestDatabase, wait_for};

    use super::*;
    use crate::wake::notifier::send_news;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_coordinator_that_was_alone_is_not_once_it_hears_nobody() {
        let database = TestDatabase::create().await.unwrap();
        let pool = database.connect(1).await.unwrap();
        let store = Store::connect(database.url(), StoreOptions::default()).await.unwrap();
        let (wakes, url) = (Wakes::default(), database.url().to_owned());
        let listening = tokio::spawn({
            let wakes = wakes.clone();
            async move { listen(&wakes, &url, || {}).await }
        });
        // Its own greeting is heard, and no other.
        wait_for("a coordinator that is alone", PATIENCE, async || {
            send_news(&store, &wakes).await;
            if wakes.inner.alone.load(Ordering::Acquire) { Ok(()) } else { Err("it is not") }
        })
        .await;
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'tenure listener'";
        let count: i64 = sqlx::query_scalar(ended).fetch_one(&pool).await.unwrap();
        assert_eq!(count, 1);
        let ended = timeout(PATIENCE, listening).await.expect("the loss ends it").unwrap();
        assert!(matches!(ended, Err(ListenError::Store(_))), "{ended:?}");
        wakes.note_ready();
        assert!(!wakes.take_untold().is_empty(), "whoever came meanwhile is told");
    }
}
