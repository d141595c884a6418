//! From a submission on the wire to a job that is ready to be stored: the agent's present declaration is read, the core
//! admits, ids are minted, the first two records are sealed. Nothing is cached: a submission that comes after an apply is
//! admitted under what was applied, on every coordinator.
//!
//! A submission that is sent again is answered with its job also where it would not be admitted any more: its deadline is
//! reached, a limit has shrunk. So the key of what is refused is looked up, and only of that: what is admitted meets its
//! key in the statement that stores it.

use std::{collections::HashMap, sync::Arc};

use tenure_core::{
    admission::{Admitted, Input, Submission, admit_session, admit_submission},
    chain::Head,
    declaration::{Declaration, PolicyBundle},
    id::{AgentName, Epoch, Generation, JobId, Run, SessionId, Tenant},
    money::Micros,
    principal::Principal,
    reason::Reason,
    record::{Header, KeptValue, ValueRef, seal_records},
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        blob::read_blob_ref, id::read_agent_name, submission::read_deadline, time::read_optional_timestamp,
    },
    v1,
};
use tenure_store::{NewJob, Store, SubmissionKey, Submitted};

use super::{SealedJob, refuse_store};
use crate::{
    blob_transfer::refuse_unknown,
    clock::DatabaseClock,
    mint::{mint_job_id, mint_salt, mint_session_id},
    server::caller::Caller,
    trace::settle_trace,
};

/// What admitting needs.
#[derive(Clone)]
pub(super) struct Admissions {
    pub(super) store: Store,
    pub(super) clock: DatabaseClock,
    pub(super) generation: Generation,
}

/// What becomes of a submission before it is stored.
pub(super) enum Admission {
    /// It is to be stored.
    New(Box<SealedJob>),
    /// Its key was used before.
    Known(Submitted),
}

/// A refusal, and what its submission is known by, where it was given a key.
struct Refused {
    refusal: Box<Refusal>,
    key: Option<SubmissionKey>,
}

/// An agent as it is at present.
pub(super) struct Revision {
    pub(super) declaration: Declaration,
    document: Arc<[u8]>,
    pub(super) bundle: Option<PolicyBundle>,
    /// What the tenant has spent in 24 hours.
    pub(super) spent: Micros,
}

/// Where a job is to be.
pub(super) struct Place<'a> {
    pub(super) tenant: &'a Tenant,
    pub(super) generation: Generation,
    /// None: in a session of its own.
    pub(super) session: Option<SessionId>,
    /// None: under an id of its own.
    pub(super) job: Option<JobId>,
}

impl Admissions {
    /// Admits what picks up work that was set down; it is known by the key of its booking.
    pub(super) async fn admit_pick_up(
        &self,
        caller: &Caller,
        submission: Submission,
        key: SubmissionKey,
    ) -> Result<Admission, Refusal> {
        let known = self.store.find_submissions(&caller.tenant, &[key]).await;
        if let Some(known) = known.map_err(|error| refuse_store(&error))?.pop().flatten() {
            return Ok(Admission::Known(known));
        }
        let revision = self.read_revision(&caller.tenant, &submission.agent).await?;
        let job = self.admit(caller, submission, Some(key), &revision)?;
        let bound = self.bind_input(job).await.map_err(|refused| *refused.refusal)?;
        Ok(Admission::New(Box::new(bound)))
    }

