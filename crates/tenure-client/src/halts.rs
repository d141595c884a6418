//! Halts: throwing, lifting and listing them.

use jiff::Timestamp;
use serde::Serialize;
use tenure_core::id::HaltId;
use tenure_proto::{
    convert::{InvalidField, require, time::read_optional_timestamp},
    v1,
};

use crate::{
    Client, ClientError,
    client::{Repeat, halt_service},
    job::read_instant,
};

/// A halt as it stood when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Halt {
    /// Its number.
    pub id: HaltId,
    /// The tenant that it holds within; none: the whole fleet.
    pub tenant: Option<String>,
    /// What it holds for.
    pub scope: String,
    /// Who threw it.
    pub thrown_by: String,
    /// Why.
    pub why: String,
    /// When.
    pub thrown_at: Timestamp,
    /// Who lifted it; none: it stands.
    pub lifted_by: Option<String>,
    /// Why it was lifted; none: it stands.
    pub lift_why: Option<String>,
    /// When it was lifted; none: it stands.
    pub lifted_at: Option<Timestamp>,
}

/// A page of halts, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HaltPage {
    /// The halts.
    pub halts: Vec<Halt>,
    /// Where the next page begins; none: this was the last.
    pub cursor: Option<String>,
}

impl Client {
    /// Halts a scope: `tenant`, `agent NAME`, `revision DIGEST` or `principal NAME`. True beside the halt: it stood before.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn throw_halt(&self, scope: &str, why: &str) -> Result<(Halt, bool), ClientError> {
        let request = v1::ThrowHaltRequest { scope: scope.to_owned(), why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { halt_service(channel).throw_halt(request).await }
        };
        let answer = self.call(Repeat::Harmless, ask).await?;
        Ok((Halt::read(answer.halt)?, answer.already_standing))
    }

    /// Lifts a halt. Sent again only where it was never sent: the second time it stands no more.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn lift_halt(&self, halt: HaltId, why: &str) -> Result<Halt, ClientError> {
        let request = v1::LiftHaltRequest { halt: halt.0, why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { halt_service(channel).lift_halt(request).await }
        };
        Ok(Halt::read(self.call(Repeat::OnlyUnsent, ask).await?.halt)?)
    }

    /// Reads a page of halts, with those that were lifted where they are wanted; a limit of 0 leaves the size to the fleet.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_halts(
        &self,
        lifted: bool,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<HaltPage, ClientError> {
        let request = v1::ListHaltsRequest { lifted, limit, cursor: cursor.unwrap_or_default().to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { halt_service(channel).list_halts(request).await }
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        let halts = answer.halts.into_iter().map(|halt| Halt::read(Some(halt))).collect::<Result<_, _>>()?;
        Ok(HaltPage { halts, cursor: Some(answer.cursor).filter(|cursor| !cursor.is_empty()) })
    }
}

impl Halt {
    fn read(given: Option<v1::Halt>) -> Result<Self, InvalidField> {
        let given = require("halt", given)?;
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Self {
            id: HaltId(given.id),
            tenant: said(given.tenant),
            scope: given.scope,
            thrown_by: given.thrown_by,
            why: given.why,
            thrown_at: read_instant("halt.thrown_at", given.thrown_at.as_ref())?,
            lifted_by: said(given.lifted_by),
            lift_why: said(given.lift_why),
            lifted_at: read_optional_timestamp("halt.lifted_at", given.lifted_at.as_ref())?,
        })
    }
}
