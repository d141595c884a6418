//! Every metric of a coordinator, and no other place makes one. Counters and histograms count what this process did; gauges
//! of queues look at them when they are asked; gauges of the fleet are counted in the store, never accumulated. No id is ever
//! a label: the labels of each metric have a few values that this program names. docs/operate/metrics.md explains each.
//! Neighbours: whoever does something counts it, `background/gauges` counts the fleet.

use std::{
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::{job::State, recovery::Interruption, refusal::Refusal};
use tenure_store::{FleetCount, Renewal, Submitted};
use tenure_telemetry::{Counter, Histogram, KeyValue, Meter, meter};

/// Upper bounds of the time that a statement takes, in seconds.
const STATEMENT_BOUNDS_S: [f64; 14] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Upper bounds of the time from an interruption to the next run, in seconds.
const RECOVERY_BOUNDS_S: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0];
/// Upper bounds of the appends in one batch.
const BATCH_BOUNDS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];

static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::define(&meter()));
static FLEET: Mutex<Vec<FleetCount>> = Mutex::new(Vec::new());

/// The metrics of this process. The first use defines them, so it comes after the start of telemetry.
pub(crate) fn metrics() -> &'static Metrics {
    &METRICS
}

/// The statements whose time is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Statement {
    Append,
    Submit,
    Claim,
    Renew,
}

/// How a run came to its worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClaimWay {
    /// From the queue.
    Queue,
    /// With its submission.
    Eager,
}

/// The limits whose bound was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    LaneQueue,
    SubmitQueue,
    SubmitRoom,
    AttachmentQueue,
    RenewalQueue,
    OutputWindow,
    Attached,
    Followers,
    Connections,
    FirstCall,
    Calls,
    CallsWithoutCaller,
    HealthWatches,
    Message,
    Arriving,
    Unread,
    Stalled,
    BlobTransfers,
}

impl Limit {
    const ALL: [Self; 18] = [
        Self::LaneQueue,
        Self::SubmitQueue,
        Self::SubmitRoom,
        Self::AttachmentQueue,
        Self::RenewalQueue,
        Self::OutputWindow,
        Self::Attached,
        Self::Followers,
        Self::Connections,
        Self::FirstCall,
        Self::Calls,
        Self::CallsWithoutCaller,
        Self::HealthWatches,
        Self::Message,
        Self::Arriving,
        Self::Unread,
        Self::Stalled,
        Self::BlobTransfers,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::LaneQueue => "lane_queue",
            Self::SubmitQueue => "submit_queue",
            Self::SubmitRoom => "submit_room",
            Self::AttachmentQueue => "attachment_queue",
            Self::RenewalQueue => "renewal_queue",
            Self::OutputWindow => "output_window",
            Self::Attached => "attached",
            Self::Followers => "followers",
            Self::Connections => "connections",
            Self::FirstCall => "first_call",
            Self::Calls => "calls",
            Self::CallsWithoutCaller => "calls_without_caller",
            Self::HealthWatches => "health_watches",
            Self::Message => "message",
            Self::Arriving => "arriving",
            Self::Unread => "unread",
            Self::Stalled => "stalled",
            Self::BlobTransfers => "blob_transfers",
        }
    }
}

/// What is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    submissions: Counter<u64>,
    claims: Counter<u64>,
    appends: Counter<u64>,
    batch_appends: Histogram<u64>,
    conclusions: Counter<u64>,
    renewals: Counter<u64>,
    terms_closed: Counter<u64>,
    fenced_reports: Counter<u64>,
    refusals: Counter<u64>,
    limit_hits: Counter<u64>,
    statement_seconds: Histogram<f64>,
    recovery_seconds: Histogram<f64>,
}

