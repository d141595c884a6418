//! Tables for people: columns, no lines. What came from a job is made harmless first.

use anstyle::AnsiColor;
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use tenure_core::job::State;

use crate::printer::{Printer, harmless, state_color};

/// A table with these headings.
pub(crate) fn build_table(printer: Printer, headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if printer.colors_stdout() {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    table
}

/// The table's text, without the spaces at the ends of its lines.
pub(crate) fn format_table(table: &Table) -> String {
    let trimmed: Vec<String> =
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    trimmed.join("\n")
}

/// A cell with text.
pub(crate) fn cell(text: &str) -> Cell {
    Cell::new(harmless(text))
}

/// A cell with a state, in the colour of how well it stands.
pub(crate) fn state_cell(state: State) -> Cell {
    let cell = Cell::new(state.name());
    match state_color(state) {
        Some(AnsiColor::Green) => cell.fg(Color::Green),
        Some(AnsiColor::Cyan) => cell.fg(Color::Cyan),
        Some(AnsiColor::Yellow) => cell.fg(Color::Yellow),
        Some(_) => cell.fg(Color::Red),
        None => cell,
    }
}
