//! Values for this crate's unit tests that show only what a test is about. Compiled for tests alone.

use bytes::Bytes;
use jiff::Timestamp;
use tenure_core::{
    id::{Attach, Epoch, Generation, JobId, Run, Seq, Tenant, Term},
    run_ref::RunRef,
};
use uuid::Uuid;

use crate::{
    grant::RunGrant,
    guardian::{BootInstant, RunSecret},
};

/// Run 1 of a job that is told apart by `number`, under epoch 1.
pub(crate) fn run_ref(number: u128) -> RunRef {
    RunRef {
        tenant: Tenant::default_tenant(),
        job: JobId(Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0000 + number)),
        epoch: Epoch(1),
        run: Run(1),
        generation: Generation(1),
    }
}

/// A grant of that run under term 7 and attach 2.
pub(crate) fn run_grant(number: u128) -> RunGrant {
    RunGrant {
        run: run_ref(number),
        term: Term(7),
        attach: Attach(2),
        secret: RunSecret::from_bytes([9; 32]),
        agent: "greeter".to_owned(),
        declaration: Bytes::from_static(br#"{"command":["true"]}"#),
        input: Bytes::new(),
        handover: Bytes::from_static(b"{}"),
        brief: String::new(),
        deadline_at: None,
        session_started_at: None,
        now: Timestamp::UNIX_EPOCH,
        arrived: BootInstant::from_nanoseconds(1),
        seq: Seq(3),
        trace: None,
        attempt: 1,
    }
}
