//! From a submission on the wire to a job that is ready to be stored: the agent's present declaration is read, the core
//! admits, ids are minted, the first two records are sealed. Nothing is cached: a submission that comes after an apply is
//! admitted under what was applied, on every coordinator.

use std::{collections::HashMap, sync::Arc};

use tenure_core::{
    admission::{Admitted, Submission, admit_submission},
    chain::Head,
    declaration::{Declaration, PolicyBundle},
    id::{AgentName, Epoch, Generation, Run, Tenant},
    limits::BUDGET_DEFAULT_MICROS,
    principal::Principal,
    reason::Reason,
    record::{Header, seal_records},
    refusal::Refusal,
};
use tenure_proto::{
    convert::{id::read_agent_name, submission::read_deadline, time::read_optional_timestamp},
    v1,
};
use tenure_store::{NewJob, Store, SubmissionKey};

use super::{SealedJob, refuse_store};
use crate::{
    clock::DatabaseClock,
    mint::{mint_job_id, mint_salt, mint_session_id},
    server::caller::Caller,
};

/// What admitting needs.
#[derive(Clone)]
pub(super) struct Admissions {
    pub(super) store: Store,
    pub(super) clock: DatabaseClock,
    pub(super) generation: Generation,
}

/// An agent as it is at present.
struct Revision {
    declaration: Declaration,
    document: Arc<[u8]>,
    bundle: Option<PolicyBundle>,
}

impl Admissions {
    /// Admits each by itself; each agent is read once for all of them.
    pub(super) async fn admit_all(
        &self,
        caller: &Caller,
        submissions: Vec<v1::Submission>,
    ) -> Vec<Result<SealedJob, Refusal>> {
        let mut revisions: HashMap<AgentName, Result<Revision, Refusal>> = HashMap::new();
        let mut outcomes = Vec::with_capacity(submissions.len());
        for submission in submissions {
            outcomes.push(match read_submission(submission) {
                Err(refusal) => Err(refusal),
                Ok(submission) => {
                    let agent = submission.agent.clone();
                    if !revisions.contains_key(&agent) {
                        let revision = self.read_revision(&caller.tenant, &agent).await;
                        revisions.insert(agent.clone(), revision);
                    }
                    match &revisions[&agent] {
                        Err(refusal) => Err(refusal.clone()),
                        Ok(revision) => self.admit(caller, submission, revision),
                    }
                }
            });
        }
        outcomes
    }

    async fn read_revision(&self, tenant: &Tenant, agent: &AgentName) -> Result<Revision, Refusal> {
        let found = self.store.read_agent(tenant, agent).await.map_err(|error| refuse_store(&error))?;
        let found = found.ok_or_else(|| {
            let words = format!("no agent {agent} is declared");
            Refusal::new(Reason::UnknownAgent, words).with_detail("agent", agent).with_next("tenure agents")
        })?;
        let bundle = found.bundle_document.as_deref().map(PolicyBundle::parse).transpose()?;
        let declaration = Declaration::parse(&found.document)?;
        Ok(Revision { declaration, document: found.document.into(), bundle })
    }

    fn admit(
        &self,
        caller: &Caller,
        submission: Submission,
        revision: &Revision,
    ) -> Result<SealedJob, Refusal> {
        let now = self.clock.now();
        let bundle = revision.bundle.as_ref();
        let admitted = admit_submission(submission, &revision.declaration, bundle, now)?;
        let new = self.seal(&caller.tenant, caller.principal.clone(), &admitted)?;
        Ok(SealedJob { new, document: revision.document.clone(), input: admitted.submission.input })
    }

    fn seal(&self, tenant: &Tenant, by: Principal, admitted: &Admitted) -> Result<NewJob, Refusal> {
        let at = self.clock.now();
        let (job, session) = (mint_job_id(at), mint_session_id(at));
        let header =
            Header { tenant: tenant.clone(), job, generation: self.generation, epoch: Epoch(0), run: Run(0) };
        let drafts = admitted.drafts(session, by, mint_salt());
        let records = seal_records(&header, Head::genesis(), at, drafts)
            .map_err(|error| Refusal::new(Reason::InvalidArgument, error.to_string()))?;
        let key =
            admitted.key_digest().map(|hash| SubmissionKey { hash, payload: admitted.payload_digest() });
        let given = &admitted.submission;
        Ok(NewJob {
            tenant: tenant.clone(),
            job,
            session,
            generation: self.generation,
            agent: given.agent.clone(),
            declaration: admitted.declaration,
            bundle: admitted.bundle,
            recovery: admitted.recovery.clone(),
            hops: admitted.hops,
            run_cap: admitted.run_cap,
            budget_micros: BUDGET_DEFAULT_MICROS,
            deadline: admitted.deadline,
            priority: admitted.priority,
            labels: given.labels.clone(),
            requires: admitted.requires.clone(),
            not_before: admitted.not_before,
            traceparent: given.traceparent.clone(),
            key,
            records,
            claim: None,
        })
    }
}

fn read_submission(given: v1::Submission) -> Result<Submission, Refusal> {
    Ok(Submission {
        agent: read_agent_name("submission.agent", &given.agent)?,
        deadline: read_deadline(given.deadline.as_ref())?,
        not_before: read_optional_timestamp("submission.not_before", given.not_before.as_ref())?,
        input: given.input.into(),
        key: given.key,
        labels: given.labels.into_iter().collect(),
        priority: given.priority,
        traceparent: Some(given.traceparent).filter(|traceparent| !traceparent.is_empty()),
    })
}
