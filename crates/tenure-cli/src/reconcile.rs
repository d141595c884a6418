//! `tenure reconcile`: a person's answer to one effect in doubt. One effect at a time, because somebody has looked at one.

use clap::Args;
use tenure_client::acts::Answer;

use crate::{
    cancel::act_on_each, context::Context, failure::Failure, value::read_value, why::require_reason,
};

/// Answer an effect in doubt of a quarantined job; then reopen it
#[derive(Debug, Args)]
pub(crate) struct ReconcileArgs {
    /// The job.
    job: String,
    /// The effect's key; behind a -- where it begins with a hyphen.
    key: String,
    /// It happened, and returned this: a text, @FILE, or - for stdin. A handler's effect reads it back as JSON.
    #[arg(
        long,
        value_name = "VALUE|@FILE|-",
        required_unless_present = "not_done",
        allow_hyphen_values = true
    )]
    done: Option<String>,
    /// It did not happen: the next run may perform it.
    #[arg(long, conflicts_with = "done")]
    not_done: bool,
    /// How it is known; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn reconcile_effect(context: &Context, args: ReconcileArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let answer = match args.done.as_deref() {
        Some(given) => Answer::Done(read_value(given, "what the effect returned")?),
        None => Answer::NotDone,
    };
    let client = context.client()?;
    let reconcile = async |job: &str| {
        let job = client.reconcile_effect(job, &args.key, answer.clone(), why).await?;
        let short = job.id.short();
        context.printer.remark(&format!(
            "the answer stands   next: tenure undecided {short}   or: tenure reopen {short} --why W"
        ));
        Ok(job)
    };
    act_on_each(context, std::slice::from_ref(&args.job), reconcile).await
}
