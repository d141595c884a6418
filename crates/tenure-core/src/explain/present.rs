//! Where a job stands while its story is told: who holds it, what is waited for, what comes next, and whether somebody is needed.

use jiff::Timestamp;

use crate::{
    deadline::Deadline,
    id::{Epoch, JobId, Run, WorkerName},
    job::State,
};

/// What the job's row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// The job.
    pub job: JobId,
    /// Where it stands.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// Why, for a person; empty: nothing is to be said.
    pub detail: String,
    /// Runs so far.
    pub run: Run,
    /// The worker that holds it, or whose child is not known to be gone.
    pub held: Option<Held>,
    /// The session's deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// Not to be started before; none: at once.
    pub not_before: Option<Timestamp>,
    /// What it waits for besides a worker, as the end of a sentence: a wait, the lift of a halt. None: nothing.
    pub waiting_for: Option<String>,
    /// What a living run was asked for and has not answered: a verb.
    pub asked: Option<&'static str>,
    /// What it becomes once what it has done is undone; none: it works forward.
    pub unwinding_to: Option<State>,
    /// The commands that go on from here, the most fitting first.
    pub commands: Vec<String>,
    /// When this was read.
    pub now: Timestamp,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The worker.
    pub worker: WorkerName,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// False where the run is settled and its child is not known to be gone.
    pub live: bool,
}

impl Present {
    pub(super) fn tell_what(&self) -> String {
        format!("Job {} is {}.", self.job, self.state)
    }

    pub(super) fn tell_now(&self) -> String {
        let mut told = vec![format!("It has been {} since {}.", self.state, self.since)];
        if !self.detail.is_empty() {
            told.push(format!("Why: {}.", self.detail.trim_end_matches('.')));
        }
        match &self.held {
            Some(Held { worker, epoch, live: true }) => {
                told.push(format!("Worker {worker} holds it under epoch {epoch}, for run {}.", self.run));
            }
            Some(Held { worker, epoch, live: false }) => told.push(format!(
                "The child of its run under epoch {epoch} on worker {worker} is not known to be gone, so nothing is started beside \
                 it."
            )),
            None => told.push("Nobody holds it.".to_owned()),
        }
        if let Some(asked) = self.asked {
            told.push(format!("Its run was asked to end ({asked}), and has not answered yet."));
        }
        told.extend(self.tell_deadline());
        told.join(" ")
    }

    fn tell_deadline(&self) -> Option<String> {
        if self.state.is_sealed() {
            return None;
        }
        let Some(at) = self.deadline_at else { return Some("Its session has no deadline.".to_owned()) };
        let left = Deadline::new(self.now, Some(at)).remaining_s(self.now).unwrap_or(0);
        Some(match left {
            0 => format!("Its session's deadline was reached at {at}."),
            left => format!("Its session must be over at {at}, in {left} s."),
        })
    }

    pub(super) fn tell_next(&self) -> String {
        let undoing =
            self.unwinding_to.map(|state| format!("what it has done is undone, and it becomes {state}"));
        match self.state {
            State::Ready => {
                let when = match (&self.waiting_for, self.not_before) {
                    (Some(what), _) => format!("It waits for {what}"),
                    (None, Some(at)) if at > self.now => {
                        format!("It waits until {at}, and then for a worker that can take it")
                    }
                    (None, _) => "It waits for a worker that can take it".to_owned(),
                };
                format!("{when}. Next: {}.", undoing.unwrap_or_else(|| "its next run starts".to_owned()))
            }
            State::Running => {
                let otherwise = || "its run ends, and how it ends decides what it becomes".to_owned();
                let next = match self.asked {
                    Some("steer") => "once its child has ended, a run starts with the note".to_owned(),
                    Some(asked) => format!("once its child has ended, the {asked} is carried out"),
                    None => undoing.unwrap_or_else(otherwise),
                };
                format!("It waits for its own run. Next: {next}.")
            }
            State::Suspended => {
                let what = self.waiting_for.as_deref().unwrap_or("what its last run announced");
                format!("It waits for {what}. Next: once that is there, a run starts.")
            }
            State::Interrupted => match &self.held {
                Some(_) => "It waits for proof that the child is gone. Next: it is judged again, by itself."
                    .to_owned(),
                None => "It waits for a person, and nothing comes next without one.".to_owned(),
            },
            State::Failed | State::Exhausted | State::Withheld | State::Quarantined => {
                "It waits for a person, and nothing comes next without one.".to_owned()
            }
            State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => {
                "It is over, and nothing comes next.".to_owned()
            }
        }
    }

    pub(super) fn tell_needs(&self) -> String {
        let commands = self.commands.join("\n  ");
        match self.state {
            State::Ready | State::Running | State::Suspended => {
                if commands.is_empty() {
                    "It needs nobody.".to_owned()
                } else {
                    format!("It needs nobody. Whoever wants to look or act:\n\n  {commands}")
                }
            }
            State::Interrupted | State::Exhausted | State::Withheld | State::Quarantined | State::Failed => {
                format!("It needs a person. What goes on from here:\n\n  {commands}")
            }
            State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => {
                format!("It needs nobody. What is left to look at:\n\n  {commands}")
            }
        }
    }
}
