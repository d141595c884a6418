//! Watching a job: its records from a seq on, and then what is added, without gap and repeat, until the job is sealed.
//! Wake-ups make it quick, whoever wrote; a poll stands behind them. A reader that goes on from
//! seq N asks for N + 1, here or elsewhere. Neighbours: `job_service`, `wake`.

use tenure_core::{
    id::{JobId, Seq, Tenant},
    refusal::Refusal,
};
use tenure_proto::{convert::state::write_state, v1};

use super::{
    followers::{Handed, Reader},
    job_view::write_record,
};
use crate::coordinator::{Parts, stopping};

/// Records that are read at once.
const PAGE: u32 = 200;

/// Sends records until the job is sealed and everything is sent, or the caller leaves.
pub(crate) async fn watch_records(
    parts: Parts,
    tenant: Tenant,
    job: JobId,
    from: Seq,
    reader: Reader<v1::WatchJobResponse>,
) {
    let mut watch = parts.wakes.watch_job(job);
    let mut next = from;
    loop {
        match send_new(&parts, &tenant, job, &mut next, &reader).await {
            Ok(Progress::More) => {}
            Ok(Progress::Over) => return,
            Err(refusal) => return reader.end_with(&refusal),
        }
        tokio::select! {
            () = reader.closed() => return,
            () = parts.stopping.cancelled() => return reader.end_with(&stopping()),
            () = watch.changed() => {}
            () = parts.poll.pause() => {}
        }
    }
}

enum Progress {
    More,
    Over,
}

async fn send_new(
    parts: &Parts,
    tenant: &Tenant,
    job: JobId,
    next: &mut Seq,
    reader: &Reader<v1::WatchJobResponse>,
) -> Result<Progress, Refusal> {
    loop {
        if !reader.await_room().await? {
            return Ok(Progress::Over);
        }
        let Some(row) = parts.bulk.ask(parts.store.read_job(tenant, job)).await? else {
            return Ok(Progress::Over);
        };
        let state = write_state(row.state).into();
        let page = parts.bulk.ask(parts.store.read_records(tenant, job, *next, &[], PAGE)).await?;
        for stored in page.records {
            let after = stored.seq.next();
            match reader.hand(v1::WatchJobResponse { record: Some(write_record(stored)), state }).await {
                Handed::Over => *next = after,
                Handed::Dropped => break,
                Handed::Left => return Ok(Progress::Over),
            }
        }
        // A sealed job's head does not move, so what was read up to it is all there will be.
        if *next > row.head.seq {
            return Ok(if row.state.is_sealed() { Progress::Over } else { Progress::More });
        }
    }
}
