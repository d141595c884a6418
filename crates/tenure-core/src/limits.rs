//! Every limit that is not a deployment's setting: its name, its unit, its default. What is beyond a limit is refused at
//! the door, naming the field and both sizes. The limits of sessions and jobs that a user sets are in `declaration` and
//! `admission`. docs/operate/limits.md is the same list for readers.

use std::time::Duration;

/// Longest name of an agent, tenant or worker, and longest version of a handler.
pub const NAME_MAX_BYTES: usize = 63;
/// Longest idempotency key of a submission, and longest key of an effect.
pub const KEY_MAX_BYTES: usize = 512;
/// Largest input, result or other value that stands beside a record.
pub const VALUE_MAX_BYTES: u64 = 256 * 1024;
/// Largest input or result, where the coordinator has a blob store; what is over `VALUE_MAX_BYTES` lies there.
pub const BLOB_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Largest piece of a blob in one message.
pub const BLOB_CHUNK_MAX_BYTES: usize = 64 * 1024;
/// Largest object in a blob store: a blob is stored in pieces of this size, and so much of it is in memory while it comes or goes.
pub const BLOB_PART_BYTES: usize = 4 * 1024 * 1024;
/// Blobs that come to one coordinator or go from it at the same time.
pub const BLOB_TRANSFERS_MAX: usize = 32;
/// How long the next piece of a blob may take to come, and how long a reader may take to make room for it.
pub const BLOB_CHUNK_WITHIN: Duration = Duration::from_secs(60);
/// How long the whole of a blob may take to come or to go: each takes one of few places meanwhile.
pub const BLOB_TRANSFER_WITHIN: Duration = Duration::from_secs(600);
/// How long a blob store may take to store, give or delete one object.
pub const BLOB_STORE_WITHIN: Duration = Duration::from_secs(30);
/// How long a worker goes on asking for an input, or handing on a result, while the blob store does not answer.
pub const BLOB_PATIENCE: Duration = Duration::from_secs(120);
/// How long a blob stays that nothing refers to: half an upload, an input that was never submitted, a result of a run that
/// never ended.
pub const BLOB_UNREFERENCED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The pause between two looks for blobs that are to go.
pub const BLOB_SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Blobs that one such look judges, and that it deletes.
pub const BLOB_SWEEP_MAX: u32 = 100;
/// Largest record, without the value beside it.
pub const RECORD_MAX_BYTES: usize = 64 * 1024;
/// Largest note.
pub const NOTE_MAX_BYTES: usize = 16 * 1024;
/// Largest line that an agent is to remember.
pub const MEMORY_LINE_MAX_BYTES: usize = 4 * 1024;
/// Most bytes of what an agent remembers that a run is shown; the latest lines.
pub const MEMORY_TAIL_MAX_BYTES: usize = 4 * 1024;
/// Lines that an agent remembers; the oldest are forgotten.
pub const MEMORY_MAX_LINES: u32 = 1_000;
/// The pause between two looks for lines that are to be forgotten.
pub const MEMORY_SWEEP_INTERVAL: Duration = Duration::from_secs(600);
/// Most bytes of notes in a handover, as they are written in its JSON; the latest are kept.
pub const HANDOVER_NOTES_MAX_BYTES: usize = 1024 * 1024;
/// Largest command with its undo and probe that stands beside an announcement, as JSON.
pub const EFFECT_REQUEST_MAX_BYTES: usize = 64 * 1024;
/// Most of an effect's output that is recorded; the rest is cut off, and said to be.
pub const EFFECT_OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// Most of a failed effect's error that is recorded.
pub const EFFECT_ERROR_MAX_BYTES: usize = 4 * 1024;
/// Most executions of one effect by one caller: the first, and what is retried automatically.
pub const EFFECT_EXECUTIONS_MAX: u32 = 3;
/// The pause before the first automatic retry of an effect; it doubles.
pub const EFFECT_RETRY_FIRST: Duration = Duration::from_millis(100);
/// The longest pause before an automatic retry of an effect.
pub const EFFECT_RETRY_MAX: Duration = Duration::from_secs(10);
/// How long a probe may take; then it is inconclusive.
pub const EFFECT_PROBE_TIMEOUT: Duration = Duration::from_secs(30);
/// Least that must be left of the lease when an effect begins, where nothing is said; at most a quarter of the ttl.
pub const EFFECT_MIN_LEASE: Duration = Duration::from_secs(2);
/// Effects in doubt that one answer or record names; how many there are in all is always said.
pub const DOUBTS_MAX: usize = 20;
/// Outcomes that came too late that one answer names; how many there are in all is always said.
pub const TESTIMONIES_MAX: u32 = 100;
/// Outcomes that came too late that are kept of one attempt at an effect; the first stay.
pub const TESTIMONIES_PER_ATTEMPT_MAX: u32 = 8;
/// Attempts at the effects of one job, all its runs together.
pub const JOB_EFFECTS_MAX: u32 = 10_000;
/// Keys of earlier runs that one warning names.
pub const UNASKED_KEYS_MAX: usize = 20;
/// Most bytes of notes with which persons redirected a job in a handover, as they are written in its JSON; the latest are
/// kept, the last in any case.
pub const HANDOVER_STEERS_MAX_BYTES: usize = 256 * 1024;
/// Most of an effect's output that a handover repeats.
pub const HANDOVER_EFFECT_OUTPUT_MAX_BYTES: usize = 512;
/// Most bytes of effects in a handover, as they are written in its JSON; the latest are kept.
pub const HANDOVER_EFFECTS_MAX_BYTES: usize = 256 * 1024;
/// Most gifts to agents in a handover; the latest are kept.
pub const HANDOVER_GIFTS_MAX: usize = 200;
/// Longest name of a step.
pub const STEP_NAME_MAX_BYTES: usize = 256;
/// Largest output of a step, as JSON.
pub const STEP_OUTPUT_MAX_BYTES: usize = 256 * 1024;
/// Steps of one run, those included that are read back.
pub const RUN_STEPS_MAX: usize = 10_000;
/// Longest reason (`--why`).
pub const WHY_MAX_BYTES: usize = 4 * 1024;
/// Subjects that a condition lists; the rest are counted.
pub const ATTENTION_SUBJECTS_MAX: u32 = 10;
/// Subjects of a kind that one look for what needs a person reads, where nothing is said.
pub const ATTENTION_PAGE_DEFAULT: u32 = 100;
/// Most subjects of a kind that one look for what needs a person reads.
pub const ATTENTION_PAGE_MAX: u32 = 10_000;
/// How long a job waits for a worker before it counts that no attached worker would be offered it.
pub const UNCLAIMABLE_GRACE: Duration = Duration::from_secs(60);
/// How long after its term lapsed an unsettled lease counts as abandoned.
pub const ABANDONED_LEASE_GRACE: Duration = Duration::from_secs(60);
/// How long a halt stands before somebody is asked whether it should.
pub const HALT_STANDING_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Most halts that stand at the same time.
pub const HALTS_STANDING_MAX: u32 = 1_000;
/// Longest wait of a run, and the latest instant to which work is set down.
pub const WAIT_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// Most jobs that one wait is for.
pub const WAIT_JOBS_MAX: usize = 1_000;
/// Awaited jobs that the run after the wait is told of by itself; `tenure wait` tells all.
pub const WOKEN_JOBS_TOLD_MAX: usize = 20;
/// Longest text that says what work that was set down waits for.
pub const WAITING_FOR_MAX_BYTES: usize = 1024;
/// Layovers that one pass of the sweep picks up.
pub const LAYOVERS_MAX: u32 = 128;
/// First pause before a pick-up that was refused is tried again; each is twice as long as the one before.
pub const LAYOVER_RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest pause before a pick-up that was refused is tried again.
pub const LAYOVER_RETRY_MAX: Duration = Duration::from_secs(300);
/// Most of an awaited job's result that `tenure wait` tells; of all its jobs together at most [`AWAITED_RESULTS_MAX_BYTES`].
pub const AWAITED_RESULT_MAX_BYTES: usize = 4 * 1024;
/// Most bytes of results that one answer to a wait tells.
pub const AWAITED_RESULTS_MAX_BYTES: usize = 1024 * 1024;
/// Concluded jobs, or waits, that one statement of the sweep looks at.
pub const AWAITED_PAGE: u32 = 1_000;
/// How often all waits for jobs are looked through; in between, whoever concludes a job looks who waits for it.
pub const AWAITED_LOOK_EVERY: Duration = Duration::from_secs(10);
/// Waits that one pass of the sweep wakes.
pub const TIMERS_MAX: u32 = 128;
/// How long the run of a job that somebody gave up or redirected may take to answer, beyond its child's `stop-grace`.
pub const NOTICE_ANSWER_WAIT: Duration = Duration::from_secs(15);
/// How long no worker may hold the version of a handler that waiting jobs were admitted under, while others hold another one,
/// before those jobs are set aside.
pub const HANDLER_ABSENT_WAIT: Duration = Duration::from_secs(60);
/// Largest declaration, as canonical JSON.
pub const DECLARATION_MAX_BYTES: usize = 256 * 1024;
/// Most agents in one apply.
pub const APPLY_MAX_AGENTS: usize = 1_000;
/// Most labels of a job or worker.
pub const LABELS_MAX: usize = 64;
/// Longest key or value of a label.
pub const LABEL_MAX_BYTES: usize = 256;
/// Longest trace context of a submission.
pub const TRACEPARENT_MAX_BYTES: usize = 256;
/// Most submissions in one batch.
pub const BATCH_MAX_JOBS: usize = 1_000;
/// Most bytes of input in one batch.
pub const BATCH_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Most records in one append.
pub const APPEND_MAX_RECORDS: usize = 64;
/// Largest piece of output in one message.
pub const OUTPUT_CHUNK_MAX_BYTES: usize = 64 * 1024;
/// Most of a handler's error that stands in its run's output; the rest is cut off, and said to be.
pub const HANDLER_ERROR_MAX_BYTES: usize = 256 * 1024;
/// What each piece of output counts beside its bytes, on either side of a stream.
pub const OUTPUT_CHUNK_OVERHEAD_BYTES: usize = 64;
/// Most unacknowledged bytes of output on one worker's stream.
pub const OUTPUT_WINDOW_BYTES: u64 = 4 * 1024 * 1024;
/// Largest message on the wire.
pub const MESSAGE_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Items on a page of a listing, where nothing is said.
pub const PAGE_DEFAULT: u32 = 50;
/// Most items on a page.
pub const PAGE_MAX: u32 = 1_000;
/// Most bytes of records and the values beside them on a page of a journal; one record is always given. With what surrounds
/// each record it stays below the 4 MiB that gRPC clients take where nothing is said.
pub const RECORD_PAGE_MAX_BYTES: u32 = 2 * 1024 * 1024;
/// Fewest hexadecimal digits by which a job may be named.
pub const JOB_ENDING_MIN_DIGITS: usize = 6;
/// Most runs at the same time in one worker.
pub const SLOTS_MAX: u32 = 10_000;

