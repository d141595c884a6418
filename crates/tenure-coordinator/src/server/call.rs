//! What every call has in common: who asks, a page's limit and cursor, and the answer as it goes onto the wire. Neighbours:
//! each service; `caller` identifies, `patience` bounds.

use tenure_core::{limits::PAGE_MAX, reason::Reason, refusal::Refusal};
use tonic::{Request, Response, Status};

use super::caller::identify_caller;
use crate::{patience::within, refusals::write_refusal};

/// Who asks, and what.
pub(super) fn open<C: Clone + Send + Sync + 'static, M>(request: Request<M>) -> Result<(C, M), Status> {
    let (_, extensions, message) = request.into_parts();
    Ok((identify_caller(&extensions)?, message))
}

/// An answer or a refusal, as it goes onto the wire. A database that never answers is one, within the bound.
pub(super) async fn answer<M>(
    outcome: impl Future<Output = Result<M, Refusal>>,
) -> Result<Response<M>, Status> {
    let outcome = within(outcome).await.unwrap_or_else(|unanswered| Err(unanswered.into()));
    outcome.map(Response::new).map_err(|refusal| write_refusal(&refusal))
}

/// The same where the caller's own bytes, or a blob store, may take longer than a database: whatever is waited for has a bound
/// of its own.
pub(super) async fn answer_at_length<M>(
    outcome: impl Future<Output = Result<M, Refusal>>,
) -> Result<Response<M>, Status> {
    outcome.await.map(Response::new).map_err(|refusal| write_refusal(&refusal))
}

/// The limit of a page: 0 means the default.
pub(super) fn read_limit(given: u32, default: u32) -> Result<u32, Refusal> {
    match given {
        0 => Ok(default),
        1..=PAGE_MAX => Ok(given),
        _ => {
            let words = format!("a page of {given} was asked for, and at most {PAGE_MAX} are given");
            Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "limit"))
        }
    }
}

/// A cursor that no page had.
pub(super) fn refuse_cursor(cursor: &str) -> Refusal {
    Refusal::new(Reason::InvalidCursor, format!("{cursor:?} is no cursor of a page of this listing"))
}
