//! Whether a run of a cause repeats what an earlier run may have done; and the table of what each pays, beside which whoever
//! changes one sees the other.

use super::Cause;

impl Cause {
    /// Whether the run does again what an earlier one may have done: it is told to look before it acts.
    #[must_use]
    pub const fn repeats_earlier_work(&self) -> bool {
        match self {
            Self::Recovered { .. } | Self::Continued { .. } | Self::Drained { .. } => true,
            Self::Steered { previous, .. } => previous.is_some(),
            // What waited or was set down ended on purpose, and what undoes goes by the journal alone.
            Self::Dispatch | Self::Resumed { .. } | Self::Woken { .. } | Self::Unwinding { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{factory::every_cause, handover::Price};

    #[test]
    fn what_a_run_of_each_cause_pays_and_whether_it_repeats_earlier_work() {
        let mut table = String::new();
        for cause in every_cause() {
            let Price { counts, checks_money } = cause.price();
            let repeats = if cause.repeats_earlier_work() { "repeats" } else { "does not repeat" };
            let name = serde_json::to_value(&cause).unwrap()["kind"].as_str().unwrap().to_owned();
            let after = cause.previous().map_or("none", |_| "a run");
            table.push_str(&format!(
                "{name:<10} after {after:<6} {repeats:<16} counts as a run: {counts:<6} money is checked: {checks_money}\n"
            ));
        }
        insta::assert_snapshot!(table);
    }
}
