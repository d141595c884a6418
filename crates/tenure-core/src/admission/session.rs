//! Whether a session is opened: what the tenant has spent in the last 24 hours must be below its reserve, so that nothing is minted that
//! cannot be paid for. What runs already is not asked.

use super::{Amount, Limit, LimitRefusal};
use crate::{declaration::PolicyBundle, limits, money::Micros, reason::Reason, refusal::Refusal};

/// Whether a session may be opened. `spent` is what the tenant has spent in the last 24 hours.
///
/// # Errors
/// The tenant's reserve is spent.
pub fn admit_session(bundle: Option<&PolicyBundle>, spent: Micros) -> Result<(), Refusal> {
    let reserve = bundle.and_then(PolicyBundle::reserve).unwrap_or(Micros(limits::RESERVE_DEFAULT_MICROS));
    let amount = Amount { used: spent.0, limit: reserve.0 };
    // 0: no limit.
    if reserve.0 == 0 || !amount.is_used_up() {
        return Ok(());
    }
    let refused = LimitRefusal { limit: Limit::Reserve, used: amount.used, allowed: amount.limit };
    let words =
        format!("the tenant's reserve of 24 hours is spent ({spent} of {reserve}), and no session is opened");
    Err(refused.refuse(words))
}

impl LimitRefusal {
    /// The refusal in these words.
    #[must_use]
    pub fn refuse(self, words: impl Into<String>) -> Refusal {
        let Self { limit, used, allowed } = self;
        Refusal::new(Reason::LimitReached, words)
            .with_detail("limit", limit)
            .with_detail("used", used)
            .with_detail("allowed", allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(bundle: Option<&[u8]>, spent: u64) -> Result<(), Refusal> {
        let bundle = bundle.map(|bundle| PolicyBundle::parse(bundle).unwrap());
        admit_session(bundle.as_ref(), Micros(spent))
    }

    #[test]
    fn a_session_is_opened_until_the_reserve_of_the_tenant_is_spent() {
        assert_eq!(admit(None, 99_999_999), Ok(()));
        let refusal = admit(None, 100_000_000).unwrap_err();
        assert_eq!((refusal.reason, &*refusal.details["limit"]), (Reason::LimitReached, "reserve"));
        assert!(refusal.message.contains("100.00 of 100.00"), "{refusal}");
        let small = br#"{"limits":{"reserve":"0.50"}}"#;
        assert_eq!(admit(Some(small), 499_999), Ok(()));
        assert!(admit(Some(small), 500_000).is_err());
    }

    #[test]
    fn a_reserve_of_nothing_is_no_limit() {
        assert_eq!(admit(Some(br#"{"limits":{"reserve":"0"}}"#), u64::MAX), Ok(()));
    }
}
