//! The steps of one run: each begun and finished in the journal, and read back where an earlier run finished it. Finished
//! steps of earlier runs are read page by page, as far as one is asked for; a handler mostly asks for them in the order in
//! which they were finished, so little is kept that was not asked for yet. It executes nothing.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex as Lock, PoisonError},
};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tenure_core::{
    id::Run,
    limits::{RUN_STEPS_MAX, STEP_OUTPUT_MAX_BYTES},
    refusal::Refusal,
    step::{InvalidStepName, StepName},
};
use tenure_proto::{
    convert::run::write_run_ref,
    v1::{
        NewStepFinished, NewStepStarted, ReadStepsRequest, SettledGroup, new_record::Kind,
        worker_service_client::WorkerServiceClient,
    },
};
use tokio::sync::Mutex;

use super::HandlerError;
use crate::{
    effect::ensure_beginning, endpoints::Way, journal::Report, run_calls::RunCalls, run_socket::RunStanding,
};

/// A step that cannot be: no other run would do better.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Its name.
    #[error(transparent)]
    Name(#[from] InvalidStepName),
    /// Another step of this run has the name: it is finished, or under way.
    #[error("the step {name:?} was asked for twice in one run, and a name is unique in its job")]
    AskedTwice {
        /// The name.
        name: String,
    },
    /// There are too many.
    #[error("the run has had {limit} steps, and has no more")]
    TooMany {
        /// The most.
        limit: usize,
    },
    /// What it returned.
    #[error("what the step {name:?} returned has {size_bytes} bytes as JSON, and {limit_bytes} are taken")]
    OutputTooLarge {
        /// The name.
        name: String,
        /// Its size.
        size_bytes: usize,
        /// The largest.
        limit_bytes: usize,
    },
    /// What it returned.
    #[error("what the step {name:?} returned cannot be written as JSON")]
    OutputUnwritable {
        /// The name.
        name: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// What is recorded of it is not of the type that is asked for now.
    #[error("what is recorded of the step {name:?} cannot be read as what it returns now")]
    OutputUnreadable {
        /// The name.
        name: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// What was recorded of it is gone.
    #[error("what was recorded of the step {name:?} was erased, and it is not executed a second time")]
    OutputErased {
        /// The name.
        name: String,
    },
}

/// The steps of one run.
#[derive(Debug)]
pub(crate) struct Steps {
    standing: Arc<RunStanding>,
    asked: Arc<Lock<Asked>>,
    earlier: Mutex<Earlier>,
    calls: RunCalls,
}

/// What this run asked for.
#[derive(Debug, Default)]
struct Asked {
    /// Names that are finished or under way.
    names: HashSet<StepName>,
    /// How often one was asked for.
    count: usize,
    /// Groups of effects that were opened.
    groups: HashSet<StepName>,
}

/// A name that a step of this run has. Dropping it gives the name back, unless the step was settled: one that failed may be
/// asked for again.
#[derive(Debug)]
pub(crate) struct TakenName {
    name: StepName,
    asked: Arc<Lock<Asked>>,
    is_settled: bool,
}

impl TakenName {
    pub(crate) fn name(&self) -> &StepName {
        &self.name
    }

    /// What the step returned is recorded, or about to be: it is not executed again.
    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for TakenName {
    fn drop(&mut self) {
        if !self.is_settled {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).names.remove(&self.name);
        }
    }
}

/// What earlier runs finished, as far as it was read and not asked for yet.
#[derive(Debug)]
struct Earlier {
    finished: BTreeMap<String, Option<Bytes>>,
    /// Groups of effects that were decided.
    groups: BTreeMap<String, SettledGroup>,
    /// Where in the journal to read on. None: all was read.
    next_seq: Option<u64>,
}

impl Steps {
    /// None was asked for yet. Before a first run none can be finished.
    pub(crate) fn new(standing: Arc<RunStanding>) -> Self {
        let next_seq = (standing.grant.run.run > Run(1)).then_some(1);
        let (finished, groups) = (BTreeMap::new(), BTreeMap::new());
        let earlier = Mutex::new(Earlier { finished, groups, next_seq });
        Self { standing, asked: Arc::default(), earlier, calls: RunCalls::default() }
    }

    /// Takes a name that no other step of this run has.
    pub(crate) fn take_name(&self, given: &str) -> Result<TakenName, StepError> {
        let name: StepName = given.parse()?;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.names.contains(&name) {
            return Err(StepError::AskedTwice { name: given.to_owned() });
        }
        if asked.count >= RUN_STEPS_MAX {
            return Err(StepError::TooMany { limit: RUN_STEPS_MAX });
        }
        asked.count += 1;
        asked.names.insert(name.clone());
        Ok(TakenName { name, asked: Arc::clone(&self.asked), is_settled: false })
    }

    /// What an earlier run recorded of the step, where one finished it.
    pub(crate) async fn find_finished(&self, taken: &mut TakenName) -> Result<Option<Bytes>, HandlerError> {
        let mut earlier = self.earlier.lock().await;
        loop {
            if let Some(output) = earlier.finished.remove(taken.name.as_str()) {
                taken.settle();
                let erased = || final_error(StepError::OutputErased { name: taken.name.to_string() });
                return output.map(Some).ok_or_else(erased);
            }
            if !self.read_on(&mut earlier).await? {
                return Ok(None);
            }
        }
    }

    /// What an earlier run decided about a group of effects, where one did.
    pub(crate) async fn find_group(&self, name: &StepName) -> Result<Option<SettledGroup>, Refusal> {
        let mut earlier = self.earlier.lock().await;
        loop {
            if let Some(settled) = earlier.groups.remove(name.as_str()) {
                return Ok(Some(settled));
            }
            if !self.read_on(&mut earlier).await? {
                return Ok(None);
            }
        }
    }

    /// Takes the name of a group; false where this run has opened it before.
    pub(crate) fn take_group(&self, name: &StepName) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).groups.insert(name.clone())
    }

    /// Reads one page more; false where all was read.
    async fn read_on(&self, earlier: &mut Earlier) -> Result<bool, Refusal> {
        let Some(from_seq) = earlier.next_seq else { return Ok(false) };
        let page = self.read_page(from_seq).await?;
        earlier.next_seq = Some(page.next_seq).filter(|next| *next > from_seq);
        for step in page.steps {
            // What was recorded first is what other steps were told.
            earlier.finished.entry(step.name).or_insert(step.output);
        }
        for group in page.groups {
            earlier.groups.entry(group.name.clone()).or_insert(group);
        }
        Ok(true)
    }

    async fn read_page(&self, from_seq: u64) -> Result<tenure_proto::v1::ReadStepsResponse, Refusal> {
        let run = &self.standing.grant.run;
        let request = ReadStepsRequest {
            run: Some(write_run_ref(run)),
            secret: Bytes::copy_from_slice(self.standing.grant.secret.as_bytes()),
            from_seq,
        };
        let call = |mut client: WorkerServiceClient<Way>| {
            let request = request.clone();
            async move { client.read_steps(request).await }
        };
        Ok(self.calls.ask(&self.standing, "steps", call).await?.into_inner())
    }

    /// Says that the step is about to be executed; returns once that is durable. Nothing is begun where a cancel stands, the
    /// run was asked to end, or the session's deadline is reached.
    pub(crate) async fn begin(&self, name: &StepName) -> Result<(), Refusal> {
        self.begin_with(Kind::StepStarted(NewStepStarted { name: name.to_string() })).await
    }

    /// The same with a record that says so in its own way.
    pub(crate) async fn begin_with(&self, record: Kind) -> Result<(), Refusal> {
        ensure_beginning(&self.standing)?;
        self.record(record).await?;
        // The answer may have been long on its way.
        ensure_beginning(&self.standing)?;
        self.standing.ensure_acting()
    }

    /// Says what it returned; returns once that is durable.
    pub(crate) async fn finish(&self, taken: &mut TakenName, output: Bytes) -> Result<(), Refusal> {
        // Before it is known to be durable: whoever stops waiting does not take the record back.
        taken.settle();
        self.record(Kind::StepFinished(NewStepFinished { name: taken.name.to_string(), output })).await
    }

    async fn record(&self, record: Kind) -> Result<(), Refusal> {
        self.standing.ensure_speaking()?;
        let outbox = &self.standing.context.outbox;
        let answer = outbox.add_report(&self.standing.grant.run, Report::Step(record)).await;
        self.standing.read_durable(answer.ok()).map(drop)
    }
}

