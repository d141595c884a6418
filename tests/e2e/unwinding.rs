//! Undoing what a cancelled or failed job has done: each step once, the last first, however often the worker that undoes is
//! killed; and what nobody can undo is set aside and named. What was done and undone is asked of a ledger outside.

use std::{fs, path::Path};

use tenure_testkit::{Ledger, wait_for};
use uuid::Uuid;

use crate::fixture::{Fleet, PATIENCE, wait_for_line};

const QUICK: &[&str] = &["--slots", "2", "--ttl", "5s"];

/// Three steps, and then a wait for whatever ends the run. What undoes a step says that it begins and that it is done, and
/// waits there while a file stands in the way.
const RELEASER: &str = r#"
[agents.releaser]
stop-grace = "1s"
script = '''
undo='
  echo "$TENURE_UNDONE_EFFECT" >> SHARED/undoing
  while [ -e "SHARED/hold-before-$TENURE_UNDONE_EFFECT" ]; do sleep 0.05; done
  tenure-ledger post --url URL KEYED --text "undo $TENURE_UNDONE_EFFECT" > /dev/null
  echo "$TENURE_UNDONE_EFFECT" >> SHARED/undone
  while [ -e "SHARED/hold-after-$TENURE_UNDONE_EFFECT" ]; do sleep 0.05; done'
for step in tag push mail; do
  tenure effect "$step" OPTIONS --undo "$undo" -- \
    tenure-ledger post --url URL --key "$TENURE_JOB/$step" --text "do $step" > /dev/null
done
echo done >> SHARED/ready
exec sleep 600
'''
"#;

struct Scene {
    fleet: Fleet,
    ledger: Ledger,
    _directory: tempfile::TempDir,
}

impl Scene {
    async fn start(agents: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::start(&directory.path().join("ledger.jsonl")).await.unwrap();
        let agents = agents.replace("URL", &ledger.url());
        let fleet = Fleet::start(&agents, &[("w1", QUICK), ("w2", QUICK)]).await;
        Self { fleet, ledger, _directory: directory }
    }

    fn texts(&self) -> Vec<String> {
        self.ledger.entries().unwrap().into_iter().map(|entry| entry.text).collect()
    }

    fn shared(&self, name: &str) -> std::path::PathBuf {
        self.fleet.shared().join(name)
    }

    fn hold(&self, name: &str) {
        fs::write(self.shared(name), "").unwrap();
    }

    fn let_go(&self, name: &str) {
        fs::remove_file(self.shared(name)).unwrap();
    }

    fn cancel(&self, job: Uuid) -> String {
        self.fleet.cluster.run(&["cancel", &job.to_string(), "--why", "no longer wanted"]).unwrap()
    }

    /// A job of the agent that has done everything, and waits.
    async fn ready_job(&self, agent: &str) -> Uuid {
        let job = self.fleet.submit(agent, "");
        wait_for_line(&self.shared("ready")).await;
        job
    }

    /// Kills the worker that undoes, once this file has so many lines; another takes its place.
    async fn kill_at(&mut self, job: Uuid, trace: &str, count: usize, replacement: &str) {
        wait_for_lines(&self.shared(trace), count).await;
        let holder = self.fleet.wait_for_holder(job).await;
        self.fleet.cluster.kill_worker(&holder, &[]).unwrap();
        self.fleet.cluster.start_worker(replacement, QUICK).unwrap();
    }

    async fn reason_and_detail(&self, job: Uuid) -> (String, String) {
        sqlx::query_as(
            "SELECT coalesce(reason, ''), coalesce(detail, '') FROM jobs WHERE tenant = 'default' AND job = $1",
        )
        .bind(job)
        .fetch_one(&self.fleet.cluster.database)
        .await
        .unwrap()
    }

    /// The keys of the announcements of a phase, in order.
    async fn announced(&self, job: Uuid, phase: &str) -> Vec<String> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT convert_from(bytes, 'UTF8')::json ->> 'key' FROM journal WHERE tenant = 'default' AND job = $1
             AND kind = 'effect_started' AND convert_from(bytes, 'UTF8')::json ->> 'phase' = $2 ORDER BY seq",
        )
        .bind(job)
        .bind(phase)
        .fetch_all(&self.fleet.cluster.database)
        .await
        .unwrap();
        rows.into_iter().map(|(key,)| key).collect()
    }
}

async fn wait_for_lines(path: &Path, count: usize) {
    wait_for(&format!("{count} lines in {}", path.display()), PATIENCE, async || {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count { Ok(()) } else { Err(text) }
    })
    .await;
}

