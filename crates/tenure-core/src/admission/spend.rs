//! What a run says that it spent. It is taken as it is said, so it refuses the next act and none before; what is no amount is refused
//! before it reaches a balance.

use serde::{Deserialize, Serialize};

use crate::{
    limits::SPEND_MAX,
    money::{Micros, read_money},
    reason::Reason,
    refusal::Refusal,
};

/// A spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Tokens of a model.
    pub tokens: u64,
    /// Money.
    pub cost: Micros,
    /// Turns of a model.
    pub turns: u64,
}

impl Spend {
    /// Reads what somebody typed; what is absent is nothing.
    ///
    /// # Errors
    /// A value is negative, no number, or more than there can be; or all of them are nothing.
    pub fn read(tokens: Option<&str>, cost: Option<&str>, turns: Option<&str>) -> Result<Self, Refusal> {
        let spend = Self {
            tokens: tokens.map_or(Ok(0), |written| read_count("tokens", written))?,
            cost: cost.map_or(Ok(Micros(0)), |written| {
                read_money(written).map_err(|words| invalid("cost", &format!("the cost {words}")))
            })?,
            turns: turns.map_or(Ok(0), |written| read_count("turns", written))?,
        };
        spend.check()?;
        Ok(spend)
    }

    /// Checks what came from outside as numbers.
    ///
    /// # Errors
    /// As those of `read`.
    pub fn check(&self) -> Result<(), Refusal> {
        for (field, number) in [("tokens", self.tokens), ("cost", self.cost.0), ("turns", self.turns)] {
            if number > SPEND_MAX {
                let words =
                    format!("{field} of {number} are more than the {SPEND_MAX} that one spend may have");
                return Err(invalid(field, &words));
            }
        }
        if *self == Self::default() {
            return Err(invalid("spend", "nothing is spent: give tokens, a cost or turns"));
        }
        Ok(())
    }
}

fn read_count(field: &str, written: &str) -> Result<u64, Refusal> {
    let plain = !written.is_empty() && written.bytes().all(|b| b.is_ascii_digit());
    let number = if plain { written.parse().ok() } else { None };
    number.ok_or_else(|| {
        invalid(field, &format!("{field} {written:?} is no whole number from 0 to {SPEND_MAX}"))
    })
}

fn invalid(field: &str, words: &str) -> Refusal {
    Refusal::new(Reason::InvalidArgument, words).with_detail("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spend_is_read_exactly() {
        let spend = Spend::read(Some("1200"), Some("0.035"), Some("2")).unwrap();
        assert_eq!(spend, Spend { tokens: 1_200, cost: Micros(35_000), turns: 2 });
        assert_eq!(Spend::read(None, Some("0.000001"), None).unwrap().cost, Micros(1));
    }

    #[test]
    fn what_is_negative_no_number_or_too_much_is_refused_and_so_is_nothing() {
        let bad = [
            "-1",
            "NaN",
            "inf",
            "-inf",
            "1e3",
            "1_000",
            "",
            " 1",
            "18446744073709551616",
            "1000000000000001",
        ];
        for bad in bad {
            let refused = |spend: Result<Spend, Refusal>| spend.unwrap_err().reason;
            assert_eq!(refused(Spend::read(Some(bad), None, None)), Reason::InvalidArgument, "{bad:?}");
            assert_eq!(refused(Spend::read(Some("1"), None, Some(bad))), Reason::InvalidArgument, "{bad:?}");
            assert_eq!(refused(Spend::read(Some("1"), Some(bad), None)), Reason::InvalidArgument, "{bad:?}");
        }
        assert!(Spend::read(None, None, None).is_err());
        assert!(Spend::read(Some("0"), Some("0.00"), None).is_err());
    }
}
