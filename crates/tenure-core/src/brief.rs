//! The handover in words, for a prompt: what a run must know before it begins, and nothing that would send it looking for
//! damage that is not there. A first run is told nothing. The wording is pinned by golden files, because agents act on it.
//! Neighbours: `handover` says what is told.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::{
    effect::EffectRecovery,
    handover::{Cause, EarlierEffect, EarlierNote, EarlierState, EarlierSteer, Handover},
    id::{Run, SessionId},
    layover::VoidedBooking,
    recovery::Interruption,
    wait::{AwaitedResult, WokenBy},
};

/// The words.
#[must_use]
pub fn brief(handover: &Handover) -> String {
    let mut text = match &handover.cause {
        // An unwinding run starts no agent.
        Cause::Unwinding { .. } => return String::new(),
        Cause::Dispatch => String::new(),
        Cause::Recovered { previous, interruption, attempt } => {
            tell_recovery(*previous, interruption, *attempt)
        }
        Cause::Resumed { booked_by, waiting_for, booked_at, checks, .. } => {
            tell_pick_up(*booked_by, waiting_for, *booked_at, *checks)
        }
        Cause::Woken { previous, wait, .. } => tell_waking(*previous, wait, &handover.awaited),
        Cause::Continued { previous, by, why, attempt } => {
            tell_continuation(*previous, &by.actor, why, *attempt)
        }
        Cause::Steered { previous, .. } => tell_redirection(*previous, handover.steer_of_cause()),
        Cause::Drained { previous, attempt } => tell_move(*previous, *attempt),
    };
    tell_earlier_steers(&mut text, handover);
    if handover.cause.repeats_earlier_work() {
        tell_earlier(&mut text, handover);
    } else if let Cause::Woken { .. } = &handover.cause {
        if !handover.notes.is_empty() {
            tell_notes(&mut text, handover);
        }
        tell_effects(&mut text, handover);
    }
    if let Some(voided) = handover.voided.as_ref().filter(|_| !text.is_empty()) {
        text.push_str(&tell_voided(voided));
    }
    text
}

/// What was set down was left as it should be: the run is sent to look whether what was waited for has happened.
fn tell_pick_up(booked_by: SessionId, waiting_for: &str, booked_at: Timestamp, checks: u32) -> String {
    format!(
        "# You are picking up work that was set down\n\
         \n\
         Session {booked_by} set this work down on purpose at {booked_at}, because it was waiting for this:\n\
         \n\
         {}\
         \n\
         This is check {}. Nothing was left half done. See whether what was waited for has happened. If it has, go on with \
         the work. If it has not, set the work down again rather than wait.\n",
        quote(waiting_for),
        checks.saturating_add(1),
    )
}

fn tell_voided(voided: &VoidedBooking) -> String {
    format!(
        "\nRun {} had set this work down until {}, waiting for this:\n\n{}\nThat came to nothing, because the run did not end \
         with success. Where it still holds, set the work down again.\n",
        voided.run,
        voided.until,
        quote(&voided.waiting_for),
    )
}

/// A run ended on purpose there, so nothing sends the next one looking for damage.
fn tell_waking(previous: Run, wait: &WokenBy, results: &[AwaitedResult]) -> String {
    let mut text = format!(
        "# What this work waited for is there\n\
         \n\
         Run {previous} of this job ended on purpose, to wait. Nothing was left half done. "
    );
    match wait.due {
        Some(due) => text.push_str(&format!("It waited until {due}, and that instant has come.\n")),
        None => text.push_str(&format!(
            "It waited for {} other jobs, and all of them have concluded:\n\n",
            wait.count
        )),
    }
    for awaited in &wait.jobs {
        let why = awaited.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        // Writing to a text cannot fail.
        let returned = results.iter().find(|result| result.outcome.job == awaited.job);
        let line = returned.and_then(|result| first_line(result.result.as_deref()?));
        let line = line.map(|line| format!("; it returned: {line}")).unwrap_or_default();
        let _ = writeln!(text, "- job {}: {}{why}{line}", awaited.job, awaited.outcome);
    }
    let more = wait.count.saturating_sub(wait.jobs.len() as u64);
    if wait.due.is_none() && more > 0 {
        let _ = writeln!(text, "- ({more} more)");
    }
    text.push_str(
        "\nYou are a new process. Asked for again, the same wait is answered at once, and the same effects under their \
         keys are read back.\n",
    );
    text
}