/// Connections of a coordinator's pool, where nothing is said; the one for renewals comes on top.
pub const DATABASE_CONNECTIONS_MAX: u32 = 10;
/// How long a free connection is waited for.
pub const DATABASE_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest life of a statement.
pub const DATABASE_STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a statement waits for a lock.
pub const DATABASE_LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection that is given back may take to become idle; one that takes longer is dropped, and its place freed.
pub const DATABASE_RETURN_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a transaction may lie idle: a frozen coordinator must not hold locks.
pub const DATABASE_IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Most live partitions; beyond it a warning is given, because every statement pays for each.
pub const PARTITIONS_MAX: u32 = 32;
/// Months for which partitions are made ahead.
pub const PARTITIONS_AHEAD_MONTHS: u32 = 2;
/// How far below the last number found a claim begins next time: numbers become visible out of order.
pub const QUEUE_SLACK: u64 = 1_000;
/// How long claims pass over a row of the queue that they could not read, before they look at it again.
pub const UNREADABLE_SKIP: Duration = Duration::from_secs(60);
/// Rows of the queue that claims pass over at once because they could not be read.
pub const UNREADABLE_ROWS_MAX: usize = 4_096;
/// Most rows of a tail in one answer.
pub const TAIL_MAX_ROWS: u32 = 1_024;
/// Most delayed jobs that become claimable in one pass.
pub const DUE_MAX_JOBS: u32 = 1_000;
/// Jobs of the queue that one look for reached deadlines reads.
pub const OVERDUE_PAGE_JOBS: u32 = 1_000;
/// Jobs whose deadline is reached that one coordinator concludes at the same time.
pub const OVERDUE_CONCLUDED_AT_ONCE: usize = 64;
/// How long a job waits that was given back as never started: what hindered its start may hinder the next one too.
pub const GRANT_RELEASED_WAIT: Duration = Duration::from_secs(1);
/// Most lost grants that are named in one answer.
pub const LOST_GRANTS_MAX: u32 = 1_000;

