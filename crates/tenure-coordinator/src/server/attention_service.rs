//! `AttentionService`: what needs a person, kind by kind. Each kind is a bounded read; nothing is kept and nothing is written.
//! Neighbours: the store finds subjects, the core makes conditions of them.

use jiff::Timestamp;
use tenure_core::{
    attention::{Ages, Condition, Kind, NOT_CHECKED},
    limits::{ATTENTION_PAGE_DEFAULT, ATTENTION_PAGE_MAX},
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        InvalidField,
        time::{read_duration, read_optional_timestamp, write_timestamp},
    },
    v1::{self, attention_service_server::AttentionService},
};
use tenure_store::Look;
use tonic::{Request, Response, Status};

use super::{
    call::{answer, open},
    caller::Caller,
};
use crate::coordinator::Parts;

/// The service.
pub(super) struct Attention {
    parts: Parts,
}

impl Attention {
    pub(super) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    async fn look(
        &self,
        caller: &Caller,
        request: v1::GetAttentionRequest,
    ) -> Result<v1::GetAttentionResponse, Refusal> {
        let (page, ages) = (read_page(request.page)?, read_ages(&request)?);
        let at = read_optional_timestamp("at", request.at.as_ref())?;
        let (store, bulk) = (&self.parts.store, &self.parts.bulk);
        let at: Timestamp = match at {
            Some(at) => at,
            None => bulk.ask(store.read_clock()).await?,
        };
        let look = Look { tenant: caller.tenant.clone(), at, page, ages };
        let mut conditions = Vec::new();
        for kind in Kind::ALL {
            let found = bulk.ask(store.find_subjects(&look, *kind)).await?;
            conditions.extend(Condition::of(*kind, found).map(write_condition));
        }
        let not_checked = NOT_CHECKED
            .iter()
            .map(|(kind, why)| v1::NotChecked { kind: (*kind).to_owned(), why: (*why).to_owned() })
            .collect();
        Ok(v1::GetAttentionResponse { at: Some(write_timestamp(at)), conditions, not_checked })
    }
}

#[tonic::async_trait]
impl AttentionService for Attention {
    async fn get_attention(
        &self,
        request: Request<v1::GetAttentionRequest>,
    ) -> Result<Response<v1::GetAttentionResponse>, Status> {
        let (caller, request): (Caller, _) = open(request)?;
        answer(self.look(&caller, request)).await
    }
}

fn read_page(given: u32) -> Result<u32, Refusal> {
    match given {
        0 => Ok(ATTENTION_PAGE_DEFAULT),
        1..=ATTENTION_PAGE_MAX => Ok(given),
        _ => {
            let words = format!(
                "a page of {given} was asked for, and at most {ATTENTION_PAGE_MAX} of a kind are read"
            );
            Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "page"))
        }
    }
}

fn read_ages(request: &v1::GetAttentionRequest) -> Result<Ages, InvalidField> {
    let usual = Ages::default();
    let read = |field, given: Option<&prost_types::Duration>, usual| {
        given.map_or(Ok(usual), |given| read_duration(field, given))
    };
    Ok(Ages {
        unclaimable: read("unclaimable_after", request.unclaimable_after.as_ref(), usual.unclaimable)?,
        abandoned_lease: read("abandoned_after", request.abandoned_after.as_ref(), usual.abandoned_lease)?,
        halt: read("halt_after", request.halt_after.as_ref(), usual.halt)?,
    })
}

fn write_condition(condition: Condition) -> v1::Condition {
    let Condition { kind, found, at_least, since, subjects, unlisted, remedy } = condition;
    let remedy = v1::Remedy { command_line: remedy.command_line, grpc: remedy.grpc.to_owned() };
    v1::Condition {
        kind: kind.name().to_owned(),
        found,
        at_least,
        since: Some(write_timestamp(since)),
        subjects,
        unlisted,
        remedy: Some(remedy),
    }
}