impl Metrics {
    fn define(meter: &Meter) -> Self {
        let count = |name: &'static str, unit: &'static str, what: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(what).build()
        };
        let seconds = |name: &'static str, what: &'static str, bounds: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(what);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        let defined = Self {
            submissions: count(
                "tenure.submissions",
                "{submission}",
                "Submissions that were answered with a job.",
            ),
            claims: count("tenure.claims", "{run}", "Runs that began."),
            appends: count(
                "tenure.appends",
                "{append}",
                "Appends to journals, by what became of each attempt.",
            ),
            batch_appends: meter
                .u64_histogram("tenure.batch.appends")
                .with_unit("{append}")
                .with_description("Appends that went to the database in one batch.")
                .with_boundaries(BATCH_BOUNDS.to_vec())
                .build(),
            conclusions: count("tenure.conclusions", "{job}", "Jobs that came to rest, by their state."),
            renewals: count("tenure.renewals", "{renewal}", "Renewals of terms, by what became of them."),
            terms_closed: count("tenure.terms.closed", "{term}", "Terms that lapsed and were closed here."),
            fenced_reports: count(
                "tenure.reports.fenced",
                "{report}",
                "Late reports of runs that are another's.",
            ),
            refusals: count(
                "tenure.refusals",
                "{refusal}",
                "What callers and workers were refused, by reason.",
            ),
            limit_hits: count("tenure.limit.hits", "{hit}", "How often a limit was met."),
            statement_seconds: seconds(
                "tenure.statement.duration",
                "From asking the database to its answer, retries included.",
                &STATEMENT_BOUNDS_S,
            ),
            recovery_seconds: seconds(
                "tenure.recovery.duration",
                "From the interruption of a run to the claim of the run that goes on.",
                &RECOVERY_BOUNDS_S,
            ),
        };
        defined.begin_at_zero();
        define_fleet_gauges(meter);
        defined
    }

    /// A counter that nothing was counted with would be missing, and missing is not the same as zero.
    fn begin_at_zero(&self) {
        self.terms_closed.add(0, &[]);
        self.fenced_reports.add(0, &[]);
        self.note_claims(ClaimWay::Queue, 0);
        self.note_claims(ClaimWay::Eager, 0);
        self.note_appends(0, 0);
        for limit in Limit::ALL {
            self.limit_hits.add(0, &[KeyValue::new("limit", limit.word())]);
        }
        for outcome in ["admitted", "existing"] {
            self.submissions.add(0, &[KeyValue::new("outcome", outcome)]);
        }
        for outcome in ["renewed", "deaf", "closed", "displaced"] {
            self.renewals.add(0, &[KeyValue::new("outcome", outcome)]);
        }
    }

    /// Submissions that were answered with a job.
    pub(crate) fn note_submission(&self, outcome: &Submitted) {
        let outcome = match outcome {
            Submitted::Admitted { .. } => "admitted",
            Submitted::Existing { .. } => "existing",
            // A refusal, and counted as one.
            Submitted::KeyReused { .. } | Submitted::Halted(_) => return,
        };
        self.submissions.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// Runs that began.
    pub(crate) fn note_claims(&self, way: ClaimWay, runs: u64) {
        let way = match way {
            ClaimWay::Queue => "queue",
            ClaimWay::Eager => "eager",
        };
        self.claims.add(runs, &[KeyValue::new("way", way)]);
    }

    /// A batch that was sent.
    pub(crate) fn note_batch(&self, appends: usize) {
        self.batch_appends.record(appends as u64, &[]);
    }

    /// What became of the appends of a batch.
    pub(crate) fn note_appends(&self, applied: u64, again: u64) {
        self.appends.add(applied, &[KeyValue::new("outcome", "applied")]);
        self.appends.add(again, &[KeyValue::new("outcome", "not_applied")]);
    }

    /// A job that has a state now.
    pub(crate) fn note_state(&self, state: State) {
        if !matches!(state, State::Ready | State::Running | State::Suspended | State::Interrupted) {
            self.conclusions.add(1, &[KeyValue::new("state", state.name())]);
        }
    }

    /// What became of a renewal.
    pub(crate) fn note_renewal(&self, renewal: &Renewal) {
        let outcome = match renewal {
            Renewal::Renewed { .. } => "renewed",
            Renewal::Deaf { .. } => "deaf",
            Renewal::Closed => "closed",
            Renewal::Displaced => "displaced",
        };
        self.renewals.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// Terms that lapsed and were closed.
    pub(crate) fn note_closed_terms(&self, terms: usize) {
        self.terms_closed.add(terms as u64, &[]);
    }

    /// A report of a run that is another's by now.
    pub(crate) fn note_fenced_report(&self) {
        self.fenced_reports.add(1, &[]);
    }

    /// Something was refused.
    pub(crate) fn note_refusal(&self, refusal: &Refusal) {
        self.refusals.add(1, &[KeyValue::new("reason", refusal.reason.code())]);
    }

    /// A limit was met.
    pub(crate) fn note_limit(&self, limit: Limit) {
        self.limit_hits.add(1, &[KeyValue::new("limit", limit.word())]);
    }

    /// How long the database took.
    pub(crate) fn note_statement(&self, statement: Statement, took: Duration) {
        let statement = match statement {
            Statement::Append => "append",
            Statement::Submit => "submit",
            Statement::Claim => "claim",
            Statement::Renew => "renew",
        };
        self.statement_seconds.record(took.as_secs_f64(), &[KeyValue::new("statement", statement)]);
    }

    /// A run goes on with what an interrupted one left.
    pub(crate) fn note_recovery(&self, interruption: &Interruption, took: Duration) {
        let attributes = [KeyValue::new("interruption", interruption.word())];
        self.recovery_seconds.record(took.as_secs_f64(), &attributes);
    }
}

/// The gauges that are counted in the store. What is not known at present is not shown.
fn define_fleet_gauges(meter: &Meter) {
    let gauge = |name: &'static str,
                 unit: &'static str,
                 what: &'static str,
                 of: &'static str,
                 label: &'static str| {
        let observed = meter.u64_observable_gauge(name).with_unit(unit).with_description(what);
        let _ = observed
            .with_callback(move |observer| {
                for row in fleet().iter().filter(|row| row.of == of) {
                    observer.observe(row.count, &[KeyValue::new(label, row.word.clone())]);
                }
            })
            .build();
    };
    gauge("tenure.jobs", "{job}", "Jobs, by their state.", "jobs", "state");
    gauge(
        "tenure.queue.jobs",
        "{job}",
        "Jobs that wait for a worker: claimable, or delayed.",
        "queue",
        "kind",
    );
    gauge(
        "tenure.leases",
        "{lease}",
        "Leases: live, or of a child that is unaccounted for.",
        "leases",
        "kind",
    );
    gauge("tenure.terms", "{term}", "Terms of workers: open, or closed a while ago.", "terms", "kind");
    gauge(
        "tenure.effects",
        "{effect}",
        "Effects that have no outcome: under way, or in doubt.",
        "effects",
        "kind",
    );
}

