//! The agents of an arena, as a fleet file.
//!
//! `steady` works until the gate is open. The others misbehave, each in a way of its own, and belong to one row.

use std::path::Path;

use tenure_testkit::HEARTBEAT_SCRIPT;

const AGENTS: &str = r#"
schema = 1

[defaults]
timeout = "10m"
stop-grace = "1s"
env = { HEARTBEATS = "SHARED/beats", NOTES = "SHARED/notes", SHARED_DIR = "SHARED" }
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

/// The fleet file, with this directory shared between agents and rows.
pub(super) fn write_agents(shared: &Path) -> String {
    AGENTS
        .replace("HEARTBEAT\n", HEARTBEAT_SCRIPT)
        .replace("SHARED/", &format!("{}/", shared.display()))
        .replace("\"SHARED\"", &format!("{:?}", shared.display().to_string()))
}
