//! Which commands go on from where a job stands, the most fitting first. Only commands that exist are named.

use super::State;
use crate::id::{Epoch, JobId};

/// The commands. `unaccounted` is the epoch of a run that is settled and whose child is not known to be gone;
/// `cancel_requested` is true where a cancel stands.
#[must_use]
pub fn next_commands(
    job: JobId,
    state: State,
    unaccounted: Option<Epoch>,
    cancel_requested: bool,
) -> Vec<String> {
    let job = job.short();
    let mut commands = match state {
        State::Ready | State::Suspended => vec![format!("tenure watch {job}")],
        State::Running => vec![format!("tenure output {job} -f"), format!("tenure watch {job}")],
        State::Interrupted => match unaccounted {
            Some(epoch) => vec![format!("tenure confirm-gone {job} --epoch {epoch} --why W")],
            None => vec![format!("tenure recover {job} --why W")],
        },
        State::Failed | State::Exhausted | State::Withheld => {
            vec![format!("tenure output {job} --stderr"), format!("tenure journal {job}")]
        }
        State::Succeeded => vec![format!("tenure result {job}"), format!("tenure output {job}")],
        State::Quarantined => vec![format!("tenure undecided {job}"), format!("tenure effects {job}")],
        State::Cancelled | State::Abandoned | State::Expired => vec![format!("tenure journal {job}")],
    };
    if can_be_cancelled(state, unaccounted) && !cancel_requested {
        commands.push(format!("tenure cancel {job} --why W"));
    }
    commands
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
