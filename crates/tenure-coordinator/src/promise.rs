//! Credits that were taken from an attached worker for runs that are being claimed. Each becomes a grant, or is given back when it
//! is dropped, whatever became of the claim. So a worker that withdrew its credits can be told when no grant follows any more.
//! Neighbours: `attachments` counts them, `dispatch` and the submission claim take them, `grant` uses them up.

use std::{mem, sync::Arc};

use crate::attachments::Attached;

/// So many credits of one worker.
#[derive(Debug)]
pub(crate) struct Promises {
    attached: Arc<Attached>,
    count: u32,
}

impl Promises {
    /// What was just taken from the worker's credits.
    pub(crate) const fn taken(attached: Arc<Attached>, count: u32) -> Self {
        Self { attached, count }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// To whom they were made.
    pub(crate) const fn attached(&self) -> &Arc<Attached> {
        &self.attached
    }

    /// One of them by itself; none where none is left.
    pub(crate) fn split_one(&mut self) -> Option<Self> {
        self.count = self.count.checked_sub(1)?;
        Some(Self::taken(self.attached.clone(), 1))
    }

    /// They were kept: the grants are on their way.
    pub(crate) fn keep(mut self) {
        self.attached.settle_promises(mem::take(&mut self.count), 0);
    }
}

impl Drop for Promises {
    fn drop(&mut self) {
        self.attached.settle_promises(self.count, self.count);
    }
}