const DONE: [&str; 3] = ["do tag", "do push", "do mail"];
const UNDONE: [&str; 3] = ["undo mail", "undo push", "undo tag"];

fn done_and_undone() -> Vec<String> {
    DONE.iter().chain(&UNDONE).map(|text| (*text).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_while_it_runs_is_undone_the_last_step_first() {
    let scene = Scene::start(&RELEASER.replace("OPTIONS", "--idempotent").replace("KEYED", "")).await;
    let job = scene.ready_job("releaser").await;
    assert!(scene.cancel(job).contains("once its child has ended"));
    scene.fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(scene.texts(), done_and_undone());
    assert_eq!(scene.announced(job, "forward").await, ["tag", "push", "mail"]);
    assert_eq!(scene.announced(job, "compensating").await, ["undo:mail", "undo:push", "undo:tag"]);
    let kinds = scene.fleet.kinds(job).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "unwind_started").count(), 1);
    assert_eq!(kinds.iter().filter(|kind| *kind == "run_started").count(), 2, "a run of its own undid it");
    let id = job.to_string();
    assert!(scene.fleet.cluster.run(&["verify", &id]).unwrap().contains("verified"));
    let shown: serde_json::Value =
        serde_json::from_str(&scene.fleet.cluster.run(&["--json", "job", &id]).unwrap()).unwrap();
    assert_eq!((&shown["holds_landed_work"], &shown["unwinding_to"]), (&false.into(), &"cancelled".into()));
}

