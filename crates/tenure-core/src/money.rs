//! Money: whole micro-units of the tenant's currency, as people write it: `5.00`, `0.000125`. There is no sign, no exponent
//! and no rounding: what does not fit exactly is refused. Neighbours: `declaration` reads limits with it, a run's spends and a raise
//! are read with it, and `admission` compares.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::MONEY_MAX_MICROS;

const MICROS_PER_UNIT: u64 = 1_000_000;
const DECIMALS: usize = 6;

/// An amount of money in micro-units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, rest) = (self.0 / MICROS_PER_UNIT, self.0 % MICROS_PER_UNIT);
        let digits = format!("{rest:06}");
        // Cents are always written.
        let decimals = digits.trim_end_matches('0');
        write!(f, "{units}.{decimals:0<2}")
    }
}

/// Reads an amount, for example `5.00` or `0.000125`.
///
/// # Errors
/// Says what is wrong with it.
pub fn read_money(written: &str) -> Result<Micros, String> {
    let no_money = || format!("{written:?} is no amount like \"5.00\"");
    let (units, decimals) = written.split_once('.').unwrap_or((written, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(units) || !is_digits(decimals) {
        return Err(no_money());
    }
    if decimals.len() > DECIMALS {
        return Err(format!("{written:?} has more than {DECIMALS} decimals: micro-units are the smallest"));
    }
    let too_much = || format!("{written:?} is more than {}", Micros(MONEY_MAX_MICROS));
    let units: u64 = units.parse().map_err(|_| too_much())?;
    let rest: u64 = format!("{decimals:0<6}").parse().map_err(|_| no_money())?;
    let micros = units.checked_mul(MICROS_PER_UNIT).and_then(|micros| micros.checked_add(rest));
    micros.filter(|micros| *micros <= MONEY_MAX_MICROS).map(Micros).ok_or_else(too_much)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly_as_people_write_them() {
        for (written, micros) in [
            ("5.00", 5_000_000),
            ("5", 5_000_000),
            ("0", 0),
            ("0.000125", 125),
            ("12.5", 12_500_000),
            ("1000000000", MONEY_MAX_MICROS),
        ] {
            assert_eq!(read_money(written), Ok(Micros(micros)), "{written}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in [
            "",
            ".",
            "5.",
            ".5",
            "-1",
            "+1",
            "1e3",
            "NaN",
            "inf",
            "1,5",
            " 1",
            "0.0000001",
            "1000000000.000001",
            "18446744073709551616",
            "99999999999999999999999999",
            "１",
        ] {
            assert!(read_money(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn amounts_are_written_with_cents_and_as_many_decimals_as_they_have() {
        for (micros, written) in
            [(0, "0.00"), (5_000_000, "5.00"), (5_100_000, "5.10"), (125, "0.000125"), (1_230_000, "1.23")]
        {
            assert_eq!(Micros(micros).to_string(), written);
            assert_eq!(read_money(written), Ok(Micros(micros)));
        }
    }
}