fn tell_earlier(text: &mut String, handover: &Handover) {
    tell_notes(text, handover);
    tell_effects(text, handover);
    tell_gifts(text, handover);
}

/// What every run is told that goes on with an earlier one's work.
const CHECK_FIRST: &str = "You are a new process and remember nothing of what was done before. Before you repeat \
    anything that changes the world, check whether an earlier run already did it: doing it twice is worse than \
    doing it late.";

/// What a person said, as a quotation on every one of its lines: it is theirs, and not ours.
fn quote(said: &str) -> String {
    let quoted = said.trim().lines().map(|line| format!("> {line}"));
    quoted.map(|line| format!("{}\n", line.trim_end())).collect()
}

fn quote_note(steer: &EarlierSteer) -> String {
    quote(steer.note.as_deref().unwrap_or("(this note was erased)"))
}

fn tell_redirection(previous: Option<Run>, steer: Option<&EarlierSteer>) -> String {
    let (actor, quoted) = steer
        .map_or(("unknown", quote("(this note is missing)")), |steer| (steer.by.as_str(), quote_note(steer)));
    let goes_on = previous.map_or(String::new(), |run| format!(", and you go on where run {run} left off"));
    let check = previous.map_or(String::new(), |_| format!("\n{CHECK_FIRST}\n"));
    format!(
        "# A person has redirected this work\n\
         \n\
         A person ({actor}) has redirected this job{goes_on}. This is the note:\n\
         \n\
         {quoted}\
         \n\
         Where the note and the original request disagree, the note takes precedence.\n\
         {check}"
    )
}

/// What a person redirected the job to holds for every run after it.
fn tell_earlier_steers(text: &mut String, handover: &Handover) {
    let told = usize::from(handover.steer_of_cause().is_some());
    let earlier = &handover.steers[..handover.steers.len() - told];
    if earlier.is_empty() && handover.steers_left_out == 0 {
        return;
    }
    let lead = match (told, text.is_empty()) {
        (0, true) => {
            "# A person has redirected this work\n\nA person has redirected this job before it was begun."
        }
        (0, false) => "\nA person has redirected this job on the way.",
        _ => "\nIt had been redirected before.",
    };
    let holds = match told {
        0 => {
            "What follows takes precedence over the original request where they disagree; of several notes the last one holds"
        }
        _ => {
            "Where one of these notes disagrees with the note above, the note above holds; among these the last one does"
        }
    };
    // Writing to a text cannot fail.
    let _ = writeln!(text, "{lead} {holds}:");
    if handover.steers_left_out > 0 {
        let _ = writeln!(text, "\n({} older notes are left out)", handover.steers_left_out);
    }
    for steer in earlier {
        let _ = write!(text, "\n{}:\n\n{}", steer.by, quote_note(steer));
    }
}

fn tell_move(previous: Run, attempt: u32) -> String {
    format!(
        "# You are continuing work that was moved\n\
         \n\
         Run {previous} of this job was ended by us, because its worker is being taken out of service. Nothing was wrong with \
         it, and it used no attempt up: this is still attempt {attempt}.\n\
         \n\
         {CHECK_FIRST}\n"
    )
}

