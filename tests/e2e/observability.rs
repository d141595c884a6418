//! What is seen of a fleet from outside: one trace from the submitter to what the child of the last run made, metrics that
//! their document lists, and log lines that name their run.

use std::{collections::BTreeSet, fs, net::TcpListener, path::PathBuf};

use tenure_testkit::{Cluster, Collector, ReceivedSpan, wait_for};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use uuid::Uuid;

use crate::fixture::{Fleet, PATIENCE, program, wait_for_line};

const SUBMITTED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_RECORDED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// The first run traces, performs an effect, and waits; the second reads the effect back, performs another, and ends.
const AGENT: &str = r#"
[agents.traced]
script = '''
CHILD "child of run $TENURE_RUN" COLLECTOR
tenure effect first -- CHILD 'command of an effect' COLLECTOR
if [ "$TENURE_RUN" = 1 ]; then
  echo "$TRACEPARENT" >> SHARED/began
  sleep 600
fi
tenure effect second --retry -- true
echo "$TRACEPARENT" >> SHARED/ended
'''
"#;

/// A fleet that sends what there is to be seen to a collector.
struct SeenFleet {
    fleet: Fleet,
    collector: Collector,
    worker_pages: Vec<String>,
}

fn child_program() -> PathBuf {
    let built = program().with_file_name("traced-child");
    assert!(built.exists(), "{} is not there: cargo build --bin traced-child", built.display());
    built
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

impl SeenFleet {
    async fn start() -> Self {
        let collector = Collector::start().await.unwrap();
        let mut cluster =
            Cluster::start_database(program(), tenure_postgres::Options::default()).await.unwrap();
        cluster.set_environment("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
        cluster.set_environment("OTEL_BSP_SCHEDULE_DELAY", "100");
        cluster.set_environment("TENURE_LOG_FORMAT", "json");
        cluster.start_coordinator("c1").await.unwrap();
        let agent = AGENT
            .replace("CHILD", child_program().to_str().unwrap())
            .replace("COLLECTOR", &collector.endpoint());
        let mut fleet = Fleet::with_cluster(cluster, &agent);
        let mut worker_pages = Vec::new();
        for name in ["w1", "w2"] {
            let http = free_address();
            fleet.cluster.start_worker(name, &["--ttl", "5s", "--http", &http]).unwrap();
            worker_pages.push(http);
        }
        Self { fleet, collector, worker_pages }
    }

    fn submit(&self, traceparent: &str) -> Uuid {
        let mut submit = self.fleet.cluster.tenure(&["submit", "traced"]);
        let output = submit.env("TRACEPARENT", traceparent).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    /// Runs a job whose first run's worker is killed; returns the worker that carried out its second run.
    async fn run_handed_over(&mut self, job: Uuid) -> String {
        wait_for_line(&self.fleet.shared().join("began")).await;
        let lost = self.fleet.wait_for_holder(job).await;
        self.fleet.cluster.kill_worker(&lost, &[]).unwrap();
        self.fleet.wait_for_state(job, "succeeded").await;
        if lost == "w1" { "w2".to_owned() } else { "w1".to_owned() }
    }

    async fn wait_for_spans(&self, names: &[&str]) -> Vec<ReceivedSpan> {
        wait_for("every span of the job", PATIENCE, async || {
            let spans = self.collector.spans();
            let mut seen: Vec<_> = spans.iter().map(|span| span.name.clone()).collect();
            seen.sort_unstable();
            if seen == names { Ok(spans) } else { Err(seen) }
        })
        .await
    }
}

/// What a span is, without its ids and times.
fn describe(span: &ReceivedSpan) -> String {
    let mut words = vec![format!("{} ({})", span.name, span.service)];
    for name in
        ["run", "epoch", "attempt", "cause", "end", "effect.key", "effect.attempt", "effect.executions"]
    {
        let value = span.attribute(&format!("tenure.{name}"));
        if !value.is_empty() {
            words.push(format!("{name}={value}"));
        }
    }
    words.extend(span.failure.as_ref().map(|why| format!("failed: {why}")));
    words.join(" ")
}

/// The tree of spans below a parent, with its links.
fn draw(spans: &[ReceivedSpan], parent: &str, depth: usize, drawn: &mut String) {
    let mut children: Vec<_> = spans.iter().filter(|span| span.parent == parent).collect();
    children.sort_by_key(|span| describe(span));
    for span in children {
        let indent = "  ".repeat(depth);
        drawn.push_str(&format!("{indent}{}\n", describe(span)));
        for (trace, linked) in &span.links {
            assert_eq!(*trace, span.trace, "a link within the trace");
            let target = spans.iter().find(|other| other.span == *linked).map(describe);
            let target = target.unwrap_or_else(|| "nothing that arrived".to_owned());
            drawn.push_str(&format!("{indent}  -> {target}\n"));
        }
        draw(spans, &span.span, depth + 1, drawn);
    }
}

async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The names of the metrics on a page.
async fn metrics_at(address: &str) -> BTreeSet<String> {
    let answer = get(address, "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let types = answer.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The names that a section of the document lists.
fn documented(section: &str) -> BTreeSet<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/operate/metrics.md");
    let text = fs::read_to_string(path).unwrap();
    let section = text.split("\n## ").find(|part| part.starts_with(section)).unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    names.map(str::to_owned).collect()
}

/// The lines of a log that are about a job, as JSON.
fn lines_about(fleet: &Fleet, name: &str, job: Uuid) -> Vec<serde_json::Value> {
    let log = fs::read_to_string(fleet.cluster.log_path(name)).unwrap();
    let lines = log.lines().filter(|line| line.contains(&job.to_string()));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn assert_named(line: &serde_json::Value) {
    for field in ["job", "run", "epoch"] {
        assert!(!line[field].is_null() || !line["span"][field].is_null(), "{field} is missing: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_goes_from_the_submitter_to_the_child_of_the_run_that_went_on() {
    let mut seen = SeenFleet::start().await;
    let job = seen.submit(SUBMITTED);
    // What a worker had not sent when it was killed is lost with it.
    seen.collector.wait_for_span("the first effect", PATIENCE, |span| span.name == "effect").await;
    let second = seen.run_handed_over(job).await;
    let spans = seen
        .wait_for_spans(&[
            "child of run 1",
            "child of run 2",
            "command of an effect",
            "effect",
            "effect",
            "run",
            "run",
            "submission",
        ])
        .await;
    let traces: BTreeSet<_> = spans.iter().map(|span| span.trace.as_str()).collect();
    assert_eq!(traces, BTreeSet::from(["0af7651916cd43dd8448eb211c80319c"]));
    let mut drawn = String::new();
    draw(&spans, "b7ad6b7169203331", 0, &mut drawn);
    insta::assert_snapshot!(drawn);

    let coordinator = seen.fleet.cluster.coordinator_probes("c1").unwrap().to_string();
    // A refusal, so that there is one to be counted.
    assert!(!seen.fleet.try_run(&["submit", "nobody"]).status.success());
    // Counted every now and then.
    wait_for("the job to be counted", PATIENCE, async || {
        let page = get(&coordinator, "/metrics").await;
        if page.contains("tenure_jobs{state=\"succeeded\"} 1\n") { Ok(()) } else { Err(page) }
    })
    .await;
    assert_eq!(metrics_at(&coordinator).await, documented("Of a coordinator"));
    let page = &seen.worker_pages[usize::from(second == "w2")];
    assert_eq!(metrics_at(page).await, documented("Of a worker"));
    assert!(get(page, "/readyz").await.starts_with("HTTP/1.1 200"));

    for name in ["c1", &second] {
        let lines = lines_about(&seen.fleet, name, job);
        assert!(!lines.is_empty(), "{name} says nothing of the job");
        lines.iter().for_each(assert_named);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_is_not_recorded_reaches_the_child_and_no_collector() {
    let mut seen = SeenFleet::start().await;
    let job = seen.submit(NOT_RECORDED);
    seen.run_handed_over(job).await;
    let given = fs::read_to_string(seen.fleet.shared().join("ended")).unwrap();
    assert!(given.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{given}");
    assert!(given.trim().ends_with("-00"), "{given}");
    // One that is recorded comes after it, so all of the first would be there by then.
    seen.submit(SUBMITTED);
    seen.collector
        .wait_for_span("the submission of the second job", PATIENCE, |span| span.name == "submission")
        .await;
    let traces: BTreeSet<_> = seen.collector.spans().into_iter().map(|span| span.trace).collect();
    assert_eq!(traces, BTreeSet::from(["0af7651916cd43dd8448eb211c80319c".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_job_ended_elsewhere_while_its_worker_was_frozen_has_one_span() {
    let mut seen = SeenFleet::start().await;
    let job = seen.submit(SUBMITTED);
    wait_for_line(&seen.fleet.shared().join("began")).await;
    let frozen = seen.fleet.wait_for_holder(job).await;
    seen.fleet.cluster.freeze_worker(&frozen).unwrap();
    seen.fleet.wait_for_state(job, "succeeded").await;
    seen.fleet.cluster.thaw_worker(&frozen).unwrap();
    let page = seen.worker_pages[usize::from(frozen == "w2")].clone();
    wait_for("the frozen worker to count its run as fenced", PATIENCE, async || {
        let page = get(&page, "/metrics").await;
        let counted = page.lines().any(|line| {
            line.starts_with("tenure_run_duration_seconds_count{") && line.contains("end=\"fenced\"")
        });
        if counted { Ok(()) } else { Err(page) }
    })
    .await;
    // What it had to send it has sent when it has ended.
    seen.fleet.cluster.stop_worker(&frozen).await.unwrap();
    seen.collector
        .wait_for_span("the second run", PATIENCE, |span| {
            span.attribute("tenure.run") == "2" && span.name == "run"
        })
        .await;
    let mut runs = seen.collector.spans();
    runs.retain(|span| span.name == "run");
    let mut written: Vec<_> =
        runs.iter().map(|span| (span.attribute("tenure.run"), span.service.as_str())).collect();
    written.sort_unstable();
    assert_eq!(written, [("1", "tenure-coordinator"), ("2", "tenure-worker")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_whose_collector_never_answers_serves_and_ends() {
    // The kernel takes the connections, and nobody reads them.
    let black_hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut cluster = Cluster::start_database(program(), tenure_postgres::Options::default()).await.unwrap();
    let endpoint = format!("http://{}", black_hole.local_addr().unwrap());
    cluster.set_environment("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    // Whoever waited as long as the exporters do would not end in time.
    cluster.set_environment("OTEL_EXPORTER_OTLP_TIMEOUT", "600000");
    cluster.start_coordinator("c1").await.unwrap();
    let mut fleet = Fleet::with_cluster(cluster, "[agents.quick]\nscript = 'true'\n");
    fleet.cluster.start_worker("w1", &[]).unwrap();
    let job = fleet.submit("quick", "");
    fleet.wait_for_state(job, "succeeded").await;
    // Each is asked to end and is given a minute.
    fleet.cluster.stop_worker("w1").await.unwrap();
    fleet.cluster.stop_coordinator("c1").await.unwrap();
}
