//! The kinds of records that ask something of a living run. They bear its own epoch and fence nobody; whoever ends the run answers
//! them first. The order in which they are answered is decided in `plan`.

/// The kind of a notice that cancels.
pub const CANCEL_REQUESTED: &str = "cancel_requested";
/// The kind of a notice that gives a job up.
pub const ABANDON_REQUESTED: &str = "abandon_requested";
/// The kind of a notice that redirects a job.
pub const STEERED: &str = "steered";
/// The kinds that ask something of a living run and fence nobody.
pub const NOTICE_KINDS: &[&str] = &[ABANDON_REQUESTED, CANCEL_REQUESTED, STEERED];
