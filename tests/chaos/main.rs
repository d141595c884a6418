//! The fleet under faults: one row for each fault that it has to survive. A row starts a fleet of real processes with real
//! work, does its worst to it, lets the work come to its end, and has the checkers look at what is left. Nothing is asked
//! of the fleet itself.
//!
//! There are two books of rows: faults of every kind, and the ways in which a run comes to be handed over, where it matters too
//! what each restart draws on.
//!
//! Prints a table for people, and as its last line one line of JSON. Ends with 0 only where no row failed, everything is 0
//! that must be 0, and recoveries were as quick as is promised. What is random follows from the seed, which is printed; the
//! scheduling of processes does not.
//!
//! Neighbours: `row` says what a row is, `rows` and `scenarios` list them, `arena` is the fleet and the work of one row, `report`
//! judges the whole; the test kit owns the processes and the checkers.

mod arena;
mod report;
mod row;
mod rows;
mod scenarios;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use tenure_testkit::find_program;

use crate::{
    report::Report,
    row::{Row, Setting},
    rows::ROWS,
    scenarios::SCENARIOS,
};

/// Put a fleet under faults, and count what did not hold
#[derive(Parser)]
#[command(name = "chaos-fleet")]
struct Arguments {
    /// Whose rows.
    #[arg(long, value_enum, default_value = "fleet")]
    book: Book,
    /// What is random follows from it; otherwise one is drawn, and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Only these rows.
    #[arg(long = "row")]
    rows: Vec<u32>,
    /// Only rows that take less than 20 s, in their shortest form.
    #[arg(long)]
    short: bool,
}

/// A list of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Book {
    /// Faults of every kind.
    Fleet,
    /// How runs come to be handed over.
    Handover,
}

impl Book {
    const fn rows(self) -> &'static [Row] {
        match self {
            Self::Fleet => ROWS,
            Self::Handover => SCENARIOS,
        }
    }
}

fn main() -> ExitCode {
    match run_rows(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos-fleet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_rows(arguments: &Arguments) -> Result<bool> {
    let chosen = choose_rows(arguments)?;
    let program = find_program("tenure")?;
    let setting =
        Setting { seed: arguments.seed.unwrap_or_else(rand::random), short: arguments.short, program };
    println!("seed {}", setting.seed);
    let mut report = Report::default();
    for row in chosen {
        let outcome = row.run(&setting)?;
        println!("row {}: {}: {outcome}", row.number, row.title);
        report.add(row, outcome);
    }
    report.print_table();
    // Other tests run beside the short form: how quick it is says nothing.
    let judge_speed = !arguments.short;
    Ok(match arguments.book {
        Book::Fleet => report.print_summary(judge_speed),
        Book::Handover => report.print_handover_summary(judge_speed),
    })
}

fn choose_rows(arguments: &Arguments) -> Result<Vec<&'static Row>> {
    let rows = arguments.book.rows();
    for number in &arguments.rows {
        ensure!(rows.iter().any(|row| row.number == *number), "there is no row {number}");
    }
    let is_chosen = |row: &&Row| {
        let named = arguments.rows.contains(&row.number);
        named || (arguments.rows.is_empty() && (row.quick || !arguments.short))
    };
    Ok(rows.iter().filter(is_chosen).collect())
}
