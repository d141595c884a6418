//! The judgement on all rows together: a table for people, one line of JSON for programs, and whether everything held.
//!
//! Neighbours: `row`.

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::json;
use tenure_testkit::{Concern, Recoveries, Spread};

use crate::row::{Account, Outcome, Row};

/// Half of the recoveries from deaths that were seen are at least so quick, in milliseconds.
const SEEN_P50_MAX_MS: u64 = 1_500;
/// And all of them.
const SEEN_MAX_MS: u64 = 3_000;
/// Every recovery from a death that nobody saw: the rows' lease of 5 s, and 2 s.
const UNSEEN_MAX_MS: u64 = 7_000;

/// What became of the rows so far.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<(&'static Row, Outcome)>,
}

impl Report {
    /// Adds a row.
    pub(crate) fn add(&mut self, row: &'static Row, outcome: Outcome) {
        self.lines.push((row, outcome));
    }

    /// One line for each row.
    pub(crate) fn print_table(&self) {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header([
            "row",
            "fault",
            "outcome",
            "findings",
            "fenced",
            "seen ms",
            "unseen ms",
        ]);
        for (row, outcome) in &self.lines {
            let (words, account) = match outcome {
                Outcome::Passed(account) => ("passed", Some(account)),
                Outcome::Broken(account) => ("FAILED", Some(account)),
                Outcome::Failed(_) => ("FAILED", None),
                Outcome::Skipped(_) => ("skipped", None),
            };
            let figure = |read: fn(&Account) -> String| account.map(read).unwrap_or_default();
            table.add_row([
                row.number.to_string(),
                row.title.to_owned(),
                words.to_owned(),
                figure(|account| account.findings.len().to_string()),
                figure(|account| account.fenced_writes.to_string()),
                figure(|account| list(&account.recoveries.seen_ms)),
                figure(|account| list(&account.recoveries.unseen_ms)),
            ]);
        }
        println!("{table}");
    }

    /// The last line; true where everything held, and, where that is judged, was as quick as is promised.
    pub(crate) fn print_summary(&self, judge_speed: bool) -> bool {
        let count = |is: fn(&Outcome) -> bool| self.lines.iter().filter(|(_, outcome)| is(outcome)).count();
        let passed = count(|outcome| matches!(outcome, Outcome::Passed(_)));
        let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
        let failed = self.lines.len() - passed - skipped;
        let recoveries = self.recoveries();
        let (seen, unseen) = (Spread::of(&recoveries.seen_ms), Spread::of(&recoveries.unseen_ms));
        let counted =
            [Concern::OverlappingChildren, Concern::Duplicated, Concern::Lost].map(|of| self.count(of));
        println!(
            "{}",
            json!({
                "rows": self.lines.len(),
                "passed": passed,
                "failed": failed,
                "skipped": skipped,
                "overlapping_children": counted[0],
                "duplicated": counted[1],
                "lost": counted[2],
                "fenced_writes": self.accounts().map(|account| account.fenced_writes).sum::<u64>(),
                "recovery_seen_ms": seen,
                "recovery_unseen_ms": unseen,
            })
        );
        failed == 0 && counted == [0; 3] && (!judge_speed || is_quick(seen, unseen))
    }

    /// The last line of the book of handovers; true as there.
    pub(crate) fn print_handover_summary(&self, judge_speed: bool) -> bool {
        let skipped: Vec<serde_json::Value> = self
            .lines
            .iter()
            .filter_map(|(row, outcome)| match outcome {
                Outcome::Skipped(why) => Some(json!({ "scenario": row.title, "why": why })),
                Outcome::Passed(_) | Outcome::Broken(_) | Outcome::Failed(_) => None,
            })
            .collect();
        let failed = self.lines.iter().filter(|(_, outcome)| outcome.has_failed()).count();
        let recoveries = self.recoveries();
        let (seen, unseen) = (Spread::of(&recoveries.seen_ms), Spread::of(&recoveries.unseen_ms));
        let counted = [Concern::OverlappingChildren, Concern::Lost, Concern::Price].map(|of| self.count(of));
        println!(
            "{}",
            json!({
                "scenarios": self.lines.len(),
                "failed": failed,
                "skipped": skipped.len(),
                "skipped_scenarios": skipped,
                "overlapping_children": counted[0],
                "lost": counted[1],
                "attempts_misused": counted[2],
                "recovery_seen_ms": seen,
                "recovery_unseen_ms": unseen,
            })
        );
        failed == 0 && counted == [0; 3] && (!judge_speed || is_quick(seen, unseen))
    }

    fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.lines.iter().filter_map(|(_, outcome)| match outcome {
            Outcome::Passed(account) | Outcome::Broken(account) => Some(account),
            Outcome::Failed(_) | Outcome::Skipped(_) => None,
        })
    }

    fn count(&self, concern: Concern) -> usize {
        let findings = self.accounts().flat_map(|account| &account.findings);
        findings.filter(|finding| finding.concern == concern).count()
    }

    fn recoveries(&self) -> Recoveries {
        let mut all = Recoveries::default();
        self.accounts().for_each(|account| all.add(account.recoveries.clone()));
        all
    }
}

/// Whether recoveries were as quick as is promised. What no row measured is not judged.
fn is_quick(seen: Option<Spread>, unseen: Option<Spread>) -> bool {
    seen.is_none_or(|seen| seen.p50 <= SEEN_P50_MAX_MS && seen.max <= SEEN_MAX_MS)
        && unseen.is_none_or(|unseen| unseen.max <= UNSEEN_MAX_MS)
}

fn list(figures: &[u64]) -> String {
    Spread::of(figures)
        .map(|spread| format!("{} / {} of {}", spread.p50, spread.max, figures.len()))
        .unwrap_or_default()
}
