//! What a run was told, shown to a person: the same that its own process found.

use serde_json::Value;

use crate::fixture::{Fleet, refusal_code};

const AGENTS: &str = r#"
[agents.crasher]
script = '''
cp "$TENURE_HANDOVER" "SHARED/told-$TENURE_RUN"
cp "$TENURE_BRIEF" "SHARED/brief-$TENURE_RUN"
tenure note "run $TENURE_RUN was here"
tenure effect "push/$TENURE_RUN" -- echo pushed
[ "$TENURE_RUN" -ge 3 ] || exit 3
'''
recovery = { backoff = { first = "1ms", max = "1ms" } }
"#;

/// As JSON, without how much was left of the deadline: seconds are rounded, and the grant was made a little after the record.
fn without_rest(text: &str) -> Value {
    let mut told: Value = serde_json::from_str(text).unwrap();
    told["deadline"].as_object_mut().unwrap().remove("remaining_s").unwrap();
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handover_is_shown_as_its_run_found_it() {
    let fleet = Fleet::start(AGENTS, &[("w1", &[])]).await;
    let job = fleet.submit("crasher", "the work");
    fleet.wait_for_state(job, "succeeded").await;
    let read = |name: String| std::fs::read_to_string(fleet.shared().join(name)).unwrap();
    for run in 1..=3 {
        let shown =
            fleet.cluster.run(&["--json", "handover", &job.to_string(), "--run", &run.to_string()]).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(without_rest(&shown["handover"].to_string()), without_rest(&read(format!("told-{run}"))));
        assert_eq!(shown["brief"].as_str().unwrap(), read(format!("brief-{run}")), "run {run}");
    }
    let shown = fleet.cluster.run(&["handover", &job.to_string()]).unwrap();
    assert!(
        shown.contains("run 2 was here") && shown.contains("push/2"),
        "the latest without --run: {shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_never_was_is_refused_with_the_runs_that_there_were() {
    let fleet = Fleet::start("[agents.moon]\ncommand = ['true']\nrequires = ['moon']", &[]).await;
    let job = fleet.submit("moon", "").to_string();
    for arguments in [&["--json", "handover", &job][..], &["--json", "handover", &job, "--run", "2"]] {
        assert_eq!(refusal_code(&fleet.try_run(arguments)), "RUN_NOT_FOUND");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_payload_reads_all_that_it_is_told_and_its_work_last() {
    let fleet = Fleet::start("", &[("w1", &[])]).await;
    std::fs::write(fleet.cluster.directory().join("short.md"), "Be short.\n").unwrap();
    fleet.apply(
        r#"
[agents.writer]
stdin = "payload"
instructions = "short.md"
script = '''
cat > "SHARED/payload-$TENURE_JOB-$TENURE_RUN"
tenure note "run $TENURE_RUN was here"
tenure remember "tags begin with v"
[ "$TENURE_RUN" -ge 2 ] || exit 3
'''
recovery = { backoff = { first = "1ms", max = "1ms" } }
"#,
    );
    let read = |job: uuid::Uuid, run: u32| {
        std::fs::read_to_string(fleet.shared().join(format!("payload-{job}-{run}"))).unwrap()
    };
    let headings = |text: &str| {
        text.lines().filter_map(|line| line.strip_prefix("# ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let work = "the work\n# with a heading\n";
    let job = fleet.submit("writer", work);
    fleet.wait_for_state(job, "succeeded").await;
    let (first, second) = (read(job, 1), read(job, 2));
    assert_eq!(
        headings(&first),
        ["Who you are", "Your instructions", "Who sent this work", "The work", "with a heading"]
    );
    assert!(first.ends_with(&format!("\n# The work\n\n{work}")), "{first}");
    assert!(first.contains("\n# Your instructions\n\nBe short.\n"), "{first}");
    let brief = fleet.cluster.run(&["--json", "handover", &job.to_string()]).unwrap();
    let brief: Value = serde_json::from_str(&brief).unwrap();
    let brief = brief["brief"].as_str().unwrap().trim_end();
    assert!(
        second.ends_with(&format!("\n{brief}\n\n# The work\n\n{work}")),
        "the brief is above the work: {second}"
    );
    assert!(second.contains("# What you wrote down earlier\n\ntags begin with v\n"), "{second}");
    // A first run in another session is told what was remembered in the first.
    let later = fleet.submit("writer", work);
    fleet.wait_for_state(later, "succeeded").await;
    assert!(read(later, 1).contains("tags begin with v\n"), "{}", read(later, 1));
}