/// The JSON of what a step returned.
pub(crate) fn write_output<T: Serialize>(name: &StepName, output: &T) -> Result<Bytes, HandlerError> {
    let json = serde_json::to_vec(output)
        .map_err(|source| final_error(StepError::OutputUnwritable { name: name.to_string(), source }))?;
    if json.len() > STEP_OUTPUT_MAX_BYTES {
        return Err(final_error(StepError::OutputTooLarge {
            name: name.to_string(),
            size_bytes: json.len(),
            limit_bytes: STEP_OUTPUT_MAX_BYTES,
        }));
    }
    Ok(json.into())
}

/// What a step returned, from its JSON.
pub(crate) fn read_output<T: DeserializeOwned>(name: &StepName, json: &[u8]) -> Result<T, HandlerError> {
    serde_json::from_slice(json)
        .map_err(|source| final_error(StepError::OutputUnreadable { name: name.to_string(), source }))
}

/// What is wrong with a step is wrong in every run.
pub(crate) fn final_error(error: StepError) -> HandlerError {
    HandlerError::from(error).into_final()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{id::Seq, reason::Reason};
    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        factory::{held_term, run_grant, worker_context},
        guardian::BootInstant,
        held_runs::Orders,
        journal::ReportAnswer,
        runner::Redactor,
    };

    /// Begins a step whose record is durable, under a term that was renewed last at `renewed`.
    async fn begin_step(renewed: BootInstant) -> Result<(), Refusal> {
        let directory = tempfile::tempdir().unwrap();
        let (context, grant) = (Arc::new(worker_context(directory.path())), Arc::new(run_grant(1)));
        context.outbox.open_run(&grant.run, Seq(3));
        let (term, orders) = (Arc::new(held_term(renewed)), watch::Sender::new(Orders::default()));
        let standing = RunStanding::new(
            Arc::clone(&context),
            term,
            Arc::clone(&grant),
            orders.subscribe(),
            Redactor::default(),
        );
        let steps = Steps::new(Arc::new(standing.for_handler(CancellationToken::new())));
        let taken = steps.take_name("fetch").unwrap();
        let answer = async {
            context.outbox.next_outgoing().await;
            context.outbox.answer_report(&grant.run, 1, ReportAnswer::Applied(Seq(4)));
        };
        tokio::join!(steps.begin(taken.name()), answer).0
    }

    /// As where a worker was frozen while the answer was on its way, and nothing has looked at its clock yet.
    #[tokio::test]
    async fn a_step_whose_lease_ran_out_while_it_was_announced_is_not_executed() {
        let now = BootInstant::now();
        assert_eq!(begin_step(now).await, Ok(()));
        let refused = begin_step(now.minus(Duration::from_secs(60))).await.unwrap_err();
        assert_eq!(refused.reason, Reason::LeaseTooShort);
    }

    #[test]
    fn an_output_beyond_the_limit_or_of_another_type_is_a_failure_for_good() {
        let name: StepName = "fetch".parse().unwrap();
        let large = write_output(&name, &"x".repeat(STEP_OUTPUT_MAX_BYTES)).unwrap_err();
        assert!(large.is_final());
        assert_eq!(
            large.to_string(),
            "what the step \"fetch\" returned has 262146 bytes as JSON, and 262144 are taken"
        );
        let other = read_output::<u32>(&name, b"\"three\"").unwrap_err();
        assert!(
            other.is_final()
                && other.to_string().starts_with("what is recorded of the step \"fetch\" cannot")
        );
    }
}
