//! What docker-compose.yml says is carried out: every command, entry point and health check in it runs, as processes on a
//! private PostgreSQL, until jobs have ended that outlived the stop of a worker and of a coordinator. Whether the file is
//! well formed is checked by `make verify`.

mod credentials_script;
mod description;
mod stand;

use std::{fs, path::Path};

use serde_json::Value;
use sqlx::PgPool;
use tenure_core::limits;
use tenure_testkit::{Collector, wait_for};

use self::{
    description::{Description, read_yaml, repository},
    stand::{COORDINATORS, Stand},
};
use crate::fixture::{PATIENCE, refusal_code, wait_for_line};

/// An agent whose first run does not end by itself, and which is asked to end a second after its worker was; and one that
/// does nothing.
const AGENTS: &str = r#"
schema = 1
[agents.patient]
stop-grace = "24s"
script = '''
tenure status --json > "SHARED/status.$TENURE_RUN"
[ "$TENURE_RUN" != 1 ] || sleep 600
'''
[agents.quick]
command = ["true"]
"#;

/// Starts everything in the order that `depends_on` asks for.
async fn bring_up() -> Stand {
    let collector = Collector::start().await.unwrap();
    let mut stand = tokio::task::block_in_place(|| Stand::start_database(collector));
    stand.wait_until_healthy("postgres").await;
    tokio::task::block_in_place(|| stand.run("migrate"));
    for coordinator in COORDINATORS {
        stand.start(coordinator, &[]);
    }
    for coordinator in COORDINATORS {
        stand.wait_until_healthy(coordinator).await;
    }
    for number in 1..=stand.service("worker").deploy.as_ref().unwrap().replicas {
        // What its container would be called.
        stand.start(&format!("worker#{number}"), &["--name", &number.to_string()]);
    }
    stand
}

async fn wait_for_success(database: &PgPool) {
    wait_for("every job to have succeeded", PATIENCE, async || {
        let others: Vec<(String,)> = sqlx::query_as("SELECT state FROM jobs WHERE state <> 'succeeded'")
            .fetch_all(database)
            .await
            .unwrap();
        if others.is_empty() { Ok(()) } else { Err(others) }
    })
    .await;
}

