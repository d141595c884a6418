//! The table of shapes: what a job does, as an agent of a fleet file, and for a handler the function.

use tenure_core::job::State;
use tenure_worker::handler::HandlerWorker;

use crate::{handlers, handlers::World, scripts};

/// What all agents here are held to: restarts come quickly, and there are enough of them.
const SETTINGS: &str = "timeout = \"2m\"\nstop-grace = \"1s\"\nlimits = { hops = 20 }\n\
    recovery = { policy = \"automatic\", max-attempts = 6, max-losses = 6, backoff = { first = \"100ms\", max = \"200ms\" } }\n";

/// A job of one shape.
pub(crate) struct Shape {
    /// Its agent.
    pub(crate) name: &'static str,
    /// What else is declared about it.
    settings: &'static str,
    work: Work,
    /// Where it comes to rest where nobody has to decide anything.
    pub(crate) ends: State,
    /// The length of its input.
    pub(crate) input_bytes: usize,
}

/// How it works.
enum Work {
    Script(&'static str),
    Handler(fn(World) -> HandlerWorker),
}

/// Every shape.
pub(crate) const SHAPES: [Shape; 17] = [
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
];

const fn handler(name: &'static str, begin: fn(World) -> HandlerWorker) -> Shape {
    Shape { name, settings: "", work: Work::Handler(begin), ends: State::Succeeded, input_bytes: 0 }
}

const fn script(name: &'static str, text: &'static str) -> Shape {
    Shape { name, settings: "", work: Work::Script(text), ends: State::Succeeded, input_bytes: 0 }
}

/// A handler that fails for good, and whose agent says that this is undone.
const fn compensated(name: &'static str, begin: fn(World) -> HandlerWorker) -> Shape {
    let settings = "unwind-on-failure = true\n";
    Shape { name, settings, work: Work::Handler(begin), ends: State::Failed, input_bytes: 0 }
}

/// A script whose input and result lie in the blob store.
const fn large(name: &'static str, text: &'static str) -> Shape {
    let settings = "input-limit = \"1 MiB\"\n";
    Shape { name, settings, work: Work::Script(text), ends: State::Succeeded, input_bytes: 300_000 }
}

/// A script that is cancelled once it has left a note.
const fn cancelled(name: &'static str, text: &'static str) -> Shape {
    Shape { name, settings: "", work: Work::Script(text), ends: State::Cancelled, input_bytes: 0 }
}

/// A script that fails for good, and whose agent says that this is undone.
const fn undone(name: &'static str, text: &'static str) -> Shape {
    let settings = "unwind-on-failure = true\nfinal-exit-codes = [65]\n";
    Shape { name, settings, work: Work::Script(text), ends: State::Failed, input_bytes: 0 }
}

/// The shape of this name.
pub(crate) fn find(name: &str) -> &'static Shape {
    static ALL: [Shape; 17] = SHAPES;
    ALL.iter().find(|shape| shape.name == name).unwrap_or_else(|| panic!("no shape is called {name}"))
}

impl Shape {
    /// The fleet file that declares its agent.
    pub(crate) fn fleet_file(&self) -> String {
        let work = match self.work {
            Work::Script(text) => format!("script = '''\n{}{text}'''\n", scripts::HEAD),
            Work::Handler(_) => "handler = \"1\"\n".to_owned(),
        };
        format!("schema = 1\n[agents.{}]\n{SETTINGS}{}{work}", self.name, self.settings)
    }

    /// True where somebody cancels it once it has left a note.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.ends == State::Cancelled
    }

    /// The worker that holds its handler; none: it is a script.
    pub(crate) fn handler(&self, world: World) -> Option<HandlerWorker> {
        match self.work {
            Work::Script(_) => None,
            Work::Handler(begin) => Some(begin(world)),
        }
    }
}