/// Kills the worker that undoes at each boundary of an undoing: announced and not performed, performed and not recorded,
/// recorded and the next one announced.
async fn undo_under_kills(options: &str, keyed: &str) {
    let agents = RELEASER.replace("OPTIONS", options).replace("KEYED", keyed);
    let mut scene = Scene::start(&agents).await;
    for hold in ["hold-before-mail", "hold-after-push", "hold-before-tag"] {
        scene.hold(hold);
    }
    let job = scene.ready_job("releaser").await;
    scene.cancel(job);
    scene.kill_at(job, "undoing", 1, "w3").await;
    scene.let_go("hold-before-mail");
    scene.kill_at(job, "undone", 2, "w4").await;
    scene.let_go("hold-after-push");
    wait_for_line(&scene.shared("undone")).await;
    let tag = wait_for("the undoing of the first step to be announced", PATIENCE, async || {
        let announced = scene.announced(job, "compensating").await;
        if announced.last().is_some_and(|key| key == "undo:tag") { Ok(announced) } else { Err(announced) }
    })
    .await;
    assert!(tag.len() >= 3, "{tag:?}");
    let holder = scene.fleet.wait_for_holder(job).await;
    scene.fleet.cluster.kill_worker(&holder, &[]).unwrap();
    scene.fleet.cluster.start_worker("w5", QUICK).unwrap();
    scene.let_go("hold-before-tag");
    scene.fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(scene.texts(), done_and_undone(), "nothing is left, and nothing was undone twice");
    assert!(scene.fleet.cluster.run(&["verify", &job.to_string()]).unwrap().contains("verified"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_undoing_whose_worker_is_killed_is_done_again_under_its_key() {
    undo_under_kills("--idempotent", r#"--key "$TENURE_IDEMPOTENCY_KEY""#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_of_an_effect_tells_whether_a_killed_worker_undid_it() {
    let probe = r#"--probe "tenure-ledger find --url URL --text \"undo $step\" > /dev/null && exit 10
      tenure-ledger find --url URL --text \"do $step\"""#;
    // Without a key each post is entered: a second undoing would show.
    undo_under_kills(probe, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undoing_that_nobody_can_decide_sets_the_job_aside_and_is_named() {
    let mut scene = Scene::start(&RELEASER.replace("OPTIONS", "--ask").replace("KEYED", "")).await;
    scene.hold("hold-after-push");
    let job = scene.ready_job("releaser").await;
    scene.cancel(job);
    scene.kill_at(job, "undone", 2, "w3").await;
    scene.fleet.wait_for_state(job, "quarantined").await;
    let (reason, detail) = scene.reason_and_detail(job).await;
    assert_eq!(reason, "not_unwound");
    assert!(detail.contains("\"undo:push\""), "{detail}");
    let undecided = scene.fleet.cluster.run(&["undecided", &job.to_string()]).unwrap();
    assert!(undecided.contains("undo:push"), "{undecided}");
    assert_eq!(scene.texts(), [&DONE[..], &UNDONE[..2]].concat(), "nobody went on");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_undoes_is_told_what_it_undoes_and_what_stays_is_left_alone() {
    let scene = Scene::start(
        r#"
[agents.teller]
script = '''
tenure effect early --undo 'echo early >> SHARED/undone' -- true
tenure effect merge --pivot -- true
tenure effect log --no-undo -- true
tenure effect read --read-only -- true
tenure effect publish --undo '{ cat; echo " $TENURE_UNDONE_EFFECT $TENURE_UNDONE_IDEMPOTENCY_KEY $TENURE_IDEMPOTENCY_KEY"; } > SHARED/told; echo publish >> SHARED/undone' -- printf 'release 7'
exit 65
'''
final-exit-codes = [65]
unwind-on-failure = true
"#,
    )
    .await;
    let job = scene.fleet.submit("teller", "");
    scene.fleet.wait_for_state(job, "failed").await;
    let told = fs::read_to_string(scene.shared("told")).unwrap();
    assert_eq!(told, format!("release 7 publish {job}/publish {job}/undo:publish\n"));
    assert_eq!(fs::read_to_string(scene.shared("undone")).unwrap(), "publish\n");
    let (reason, detail) = scene.reason_and_detail(job).await;
    assert_eq!(reason, "execution");
    assert!(detail.contains("65"), "{detail}");
    assert_eq!(scene.announced(job, "compensating").await, ["undo:publish"]);
    // What was undone is not undone again.
    scene.cancel(job);
    scene.fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(fs::read_to_string(scene.shared("undone")).unwrap(), "publish\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undoing_that_fails_is_tried_three_times_where_it_did_no_harm_and_then_named() {
    let scene = Scene::start(
        r#"
[agents.breaker]
script = '''
tenure effect first --idempotent --undo 'echo first >> SHARED/undone' -- true
tenure effect second --idempotent --undo 'echo tried >> SHARED/tried; echo no route >&2; exit 3' -- true
exit 65
'''
final-exit-codes = [65]
"#,
    )
    .await;
    let job = scene.fleet.submit("breaker", "");
    scene.fleet.wait_for_state(job, "failed").await;
    scene.cancel(job);
    scene.fleet.wait_for_state(job, "quarantined").await;
    assert_eq!(fs::read_to_string(scene.shared("tried")).unwrap().lines().count(), 3);
    assert!(!scene.shared("undone").exists(), "what came before it stays until somebody decides");
    let (reason, detail) = scene.reason_and_detail(job).await;
    assert_eq!(reason, "not_unwound");
    assert!(detail.contains("undo:second failed") && detail.contains("no route"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_declared_how_to_undo_a_step_nothing_is_undone() {
    let scene = Scene::start(
        r#"
[agents.silent]
script = '''
tenure effect told --undo 'echo told >> SHARED/undone' -- true
tenure effect untold -- true
exit 65
'''
final-exit-codes = [65]
"#,
    )
    .await;
    let job = scene.fleet.submit("silent", "");
    scene.fleet.wait_for_state(job, "failed").await;
    scene.cancel(job);
    scene.fleet.wait_for_state(job, "quarantined").await;
    let (reason, detail) = scene.reason_and_detail(job).await;
    assert_eq!(reason, "not_unwound");
    assert!(detail.contains("\"untold\"") && !detail.contains("\"told\""), "{detail}");
    assert!(!scene.shared("undone").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn undoing_meets_no_deadline_and_a_second_cancel_is_told_of_the_first() {
    let scene = Scene::start(
        r#"
[agents.late]
stop-grace = "1s"
script = '''
tenure effect step --undo '
  echo begun >> SHARED/begun
  while [ -e SHARED/hold ]; do sleep 0.05; done
  echo undone >> SHARED/undone' -- true
exec sleep 600
'''
limits = { deadline = "3s" }
"#,
    )
    .await;
    scene.hold("hold");
    let job = scene.fleet.submit("late", "");
    scene.fleet.wait_for_state(job, "exhausted").await;
    scene.cancel(job);
    wait_for_line(&scene.shared("begun")).await;
    let id = job.to_string();
    assert!(scene.fleet.cluster.run(&["job", &id]).unwrap().contains("to undo what it has done"));
    scene.cancel(job);
    scene.let_go("hold");
    scene.fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(fs::read_to_string(scene.shared("undone")).unwrap(), "undone\n");
    let cancels = scene.fleet.kinds(job).await.iter().filter(|kind| *kind == "cancel_requested").count();
    assert_eq!(cancels, 1, "the first asker stands");
}

/// An early step, and a late one that is cancelled while it is under way. Its probe waits for what the test writes for it, so that
/// it finds nothing out in the grace of the run that is cancelled.
const PROBERS: &str = r#"
[agents.AGENT]
stop-grace = "1s"
script = '''
tenure effect early --undo "echo early >> SHARED/$TENURE_JOB-undone" -- true
tenure effect late OPTIONS --probe "while [ ! -e SHARED/$TENURE_JOB-verdict ]; do sleep 0.05; done
  printf 'release 7'; exit \$(cat SHARED/$TENURE_JOB-verdict)" \
  -- sh -c "echo begun >> SHARED/$TENURE_JOB-begun; exec sleep 600"
'''
"#;

impl Scene {
    /// A job of such an agent that is cancelled while its late step is under way, and whose probe exits so.
    async fn cancel_in_doubt(&self, agent: &str, verdict: &str) -> Uuid {
        let job = self.fleet.submit(agent, "");
        wait_for_line(&self.shared(&format!("{job}-begun"))).await;
        self.cancel(job);
        wait_for("the run that undoes", PATIENCE, async || {
            let kinds = self.fleet.kinds(job).await;
            if kinds.iter().any(|kind| kind == "unwind_started") { Ok(()) } else { Err(kinds) }
        })
        .await;
        // Whole at once: the probe may be looking.
        fs::write(self.shared(&format!("{job}-unsaid")), verdict).unwrap();
        fs::rename(self.shared(&format!("{job}-unsaid")), self.shared(&format!("{job}-verdict"))).unwrap();
        job
    }

    fn undone(&self, job: Uuid) -> String {
        fs::read_to_string(self.shared(&format!("{job}-undone"))).unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_doubt_when_a_job_is_cancelled_is_looked_up_before_anything_is_undone() {
    let options = [
        ("undone", r#"--undo "cat > SHARED/$TENURE_JOB-told; echo late >> SHARED/$TENURE_JOB-undone""#),
        ("undeclared", ""),
        ("pivot", "--pivot"),
    ];
    let declare =
        |(agent, options): (&str, &str)| PROBERS.replace("AGENT", agent).replace("OPTIONS", options);
    let scene = Scene::start(&options.map(declare).concat()).await;

    let landed = scene.cancel_in_doubt("undone", "0").await;
    scene.fleet.wait_for_state(landed, "cancelled").await;
    assert_eq!(scene.undone(landed), "late\nearly\n");
    let told = fs::read_to_string(scene.shared(&format!("{landed}-told"))).unwrap();
    assert_eq!(told, "release 7", "what the probe found is what it returned");
    let kinds = scene.fleet.kinds(landed).await;
    let place = |kind: &str| kinds.iter().position(|found| found == kind).unwrap();
    assert!(place("unwind_started") < place("effect_reconciled"), "{kinds:?}");

    let never = scene.cancel_in_doubt("undone", "10").await;
    scene.fleet.wait_for_state(never, "cancelled").await;
    assert_eq!(scene.undone(never), "early\n");
    assert_eq!(scene.announced(never, "forward").await, ["early", "late"], "it is not begun again");

    let pivot = scene.cancel_in_doubt("pivot", "0").await;
    scene.fleet.wait_for_state(pivot, "cancelled").await;
    assert_eq!(scene.undone(pivot), "", "it took effect, and what came before it stays");

    let undeclared = scene.cancel_in_doubt("undeclared", "0").await;
    scene.fleet.wait_for_state(undeclared, "quarantined").await;
    let (reason, detail) = scene.reason_and_detail(undeclared).await;
    assert_eq!(reason, "not_unwound");
    assert!(detail.contains("\"late\"") && !detail.contains("\"early\""), "{detail}");
    assert_eq!(scene.undone(undeclared), "", "half of an undoing is worse than none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_that_its_probe_cannot_settle_sets_the_cancelled_job_aside_and_a_person_has_it_undone() {
    let undo = r#"--undo "echo late >> SHARED/$TENURE_JOB-undone""#;
    let scene = Scene::start(&PROBERS.replace("AGENT", "unsure").replace("OPTIONS", undo)).await;
    let job = scene.cancel_in_doubt("unsure", "7").await;
    scene.fleet.wait_for_state(job, "quarantined").await;
    let (reason, detail) = scene.reason_and_detail(job).await;
    assert_eq!(reason, "effect_in_doubt");
    assert!(detail.contains("\"late\"") && detail.contains("cancelled"), "{detail}");
    assert_eq!(scene.undone(job), "", "nothing is undone around a doubt");
    let id = job.to_string();
    let run = |arguments: &[&str]| scene.fleet.cluster.run(arguments).unwrap();
    assert!(run(&["undecided", &id]).contains("late"));
    run(&["reconcile", &id, "late", "--done", "release 7", "--why", "it is on the page"]);
    run(&["reopen", &id, "--why", "answered"]);
    scene.fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(scene.undone(job), "late\nearly\n");
}