/// The workers that the runs of the patient agent were told, in the order of the runs.
fn read_runs(directory: &Path) -> Vec<String> {
    let read = |run: u32| {
        let text = fs::read_to_string(directory.join(format!("status.{run}"))).ok()?;
        let status: Value = serde_json::from_str(&text).unwrap();
        Some(status["worker"].as_str().unwrap().to_owned())
    };
    (1..10).filter_map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compose_file_runs_and_jobs_outlive_the_stop_of_a_worker_and_of_a_coordinator() {
    let mut stand = bring_up().await;
    for number in 1..=3 {
        stand.wait_until_healthy(&format!("worker#{number}")).await;
    }
    let database = PgPool::connect(&stand.database_url()).await.unwrap();
    let refused = stand.try_without_token(&["jobs", "--json"]);
    assert_eq!(refusal_code(&refused), "CREDENTIAL_MISSING");

    let text = AGENTS.replace("SHARED", stand.path().to_str().unwrap());
    fs::write(stand.path().join("fleet.toml"), text).unwrap();
    stand.client(&["apply", "fleet.toml"]);
    let job = stand.client(&["submit", "patient"]).trim().to_owned();
    wait_for_line(&stand.path().join("status.1")).await;
    let first = read_runs(stand.path()).remove(0);
    stand.stop(&format!("worker#{first}")).await;
    wait_for_success(&database).await;
    // It went on elsewhere, and nobody waited for a term to lapse; a stop uses nothing up.
    let runs = read_runs(stand.path());
    let shown = stand.client(&["journal", &job]);
    assert_eq!(runs.len(), 2, "{shown}");
    assert_ne!(runs[1], first, "{shown}");
    assert!(shown.contains("because=drained") && !shown.contains("term_lapsed"), "{shown}");

    stand.stop(COORDINATORS[0]).await;
    stand.client(&["submit", "quick", "--wait"]);
    wait_for_success(&database).await;
    for service in ["tenure-coordinator", "tenure-worker"] {
        let what = format!("a span of {service}");
        stand.collector.wait_for_span(&what, PATIENCE, |span| span.service == service).await;
    }
    database.close().await;
    for instance in [COORDINATORS[1], "worker#1", "worker#2", "worker#3"] {
        if instance != format!("worker#{first}") {
            stand.stop(instance).await;
        }
    }
}

#[test]
fn services_wait_for_what_they_need_and_have_the_time_that_they_need_to_stop() {
    let file = Description::read();
    let condition = |service: &str, on: &str| file.services[service].depends_on[on].condition.clone();
    assert_eq!(condition("migrate", "postgres"), "service_healthy");
    for coordinator in COORDINATORS {
        assert_eq!(condition(coordinator, "migrate"), "service_completed_successfully");
        assert_eq!(condition("worker", coordinator), "service_healthy");
        // The coordinator's own grace, which is not published; the document of coordinators says it.
        let document = fs::read_to_string(repository().join("docs/operate/coordinators.md")).unwrap();
        assert!(document.contains("after 25 s in any\ncase"));
        assert!(file.services[coordinator].stop_grace().as_secs() > 25);
    }
    let drain = limits::DRAIN_GRACE + limits::DRAIN_REPORT_TIMEOUT;
    assert!(file.services["worker"].stop_grace() > drain);
}

#[test]
fn whoever_sends_a_token_between_containers_says_that_it_goes_in_plain_text() {
    let file = Description::read();
    let mut senders = 0;
    for (name, service) in &file.services {
        if !service.words().iter().any(|word| word.starts_with("--token-file")) {
            continue;
        }
        senders += 1;
        let endpoints = &service.environment["TENURE_ENDPOINT"];
        assert!(endpoints.split(',').all(|endpoint| endpoint.starts_with("http://")), "{name}: {endpoints}");
        assert_eq!(service.environment["TENURE_ALLOW_PLAINTEXT"], "true", "{name}");
    }
    assert_eq!(senders, 2, "the worker and the client");
}

#[test]
fn containers_are_confined_and_only_loopback_is_published() {
    let file = Description::read();
    for (name, service) in &file.services {
        assert!(
            service.ports.iter().all(|port| port.starts_with("127.0.0.1:")),
            "{name}: {:?}",
            service.ports
        );
        if service.is_ours() {
            assert_eq!(service.cap_drop, ["ALL"], "{name}");
            assert_eq!(service.security_opt, ["no-new-privileges:true"], "{name}");
        } else {
            assert!(service.image.contains(':'), "{name}: {} has no version", service.image);
        }
        // The database writes its volume, and children of a worker write where they please in its container.
        let writes = matches!(name.as_str(), "postgres" | "worker");
        assert_eq!(service.read_only, !writes, "{name}");
        for secret in &service.secrets {
            assert!(file.secrets.contains_key(secret), "{name}: no secret is called {secret}");
        }
    }
    let script = fs::read_to_string(repository().join("deploy/docker/make-credentials")).unwrap();
    for (name, secret) in &file.secrets {
        assert_eq!(secret.file, format!("deploy/docker/secrets/{name}"));
        assert!(
            script.contains(&format!("$secrets/{name}")) || script.contains(&format!("make_secret {name} ")),
            "{name}"
        );
    }
}

#[test]
fn the_collector_takes_what_is_sent_and_serves_what_is_published() {
    let configuration: Value = read_yaml("deploy/docker/collector.yaml");
    let pipelines = configuration["service"]["pipelines"].as_object().unwrap();
    for (pipeline, parts) in pipelines {
        for (kind, names) in parts.as_object().unwrap() {
            for name in names.as_array().unwrap() {
                let name = name.as_str().unwrap();
                assert!(
                    !configuration[kind][name].is_null(),
                    "{pipeline} names {name}, which is none of {kind}"
                );
            }
        }
    }
    // The exporter debug says at this level what came.
    let shown = pipelines["traces"]["exporters"].as_array().unwrap().contains(&"debug".into());
    assert!(shown && configuration["service"]["telemetry"]["logs"]["level"] == "info");
    let port_of = |place: &Value| place.as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let taken = port_of(&configuration["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"]);
    let served = port_of(&configuration["exporters"]["prometheus"]["endpoint"]);
    let file = Description::read();
    assert!(file.services["collector"].ports.contains(&format!("127.0.0.1:{served}:{served}")));
    for name in [COORDINATORS[0], COORDINATORS[1], "worker"] {
        let sent = &file.services[name].environment["OTEL_EXPORTER_OTLP_ENDPOINT"];
        assert_eq!(*sent, format!("http://collector:{taken}"), "{name}");
    }
}
