//! The error of a handler. Any error becomes one with `?`, and then says that the run failed and another may do better;
//! whoever knows better says so. What Tenure refuses comes as one, too, and keeps its stable code.

use std::{error::Error, fmt};

use tenure_core::{effect::Disposition, limits::HANDLER_ERROR_MAX_BYTES, reason::Reason, refusal::Refusal};

/// Why a handler, or what it had performed, failed.
///
/// Every error that is one by the standard library's trait becomes this with `?`. It is no such error itself, because it
/// could not be made from all others then.
///
/// ```
/// use tenure_worker::handler::HandlerError;
///
/// fn read_amount(text: &str) -> Result<u32, HandlerError> {
///     let amount: u32 = text.parse()?;
///     if amount == 0 {
///         // No other run would do better: the job fails at once.
///         return Err(HandlerError::new("the amount is zero").into_final());
///     }
///     Ok(amount)
/// }
///
/// assert!(!read_amount("three").unwrap_err().is_final());
/// assert!(read_amount("0").unwrap_err().is_final());
/// ```
pub struct HandlerError {
    source: Box<dyn Error + Send + Sync>,
    is_final: bool,
    disposition: Option<Disposition>,
}

/// An error that is nothing but its words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Words(String);

impl HandlerError {
    /// A failure in these words, after which another run may do better.
    #[must_use]
    pub fn new(words: impl fmt::Display) -> Self {
        Self::from(Words(words.to_string()))
    }

    /// The same error, as one after which no other run would do better: the job is `failed`, without a restart.
    #[must_use]
    pub fn into_final(self) -> Self {
        Self { is_final: true, ..self }
    }

    /// The same error, as one after which another run may do better: the job is restarted as its agent's `[recovery]` says.
    #[must_use]
    pub fn into_retryable(self) -> Self {
        Self { is_final: false, ..self }
    }

    /// The same error of something that was to be performed, with what became of the world. It goes before what the effect
    /// declares for its failures.
    #[must_use]
    pub fn with_disposition(self, disposition: Disposition) -> Self {
        Self { disposition: Some(disposition), ..self }
    }

    /// True where no other run would do better.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// What became of the world, of an effect that failed or as the error itself was told; none: it is about no effect.
    #[must_use]
    pub fn disposition(&self) -> Option<Disposition> {
        self.disposition
    }

    /// What Tenure refused, where it is that.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.downcast_ref()
    }

    /// The error that this was made from, where it is of this type.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }
}

/// An error in words: nothing of whoever made it is called any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToldError {
    /// All its causes, at most so long as is kept.
    pub(crate) words: String,
    pub(crate) is_final: bool,
    /// What Tenure refused, where it is that.
    pub(crate) refused: Option<Reason>,
}

impl HandlerError {
    /// Puts it into words, and drops it: here, because whoever made it wrote what is called for either, and may panic.
    pub(crate) fn tell(self) -> ToldError {
        let mut words = BoundedWords::default();
        // An error says that there is no room for more, or is the error's own; what stands by then is told.
        let _ = fmt::Write::write_fmt(&mut words, format_args!("{self}"));
        let refused = self.refusal().map(|refusal| refusal.reason);
        ToldError { words: words.finish(), is_final: self.is_final, refused }
    }
}

/// The beginning of a text, as far as it is kept; what is beyond is not even written.
#[derive(Debug, Default)]
struct BoundedWords {
    kept: String,
    is_cut: bool,
}

impl fmt::Write for BoundedWords {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = HANDLER_ERROR_MAX_BYTES - self.kept.len();
        let fitting = &more[..more.floor_char_boundary(room)];
        self.kept.push_str(fitting);
        self.is_cut |= fitting.len() < more.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

impl BoundedWords {
    fn finish(self) -> String {
        if self.is_cut { format!("{} … (the rest is cut off)", self.kept) } else { self.kept }
    }
}

/// A text, as far as it is kept.
pub(crate) fn bound_words(text: &str) -> String {
    let mut words = BoundedWords::default();
    // An error says that there is no room for more.
    let _ = fmt::Write::write_str(&mut words, text);
    words.finish()
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self { source: Box::new(error), is_final: false, disposition: None }
    }
}

/// The error with all its causes, in one line.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let mut cause = self.source.source();
        while let Some(source) = cause {
            write!(f, ": {source}")?;
            cause = source.source();
        }
        Ok(())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError")
            .field("error", &self.to_string())
            .field("is_final", &self.is_final)
            .field("disposition", &self.disposition)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the letter cannot be sent")]
    struct Unsent(#[source] std::io::Error);

    #[test]
    fn an_error_is_told_with_all_its_causes() {
        let error = HandlerError::from(Unsent(std::io::Error::other("no route")));
        assert_eq!(error.to_string(), "the letter cannot be sent: no route");
        assert!(error.downcast_ref::<Unsent>().is_some());
        assert!(!error.is_final() && error.into_final().is_final());
    }

    #[test]
    fn a_long_error_is_told_from_its_beginning_and_says_that_it_is_cut() {
        let told = HandlerError::new("ü".repeat(HANDLER_ERROR_MAX_BYTES)).tell();
        assert!(told.words.ends_with("ü … (the rest is cut off)"));
        assert!(told.words.len() < HANDLER_ERROR_MAX_BYTES + 64);
        assert_eq!(HandlerError::new("no").tell().words, "no");
    }

    #[test]
    fn a_refusal_keeps_its_code() {
        let error = HandlerError::from(Refusal::new(Reason::CancelRequested, "a cancel stands"));
        assert_eq!(error.refusal().map(|refusal| refusal.reason), Some(Reason::CancelRequested));
        assert_eq!(HandlerError::new("no").refusal(), None);
    }
}
