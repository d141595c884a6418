//! Which commands go on from where a job stands, the most fitting first. Only commands that exist are named.

use super::State;
use crate::{
    effect::EffectKey,
    id::{Epoch, JobId},
};

/// The commands. `unaccounted` is the epoch of a run that is settled and whose child is not known to be gone;
/// `end_requested` is true where a cancel or an abandon stands, `unwound` where its undoing has begun, after which it is not
/// resumed.
#[must_use]
pub fn next_commands(
    job: JobId,
    state: State,
    unaccounted: Option<Epoch>,
    end_requested: bool,
    unwound: bool,
) -> Vec<String> {
    let job = job.short();
    let confirm = |epoch| format!("tenure confirm-gone {job} --epoch {epoch} --why W");
    let abandon = format!("tenure abandon {job} --why W");
    let mut commands = match state {
        State::Ready | State::Suspended => vec![format!("tenure watch {job}")],
        State::Running => vec![format!("tenure output {job} -f"), format!("tenure watch {job}")],
        State::Interrupted => match unaccounted {
            Some(epoch) => vec![confirm(epoch), abandon],
            None => vec![format!("tenure recover {job} --why W")],
        },
        State::Failed if unwound => {
            vec![format!("tenure output {job} --stderr"), format!("tenure effects {job}")]
        }
        State::Failed | State::Withheld => {
            vec![format!("tenure resume {job} --why W"), format!("tenure output {job} --stderr")]
        }
        State::Exhausted => {
            vec![format!("tenure session {job}"), format!("tenure output {job} --stderr")]
        }
        State::Succeeded => vec![format!("tenure result {job}"), format!("tenure output {job}")],
        State::Quarantined => {
            let answer = [format!("tenure undecided {job}"), format!("tenure reopen {job} --why W"), abandon];
            unaccounted.map(confirm).into_iter().chain(answer).collect()
        }
        State::Cancelled | State::Abandoned | State::Expired => vec![format!("tenure journal {job}")],
    };
    if can_be_cancelled(state, unaccounted) && !end_requested {
        commands.push(format!("tenure cancel {job} --why W"));
    }
    commands
}

/// The two answers to an effect in doubt, each as a shell takes it.
#[must_use]
pub fn answer_commands(job: JobId, key: &EffectKey) -> [String; 2] {
    let (job, quoted) = (job.short(), quote(key.as_str()));
    ["--done VALUE", "--not-done"].map(|answer| {
        // What begins as a flag does is none where it stands behind a `--`.
        if key.as_str().starts_with('-') {
            format!("tenure reconcile {job} {answer} --why W -- {quoted}")
        } else {
            format!("tenure reconcile {job} {quoted} {answer} --why W")
        }
    })
}

/// A text as one word of a shell.
fn quote(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:@+=,".contains(letter);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

const fn can_be_cancelled(state: State, unaccounted: Option<Epoch>) -> bool {
    match state {
        State::Ready
        | State::Running
        | State::Suspended
        | State::Failed
        | State::Exhausted
        | State::Withheld => true,
        State::Interrupted => unaccounted.is_none(),
        State::Quarantined | State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => false,
    }
}
