//! The fleet file that `tenure init` writes. Its agent works as it stands; a test applies it.

/// The file.
pub(crate) const FLEET_TEMPLATE: &str = r#"# A fleet file: the agents of this fleet, and how each is run. `tenure apply` makes it known to the fleet; jobs that were
# submitted before keep the declaration that they were admitted under.
schema = 1

# What every agent has, unless its own table says otherwise.
[defaults]
timeout = "15m"                 # one run at most; then SIGTERM, and after stop-grace SIGKILL
stop-grace = "10s"

# Submit a job for it with:  tenure submit greet --input world --wait
# and look at what it did:   tenure output JOB, tenure journal JOB, tenure result JOB
[agents.greet]
# A shell script (sh -eu), or an argument list:  command = ["my-agent", "--fast"]
script = '''
name=$(cat "$TENURE_INPUT")
echo "greeting $name"

# A note is for whoever comes after this run: if its worker dies, the next run finds the notes in the file
# TENURE_BRIEF (and, for programs, in TENURE_HANDOVER).
if [ -s "$TENURE_BRIEF" ]; then
    echo "an earlier run of this job left word:"
    cat "$TENURE_BRIEF"
fi
tenure note "said hello to $name"

# What stands in this file at the end is the result of the job.
echo "hello, $name" > "$TENURE_RESULT"
'''
stdin = "none"                  # input: the raw bytes of the input on stdin
# env = { LANG = "C.UTF-8" }    # beyond these a child gets only PATH HOME LANG TZ TRACEPARENT TENURE_*
# secrets = ["GIT_TOKEN"]       # variables of the worker, by name; redacted wherever they would appear
# requires = ["git", "zone=eu"] # labels that a worker must have
# final-exit-codes = [65]       # a failure for good: no restart
# recovery = { policy = "automatic", max-attempts = 2, backoff = { first = "1s", max = "5m" } }
# limits = { deadline = "1h" }  # the session's deadline, where a submission names none
"#;
