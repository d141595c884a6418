//! Each shape with all of its crash points, resumed and judged; and the same without the read-back, which must not pass.

use std::{collections::BTreeSet, path::Path};

use futures_util::{StreamExt as _, stream};
use tenure_core::{
    job::State,
    replay::{Line, Report},
};
use tenure_store::StoredRecord;
use tenure_testkit::{
    CrashPoint, EffectAtPoint, RebuiltJob, Witnesses, assert_resumed_honestly, list_dishonesties, wait_for,
};

use crate::{
    handlers::World,
    scene::{PATIENCE, Scene, Stage, Taken, submit, take_points},
    shape::{Person, SHAPES, Shape, find},
};

/// Points that are resumed at the same time: mostly they wait.
const AT_ONCE: usize = 3;

/// Crash points that all shapes together have, at least.
const POINTS_MIN: usize = 200;

/// What had become, before the crash, of the effects that were in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InFlight {
    Landed,
    DidNotHappen,
}

/// Resumes every point of a shape, in each world that it may have left.
async fn resume_every_point(name: &str) {
    let shape = find(name);
    let Taken { points, journal, blobs } = take_points(shape).await;
    replay_every_point(shape, &journal).await;
    let cases: Vec<_> =
        points.iter().flat_map(|point| list_worlds(point).map(move |world| (point, world))).collect();
    println!(
        "{name}: {} points, {} resumes: {}",
        points.len(),
        cases.len(),
        points[0].kinds_of_original().join(" ")
    );
    stream::iter(cases)
        .for_each_concurrent(AT_ONCE, |(point, world)| resume(shape, point, world, blobs.path()))
        .await;
}

/// Where nothing that mutates was in flight there is one world.
fn list_worlds(point: &CrashPoint) -> impl Iterator<Item = InFlight> {
    let is_open = point.in_flight().iter().any(|effect| effect.last.mutates);
    [InFlight::DidNotHappen, InFlight::Landed].into_iter().take(if is_open { 2 } else { 1 })
}

async fn resume(shape: &Shape, point: &CrashPoint, world: InFlight, blobs: &Path) {
    let rebuilt = point.rebuild().await.unwrap();
    let stage = Stage::set().await;
    enter_what_happened(&stage, point, world).await;
    let scene = stage.begin(shape, rebuilt.url(), blobs).await;
    if !point.froze_a_plan() {
        return watch_nobody_begin(shape, point, &rebuilt, scene).await;
    }
    let result = scene.wait_for_rest(shape, &rebuilt.pool).await;
    let entries = scene.end().await;
    assert_resumed_honestly(point, &rebuilt, &result).await;
    // What only a person may settle waits for one, and nothing else keeps the job from its end.
    let wants_a_person =
        shape.person != Person::HasItGoOn && point.in_flight().iter().any(EffectAtPoint::needs_a_person);
    let expected = if wants_a_person { State::Quarantined } else { shape.ends };
    assert_eq!(result, Ok(expected), "{point}, what was in flight: {world:?}");
    let witnesses = Witnesses { entries: Some(&entries), ..Witnesses::of_database(&rebuilt.pool) };
    let findings = witnesses.check().await.unwrap();
    assert!(findings.is_empty(), "{point}, what was in flight: {world:?}: {findings:?}");
}

/// A job whose plan was not frozen never started, and nobody begins it: one that comes after it in the queue is claimed, and it
/// is not.
async fn watch_nobody_begin(shape: &Shape, point: &CrashPoint, rebuilt: &RebuiltJob, scene: Scene) {
    let next = submit(&scene.client(), shape).await;
    wait_for("the next job to be claimed", PATIENCE, async || {
        let claimed: (i64,) =
            sqlx::query_as("SELECT count(*) FROM journal WHERE job = $1 AND kind = 'run_started'")
                .bind(next.0)
                .fetch_one(&rebuilt.pool)
                .await
                .unwrap();
        if claimed.0 > 0 { Ok(()) } else { Err("it is not") }
    })
    .await;
    let entries = scene.end().await;
    let result: Result<State, _> = Err("nobody begins it");
    assert_resumed_honestly(point, rebuilt, &result).await;
    assert_eq!(rebuilt.state().await.unwrap(), State::Ready, "{point}");
    assert_eq!(rebuilt.kinds().await.unwrap(), point.kinds(), "{point}");
    let its = format!("{} ", point.job());
    assert!(!entries.iter().any(|entry| entry.text.starts_with(&its)), "{point}: {entries:?}");
}

/// Where the job is a handler's: it agrees with what every crash would have left of its journal, and performs nothing.
async fn replay_every_point(shape: &Shape, journal: &[StoredRecord]) {
    let stage = Stage::set().await;
    let (mut text, mut has_run) = (String::new(), false);
    for record in journal {
        let (record, value) = (String::from_utf8(record.bytes.clone()).unwrap(), record.value.clone());
        has_run |= record.contains("\"kind\":\"run_started\"");
        text.push_str(&serde_json::to_string(&Line { record, value }).unwrap());
        text.push('\n');
        let Some(handlers) = shape.handler(World::new(stage.client())).filter(|_| has_run) else { continue };
        let file = stage.write("journal", &text);
        let Report { divergence, .. } = handlers.replay(&file, None).await.unwrap();
        assert_eq!(divergence, None, "{} diverges from {text}", shape.name);
    }
    assert_eq!(stage.entries(), [], "a replay of {} performed something", shape.name);
}

