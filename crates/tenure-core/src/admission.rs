//! What is let in: a submission, and each run of a job. One function decides about a run, in the one order of refusals:
//! halt, deadline, hops, budget, run cap, reserve, quota, concurrency; the first one is named. Limits that nobody has set,
//! or that do not exist yet, are absent and pass. It reads no rows: whoever asks has read them in the statement that writes.
//! Neighbours: `deadline` (the arithmetic), `settlement` (asks before a restart), `declaration` (what an agent sets).

mod gift;
mod limit;
mod run;
mod session;
mod spend;
mod submission;

pub use gift::{Gift, admit_gift};
pub use limit::{Limit, LimitRefusal};
pub use run::{Amount, Quota, RunAdmission, RunRefusal, admit_run};
pub use session::admit_session;
pub use spend::Spend;
pub use submission::{Admitted, Input, Submission, admit_submission, list_requirements};

#[cfg(test)]
mod tests;
