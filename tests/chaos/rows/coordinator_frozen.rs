//! Row 6: the coordinator to which the workers are attached is frozen in the middle of claims, so that it has grants in its
//! hands; another goes on. Workers move to that one by their own keepalive. Thawed, the first one's late grants are
//! refused, nothing happens twice, and no run notices.

use anyhow::Result;

use crate::{
    arena::{Arena, Blockade, PATIENT, draw_duration, wait_out},
    row::{Account, Setting},
};

/// How many jobs are submitted around each freeze.
const BURST: usize = 6;

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 6, 2).await?;
    let (first, second) = (arena.cluster.endpoint("c1")?, arena.cluster.endpoint("c2")?);
    // Each worker tries them in this order.
    arena.cluster.start_worker_at("w1", &format!("{first},{second}"), PATIENT)?;
    let jobs = arena.submit(2).await?;
    arena.wait_for_runs(&jobs, 1).await?;

    let blockade = Blockade::raise(&arena, "leases").await?;
    let marks: Vec<String> = (1..=BURST).map(|number| format!("burst{number}")).collect();
    let unanswered: Vec<_> =
        marks.iter().map(|mark| arena.spawn_submission(mark, &first)).collect::<Result<_>>()?;
    blockade.wait_for_coordinator(&arena).await;
    let pause = draw_duration(&mut arena.random, 0, 300);
    wait_out(pause).await;
    arena.cluster.freeze_coordinator("c1")?;
    // What it had sent is carried out now; what came of it waits in its hands.
    blockade.lift().await?;
    drop(unanswered);
    let mut burst = Vec::new();
    for mark in &marks {
        burst.push(arena.submit_until_acknowledged(mark, "steady", &second).await?);
    }
    arena.wait_for_runs(&burst, 1).await?;
    arena.wait_for_notes(&jobs, 2).await;
    arena.cluster.thaw_coordinator("c1")?;
    arena.wait_for_notes(&burst, 2).await;
    arena.assert_undisturbed(&jobs).await?;
    arena.finish().await
}
