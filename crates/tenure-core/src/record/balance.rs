//! What a record changes in the balance of its job's session; the session's row follows from it, in the same statement.

use crate::{
    admission::{Limit, Spend},
    money::Micros,
};

/// A change of a session's balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BalanceMark {
    /// Runs that are given back because they never started.
    pub runs_back: u32,
    /// What is spent.
    pub spend: Spend,
    /// A limit that is raised, and to what.
    pub raised: Option<(Limit, u64)>,
}

impl BalanceMark {
    /// Both changes in one.
    #[must_use]
    pub const fn join(self, other: Self) -> Self {
        Self {
            runs_back: self.runs_back.saturating_add(other.runs_back),
            spend: Spend {
                tokens: self.spend.tokens.saturating_add(other.spend.tokens),
                cost: Micros(self.spend.cost.0.saturating_add(other.spend.cost.0)),
                turns: self.spend.turns.saturating_add(other.spend.turns),
            },
            raised: match other.raised {
                Some(raised) => Some(raised),
                None => self.raised,
            },
        }
    }
}
