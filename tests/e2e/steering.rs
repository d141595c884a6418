//! Redirecting a job on a real fleet: the child is asked for its notes, ended, and the next run goes by the note.

use std::fs;

use crate::fixture::{Fleet, wait_for_line};

const AGENTS: &str = r#"
[agents.writer]
stop-grace = "5s"
script = '''
if [ "$TENURE_RUN" = 1 ]; then
  tenure effect publish -- sh -c 'echo published >> SHARED/published'
  trap 'tenure note "stood at chapter 3"; exit 0' TERM
  echo here > SHARED/first
  sleep 600 & wait
fi
tenure effect publish -- sh -c 'echo published >> SHARED/published'
cp "$TENURE_BRIEF" SHARED/brief
cp "$TENURE_HANDOVER" SHARED/handover
'''
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_redirected_child_is_asked_for_its_notes_and_the_next_run_goes_by_the_note() {
    let fleet = Fleet::start(AGENTS, &[("w1", &[])]).await;
    let job = fleet.submit("writer", "write the notes");
    wait_for_line(&fleet.shared().join("first")).await;
    let note = fleet.shared().join("note");
    fs::write(&note, "  write them in German\n\nand keep them short\n").unwrap();
    let given = format!("@{}", note.display());
    let answer = fleet.cluster.run(&["steer", &job.to_string(), &given]).unwrap();
    assert!(answer.contains("will go on with the note once its child has ended"), "{answer}");
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(fleet.notes(job).await, ["stood at chapter 3"]);
    let brief = fs::read_to_string(fleet.shared().join("brief")).unwrap();
    assert!(brief.starts_with("# A person has redirected this work\n"), "{brief}");
    assert!(brief.contains("\n> write them in German\n>\n> and keep them short\n"), "{brief}");
    assert!(brief.contains("- run 1: stood at chapter 3\n"), "{brief}");
    let handover: serde_json::Value =
        serde_json::from_slice(&fs::read(fleet.shared().join("handover")).unwrap()).unwrap();
    assert_eq!(handover["cause"]["note"], "write them in German\n\nand keep them short");
    assert_eq!(handover["input"]["value"], "write the notes", "the input is told again, and whole");
    let published = fs::read_to_string(fleet.shared().join("published")).unwrap();
    assert_eq!(published.lines().count(), 1, "finished effects stay finished");
    let row: (i32, i32, i32) = sqlx::query_as("SELECT attempts, losses, hops_left FROM jobs WHERE job = $1")
        .bind(job)
        .fetch_one(&fleet.cluster.database)
        .await
        .unwrap();
    assert_eq!(row, (0, 0, 7), "a hop, and nothing else");
    fleet.cluster.run(&["verify", &job.to_string()]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_that_says_nothing_or_too_much_is_refused_before_anything_is_asked_of_the_run() {
    let fleet = Fleet::start(AGENTS, &[("w1", &[])]).await;
    let job = fleet.submit("writer", "");
    wait_for_line(&fleet.shared().join("first")).await;
    let before = fleet.kinds(job).await;
    let large = fleet.shared().join("large");
    fs::write(&large, "x".repeat(1024 * 1024)).unwrap();
    let large = format!("@{}", large.display());
    for (note, code) in [(" ", "REASON_MISSING"), (large.as_str(), "NOTE_TOO_LARGE")] {
        let output = fleet.try_run(&["--json", "steer", &job.to_string(), note]);
        assert_eq!(crate::fixture::refusal_code(&output), code);
    }
    assert_eq!(fleet.kinds(job).await, before);
}
