//! Printing: what was asked for goes to stdout, remarks and failures to stderr. Text that came from a job is made harmless
//! for a terminal, where it is not the raw output that was asked for.

use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use tenure_core::job::State;

use crate::{
    cli::{Color, Global},
    failure::Failure,
};

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    /// JSON instead of text.
    pub(crate) json: bool,
    quiet: bool,
    color_stdout: bool,
    color_stderr: bool,
}

impl Printer {
    pub(crate) fn new(global: &Global) -> Self {
        let wanted = |is_terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Self {
            json: global.json,
            quiet: global.quiet,
            color_stdout: wanted(io::stdout().is_terminal()),
            color_stderr: wanted(io::stderr().is_terminal()),
        }
    }

    /// A line of text on stdout.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// One JSON object on a line of stdout.
    pub(crate) fn object(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(value).map_err(io::Error::from)?;
        text.push(b'\n');
        self.bytes(&text)
    }

    /// Bytes on stdout, as they are and at once.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// Bytes on stderr, as they are and at once.
    pub(crate) fn error_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stderr = io::stderr().lock();
        stderr.write_all(bytes)?;
        Ok(stderr.flush()?)
    }

    /// True where remarks for people are wanted.
    pub(crate) const fn remarks(&self) -> bool {
        !self.quiet
    }

    /// A remark for people on stderr.
    pub(crate) fn remark(&self, text: &str) {
        if !self.quiet {
            // A remark that nobody can read is no reason to fail.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// A failure on stderr.
    pub(crate) fn failure(&self, failure: &Failure) {
        if !matches!(failure, Failure::Refused { .. }) {
            return;
        }
        let paint_error = |text: &str| paint(self.color_stderr, AnsiColor::Red.on_default().bold(), text);
        let text = if self.json { failure.json().to_string() } else { failure.text(paint_error) };
        // Nobody is left to be told where this fails.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// A state, in the colour of how well it stands.
    pub(crate) fn state(&self, state: State) -> String {
        let style = state_color(state).map_or_else(Style::new, AnsiColor::on_default);
        paint(self.color_stdout, style, state.name())
    }

    /// True where stdout is coloured.
    pub(crate) const fn colors_stdout(&self) -> bool {
        self.color_stdout
    }
}

/// The colour of how well a state stands; none where nothing is to be said.
pub(crate) const fn state_color(state: State) -> Option<AnsiColor> {
    match state {
        State::Succeeded => Some(AnsiColor::Green),
        State::Running => Some(AnsiColor::Cyan),
        State::Failed | State::Exhausted | State::Interrupted | State::Quarantined => Some(AnsiColor::Red),
        State::Withheld | State::Suspended => Some(AnsiColor::Yellow),
        State::Ready | State::Cancelled | State::Abandoned | State::Expired => None,
    }
}

fn paint(wanted: bool, style: Style, text: &str) -> String {
    if wanted { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Text of a job made harmless: control characters that could steer a terminal are written out.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control() && c != '\t';
            let (plain, written) = if escaped { (None, Some(c.escape_default())) } else { (Some(c), None) };
            plain.into_iter().chain(written.into_iter().flatten())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_job_cannot_steer_the_terminal() {
        assert_eq!(harmless("done \u{1b}[2J\rä\n"), "done \\u{1b}[2J\\rä\\n");
    }
}
