//! Runs that wait: they end on purpose, a later one goes on behind the wait, and nothing is done twice.

use std::fs;

use crate::fixture::Fleet;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_ends_and_the_next_one_goes_on_behind_its_wait() {
    let agents = r#"
[agents.waiter]
script = '''
echo "run $TENURE_RUN" >> SHARED/world
tenure effect first -- sh -c "echo first >> SHARED/world"
tenure --json wait --until 1s > SHARED/answer
tenure effect second -- sh -c "echo second >> SHARED/world"
tenure wait --until 1s --key named
cp "$TENURE_BRIEF" SHARED/brief
echo done > "$TENURE_RESULT"
'''
"#;
    let fleet = Fleet::start(agents, &[("w1", &[])]).await;
    let job = fleet.submit("waiter", "");
    fleet.wait_for_state(job, "succeeded").await;
    let world = fs::read_to_string(fleet.shared().join("world")).unwrap();
    assert_eq!(world, "run 1\nfirst\nrun 2\nsecond\nrun 3\n");
    let journal = fleet.cluster.journal(&job.to_string()).unwrap();
    let of_kind = |kind: &str| journal.iter().filter(|one| one["kind"] == kind).collect::<Vec<_>>();
    let (suspended, woken) = (of_kind("suspended"), of_kind("woken"));
    assert_eq!((suspended.len(), woken.len()), (2, 2));
    for (suspended, woken) in suspended.iter().zip(&woken) {
        let (wait, woken) = (&suspended["record"]["wait"], &woken["record"]);
        assert_eq!(wait["until"], woken["due"], "the record bears the instant that was due");
        assert_eq!(wait["name"], woken["name"]);
    }
    assert_eq!(woken[1]["record"]["name"], "named");
    let answer: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(fleet.shared().join("answer")).unwrap()).unwrap();
    assert_eq!((&answer["name"], &answer["due"]), (&"#1".into(), &woken[0]["record"]["due"]));
    let brief = fs::read_to_string(fleet.shared().join("brief")).unwrap();
    assert!(
        brief.contains("Nothing was left half done") && brief.contains("\"first\" (run 1): done"),
        "{brief}"
    );
    let shown = fleet.cluster.job(&job.to_string()).unwrap();
    assert_eq!((&shown["run"], &shown["attempt"]), (&3.into(), &1.into()));
    fleet.cluster.run(&["verify", &job.to_string()]).unwrap();
}

/// Provokes `WAIT_OUT_OF_BOUNDS`.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_may_not_be_is_refused_and_the_run_goes_on() {
    let agents = r#"
[agents.waiter]
limits = { deadline = "10m" }
script = '''
for until in 2001-01-01T00:00:00Z 0s 30m 800h; do
    tenure --json wait --until "$until" 2>> SHARED/refusals && exit 9
done
tenure --json wait --until 1m --key '#1' 2>> SHARED/refusals && exit 9
tenure note "went on"
'''
"#;
    let fleet = Fleet::start(agents, &[("w1", &[])]).await;
    let job = fleet.submit("waiter", "");
    fleet.wait_for_state(job, "succeeded").await;
    let refusals = fs::read_to_string(fleet.shared().join("refusals")).unwrap();
    let codes: Vec<String> = refusals
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["code"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(codes[..4], ["WAIT_OUT_OF_BOUNDS"; 4]);
    assert_eq!(codes[4..], ["INVALID_ARGUMENT"]);
    assert_eq!(fleet.notes(job).await, ["went on"]);
    assert!(!fleet.kinds(job).await.contains(&"suspended".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_will_not_end_for_its_wait_is_killed_and_the_wait_stands() {
    let agents = r#"
[agents.stubborn]
stop-grace = "1s"
script = '''
[ "$TENURE_RUN" -eq 1 ] || exit 0
trap "" TERM
tenure wait --until 10m & sleep 600 & wait; sleep 600
'''
"#;
    let fleet = Fleet::start(agents, &[("w1", &[])]).await;
    let job = fleet.submit("stubborn", "");
    fleet.wait_for_state(job, "suspended").await;
    let shown = fleet.cluster.run(&["job", &job.to_string()]).unwrap();
    assert!(shown.starts_with("suspended") && shown.contains("(in "), "{shown}");
    let refused = fleet.try_run(&["--json", "resume", &job.to_string(), "--why", "impatient"]);
    assert!(!refused.status.success());
    fleet.cluster.run(&["abandon", &job.to_string(), "--why", "test"]).unwrap();
    let left: (i64,) =
        sqlx::query_as("SELECT count(*) FROM waits").fetch_one(&fleet.cluster.database).await.unwrap();
    assert_eq!(left.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_is_waited_for_and_what_was_set_down_is_picked_up() {
    let agents = r#"
[agents.child]
script = 'cat "$TENURE_INPUT" > "$TENURE_RESULT"'
[agents.parent]
script = '''
[ "$TENURE_RUN" -gt 1 ] || echo asked >> SHARED/runs
tenure wait --job $(cat "$TENURE_INPUT") > SHARED/outcomes
[ ! -e SHARED/set-down ] || exit 0
tenure set-down --until 1s --waiting-for "the next release"
echo once > SHARED/set-down
'''
"#;
    let fleet = Fleet::start(agents, &[("w1", &["--slots", "2"])]).await;
    let children: Vec<String> =
        ["one", "two"].iter().map(|word| fleet.submit("child", word).to_string()).collect();
    let job = fleet.submit("parent", &children.join(" "));
    fleet.wait_for_state(job, "succeeded").await;
    let outcomes = fs::read_to_string(fleet.shared().join("outcomes")).unwrap();
    let expected: Vec<String> =
        children.iter().zip(["one", "two"]).map(|(id, word)| format!("{id}\tsucceeded\t{word}")).collect();
    assert_eq!(outcomes.lines().collect::<Vec<_>>(), expected);
    let next: uuid::Uuid = tenure_testkit::wait_for("a session that picks it up", crate::fixture::PATIENCE, async || {
        let row: Option<(uuid::Uuid,)> = sqlx::query_as(
            "SELECT job FROM journal WHERE kind = 'job_admitted' AND convert_from(bytes, 'UTF8')::jsonb ? 'layover'",
        )
        .fetch_optional(&fleet.cluster.database)
        .await
        .unwrap();
        row.map(|(job,)| job).ok_or("none")
    })
    .await;
    fleet.wait_for_state(next, "succeeded").await;
}