/// The life of a term, where nothing is said.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest life of a term.
pub const TTL_MIN: Duration = Duration::from_secs(5);
/// The longest life of a term.
pub const TTL_MAX: Duration = Duration::from_secs(300);
/// The least safety distance that a worker keeps from the end of its term; a tenth of the term otherwise.
pub const TERM_MARGIN_MIN: Duration = Duration::from_millis(500);
/// The longest pause between two passes of a coordinator that still count as unbroken.
pub const PASS_GAP_MAX: Duration = Duration::from_secs(3);
/// The longest time from reading the database's clock in a pass to closing terms in it.
pub const CLOSING_DELAY_MAX: Duration = Duration::from_millis(1_000);
/// The least distance between two passes that are both remembered.
pub const PASS_SPACING_MIN: Duration = Duration::from_millis(250);
/// How long a closed term's row stays at least.
pub const CLOSED_TERM_KEPT: Duration = Duration::from_secs(60);
/// Age from which a lease that its worker does not name counts as a lost grant.
pub const LOST_GRANT_AGE: Duration = Duration::from_secs(5);

/// Elapsed time of a session, where nothing is said: above every bound that a caller already imposes on one invocation
/// (900, 300 and 1,800 s).
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(3_600);
/// One invocation, where nothing is said.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(900);
/// SIGTERM to SIGKILL, where nothing is said.
pub const STOP_GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// Effects that one group of a handler has, performed and put off.
pub const GROUP_MEMBERS_MAX: usize = 100;
/// Restarts of an unwinding run after a failure of its own, where the agent's jobs have no more.
pub const UNWIND_ATTEMPTS: u32 = 5;
/// Restarts of an unwinding run that lost its worker, where the agent's jobs have no more.
pub const UNWIND_LOSSES: u32 = 20;
/// Captured output of a run, where nothing is said.
pub const OUTPUT_LIMIT_DEFAULT_BYTES: u64 = 10 * 1024 * 1024;
/// Restarts after a failure of the child, where nothing is said.
pub const MAX_ATTEMPTS_DEFAULT: u32 = 2;
/// Restarts of a healthy child that lost its worker, where nothing is said.
pub const MAX_LOSSES_DEFAULT: u32 = 10;
/// First pause before a restart, where nothing is said.
pub const BACKOFF_FIRST_DEFAULT: Duration = Duration::from_secs(1);
/// Longest pause before a restart, where nothing is said.
pub const BACKOFF_MAX_DEFAULT: Duration = Duration::from_secs(300);
/// The longest duration that a declaration or a submission may name: 10 years.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The longest time from SIGTERM to SIGKILL that an agent may ask for.
pub const STOP_GRACE_MAX: Duration = Duration::from_secs(600);
/// The largest output-limit of an agent.
pub const OUTPUT_LIMIT_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// The largest number of attempts, losses, runs and the like that a declaration may name.
pub const COUNT_MAX: i64 = 1_000_000;
/// Most hops of a session.
pub const HOPS_MAX: i64 = 1_000;
/// The highest priority; 0 is the lowest.
pub const PRIORITY_MAX: u8 = 3;
/// The priority, where nothing is said.
pub const PRIORITY_DEFAULT: u8 = 1;
/// Hops of a session, where nothing is said.
pub const HOPS_DEFAULT: u32 = 8;
/// How deep a session may be that another one spawned; one that was submitted is 0 deep.
pub const SPAWN_DEPTH_DEFAULT: u32 = 1;
/// Runs of a session, where nothing is said.
pub const RUN_CAP_DEFAULT: u32 = 64;
/// Most money in one amount, in micro-units of the tenant's currency: a thousand million units.
pub const MONEY_MAX_MICROS: u64 = 1_000_000_000_000_000;
/// Most tokens, micro-units of money or turns in one spend.
pub const SPEND_MAX: u64 = 1_000_000_000_000_000;
/// What a tenant may spend in 24 hours before no further session is opened, in micro-units, where nothing is said: 100.00.
pub const RESERVE_DEFAULT_MICROS: u64 = 100_000_000;
/// How long it is kept what a tenant spent in each minute; beyond the 24 hours that count, for those who look.
pub const SPENDING_KEPT: Duration = Duration::from_secs(48 * 60 * 60);
/// How often what a tenant spent longer ago is deleted.
pub const SPENDING_SWEEP_EVERY: Duration = Duration::from_secs(60 * 60);
/// Minutes of spending that one such pass deletes.
pub const SPENDING_SWEEP_MAX: u32 = 10_000;
/// Budget of a session in micro-units of the tenant's currency, where nothing is said: 5.00.
pub const BUDGET_DEFAULT_MICROS: u64 = 5_000_000;

