//! What can be typed: the flags that every verb has, the verbs in the order of the list that `tenure --help` prints, and
//! which module does each. What a verb takes stands in its own module.

use clap::{Args, Command, Parser, Subcommand, ValueEnum};

use crate::{
    abandon, agents, apply, attention, cancel, confirm_gone, context::Context, coordinator,
    credential::CredentialArgs, dev, effect, effects, erase, explain, failure::Failure, halt, handover,
    in_run, init, job, jobs, journal, mcp, memory, migrate, output, ping, reconcile, recover, reopen, replay,
    resume, session, steer, submit, token, verify, worker, workers,
};

/// Runs long jobs on a fleet of machines and makes them survivable.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The flags that every verb has.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Every verb")]
pub(crate) struct Global {
    /// Coordinators to ask, separated by commas or given several times; any of them will do.
    #[arg(
        long,
        global = true,
        env = "TENURE_ENDPOINT",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "URL",
        default_value = "http://127.0.0.1:7420"
    )]
    pub(crate) endpoint: Vec<String>,
    #[command(flatten)]
    pub(crate) credential: CredentialArgs,
    /// Print JSON; what streams prints one object a line. Errors too.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colour what is printed for people.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Print no remarks on stderr.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    // On a terminal, where NO_COLOR is not set. Not a doc comment: it would lengthen the help of every verb.
    Auto,
    Always,
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Dev(dev::DevArgs),
    Coordinator(coordinator::CoordinatorArgs),
    Worker(worker::WorkerArgs),
    Migrate(migrate::MigrateArgs),
    Token(token::TokenArgs),
    Init(init::InitArgs),
    Apply(apply::ApplyArgs),
    Agents(agents::AgentsArgs),
    Memory(memory::MemoryArgs),
    Submit(submit::SubmitArgs),
    Jobs(jobs::JobsArgs),
    Job(job::JobArgs),
    Watch(journal::WatchArgs),
    Journal(journal::JournalArgs),
    Output(output::OutputArgs),
    Effects(effects::EffectsArgs),
    Explain(explain::ExplainArgs),
    Handover(handover::HandoverArgs),
    Result(output::ResultArgs),
    Session(session::SessionArgs),
    Verify(verify::VerifyArgs),
    Replay(replay::ReplayArgs),
    Cancel(cancel::CancelArgs),
    Attention(attention::AttentionArgs),
    Workers(workers::WorkersArgs),
    Undecided(effects::UndecidedArgs),
    Reconcile(reconcile::ReconcileArgs),
    Reopen(reopen::ReopenArgs),
    Recover(recover::RecoverArgs),
    Resume(resume::ResumeArgs),
    Raise(session::RaiseArgs),
    Steer(steer::SteerArgs),
    Abandon(abandon::AbandonArgs),
    ConfirmGone(confirm_gone::ConfirmGoneArgs),
    Halt(halt::HaltArgs),
    Lift(halt::LiftArgs),
    Halts(halt::HaltsArgs),
    Erase(erase::EraseArgs),
    Ping(ping::PingArgs),
    Note(in_run::NoteArgs),
    Effect(effect::EffectArgs),
    Send(in_run::SendArgs),
    Spawn(in_run::SpawnArgs),
    Remember(in_run::RememberArgs),
    Spend(in_run::SpendArgs),
    SetDown(in_run::SetDownArgs),
    Wait(in_run::WaitArgs),
    Status(in_run::StatusArgs),
    Mcp(mcp::McpArgs),
}

/// The verbs by what they are for.
const GROUPS: &[(&str, &[&str])] = &[
    ("Fleet", &["dev", "coordinator", "worker", "migrate", "token"]),
    ("Declare", &["init", "apply", "agents", "memory"]),
    (
        "Work",
        &[
            "submit", "jobs", "job", "watch", "journal", "output", "effects", "explain", "handover",
            "result", "session", "verify", "replay", "cancel",
        ],
    ),
    (
        "Operate",
        &[
            "attention",
            "workers",
            "undecided",
            "reconcile",
            "reopen",
            "recover",
            "resume",
            "raise",
            "steer",
            "abandon",
            "confirm-gone",
            "halt",
            "lift",
            "halts",
            "erase",
            "ping",
        ],
    ),
    (
        "In a run",
        &["note", "effect", "send", "spawn", "remember", "spend", "set-down", "wait", "status", "mcp"],
    ),
];

const AFTER_HELP: &str = "\
A job is named by its id, or by an ending of it, of six or more digits, that no other has.

Exit codes: 0 ok, 1 refused, not found, a finding, or the job did not succeed, 2 usage,
3 the wait ran out, 4 unavailable. docs/operate/errors.md explains the code of every error.";

