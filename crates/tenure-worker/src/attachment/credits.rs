//! How many runs the coordinator may still grant on a stream. Credits only add up, so what was given and not yet used is
//! remembered here and never given twice.

/// The credits of one stream.
#[derive(Debug, Default)]
pub(super) struct CreditBook {
    outstanding: usize,
    withdrawn: bool,
}

impl CreditBook {
    /// A grant arrived: it used one.
    pub(super) fn use_one(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// No more runs are wanted. True the first time, when the coordinator is to be told.
    pub(super) fn withdraw(&mut self) -> bool {
        !std::mem::replace(&mut self.withdrawn, true)
    }

    /// How many more to offer, so that every free slot has one.
    pub(super) fn offer_more(&mut self, free_slots: usize) -> u32 {
        let more = free_slots.saturating_sub(self.outstanding);
        self.outstanding += more;
        u32::try_from(more).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_free_slot_is_offered_once() {
        let mut book = CreditBook::default();
        assert_eq!(book.offer_more(4), 4);
        assert_eq!(book.offer_more(4), 0);
        book.use_one();
        assert_eq!(book.offer_more(3), 0, "the grant took the slot that its credit stood for");
        assert_eq!(book.offer_more(4), 1, "it came back");
    }
}