/// Pieces of work that wait in one lane of a coordinator.
pub const LANE_QUEUE_MAX: usize = 4_096;
/// Pieces of work that one lane takes into one round.
pub const LANE_BATCH_MAX: usize = 500;
/// Bytes of values with which one round of a lane is full.
pub const LANE_BATCH_MAX_BYTES: usize = 8 * 1024 * 1024;
/// KiB of values that wait in the lanes of a coordinator.
pub const LANE_QUEUES_MAX_KIB: usize = 64 * 1024;
/// Runs that one lane remembers.
pub const LANE_MEMORY_MAX_RUNS: usize = 20_000;
/// Submissions that wait in a coordinator.
pub const SUBMIT_QUEUE_MAX: usize = 2_000;
/// KiB of inputs that wait with them.
pub const SUBMIT_QUEUE_MAX_KIB: usize = 64 * 1024;
/// Submissions that are stored in one statement.
pub const SUBMIT_BATCH_MAX: usize = 500;
/// Messages that wait for one attached worker.
pub const ATTACHMENT_QUEUE_MAX: usize = 1_024;
/// Renewals of one worker that wait for an answer.
pub const RENEWALS_QUEUED_MAX: usize = 8;
/// Pieces of output that are written in one statement.
pub const OUTPUT_BATCH_MAX_CHUNKS: usize = 64;
/// Jobs that are claimed for one worker in one transaction.
pub const CLAIM_MAX_JOBS: u32 = 256;
/// Lapsed leases that one pass of the sweep settles.
pub const SWEEP_MAX_LEASES: u32 = 32;
/// Lapsed terms that one pass of the sweep closes.
pub const SWEEP_MAX_TERMS: u32 = 256;

