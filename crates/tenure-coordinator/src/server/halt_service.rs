//! `HaltService`: halts are thrown, lifted and listed. What they refuse is refused by the statements that store and claim jobs,
//! so nothing is told to anybody here but that something may go on again. Neighbours: the store keeps them, the core says
//! what a scope is.

use tenure_core::{
    halt::{Halt, Scope, check_halted_scope},
    id::{HaltId, Tenant},
    limits::HALTS_STANDING_MAX,
    principal::Principal,
    reason::Reason,
    refusal::Refusal,
    verb::check_why,
};
use tenure_proto::{
    convert::time::write_timestamp,
    v1::{self, halt_service_server::HaltService},
};
use tenure_store::{HaltFilter, Lifted, Thrown};
use tonic::{Request, Response, Status};

use super::{
    call::{answer, open, read_limit, refuse_cursor},
    caller::{Caller, FleetCaller},
};
use crate::{coordinator::Parts, refusals::refuse_store};

/// Halts on a page, where nothing is said.
const HALTS_DEFAULT: u32 = 500;

/// The service.
pub(super) struct Halts {
    parts: Parts,
}

impl Halts {
    pub(super) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    async fn throw(
        &self,
        caller: &Caller,
        request: v1::ThrowHaltRequest,
    ) -> Result<v1::ThrowHaltResponse, Refusal> {
        let scope = read_scope(&request.scope)?;
        check_halted_scope(&scope)?;
        let why = check_why(&request.why)?;
        let (halt, already_standing) =
            self.throw_for(Some(&caller.tenant), &scope, &caller.principal, &why).await?;
        Ok(v1::ThrowHaltResponse { halt: Some(write_halt(halt)), already_standing })
    }

    /// Throws it. True beside it: it stood before.
    async fn throw_for(
        &self,
        tenant: Option<&Tenant>,
        scope: &Scope,
        by: &Principal,
        why: &str,
    ) -> Result<(Halt, bool), Refusal> {
        let thrown = self.parts.store.throw_halt(tenant, scope, by, why).await;
        match thrown.map_err(|error| refuse_store(&error))? {
            Thrown::New(halt) => {
                tracing::warn!(halt = %halt.id, %scope, by = by.actor, why, "a halt was thrown");
                Ok((halt, false))
            }
            Thrown::Standing(halt) => Ok((halt, true)),
            Thrown::TooMany => {
                let words = format!("cannot throw another halt: {HALTS_STANDING_MAX} stand");
                Err(Refusal::new(Reason::LimitReached, words).with_next("tenure halts"))
            }
        }
    }

    async fn lift(
        &self,
        caller: &FleetCaller,
        request: v1::LiftHaltRequest,
    ) -> Result<v1::LiftHaltResponse, Refusal> {
        let (id, why) = (HaltId(request.halt), check_why(&request.why)?);
        let lifted = self.parts.store.lift_halt(id, &caller.tenants, &caller.principal, &why).await;
        match lifted.map_err(|error| refuse_store(&error))? {
            Lifted::Now(halt) => {
                tracing::warn!(
                    halt = %id, scope = %halt.scope, by = caller.principal.actor, why, "a halt was lifted"
                );
                // What waited may go on.
                self.parts.wakes.note_ready();
                Ok(v1::LiftHaltResponse { halt: Some(write_halt(halt)) })
            }
            Lifted::Before(halt) => {
                let by = halt.lift.map(|lift| lift.by.actor).unwrap_or_default();
                Err(refuse_lift(id, &format!("it was lifted by {by}")))
            }
            Lifted::Unknown => Err(refuse_lift(id, "there is none of this number")),
            Lifted::NotGranted => {
                let words =
                    format!("halt {id} holds for the whole fleet, and is lifted on behalf of every tenant");
                Err(Refusal::new(Reason::TenantNotGranted, words).with_detail("halt", id))
            }
        }
    }

    async fn list(
        &self,
        caller: &FleetCaller,
        request: v1::ListHaltsRequest,
    ) -> Result<v1::ListHaltsResponse, Refusal> {
        let limit = read_limit(request.limit, HALTS_DEFAULT)?;
        let before = match request.cursor.as_str() {
            "" => None,
            cursor => Some(HaltId(cursor.parse().map_err(|_| refuse_cursor(cursor))?)),
        };
        let filter = HaltFilter { tenants: caller.tenants.clone(), lifted: request.lifted, before, limit };
        let halts = self.parts.store.list_halts(&filter).await.map_err(|error| refuse_store(&error))?;
        let full = halts.len() == limit as usize;
        let cursor = halts.last().filter(|_| full).map(|last| last.id.to_string()).unwrap_or_default();
        Ok(v1::ListHaltsResponse { halts: halts.into_iter().map(write_halt).collect(), cursor })
    }
}

#[tonic::async_trait]
impl HaltService for Halts {
    async fn throw_halt(
        &self,
        request: Request<v1::ThrowHaltRequest>,
    ) -> Result<Response<v1::ThrowHaltResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.throw(&caller, request)).await
    }

    async fn lift_halt(
        &self,
        request: Request<v1::LiftHaltRequest>,
    ) -> Result<Response<v1::LiftHaltResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(self.lift(&caller, request)).await
    }

    async fn list_halts(
        &self,
        request: Request<v1::ListHaltsRequest>,
    ) -> Result<Response<v1::ListHaltsResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(self.list(&caller, request)).await
    }
}

fn read_scope(given: &str) -> Result<Scope, Refusal> {
    given.parse().map_err(|invalid: tenure_core::halt::InvalidScope| {
        Refusal::new(Reason::InvalidArgument, invalid.to_string()).with_detail("field", "scope")
    })
}

fn refuse_lift(id: HaltId, why: &str) -> Refusal {
    Refusal::new(Reason::HaltNotStanding, format!("cannot lift halt {id}: {why}"))
        .with_detail("halt", id)
        .with_next("tenure halts")
}

fn write_halt(halt: Halt) -> v1::Halt {
    let lifted_at = halt.lift.as_ref().map(|lift| write_timestamp(lift.at));
    let (lifted_by, lift_why) = halt.lift.map(|lift| (lift.by.actor, lift.why)).unwrap_or_default();
    v1::Halt {
        id: halt.id.0,
        tenant: halt.tenant.map(|tenant| tenant.to_string()).unwrap_or_default(),
        scope: halt.scope.to_string(),
        thrown_by: halt.by.actor,
        why: halt.why,
        thrown_at: Some(write_timestamp(halt.at)),
        lifted_by,
        lift_why,
        lifted_at,
    }
}
