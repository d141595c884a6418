//! Keeps the tokens in memory as the file and the database have them: the file is looked at every second, the database is
//! asked when somebody says that its tokens changed, and every few seconds. What cannot be read leaves the set before in
//! force, and is said once in the log.

use tenure_core::limits::{TOKENS_DATABASE_POLL, TOKENS_FILE_POLL};

use super::pause;
use crate::{
    coordinator::Parts, credentials::file::TokenFile, patience::within, poll::Poll, refusals::chain,
};

/// Follows the file until the coordinator stops.
pub(super) async fn follow_token_file(parts: Parts, mut file: TokenFile) {
    while pause(&parts, TOKENS_FILE_POLL).await {
        match file.read_changed().await {
            Ok(None) => {}
            Ok(Some(tokens)) => {
                tracing::info!(tokens = tokens.len(), "the file of tokens changed");
                parts.credentials.replace_file(tokens);
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "the tokens stay as they were");
            }
        }
    }
}

/// Follows the database until the coordinator stops.
pub(super) async fn follow_database_tokens(parts: Parts) {
    let poll = Poll::every(TOKENS_DATABASE_POLL);
    let mut failed = false;
    loop {
        tokio::select! {
            () = parts.stopping.cancelled() => return,
            () = parts.wakes.await_tokens() => {}
            () = poll.pause() => {}
        }
        let failure = read_tokens(&parts).await.err();
        if let Some(error) = failure.as_ref().filter(|_| !failed) {
            tracing::warn!(error, "the tokens of the database stay as they were");
        }
        failed = failure.is_some();
    }
}

async fn read_tokens(parts: &Parts) -> Result<(), String> {
    let read = within(parts.store.list_tokens()).await.map_err(|unanswered| unanswered.to_string())?;
    let tokens = read.map_err(|error| chain(&error))?;
    parts.credentials.replace_database(tokens).map_err(|error| error.to_string())
}
