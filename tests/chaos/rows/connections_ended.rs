//! Row 7: the database ends connections under load: all of a coordinator's at once, again and again, and then one backend is
//! killed, upon which PostgreSQL ends every other too and recovers. The coordinators connect again, only what is safe is
//! repeated, and no run notices.

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    arena::{Arena, PATIENT, draw_duration, wait_out},
    row::{Account, Setting},
};

pub(crate) async fn make(setting: Setting) -> Result<Account> {
    let mut arena = Arena::start(&setting, 7, 2).await?;
    let endpoints = arena.cluster.endpoints();
    arena.cluster.start_worker_at("w1", &endpoints, PATIENT)?;
    let jobs = arena.submit(4).await?;
    arena.wait_for_runs(&jobs, 1).await?;
    let mut ended = 0;
    for _ in 0..if setting.short { 3 } else { 12 } {
        ended += arena.cluster.terminate_connections("application_name = 'tenure coordinator'").await?;
        let pause = draw_duration(&mut arena.random, 50, 800);
        wait_out(pause).await;
    }
    arena.remark(format!("{ended} connections were terminated"));
    arena.wait_for_notes(&jobs, 2).await;
    kill_backend(&arena).await?;
    arena.wait_for_notes(&jobs, 2).await;
    let more = arena.submit(1).await?;
    arena.wait_for_runs(&more, 1).await?;
    arena.assert_undisturbed(&jobs).await?;
    arena.finish().await
}

async fn kill_backend(arena: &Arena) -> Result<()> {
    let (pid,): (i32,) = sqlx::query_as(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'tenure coordinator' LIMIT 1",
    )
    .fetch_one(&arena.cluster.database)
    .await
    .context("looking for a backend")?;
    kill(Pid::from_raw(pid), Signal::SIGKILL).context("killing a backend")
}
