//! A database on another timeline than was noted: a failover may have lost history, so nothing is written.

use tenure_core::{
    credential::Tenants,
    id::{Digest, Epoch, Generation},
};
use tenure_store::{ClosableTerm, NewDeclaration, OutputChunk, OutputStream, StoreError};

use crate::fleet::{AGENT, Fleet, agent, by, claim_request, new_term};

async fn change_timeline(fleet: &Fleet) {
    sqlx::query("UPDATE installation SET timeline = '000000FF'").execute(&fleet.pool).await.unwrap();
}

fn is_stopped<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    match result {
        Err(StoreError::TimelineChanged { recorded, present }) => {
            assert_eq!((recorded.as_str(), present.as_str()), ("000000FF", "00000001"));
        }
        other => panic!("not stopped: {other:?}"),
    }
}

#[tokio::test]
async fn changed_timeline_stops_every_write() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let settled = fleet.run_job(&worker).await;
    fleet.submit().await;
    change_timeline(&fleet).await;
    let store = &fleet.store;
    is_stopped(store.claim_jobs(&claim_request(&worker, 4)).await);
    is_stopped(store.append_records(&[holder.notes(&["x"])]).await);
    is_stopped(store.append_records(&[settled.settlement()]).await);
    is_stopped(store.append_with_retry(&[settled.settlement()]).await.outcomes.remove(0));
    is_stopped(store.submit_jobs(&[fleet.new_job()]).await);
    is_stopped(store.register_worker(&new_term(&worker.name, Digest::of(b"x"))).await);
    is_stopped(store.attach_worker(&worker.name, worker.term, Digest::of(b"w1"), &Tenants::All).await);
    is_stopped(store.renew_term(&worker.name, worker.term, worker.attach, worker.answer).await);
    fleet.lapse(&worker).await;
    let tolerance = std::time::Duration::from_secs(60);
    let closable = ClosableTerm { worker: worker.name.clone(), term: worker.term, tolerance };
    is_stopped(store.close_lapsed_terms(store.read_clock().await.unwrap(), &[closable]).await);
    let declaration =
        NewDeclaration { agent: agent(AGENT), document: b"{}".to_vec(), digest: Digest::of(b"{}") };
    is_stopped(store.apply_agents(&fleet.tenant, &[declaration], None, &by(), false).await);
    let chunk = OutputChunk {
        tenant: fleet.tenant.clone(),
        job: holder.job,
        run: holder.run,
        chunk: 0,
        stream: OutputStream::Stdout,
        bytes: bytes::Bytes::from_static(b"x"),
    };
    is_stopped(store.write_output(&[chunk]).await);
    assert_eq!(fleet.journal(holder.job).await.len(), 3);
    assert_eq!(fleet.count("SELECT count(*) FROM jobs").await, 3);
    assert_eq!(fleet.count("SELECT count(*) FROM output").await, 0);
    let facts = fleet.facts(holder.job).await;
    assert_eq!(facts.head_epoch, Epoch(1), "reading goes on");
    assert_eq!(facts.generation, Generation::NONE, "and nothing is permitted from what was read");
}

#[tokio::test]
async fn installation_is_noted_once_and_tells_the_present_timeline() {
    let fleet = Fleet::start().await;
    let installation = fleet.store.read_installation().await.unwrap();
    assert_eq!(installation.timeline, installation.present_timeline);
    change_timeline(&fleet).await;
    fleet.store.migrate(None).await.unwrap();
    let again = fleet.store.read_installation().await.unwrap();
    assert_eq!((again.timeline.as_str(), again.installed_at), ("000000FF", installation.installed_at));
}
