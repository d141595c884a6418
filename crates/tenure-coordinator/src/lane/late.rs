//! Keeping what came too late: outcomes of effects whose run was fenced or whose job is sealed stand beside the chain as
//! testimony before their report is answered. All of a round at once and after its write, so that a lane waits for it once;
//! where the database refuses the data of one report, that one is answered without, and the log says what was lost.
//! Neighbours: `compose` sets late reports apart, the store keeps, people read it beside the doubts.

use std::sync::Arc;

use tenure_store::{NewTestimony, Store, StoreError, TestimonyRow};

use super::{
    Lane,
    compose::Late,
    round::fail,
    work::{LaneError, Work},
};
use crate::{patience::within, refusals::chain};

impl Lane {
    /// Keeps what reports that came too late say about effects, and answers them then.
    pub(super) async fn answer_late(&self, late: Vec<Late>) {
        let said: Vec<Vec<NewTestimony>> = late.iter().map(|late| late.report.testimony()).collect();
        let kept = match within(keep_each(&self.parts.store, &said)).await {
            Ok(kept) => kept,
            Err(unanswered) => {
                return late.into_iter().for_each(|late| fail(Work::Report(late.report), unanswered.into()));
            }
        };
        for (late, kept) in late.into_iter().zip(kept) {
            answer(late, kept);
        }
    }
}

/// What became of each report's share: all of them in one statement, and one by one only where the data of one is refused.
async fn keep_each(store: &Store, said: &[Vec<NewTestimony>]) -> Vec<Result<(), StoreError>> {
    match keep(store, &said.concat()).await {
        Err(StoreError::Data { .. }) => {}
        kept => return said.iter().map(|_| kept.clone()).collect(),
    }
    let mut kept = Vec::with_capacity(said.len());
    for testimony in said {
        kept.push(keep(store, testimony).await);
    }
    kept
}

async fn keep(store: &Store, testimony: &[NewTestimony]) -> Result<(), StoreError> {
    let kept = store.keep_testimony(testimony).await?;
    kept.iter().for_each(tell_kept);
    Ok(())
}

fn tell_kept(row: &TestimonyRow) {
    let TestimonyRow { job, run, epoch, key, attempt, claimed, recorded, .. } = row;
    if row.contradicts() {
        tracing::warn!(
            %job, %run, %epoch, ?key, attempt, ?claimed, ?recorded,
            "an outcome of an effect came too late and contradicts the journal; `tenure undecided` shows both"
        );
    } else {
        tracing::info!(
            %job, %run, %epoch, ?key, attempt, ?claimed,
            "an outcome of an effect came too late and is kept as testimony"
        );
    }
}

/// What can never be kept does not keep its run from being told that it is over.
fn answer(Late { report, answer }: Late, kept: Result<(), StoreError>) {
    match kept {
        Ok(()) => {}
        Err(error @ StoreError::Data { .. }) => {
            let error = chain(&error);
            let run = &report.run;
            tracing::error!(
                job = %run.job, run = %run.run, epoch = %run.epoch, n = report.n, error,
                "outcomes that came too late could not be kept"
            );
        }
        Err(error) => return fail(Work::Report(report), LaneError::Store(Arc::new(error))),
    }
    report.reply.send(Ok(answer));
}
