//! The table of shapes: what a job does, as an agent of a fleet file, and for a handler the function.

use tenure_core::job::State;
use tenure_worker::handler::HandlerWorker;

use crate::{handlers, handlers::World, scripts};

/// What all agents here are held to: restarts come quickly, and there are enough of them.
const SETTINGS: &str = "timeout = \"2m\"\nstop-grace = \"1s\"\nlimits = { hops = 20 }\n\
    recovery = { policy = \"automatic\", max-attempts = 12, max-losses = 6, backoff = { first = \"100ms\", max = \"200ms\" } }\n";

/// To whom some of them give work. No worker takes it, so that it stays as it was given.
const IDLE: &str = "\n[agents.idle]\ncommand = [\"true\"]\nrequires = [\"nowhere\"]\n";

/// A job of one shape.
pub(crate) struct Shape {
    /// Its agent.
    pub(crate) name: &'static str,
    /// What else is declared about it.
    settings: &'static str,
    work: Work,
    /// Where it comes to rest where nobody has to decide anything.
    pub(crate) ends: State,
    /// Whoever acts upon it while it runs.
    pub(crate) person: Person,
    /// The length of its input.
    pub(crate) input_bytes: usize,
}

/// Who acts upon a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Person {
    /// Nobody.
    Nobody,
    /// Somebody who cancels it once it has left a note.
    Cancels,
    /// Somebody who steers it once it has left a note.
    Steers,
    /// Somebody who has its worker leave once it has left a note, and starts another.
    ReplacesTheWorker,
    /// Somebody who answers what is in doubt as the ledger has it, and has it go on whenever it has come to rest too early.
    HasItGoOn,
}

/// How it works.
enum Work {
    Script(&'static str),
    Handler(fn(World) -> HandlerWorker),
}

/// Every shape.
pub(crate) const SHAPES: [Shape; 28] = [
    handler("steps", handlers::take_steps),
    handler("recoveries", handlers::recover_in_four_ways),
    handler("retries", handlers::retry_until_done),
    handler("probes", handlers::look_it_up),
    handler("restarts", handlers::fail_twice),
    handler("mixture", handlers::mix_all),
    handler("long", handlers::go_on_for_long),
    script("noted", scripts::NOTED),
    script("posted", scripts::POSTED),
    script("repeated", scripts::REPEATED),
    script("restarted", scripts::RESTARTED),
    script("looked-up", scripts::LOOKED_UP),
    undone("undone", scripts::UNDONE),
    cancelled("cancelled", scripts::CANCELLED),
    large("large", scripts::LARGE),
    handler("grouped", handlers::keep_together),
    compensated("compensated", handlers::fail_for_good),
    handler("answered", handlers::leave_to_a_person).gone_on_with(),
    handler("resumed", handlers::fail_for_good_once).gone_on_with(),
    script("kept", scripts::KEPT).gone_on_with(),
    with_final_code("continued", scripts::CONTINUED).gone_on_with(),
    undone("undone-by-hand", scripts::UNDONE_BY_HAND).gone_on_with(),
    script("given", scripts::GIVEN),
    handler("giving", handlers::give_work),
    script("suspended", scripts::SUSPENDED).gone_on_with(),
    script("set-down", scripts::SET_DOWN),
    script("steered", scripts::HELD).acted_upon_by(Person::Steers),
    script("drained", scripts::HELD).acted_upon_by(Person::ReplacesTheWorker),
];

const fn shape(name: &'static str, work: Work) -> Shape {
    let (ends, person) = (State::Succeeded, Person::Nobody);
    Shape { name, settings: "", work, ends, person, input_bytes: 0 }
}

const fn handler(name: &'static str, begin: fn(World) -> HandlerWorker) -> Shape {
    shape(name, Work::Handler(begin))
}

const fn script(name: &'static str, text: &'static str) -> Shape {
    shape(name, Work::Script(text))
}

/// A handler that fails for good, and whose agent says that this is undone.
const fn compensated(name: &'static str, begin: fn(World) -> HandlerWorker) -> Shape {
    let settings = "unwind-on-failure = true\n";
    Shape { settings, ends: State::Failed, ..handler(name, begin) }
}

/// A script whose input and result lie in the blob store.
const fn large(name: &'static str, text: &'static str) -> Shape {
    let settings = "input-limit = \"1 MiB\"\n";
    Shape { settings, input_bytes: 300_000, ..script(name, text) }
}

/// A script that is cancelled once it has left a note.
const fn cancelled(name: &'static str, text: &'static str) -> Shape {
    Shape { ends: State::Cancelled, person: Person::Cancels, ..script(name, text) }
}

/// A script that can fail for good.
const fn with_final_code(name: &'static str, text: &'static str) -> Shape {
    Shape { settings: "final-exit-codes = [65]\n", ..script(name, text) }
}

/// A script that fails for good, and whose agent says that this is undone.
const fn undone(name: &'static str, text: &'static str) -> Shape {
    let settings = "unwind-on-failure = true\nfinal-exit-codes = [65]\n";
    Shape { settings, ends: State::Failed, ..script(name, text) }
}

/// The shape of this name.
pub(crate) fn find(name: &str) -> &'static Shape {
    static ALL: [Shape; 28] = SHAPES;
    ALL.iter().find(|shape| shape.name == name).unwrap_or_else(|| panic!("no shape is called {name}"))
}

impl Shape {
    /// One that somebody has go on, or that goes on by itself.
    const fn gone_on_with(self) -> Self {
        self.acted_upon_by(Person::HasItGoOn)
    }

    const fn acted_upon_by(self, person: Person) -> Self {
        Self { person, ..self }
    }

    /// The fleet file that declares its agent.
    pub(crate) fn fleet_file(&self) -> String {
        let work = match self.work {
            Work::Script(text) => format!("script = '''\n{}{text}'''\n", scripts::HEAD),
            Work::Handler(_) => "handler = \"1\"\n".to_owned(),
        };
        format!("schema = 1\n[agents.{}]\n{SETTINGS}{}{work}{IDLE}", self.name, self.settings)
    }

    /// True where it stays in this state until somebody acts upon it, and nobody will.
    pub(crate) fn is_at_rest(&self, state: State) -> bool {
        !matches!(state, State::Ready | State::Running)
            && (self.person != Person::HasItGoOn || state == self.ends)
    }

    /// The worker that holds its handler; none: it is a script.
    pub(crate) fn handler(&self, world: World) -> Option<HandlerWorker> {
        match self.work {
            Work::Script(_) => None,
            Work::Handler(begin) => Some(begin(world)),
        }
    }
}