fn tell_continuation(previous: Run, actor: &str, why: &str, attempt: u32) -> String {
    let quoted = quote(why);
    format!(
        "# You are continuing work that had stopped\n\
         \n\
         Run {previous} of this job was its last, and the work was not finished by it. A person ({actor}) looked at it and \
         had it go on, for this reason:\n\
         \n\
         {quoted}\
         \n\
         This is attempt {attempt}. {CHECK_FIRST}\n"
    )
}

fn tell_recovery(previous: Run, interruption: &Interruption, attempt: u32) -> String {
    format!(
        "# You are continuing work that was interrupted\n\
         \n\
         Run {previous} of this job did not finish: {}. This is attempt {attempt}.\n\
         \n\
         {CHECK_FIRST}\n",
        interruption.sentence()
    )
}

fn tell_notes(text: &mut String, handover: &Handover) {
    text.push('\n');
    if handover.notes.is_empty() && !handover.effects.is_empty() {
        text.push_str("Nothing was noted on the way; what is known are the effects below.\n");
        return;
    }
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

/// What was announced under a key is safe to ask for again: it is answered from the record.
fn tell_effects(text: &mut String, handover: &Handover) {
    if handover.effects.is_empty() {
        return;
    }
    text.push_str(
        "\nThese effects were announced by earlier runs. Ask for them again under the same keys: what was done is read \
         back and not performed a second time.\n\n",
    );
    if handover.effects_left_out > 0 {
        let _ = writeln!(text, "- ({} older effects are left out)", handover.effects_left_out);
    }
    for effect in &handover.effects {
        let _ = writeln!(text, "- {:?} (run {}): {}", effect.key.as_str(), effect.run, tell_state(effect));
    }
}

/// What was given is safe to give again: the same is answered with the same job.
fn tell_gifts(text: &mut String, handover: &Handover) {
    if handover.gifts.is_empty() {
        return;
    }
    text.push_str(
        "\nEarlier runs gave this work to other agents. It was given, whatever became of it since. Give the same again only where \
         you would have given it anyway: you are answered with the job that there is.\n\n",
    );
    if handover.gifts_left_out > 0 {
        let _ = writeln!(text, "- ({} older ones are left out)", handover.gifts_left_out);
    }
    for gift in &handover.gifts {
        let way = if gift.spawned { "spawned for" } else { "sent to" };
        let key = gift.key.as_deref().map(|key| format!(", under the key {key:?}")).unwrap_or_default();
        let _ = writeln!(text, "- {way} {} (run {}): job {}{key}", gift.agent, gift.run, gift.job);
    }
}

fn tell_state(effect: &EarlierEffect) -> String {
    let settled = match effect.recovery {
        EffectRecovery::Retry => "is performed again",
        EffectRecovery::Idempotent => "is performed again with the same idempotency key",
        EffectRecovery::Probe => "is looked up first",
        EffectRecovery::Ask => "is refused",
    };
    match effect.state {
        EarlierState::Done => match effect.output.as_deref().and_then(first_line) {
            Some(line) => format!("done; it returned: {line}"),
            None => "done".to_owned(),
        },
        EarlierState::Landed => {
            "took effect, but its answer is unusable; it is not performed again".to_owned()
        }
        EarlierState::DidNotHappen => "failed and did not happen; asked for, it is performed".to_owned(),
        EarlierState::InDoubt => format!("nobody knows whether it happened; asked for, it {settled}"),
        EarlierState::Undecided => {
            "nobody knows whether it happened, and only a person can say; asked for, it is refused".to_owned()
        }
    }
}

/// The beginning of an output that fits beside its key; the whole is read back.
fn first_line(output: &str) -> Option<String> {
    const LETTERS_MAX: usize = 120;
    let line = output.lines().map(str::trim).find(|line| !line.is_empty())?;
    let more = output.trim().len() > line.len() || line.chars().count() > LETTERS_MAX;
    let shown: String = line.chars().filter(|letter| !letter.is_control()).take(LETTERS_MAX).collect();
    Some(if more { format!("{shown} …") } else { shown })
}

#[cfg(test)]
mod tests;
