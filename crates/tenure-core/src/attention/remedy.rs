//! What answers each condition: one text for the command line, and one for whoever calls the fleet. Each names verbs that there
//! are, with the first subject in their place, so that a command can be run as it is printed. Where nobody can answer by a verb it
//! says so and why. Neighbours: `attention` asks.

use super::Kind;

/// What stands between two commands of which either answers.
pub const ALTERNATIVE: &str = "   or: ";

/// What answers a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// Commands, the first of them first; or `no verb: `, and why.
    pub command_line: String,
    /// The calls that do the same.
    pub grpc: &'static str,
}

impl Remedy {
    /// What answers a condition of this kind about this subject.
    #[must_use]
    pub fn of(kind: Kind, subject: &str) -> Self {
        let commands = |commands: &[String]| commands.join(ALTERNATIVE);
        let verb = |verb: &str| format!("tenure {verb} {subject} --why W");
        let (command_line, grpc) = match kind {
            Kind::JobQuarantined => (
                commands(&[format!("tenure undecided {subject}"), verb("reopen"), verb("abandon")]),
                "JobService.ListUndecided and ReconcileEffect, then ReopenJob; or AbandonJob",
            ),
            Kind::JobExhausted => (
                commands(&[format!("tenure session {subject}"), verb("resume"), verb("cancel")]),
                "JobService.RaiseLimit for what GetJob names, then ResumeJob; or CancelJob",
            ),
            Kind::JobWithheld => (
                commands(&["tenure halts".to_owned(), verb("resume"), verb("cancel")]),
                "HaltService.LiftHalt, then JobService.ResumeJob; or CancelJob",
            ),
            Kind::JobInterrupted => (
                commands(&[format!("tenure explain {subject}"), verb("recover"), verb("abandon")]),
                "JobService.RecoverJob; ConfirmGone where GetJob says that the child is unaccounted for; or AbandonJob",
            ),
            Kind::JobFailedWithLandedWork => (
                commands(&[format!("tenure effects {subject}"), verb("resume"), verb("cancel")]),
                "JobService.ResumeJob to finish, or CancelJob to undo",
            ),
            Kind::JobAbandonedLease => (
                "no verb: the sweep takes such leases; one that stays cannot be driven, and the logs of the coordinators say why"
                    .to_owned(),
                "no call: the sweep takes such leases; one that stays cannot be driven",
            ),
            Kind::JobWaitExpired => (
                commands(&[verb("resume"), verb("cancel")]),
                "JobService.ResumeJob, which reaches the wait and arms it again; or CancelJob",
            ),
            Kind::JobUnclaimable => (
                commands(&[
                    "no verb: start a worker that runs its agent and has the labels that the agent requires".to_owned(),
                    verb("cancel"),
                ]),
                "no call: start a worker that has its agent and labels; or JobService.CancelJob",
            ),
            Kind::LayoverRefused => (
                "no verb: mend what refused it, which its row in the table `layovers` names; it is tried again by itself"
                    .to_owned(),
                "no call: it is tried again by itself once what refused it is mended",
            ),
            Kind::HaltStanding => {
                (verb("lift"), "HaltService.LiftHalt, or leave it: a halt may stand for as long as it is wanted")
            }
        };
        Self { command_line, grpc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_names_its_subject_in_every_command_or_says_that_there_is_no_verb() {
        for kind in Kind::ALL {
            let remedy = Remedy::of(*kind, "SUBJECT");
            for command in remedy.command_line.split(ALTERNATIVE) {
                let answers = command.starts_with("tenure ")
                    && (command.contains("SUBJECT") || command == "tenure halts");
                assert!(answers || command.starts_with("no verb: "), "{}: {command}", kind.name());
            }
            assert!(
                remedy.grpc.contains("Service.") || remedy.grpc.starts_with("no call: "),
                "{}",
                kind.name()
            );
        }
    }
}