/// Chunks of one run's output that wait for their worker.
pub const OUTPUT_QUEUE_CHUNKS: usize = 16;
/// How long an unfinished line waits before it is shown.
pub const OUTPUT_FLUSH_AFTER: Duration = Duration::from_millis(200);
/// How long a pipe is waited for whose run's group is empty, in all.
pub const OUTPUT_DRAIN_WAIT: Duration = Duration::from_secs(1);
/// How much is read from pipes whose run's group is empty: twice the largest pipe that an ordinary user can make.
pub const OUTPUT_DRAIN_MAX_BYTES: u64 = 2 * 1024 * 1024;
/// How often a worker asks each guardian whether it is there.
pub const GUARDIAN_PING_INTERVAL: Duration = Duration::from_secs(1);
/// A guardian that left so many questions unanswered is ended with its group.
pub const GUARDIAN_MISSED_PINGS_MAX: u32 = 5;
/// A guardian that has not ended its group so long after the local deadline is ended with it.
pub const GUARDIAN_LATE_AFTER: Duration = Duration::from_millis(250);
/// How long a guardian may take to read what it is to run.
pub const GUARDIAN_SPEC_TIMEOUT: Duration = Duration::from_secs(10);
/// A worker that said nothing for so long does not answer: its guardian reports by itself.
pub const WORKER_SILENCE: Duration = Duration::from_secs(3);
/// How long one coordinator may take to accept a guardian's connection.
pub const GONE_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one coordinator may take to make a guardian's report durable.
pub const GONE_REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// The first pause of a guardian between two passes over the coordinators.
pub const GONE_PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
pub const GONE_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Largest frame between worker and guardian: arguments and environment of a process are 2 MiB at most by default, and
/// JSON escapes at most sixfold.
pub const CONTROL_FRAME_MAX_BYTES: usize = 16 * 1024 * 1024;
/// First pause before a worker tries another coordinator.
pub const RECONNECT_FIRST: Duration = Duration::from_millis(100);
/// Longest pause before a worker tries another coordinator.
pub const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// Longest wait for a connection to a coordinator.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the answer to a registration or to the first message of a stream.
pub const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two signs of life on an idle connection.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A connection that leaves a sign of life unanswered for so long is given up.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Refused epochs that a worker remembers.
pub const REFUSED_EPOCHS_MAX: usize = 100_000;
/// How long a worker keeps the refusal of a run to itself whose job has a child of an earlier epoch that still lives there.
pub const EARLIER_CHILD_PAUSE: Duration = Duration::from_secs(1);
/// Notes of one run that may wait for their acknowledgement at the same time; the next one waits for its turn.
pub const NOTES_IN_FLIGHT_MAX: usize = 64;
/// Connections to the socket of one run; the next one waits until one is closed. More than effects and notes that may be
/// under way together, because each has a connection of its own: one that waits could not say how an effect ended.
pub const RUN_SOCKET_CONNECTIONS_MAX: usize = 256;
/// Requests that are under way on one of those connections; the next one waits its turn.
pub const RUN_SOCKET_REQUESTS_MAX: u32 = 4;
/// How often a delivery to a join is placed anew because others came meanwhile, before its giver is told to try again.
pub const JOIN_PLACINGS_MAX: u32 = 16;
/// Waves of joins that wait, as a session lists them.
pub const SESSION_JOINS_LISTED: u32 = 100;
/// Deliveries to one join in one session.
pub const JOIN_DELIVERIES_MAX: u32 = 1_000;
/// Calls of tools that one server of the Model Context Protocol carries out at the same time; the next one waits its turn.
pub const MCP_CALLS_MAX: usize = 16;
/// Longest message to such a server.
pub const MCP_LINE_MAX_BYTES: usize = 1024 * 1024;
/// Longest request on such a connection. A note that is longer than notes may be is told so as long as it is not longer
/// than this.
pub const RUN_SOCKET_REQUEST_MAX_BYTES: usize = 288 * 1024;
/// Effects of one run that are under way at the same time, those that wait for their record included; the next one waits
/// its turn.
pub const EFFECTS_IN_FLIGHT_MAX: usize = 128;
/// Keys that a job's first run may ask for before each further one is looked up.
pub const EFFECT_KEYS_REMEMBERED_MAX: usize = 10_000;
/// The end of a run waits at most so long for the run's output to be acknowledged.
pub const OUTPUT_SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// What a worker's runs have to end by themselves once it is told to stop, the stop-grace included.
pub const DRAIN_GRACE: Duration = Duration::from_secs(25);
/// How long a worker that is told to stop goes on trying to have its last ends acknowledged.
pub const DRAIN_REPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Runs at the same time in one worker, where nothing is said.
pub const SLOTS_DEFAULT: u32 = 4;
/// How long a coordinator waits for an answer of the database: longer than a statement may take there.
pub const DATABASE_ANSWER_MAX: Duration = Duration::from_secs(16);
/// Connections that bulk work (output, followed streams, histories) may use at the same time.
pub const BULK_CONNECTIONS: usize = 4;
/// Streams of one coordinator that follow a journal or an output.
pub const FOLLOWERS_MAX: usize = 5_000;
/// Workers that are attached to one coordinator.
pub const ATTACHED_MAX: usize = 2_000;
/// Connections to one coordinator; a further one is closed at once. Fewer, where the process may not open as many files.
pub const CONNECTIONS_MAX: usize = 8_192;
/// Files that a coordinator keeps for itself (its database, its log) when it counts how many connections it may take.
pub const FILES_KEPT: usize = 128;
/// The pause after a connection that could not be accepted.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A connection on which no call was let in for so long after it was made is closed: handshakes that are never finished,
/// and callers without a valid credential.
pub const FIRST_CALL_WITHIN: Duration = Duration::from_secs(10);
/// A connection that only bore calls without a caller (health, reports of guardians) is closed so long after the last one.
pub const NEXT_CALL_WITHIN: Duration = Duration::from_secs(60);
/// Calls and streams that are under way on one connection; the transport refuses a further one.
pub const CALLS_PER_CONNECTION_MAX: u32 = 1_024;
/// Calls and streams of callers that are under way on one coordinator.
pub const CALLS_MAX: usize = 16_384;
/// Calls without a caller (health, reports of guardians) that are under way beside them.
pub const CALLS_WITHOUT_CALLER_MAX: usize = 1_024;
/// Streams that watch the health of a coordinator, beside both: they need no caller and have no end.
pub const HEALTH_WATCHES_MAX: usize = 256;
/// Longest message of a call without a caller: as much as is not counted.
pub const MESSAGE_WITHOUT_CALLER_MAX_BYTES: usize = ARRIVING_SMALL_BYTES;
/// Largest metadata of a call: all names and values, and 32 bytes for each.
pub const METADATA_MAX_BYTES: u32 = 16 * 1024;
/// How far a sender may be ahead of what is read, on one connection and on one of its streams.
pub const TRANSPORT_WINDOW_BYTES: u32 = 1024 * 1024;
/// How long a message of a call may take to arrive: from the call's start for the first, from its first byte for others.
pub const MESSAGE_WITHIN: Duration = Duration::from_secs(20);
/// What each message that is not whole yet may hold of the memory without being counted.
pub const ARRIVING_SMALL_BYTES: usize = 16 * 1024;
/// Bytes of messages that are not whole yet, on one connection: two of the largest.
pub const ARRIVING_PER_CONNECTION_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of messages that are not whole yet, on one coordinator.
pub const ARRIVING_MAX_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of answers that a connection may leave unread; then no further answer is made on it.
pub const UNREAD_PER_CONNECTION_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of answers that lie unread on all connections; then those that leave most of them get no further answer.
pub const UNREAD_MAX_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of answers that may lie unread on a connection for as long as it lives.
pub const UNREAD_STALLED_MAX_BYTES: usize = 1024 * 1024;
/// A connection that leaves more than that unread, and takes nothing for so long, is closed.
pub const UNREAD_WITHIN: Duration = Duration::from_secs(60);
/// A stream that follows something and whose reader has taken nothing for so long ends.
pub const FOLLOWER_WITHIN: Duration = Duration::from_secs(60);
/// How long the directory of a run stays whose worker was killed before it could remove it.
pub const LEFTOVER_RUN_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The poll behind wake-ups between coordinators, where nothing is said; each is up to a fifth shorter or longer.
pub const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
/// The shortest poll.
pub const POLL_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The longest poll: what a lost wake-up may cost.
pub const POLL_INTERVAL_MAX: Duration = Duration::from_secs(300);
/// The least distance between two statements with which a coordinator wakes the others.
pub const WAKE_SPACING: Duration = Duration::from_millis(10);
/// Jobs that one such statement names; beyond it the others look at everything that they watch.
pub const WAKE_JOBS_MAX: usize = 800;
/// Orders for workers elsewhere that one such statement bears; what is beyond it is told by the workers' renewals.
pub const WAKE_ORDERS_MAX: usize = 100;
/// How long a listener's connection may be silent before it is asked whether it lives, and how long the answer may take.
pub const LISTENER_SILENCE: Duration = Duration::from_secs(5);
/// How long the end of a program waits for what is left to be exported, where a collector does not answer.
pub const TELEMETRY_SHUTDOWN_MAX: Duration = Duration::from_secs(2);
/// The shortest pause between two counts of what the gauges of a coordinator show.
pub const GAUGES_INTERVAL: Duration = Duration::from_secs(15);
/// After a count the next one waits so many times as long as it took: counting takes a hundredth of one connection at most.
pub const GAUGES_REST_FACTOR: u32 = 100;
/// Longest name of an actor.
pub const ACTOR_MAX_BYTES: usize = 128;
/// Longest token.
pub const TOKEN_MAX_BYTES: usize = 128;
/// Tokens of one file, and tokens of one database that are not revoked.
pub const TOKENS_MAX: usize = 10_000;
/// Largest file of tokens.
pub const TOKENS_FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Largest file with one token in it.
pub const TOKEN_FILE_MAX_BYTES: u64 = 4 * 1024;
/// How often a coordinator looks whether its file of tokens changed.
pub const TOKENS_FILE_POLL: Duration = Duration::from_secs(1);
/// How often it reads the tokens of the database, beside what it is told: how long a token that was revoked there may be
/// worth something still where the notification is lost.
pub const TOKENS_DATABASE_POLL: Duration = Duration::from_secs(5);
/// How often the credential of a stream is looked at again.
pub const CREDENTIAL_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the refusal of a call without a valid credential is held back, up to half of it shorter or longer, so that whoever
/// asks in a loop costs little.
pub const UNAUTHENTICATED_PAUSE: Duration = Duration::from_secs(1);
/// Such refusals that are held back at the same time; beyond them they are given at once.
pub const UNAUTHENTICATED_HELD_MAX: usize = 4_096;
/// How often at most the log says that calls without a valid credential were refused.
pub const UNAUTHENTICATED_LOG_EVERY: Duration = Duration::from_secs(10);
/// How long a TLS handshake may take.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections to one port for probes; a further one is closed at once.
pub const PROBE_CONNECTIONS_MAX: usize = 64;
/// Largest head of a request to the port for probes: its line and all its headers.
pub const PROBE_HEAD_MAX_BYTES: usize = 16 * 1024;
/// How long such a head may take, from the connection to its last byte.
pub const PROBE_HEAD_WITHIN: Duration = Duration::from_secs(5);
/// How long such a connection may take in all, until its one answer is taken.
pub const PROBE_WITHIN: Duration = Duration::from_secs(10);
