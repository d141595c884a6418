//! The handover in words, for a prompt: what a run must know before it begins, and nothing that would send it looking for
//! damage that is not there. A first run is told nothing. The wording is pinned by golden files, because agents act on it.
//! Neighbours: `handover` says what is told.

use std::fmt::Write as _;

use crate::{
    handover::{Cause, EarlierNote, Handover},
    id::Run,
    recovery::Interruption,
};

/// The words.
#[must_use]
pub fn brief(handover: &Handover) -> String {
    match &handover.cause {
        Cause::Dispatch => String::new(),
        Cause::Recovered { previous, interruption, attempt } => {
            let mut text = tell_recovery(*previous, interruption, *attempt);
            tell_notes(&mut text, handover);
            text
        }
    }
}

fn tell_recovery(previous: Run, interruption: &Interruption, attempt: u32) -> String {
    format!(
        "# You are continuing work that was interrupted\n\
         \n\
         Run {previous} of this job did not finish: {}. This is attempt {attempt}.\n\
         \n\
         You are a new process and remember nothing of what was done before. Before you repeat anything that \
         changes the world, check whether an earlier run already did it: doing it twice is worse than doing it \
         late.\n",
        interruption.sentence()
    )
}

fn tell_notes(text: &mut String, handover: &Handover) {
    text.push('\n');
    if handover.notes.is_empty() {
        text.push_str(
            "Nothing was written down on the way, so the work may have got anywhere from nowhere to almost \
             finished.\n",
        );
        return;
    }
    text.push_str(
        "This is what was written down on the way, oldest first. It is not necessarily all that was done:\n\n",
    );
    if handover.notes_left_out > 0 {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "- ({} older notes are left out)", handover.notes_left_out);
    }
    for note in &handover.notes {
        tell_note(text, note);
    }
}

/// One bullet; the further lines of a note are indented, so that they stay in it.
fn tell_note(text: &mut String, note: &EarlierNote) {
    let words = note.text.as_deref().map_or("(this note was erased)", str::trim);
    let mut lines = words.lines().map(str::trim_end);
    let first = format!("- run {}: {}", note.run, lines.next().unwrap_or_default());
    let _ = writeln!(text, "{}", first.trim_end());
    for line in lines {
        let line = format!("  {line}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests;
