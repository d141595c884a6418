//! The log: to stderr, as text or as JSON, filtered. What the exporters say about themselves is none of it: the first
//! trouble of each kind is said once as a warning, because a collector that is away is nobody's emergency. Neighbours:
//! `telemetry` starts it.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    io::{self, IsTerminal as _},
    sync::{Mutex, PoisonError},
    thread,
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::filter_fn,
    fmt::layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::telemetry::StartError;

/// Where everything that the exporters say comes from.
const EXPORTERS: &str = "opentelemetry";

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

/// Begins to log.
pub(crate) fn start_log(filter: &str, format: LogFormat) -> Result<(), StartError> {
    let read = EnvFilter::try_new(filter)
        .map_err(|source| StartError::Filter { given: filter.to_owned(), source })?;
    // Whoever names them wants to hear them.
    let hears_exporters = filter.contains(EXPORTERS);
    let own = filter_fn(move |metadata| hears_exporters || !is_exporters(metadata));
    let log = match format {
        LogFormat::Text => {
            layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).with_filter(own).boxed()
        }
        LogFormat::Json => layer()
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_writer(io::stderr)
            .with_filter(own)
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(log.with_filter(read))
        .with(ExportTrouble::default().with_filter(filter_fn(is_trouble)))
        .try_init()
        .map_err(StartError::Log)
}

fn is_exporters(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(EXPORTERS)
}

fn is_trouble(metadata: &Metadata<'_>) -> bool {
    is_exporters(metadata) && *metadata.level() <= Level::WARN
}

/// Says each kind of trouble once.
#[derive(Debug, Default)]
struct ExportTrouble {
    said: Mutex<BTreeSet<String>>,
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for ExportTrouble {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let kind = event.metadata().name().to_owned();
        if !self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.clone()) {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        // Not from inside of the log, which is at work on this event.
        let say = move || {
            tracing::warn!(kind, "telemetry is not exported as it should be: {}; said once", words.0);
        };
        // Where there is no thread to be had there are greater troubles.
        let _ = thread::Builder::new().name("telemetry".to_owned()).spawn(say);
    }
}

/// The fields of an event in a line.
#[derive(Default)]
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "name" {
            let comma = if self.0.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(self.0, "{comma}{}: {value:?}", field.name());
        }
    }
}
