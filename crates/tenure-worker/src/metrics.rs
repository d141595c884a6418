//! Every metric of a worker, and no other place makes one. No id is ever a label: the labels of each metric have a few values
//! that this program names. docs/operate/metrics.md explains each. Neighbours: whoever does something counts it.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use tenure_telemetry::{Counter, Histogram, KeyValue, Meter, meter};

use crate::context::WorkerContext;

/// Upper bounds of the time that a run takes, in seconds.
const RUN_BOUNDS_S: [f64; 12] =
    [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 14_400.0, 86_400.0];

static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::define(&meter()));

/// The metrics of this process. The first use defines them, so it comes after the start of telemetry.
pub(crate) fn metrics() -> &'static Metrics {
    &METRICS
}

/// What came of a call about an effect.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EffectOutcome {
    Done,
    Failed,
    ReadBack,
    Refused,
    CallerLeft,
}

impl EffectOutcome {
    const ALL: [Self; 5] = [Self::Done, Self::Failed, Self::ReadBack, Self::Refused, Self::CallerLeft];

    const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::ReadBack => "read_back",
            Self::Refused => "refused",
            Self::CallerLeft => "caller_left",
        }
    }
}

/// What is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    run_seconds: Histogram<f64>,
    effect_calls: Counter<u64>,
    attaches: Counter<u64>,
    output_bytes: Counter<u64>,
}

impl Metrics {
    fn define(meter: &Meter) -> Self {
        let count = |name: &'static str, unit: &'static str, what: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(what).build()
        };
        let defined = Self {
            run_seconds: meter
                .f64_histogram("tenure.run.duration")
                .with_unit("s")
                .with_description("From the grant of a run to the answer about its end.")
                .with_boundaries(RUN_BOUNDS_S.to_vec())
                .build(),
            effect_calls: count(
                "tenure.effect.calls",
                "{call}",
                "Calls about effects, by what came of them.",
            ),
            attaches: count("tenure.attaches", "{attach}", "How often a coordinator attached this worker."),
            output_bytes: count("tenure.output", "By", "Output of children that was handed on."),
        };
        // A counter that nothing was counted with would be missing, and missing is not the same as zero.
        defined.attaches.add(0, &[]);
        defined.output_bytes.add(0, &[]);
        for outcome in EffectOutcome::ALL {
            defined.effect_calls.add(0, &[KeyValue::new("outcome", outcome.word())]);
        }
        defined
    }

    /// A run that is over, and how it ended.
    pub(crate) fn note_run(&self, end: &'static str, took: Duration) {
        self.run_seconds.record(took.as_secs_f64(), &[KeyValue::new("end", end)]);
    }

    /// A call about an effect that is answered, or that nobody waits for any more.
    pub(crate) fn note_effect_call(&self, outcome: EffectOutcome) {
        self.effect_calls.add(1, &[KeyValue::new("outcome", outcome.word())]);
    }

    /// A coordinator attached the worker.
    pub(crate) fn note_attach(&self) {
        self.attaches.add(1, &[]);
    }

    /// Output that is on its way.
    pub(crate) fn note_output(&self, bytes: usize) {
        self.output_bytes.add(bytes as u64, &[]);
    }
}

/// Gauges of what a worker has at present, looked at when they are asked, for as long as it is there.
pub(crate) fn define_gauges(context: &Arc<WorkerContext>) {
    // Defined first, so that nothing is missing before it is counted.
    let (_, meter) = (metrics(), meter());
    let gauge =
        |name: &'static str, unit: &'static str, what: &'static str, read: fn(&WorkerContext) -> usize| {
            let of = Arc::downgrade(context);
            let _ = meter
                .u64_observable_gauge(name)
                .with_unit(unit)
                .with_description(what)
                .with_callback(move |observer| {
                    if let Some(context) = of.upgrade() {
                        observer.observe(read(&context) as u64, &[]);
                    }
                })
                .build();
        };
    gauge("tenure.slots", "{run}", "Runs that this worker takes at the same time.", |context| {
        usize::try_from(context.options.slots).unwrap_or(usize::MAX)
    });
    gauge("tenure.runs", "{run}", "Runs that this worker holds.", |context| context.held.count());
    gauge("tenure.attached", "{stream}", "1 while a coordinator has attached this worker.", |context| {
        usize::from(*context.attached.borrow())
    });
    gauge("tenure.outbox.reports", "{report}", "Reports that are not acknowledged.", |context| {
        context.outbox.count_reports()
    });
    gauge("tenure.outbox.output", "By", "Output that is not acknowledged.", |context| {
        context.outbox.waiting_output_bytes()
    });
}