/// Makes the world as the crash left it.
async fn enter_what_happened(stage: &Stage, point: &CrashPoint, world: InFlight) {
    let in_flight = point.in_flight().into_iter().filter(|_| world == InFlight::Landed);
    for effect in point.done().into_iter().chain(in_flight).filter(|effect| effect.last.mutates) {
        let key = effect.idempotency_key(point.job());
        let text = format!("{} {}", point.job(), effect.key);
        let keyed = effect.last.recovery.performs_again().then_some(key.as_str());
        stage.client().post(keyed, &text).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_steps_and_notes() {
    resume_every_point("steps").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_with_effects_of_every_recovery() {
    resume_every_point("recoveries").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_whose_effects_are_retried() {
    resume_every_point("retries").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_whose_effects_are_looked_up() {
    resume_every_point("probes").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_that_fails_twice() {
    resume_every_point("restarts").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_that_does_all_of_it() {
    resume_every_point("mixture").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_long_handler() {
    resume_every_point("long").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_with_notes() {
    resume_every_point("noted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_with_effects_of_every_recovery() {
    resume_every_point("posted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_whose_effects_are_retried() {
    resume_every_point("repeated").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_crashes_twice() {
    resume_every_point("restarted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_whose_effects_are_looked_up() {
    resume_every_point("looked-up").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_is_undone() {
    resume_every_point("undone").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_is_cancelled_and_undone() {
    resume_every_point("cancelled").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_whose_input_and_result_are_blobs() {
    resume_every_point("large").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_with_groups_of_effects() {
    resume_every_point("grouped").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_whose_effects_are_undone_by_its_functions() {
    resume_every_point("compensated").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_that_is_quarantined_reconciled_and_reopened() {
    resume_every_point("answered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_that_fails_for_good_and_is_resumed() {
    resume_every_point("resumed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_whose_result_is_kept_through_a_quarantine() {
    resume_every_point("kept").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_fails_for_good_and_is_resumed() {
    resume_every_point("continued").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_whose_undoing_a_person_has_go_on() {
    resume_every_point("undone-by-hand").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_gives_work_to_agents() {
    resume_every_point("given").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_handler_that_gives_work_to_agents() {
    resume_every_point("giving").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_is_suspended_until_an_instant() {
    resume_every_point("suspended").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_books_a_later_session() {
    resume_every_point("set-down").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_that_is_steered() {
    resume_every_point("steered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_points_of_a_script_whose_worker_is_drained() {
    resume_every_point("drained").await;
}

/// The table is what the tests above resume, so that none is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_point_shapes_differ_and_have_enough_points_together() {
    let (mut sequences, mut points) = (BTreeSet::new(), 0);
    for shape in &SHAPES {
        let taken = take_points(shape).await.points;
        points += taken.len();
        sequences.insert(taken[0].kinds_of_original().join(" "));
    }
    sequences.iter().for_each(|sequence| println!("{sequence}"));
    println!("{} sequences of kinds, {points} crash points", sequences.len());
    assert!(sequences.len() >= 8, "{} sequences of kinds", sequences.len());
    assert!(points >= POINTS_MIN, "{points} crash points");
}

/// Where neither the read-back nor the check in the statement finds what was done before the crash, the unique index stops the
/// second announcement, and the suite says so: it would notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_point_suite_without_the_read_back_fails_and_names_the_unique_index() {
    for name in ["recoveries", "posted"] {
        let shape = find(name);
        let Taken { points, blobs, .. } = take_points(shape).await;
        let with_effects = points.iter().filter(|point| !point.done().is_empty()).step_by(2);
        let (found, judged) = stream::iter(with_effects)
            .map(|point| resume_without_read_back(shape, point, blobs.path()))
            .buffer_unordered(AT_ONCE)
            .fold(
                (0, 0),
                |(found, judged), names_it| async move { (found + u32::from(names_it), judged + 1) },
            )
            .await;
        println!("{name}: {judged} points resumed without the read-back, {found} stopped by the index");
        assert!(judged >= 5 && found == judged, "{name}: {found} of {judged} points name the index");
    }
}

/// Whether what is found names the index.
async fn resume_without_read_back(shape: &Shape, point: &CrashPoint, blobs: &Path) -> bool {
    let rebuilt: RebuiltJob = point.rebuild().await.unwrap();
    let stage = Stage::set().await;
    enter_what_happened(&stage, point, InFlight::DidNotHappen).await;
    let scene = stage.begin(shape, &rebuilt.url_without_read_back().await.unwrap(), blobs).await;
    let result = rebuilt.wait_for_rest(PATIENCE).await.map_err(|error| format!("{error:#}"));
    scene.end().await;
    let found = list_dishonesties(point, &rebuilt, &result).await.unwrap();
    println!("{point}: {}", found.join("; "));
    found.iter().any(|words| words.contains("the unique index effects_") && words.contains("_pkey"))
}