    /// Admits each by itself; each agent is read once for all of them.
    pub(super) async fn admit_all(
        &self,
        caller: &Caller,
        submissions: Vec<v1::Submission>,
    ) -> Vec<Result<Admission, Refusal>> {
        let mut revisions: HashMap<AgentName, Result<Revision, Refusal>> = HashMap::new();
        let mut outcomes = Vec::with_capacity(submissions.len());
        for submission in submissions {
            outcomes.push(match self.read_submission(&caller.tenant, submission).await {
                Err(refusal) => Err(Refused { refusal: Box::new(refusal), key: None }),
                Ok(submission) => {
                    let agent = submission.agent.clone();
                    if !revisions.contains_key(&agent) {
                        let revision = self.read_revision(&caller.tenant, &agent).await;
                        revisions.insert(agent.clone(), revision);
                    }
                    let admitted = self.admit_under(caller, submission, &revisions[&agent]);
                    match admitted {
                        Ok(job) => self.bind_input(job).await,
                        Err(refused) => Err(refused),
                    }
                }
            });
        }
        self.look_up_refused(&caller.tenant, outcomes).await
    }

    async fn read_submission(
        &self,
        tenant: &Tenant,
        mut given: v1::Submission,
    ) -> Result<Submission, Refusal> {
        let input = match given.input_blob.take() {
            None => Input::Bytes(std::mem::take(&mut given.input).into()),
            Some(_) if !given.input.is_empty() => {
                let words = "the input comes with the submission, or from the blob store, and not both";
                return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "input_blob"));
            }
            Some(blob) => self.find_input(tenant, read_blob_ref("submission.input_blob", &blob)?).await?,
        };
        Ok(Submission {
            agent: read_agent_name("submission.agent", &given.agent)?,
            deadline: read_deadline(given.deadline.as_ref())?,
            not_before: read_optional_timestamp("submission.not_before", given.not_before.as_ref())?,
            input,
            key: given.key,
            labels: given.labels.into_iter().collect(),
            priority: given.priority,
            traceparent: Some(given.traceparent).filter(|traceparent| !traceparent.is_empty()),
            layover: None,
        })
    }

    /// An input in the blob store. Whether it belongs to a job already is asked when it is bound: a submission that is sent
    /// again names one that does.
    async fn find_input(&self, tenant: &Tenant, named: ValueRef) -> Result<Input, Refusal> {
        let found = self.store.find_blob(tenant, named.sha256).await.map_err(|error| refuse_store(&error))?;
        let found = found.filter(|blob| blob.bytes == named.bytes).and_then(|blob| blob.live);
        let live = found.ok_or_else(|| refuse_unknown(named.sha256))?;
        Ok(Input::Blob { reference: named, content: live.content })
    }

    /// An input in the blob store becomes the job's, before the job is stored: of two submissions that name it one is
    /// refused, and what is bound to a job that was not stored after all is swept.
    async fn bind_input(&self, job: SealedJob) -> Result<SealedJob, Refused> {
        let KeptValue::Blob(named) = &job.input else { return Ok(job) };
        let bound = self.store.bind_blob(&job.new.tenant, named.sha256, job.new.job).await;
        let refusal = match bound {
            Ok(true) => return Ok(job),
            Ok(false) => refuse_unknown(named.sha256),
            Err(error) => refuse_store(&error),
        };
        Err(Refused { refusal: Box::new(refusal), key: job.new.key })
    }

    fn admit_under(
        &self,
        caller: &Caller,
        submission: Submission,
        revision: &Result<Revision, Refusal>,
    ) -> Result<SealedJob, Refused> {
        let key = read_key(&submission);
        let admitted = match revision {
            Err(refusal) => Err(refusal.clone()),
            Ok(revision) => self.admit(caller, submission, key, revision),
        };
        admitted.map_err(|refusal| Refused { refusal: Box::new(refusal), key })
    }

    /// Answers what is refused and was submitted before with its job.
    async fn look_up_refused(
        &self,
        tenant: &Tenant,
        outcomes: Vec<Result<SealedJob, Refused>>,
    ) -> Vec<Result<Admission, Refusal>> {
        let keys: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()?.key).collect();
        let found = match self.store.find_submissions(tenant, &keys).await {
            Ok(found) => found.into_iter().map(Ok).collect(),
            // Whether it was submitted is not known, so nothing is refused for good.
            Err(error) => vec![Err(refuse_store(&error)); keys.len()],
        };
        let mut found = found.into_iter();
        let mut answer = |Refused { refusal, key }| match key.and_then(|_| found.next()) {
            Some(Ok(Some(known))) => Ok(Admission::Known(known)),
            Some(Err(unknown)) => Err(unknown),
            Some(Ok(None)) | None => Err(*refusal),
        };
        outcomes
            .into_iter()
            .map(|outcome| outcome.map_or_else(&mut answer, |job| Ok(Admission::New(Box::new(job)))))
            .collect()
    }

    pub(super) async fn read_revision(
        &self,
        tenant: &Tenant,
        agent: &AgentName,
    ) -> Result<Revision, Refusal> {
        let found = self.store.read_agent(tenant, agent).await.map_err(|error| refuse_store(&error))?;
        let found = found.ok_or_else(|| {
            let words = format!("no agent {agent} is declared");
            Refusal::new(Reason::UnknownAgent, words).with_detail("agent", agent).with_next("tenure agents")
        })?;
        let bundle = found.bundle_document.as_deref().map(PolicyBundle::parse).transpose()?;
        let declaration = Declaration::parse(&found.document)?;
        Ok(Revision { declaration, document: found.document.into(), bundle, spent: found.spent })
    }

    fn admit(
        &self,
        caller: &Caller,
        submission: Submission,
        key: Option<SubmissionKey>,
        revision: &Revision,
    ) -> Result<SealedJob, Refusal> {
        let now = self.clock.now();
        let bundle = revision.bundle.as_ref();
        let mut admitted = admit_submission(submission, &revision.declaration, bundle, now)?;
        admit_session(bundle, revision.spent)?;
        let place = Place { tenant: &caller.tenant, generation: self.generation, session: None, job: None };
        let new = self.seal(place, caller.principal.clone(), key, &mut admitted)?;
        let input = match admitted.submission.input {
            Input::Bytes(value) => KeptValue::Beside(value),
            Input::Blob { reference, .. } => KeptValue::Blob(reference),
        };
        Ok(SealedJob { new, document: revision.document.clone(), input })
    }

    pub(super) fn seal(
        &self,
        Place { tenant, generation, session, job }: Place<'_>,
        by: Principal,
        key: Option<SubmissionKey>,
        admitted: &mut Admitted,
    ) -> Result<NewJob, Refusal> {
        let at = self.clock.now();
        let job = job.unwrap_or_else(|| mint_job_id(at));
        let session = session.unwrap_or_else(|| mint_session_id(at));
        let given = admitted.submission.traceparent.take();
        admitted.submission.traceparent = Some(settle_trace(job, given.as_deref()).to_string());
        let header = Header { tenant: tenant.clone(), job, generation, epoch: Epoch(0), run: Run(0) };
        let submitted_by = by.actor.clone();
        let drafts = admitted.drafts(session, by, mint_salt());
        let records = seal_records(&header, Head::genesis(), at, drafts)
            .map_err(|error| Refusal::new(Reason::InvalidArgument, error.to_string()))?;
        let given = &admitted.submission;
        Ok(NewJob {
            tenant: tenant.clone(),
            job,
            session,
            submitted_by,
            generation,
            agent: given.agent.clone(),
            declaration: admitted.declaration,
            bundle: admitted.bundle,
            recovery: admitted.recovery.clone(),
            hops: admitted.hops,
            run_cap: admitted.run_cap,
            budget_micros: admitted.budget.0,
            deadline: admitted.deadline,
            priority: admitted.priority,
            labels: given.labels.clone(),
            requires: admitted.requires.clone(),
            not_before: admitted.not_before,
            cause: given.cause(),
            traceparent: given.traceparent.clone(),
            key,
            records,
            claim: None,
        })
    }
}

fn read_key(given: &Submission) -> Option<SubmissionKey> {
    Some(SubmissionKey { hash: given.key_digest()?, payload: given.payload_digest() })
}