/// The command with its verbs listed in groups.
pub(crate) fn describe(command: Command) -> Command {
    let mut listing = String::new();
    for (group, verbs) in GROUPS {
        listing.push_str(&format!("{group}:\n"));
        for verb in *verbs {
            let about =
                command.find_subcommand(verb).and_then(Command::get_about).cloned().unwrap_or_default();
            listing.push_str(&format!("  {verb:<14}{about}\n"));
        }
        listing.push('\n');
    }
    command
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{listing}Every verb:\n{{options}}{{after-help}}"
        ))
        .after_help(AFTER_HELP)
}

impl Verb {
    /// Has the verb carried out.
    pub(crate) fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Dev(args) => context.serve(dev::run_dev(context, args)),
            Self::Coordinator(args) => context.serve(coordinator::run_coordinator(context, args)),
            Self::Worker(args) => context.serve(worker::run_worker(context, args)),
            Self::Migrate(args) => context.wait_for(migrate::migrate_database(context, args)),
            Self::Token(args) => context.wait_for(token::run_token(context, args)),
            Self::Init(args) => init::write_fleet_file(context, &args),
            Self::Apply(args) => context.wait_for(apply::apply_file(context, args)),
            Self::Agents(args) => context.wait_for(agents::list_agents(context, args)),
            Self::Memory(args) => context.wait_for(memory::show_memory(context, args)),
            Self::Submit(args) => context.wait_for(submit::submit_jobs(context, args)),
            Self::Jobs(args) => context.wait_for(jobs::list_jobs(context, args)),
            Self::Job(args) => context.wait_for(job::show_job(context, args)),
            Self::Watch(args) => context.wait_for(journal::watch_job(context, args)),
            Self::Journal(args) => context.wait_for(journal::list_records(context, args)),
            Self::Output(args) => context.wait_for(output::read_output(context, args)),
            Self::Explain(args) => context.wait_for(explain::explain_job(context, args)),
            Self::Handover(args) => context.wait_for(handover::show_handover(context, args)),
            Self::Effects(args) => context.wait_for(effects::list_effects(context, args)),
            Self::Result(args) => context.wait_for(output::read_result(context, args)),
            Self::Replay(args) => context.wait_for(replay::replay_job(context, args)),
            Self::Verify(args) => context.wait_for(verify::verify_jobs(context, args)),
            Self::Cancel(args) => context.wait_for(cancel::cancel_jobs(context, args)),
            Self::Attention(args) => context.wait_for(attention::show_attention(context, args)),
            Self::Workers(args) => context.wait_for(workers::list_workers(context, args)),
            Self::Undecided(args) => context.wait_for(effects::list_undecided(context, args)),
            Self::Reconcile(args) => context.wait_for(reconcile::reconcile_effect(context, args)),
            Self::Reopen(args) => context.wait_for(reopen::reopen_jobs(context, args)),
            Self::Resume(args) => context.wait_for(resume::resume_jobs(context, args)),
            Self::Raise(args) => context.wait_for(session::raise_limit(context, args)),
            Self::Session(args) => context.wait_for(session::show_session(context, args)),
            Self::Steer(args) => context.wait_for(steer::steer_jobs(context, args)),
            Self::Abandon(args) => context.wait_for(abandon::abandon_jobs(context, args)),
            Self::Recover(args) => context.wait_for(recover::recover_jobs(context, args)),
            Self::ConfirmGone(args) => context.wait_for(confirm_gone::confirm_gone(context, args)),
            Self::Halt(args) => context.wait_for(halt::throw_halt(context, args)),
            Self::Lift(args) => context.wait_for(halt::lift_halt(context, args)),
            Self::Halts(args) => context.wait_for(halt::list_halts(context, args)),
            Self::Erase(args) => context.wait_for(erase::erase_values(context, args)),
            Self::Ping(args) => context.wait_for(ping::ping(context, args)),
            Self::Note(args) => context.wait_for(in_run::write_note(context, args)),
            Self::Effect(args) => context.wait_for(effect::perform_effect(context, args)),
            Self::Send(args) => context.wait_for(in_run::send_work(context, args)),
            Self::Spawn(args) => context.wait_for(in_run::spawn_work(context, args)),
            Self::Remember(args) => context.wait_for(in_run::remember_line(context, args)),
            Self::Spend(args) => context.wait_for(in_run::record_spend(context, args)),
            Self::SetDown(args) => context.wait_for(in_run::set_down(context, args)),
            Self::Wait(args) => context.wait_for(in_run::wait(context, args)),
            Self::Mcp(args) => context.wait_for(mcp::serve_mcp(context, args)),
            Self::Status(args) => context.wait_for(in_run::show_status(context, args)),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_verb_is_listed_in_one_group() {
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let command = Cli::command();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn the_command_line_is_consistent() {
        describe(Cli::command()).debug_assert();
    }
}