/// Gauges of what waits in this process, looked at when they are asked.
pub(crate) fn define_queue_gauges(
    lanes: impl Fn() -> Vec<u64> + Send + Sync + 'static,
    submissions: impl Fn() -> u64 + Send + Sync + 'static,
    attached: impl Fn() -> u64 + Send + Sync + 'static,
    followers: impl Fn() -> u64 + Send + Sync + 'static,
) {
    let meter = meter();
    let _ = meter
        .u64_observable_gauge("tenure.lane.queue.depth")
        .with_unit("{work}")
        .with_description("Pieces of work that wait in a lane.")
        .with_callback(move |observer| {
            for (lane, depth) in (0_i64..).zip(lanes()) {
                observer.observe(depth, &[KeyValue::new("lane", lane)]);
            }
        })
        .build();
    let gauge = |name: &'static str, unit: &'static str, what: &'static str| {
        meter.u64_observable_gauge(name).with_unit(unit).with_description(what)
    };
    let _ = gauge("tenure.submission.queue.depth", "{call}", "Calls whose submissions wait to be stored.")
        .with_callback(move |observer| observer.observe(submissions(), &[]))
        .build();
    let _ = gauge("tenure.workers.attached", "{worker}", "Workers that are attached to this coordinator.")
        .with_callback(move |observer| observer.observe(attached(), &[]))
        .build();
    let _ = gauge("tenure.followers", "{stream}", "Streams that follow a journal or an output here.")
        .with_callback(move |observer| observer.observe(followers(), &[]))
        .build();
}

/// Shows a count of the fleet; an empty one shows that it is not known.
pub(crate) fn show_fleet(counts: Vec<FleetCount>) {
    *fleet() = counts;
}

fn fleet() -> MutexGuard<'static, Vec<FleetCount>> {
    FLEET.lock().unwrap_or_else(PoisonError::into_inner)
}
