//! What a command writes: of stdout the beginning is kept, of stderr the end, which is also passed on as it comes. A pipe is
//! read to its end whatever is kept, so that nobody waits for room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_core::limits::{EFFECT_ERROR_MAX_BYTES, EFFECT_OUTPUT_MAX_BYTES};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::watch,
    task::JoinHandle,
};

use super::errors::Errors;

/// What is kept of a pipe.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    /// True where there was more.
    pub(super) truncated: bool,
}

/// A pipe that is being read.
#[derive(Debug)]
pub(super) struct Capture {
    kept: Arc<Mutex<Kept>>,
    /// True once nobody may be waited for any more.
    hurried: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Capture {
    /// Keeps the beginning.
    pub(super) fn keep_beginning(pipe: impl AsyncRead + Unpin + Send + 'static) -> Self {
        Self::start(pipe, None, |kept, read| {
            let room = EFFECT_OUTPUT_MAX_BYTES - kept.bytes.len();
            kept.bytes.extend_from_slice(&read[..read.len().min(room)]);
            kept.truncated |= read.len() > room;
        })
    }

    /// Passes everything on and keeps the end.
    pub(super) fn pass_on(pipe: impl AsyncRead + Unpin + Send + 'static, errors: Errors) -> Self {
        Self::start(pipe, Some(errors), |kept, read| {
            kept.bytes.extend_from_slice(read);
            let excess = kept.bytes.len().saturating_sub(EFFECT_ERROR_MAX_BYTES);
            kept.bytes.drain(..excess);
        })
    }

    fn start(
        mut pipe: impl AsyncRead + Unpin + Send + 'static,
        errors: Option<Errors>,
        keep: impl Fn(&mut Kept, &[u8]) + Send + 'static,
    ) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let keeping = Arc::clone(&kept);
        let (hurried, mut hurry) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 16 * 1024];
            // A pipe that cannot be read any more has ended.
            while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
                keep(&mut lock(&keeping), &buffer[..length]);
                let Some(errors) = &errors else { continue };
                errors.pass(&buffer[..length]);
                tokio::select! {
                    () = errors.wait_for_room() => {}
                    // Its sender goes when nobody wants this any more.
                    _ = hurry.wait_for(|hurried| *hurried) => {}
                }
            }
        });
        Self { kept, hurried, task }
    }

    /// The command has exited: from now on no reader of what is passed on is waited for.
    pub(super) fn hurry(&self) {
        self.hurried.send_replace(true);
    }

    /// Waits until nobody holds the pipe any more. May be given up and taken up again.
    pub(super) async fn wait(&mut self) {
        if !self.task.is_finished() {
            // An error is the end of this program.
            let _ = (&mut self.task).await;
        }
    }

    /// Reads no more, and gives what was kept.
    pub(super) fn take(&mut self) -> (Bytes, bool) {
        self.task.abort();
        let kept = std::mem::take(&mut *lock(&self.kept));
        (kept.bytes.into(), kept.truncated)
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_beginning_of_much_output_is_kept_and_said_to_be_a_part() {
        let all = vec![b'x'; EFFECT_OUTPUT_MAX_BYTES + 1];
        let mut capture = Capture::keep_beginning(std::io::Cursor::new(all));
        capture.wait().await;
        capture.wait().await;
        let (kept, truncated) = capture.take();
        assert_eq!((kept.len(), truncated), (EFFECT_OUTPUT_MAX_BYTES, true));
        let whole = vec![b'x'; EFFECT_OUTPUT_MAX_BYTES];
        let mut capture = Capture::keep_beginning(std::io::Cursor::new(whole.clone()));
        capture.wait().await;
        assert_eq!(capture.take(), (whole.into(), false));
    }
}
