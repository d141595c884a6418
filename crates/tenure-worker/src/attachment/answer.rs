//! The answers of a coordinator, read from the wire.

use tenure_core::{
    id::{Epoch, Seq},
    run_ref::RunRef,
};
use tenure_proto::{
    convert::{InvalidField, require, run::read_run_ref},
    v1::{self, appended::Outcome},
};

use crate::{
    held_runs::{FencedBy, StandingNotice},
    journal::ReportAnswer,
};

/// The answer to a report: which run's, which one, and what.
pub(super) fn read_appended(appended: v1::Appended) -> Result<(RunRef, u64, ReportAnswer), InvalidField> {
    let run = read_run_ref(appended.run.as_ref())?;
    let answer = match require("outcome", appended.outcome)? {
        Outcome::Applied(applied) => ReportAnswer::Applied(Seq(applied.seq)),
        Outcome::Fenced(fenced) => ReportAnswer::Fenced {
            held_by: Some(fenced.held_by).filter(|worker| !worker.is_empty()),
            epoch: Epoch(fenced.epoch),
            applied: Some(Seq(fenced.applied_seq)).filter(|seq| seq.0 > 0),
        },
        Outcome::Sealed(v1::Sealed {}) => ReportAnswer::Sealed,
        Outcome::Missing(v1::Missing {}) => ReportAnswer::Missing,
        Outcome::Notice(notice) => ReportAnswer::Notice { seq: Seq(notice.seq), kind: notice.kind },
        Outcome::Refused(refused) => ReportAnswer::Refused { code: refused.code, message: refused.message },
    };
    Ok((run, appended.n, answer))
}

/// Something that stands about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    Notice(StandingNotice),
    Fenced(FencedBy),
}

/// An order: about which run, and what.
pub(super) fn read_order(order: v1::Order) -> Result<(RunRef, Standing), InvalidField> {
    let run = read_run_ref(order.run.as_ref())?;
    let standing = match require("order", order.order)? {
        v1::order::Order::Notice(notice) => {
            Standing::Notice(StandingNotice { seq: Seq(notice.seq), kind: notice.kind })
        }
        v1::order::Order::Fenced(fenced) => Standing::Fenced(FencedBy {
            held_by: Some(fenced.held_by).filter(|worker| !worker.is_empty()),
            epoch: Some(Epoch(fenced.epoch)),
        }),
    };
    Ok((run, standing))
}
