//! The agents of an arena, as a fleet file.
//!
//! Those that are called `steady…` work until the gate is open, and have to succeed. The others misbehave, each in a way of its own, and belong to one row.

use std::path::Path;

use tenure_testkit::HEARTBEAT_SCRIPT;

const AGENTS: &str = r#"
schema = 1

[defaults]
timeout = "10m"
stop-grace = "1s"
env = { HEARTBEATS = "SHARED/beats", NOTES = "SHARED/notes", SHARED_DIR = "SHARED", LEDGER_URL = "LEDGER_ADDRESS" }
recovery = { policy = "automatic", max-attempts = 20, max-losses = 50, backoff = { first = "100ms", max = "1s" } }

[agents.steady]
script = '''
HEARTBEAT
i=0
while [ ! -e "$SHARED_DIR/gate" ]; do
    i=$((i + 1))
    text="note $i of run $TENURE_RUN"
    if tenure note "$text"; then echo "$text" >> "$NOTES/$TENURE_JOB"; fi
    sleep 0.2
done
echo done > "$TENURE_RESULT"
'''

# Costs little, for hundreds at once.
[agents.steady-light]
script = '''
export HEARTBEAT_S=5
HEARTBEAT
tenure note "run $TENURE_RUN is here" && echo "run $TENURE_RUN is here" >> "$NOTES/$TENURE_JOB"
while [ ! -e "$SHARED_DIR/gate" ]; do sleep 2; done
'''

# Its stop-grace is as long as the drain grace, so that a worker that leaves asks it at once.
[agents.steady-mobile]
stop-grace = "25s"
limits = { runs = 1000 }
script = '''
HEARTBEAT
i=0
while [ ! -e "$SHARED_DIR/gate" ]; do
    i=$((i + 1))
    text="note $i of run $TENURE_RUN"
    if tenure note "$text"; then echo "$text" >> "$NOTES/$TENURE_JOB"; fi
    sleep 1
done
'''

# Has as few attempts as an agent that says nothing, and stands beside the poisoned one.
[agents.steady-neighbour]
recovery = { policy = "automatic", max-attempts = 2, max-losses = 50, backoff = { first = "100ms", max = "1s" } }
script = '''
HEARTBEAT
tenure note "run $TENURE_RUN is here" && echo "run $TENURE_RUN is here" >> "$NOTES/$TENURE_JOB"
while [ ! -e "$SHARED_DIR/gate" ]; do sleep 0.5; done
'''

# Wherever it has begun, its worker dies. A child in a namespace of its own cannot reach it, so an accomplice outside does it.
[agents.poisoned]
recovery = { policy = "automatic", max-attempts = 2, max-losses = 50, backoff = { first = "100ms", max = "1s" } }
script = '''
HEARTBEAT
while :; do sleep 0.5; done
'''

# Announces a row of effects, each to the ledger, and waits for the gate. How a doubt is settled differs.
[agents.announce-idempotent]
script = '''
HEARTBEAT
for i in 1 2 3 4 5 6; do
    tenure effect "post/$i" --idempotent -- sh -c 'LEDGER post --key "$TENURE_IDEMPOTENCY_KEY" --text "$TENURE_JOB post/$0"' "$i"
done
WAIT
'''

[agents.announce-retry]
script = '''
HEARTBEAT
for i in 1 2 3 4 5 6; do
    tenure effect "post/$i" --retry -- LEDGER post --key "$TENURE_JOB post/$i" --text "$TENURE_JOB post/$i"
done
WAIT
'''

# The ledger does not know these posts by a key: only the probe keeps them from being entered twice.
[agents.announce-probe]
script = '''
HEARTBEAT
for i in 1 2 3 4 5 6; do
    tenure effect "post/$i" --probe "LEDGER find --text '$TENURE_JOB post/$i'" -- LEDGER post --text "$TENURE_JOB post/$i"
done
WAIT
'''

[agents.announce-ask]
script = '''
HEARTBEAT
for i in 1 2 3 4 5 6; do
    tenure effect "post/$i" --ask -- LEDGER post --text "$TENURE_JOB post/$i"
done
WAIT
'''

# Ignores SIGTERM, and leaves a beating process behind that has neither its session nor its parent.
[agents.stubborn]
timeout = "2s"
recovery = { policy = "automatic", max-attempts = 0 }
script = '''
trap '' TERM
HEARTBEAT
(setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' &)
while :; do sleep 0.1; done
'''

[agents.flood]
timeout = "2s"
output-limit = "64 KiB"
recovery = { policy = "automatic", max-attempts = 0 }
script = "yes 'a line of output that nobody asked for'"

[agents.hoarder]
timeout = "30s"
recovery = { policy = "automatic", max-attempts = 0 }
script = "head -c 64M /dev/zero > hoard"

# Taken by simulated workers alone.
[agents.simulated]
command = ["true"]
requires = ["simulated"]
"#;

/// What the announcing agents end with.
const WAIT: &str = r#"while [ ! -e "$SHARED_DIR/gate" ]; do sleep 0.1; done
"#;

/// The fleet file, with this directory shared between agents and rows, and a ledger at this address.
pub(super) fn write_agents(shared: &Path, ledger: &Path, ledger_url: &str) -> String {
    let shared = shared.display().to_string();
    AGENTS
        .replace("HEARTBEAT\n", HEARTBEAT_SCRIPT)
        .replace("WAIT\n", WAIT)
        .replace("LEDGER ", &format!("{} ", ledger.display()))
        .replace("LEDGER_ADDRESS", ledger_url)
        .replace("SHARED/", &format!("{shared}/"))
        .replace("\"SHARED\"", &format!("{shared:?}"))
}
