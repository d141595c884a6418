//! Work that a run gives to an agent: looked up under its key first, then judged from the giver's facts, admitted, and decided in the
//! giver's lane, which stores the new job with the giver's record, in one statement. Neighbours: `worker_service` takes the call,
//! the core judges, `submission` admits.

use tenure_core::{
    admission::Gift,
    declaration::PolicyBundle,
    id::AgentName,
    plan::JobFacts,
    reason::Reason,
    refusal::Refusal,
    routing::RouteMap,
    run_ref::RunRef,
    sending::{
        Denied, GiftKey, Given, Sender, Standing, Way, check_body, check_gift_key, check_giver, judge_giving,
        plan_denial, plan_giving,
    },
};
use tenure_proto::{
    convert::{id::read_agent_name, run::read_run_ref},
    v1,
};
use tenure_store::{EarlierGift, Giver, NewDelivery, NewJob, Submitted};

use super::{
    caller::FleetCaller,
    effects::{check_holder, read_secret},
    joining::deliver,
};
use crate::{
    coordinator::Parts,
    lane::work::{DecideError, Planner},
    metrics::metrics,
    refusals::{refuse_decision, refuse_missing, refuse_store},
    trace::record_admission,
};

/// What is asked for.
pub(super) struct Ask {
    pub(super) run: RunRef,
    way: Way,
    agent: AgentName,
    pub(super) body: Vec<u8>,
    named: Option<String>,
    key: GiftKey,
    traceparent: Option<String>,
}

/// Gives the work, or answers with the job that came of the same before.
pub(super) async fn send_job(
    parts: &Parts,
    caller: &FleetCaller,
    request: v1::SendJobRequest,
) -> Result<v1::SendJobResponse, Refusal> {
    let run = read_run_ref(request.run.as_ref())?;
    let secret = read_secret(parts, caller, &run, &request.secret)?;
    let ask = Ask::read(run, request)?;
    check_holder(parts, &ask.run, &secret).await?;
    let giver = read_giver(parts, &ask).await?;
    if let Some(earlier) = giver.earlier {
        return ask.answer_earlier(earlier);
    }
    let facts = read_facts(parts, &ask.run).await?;
    check_giver(&facts, &ask.run)?;
    let routes = read_routes(giver.bundle_document.as_deref())?;
    let routed = routes.check_edge(&facts.agent, &ask.agent).map_err(Denied::NotRouted);
    let judged = routed.and_then(|()| judge_giving(&facts, ask.way, giver.standing));
    if let Err(denied) = judged {
        return Err(journal_denial(parts, ask, &facts, denied).await);
    }
    let join = routes.find_join(&facts.agent, &ask.agent).filter(|_| ask.way == Way::Send);
    if let Some(join) = join {
        return deliver(parts, ask, &facts, &giver, join).await;
    }
    let gift = ask.gift(&facts, giver.priority);
    let new = parts.submissions.seal_gift(gift, &facts, giver.submitted_by, None).await?;
    let halt = parts.store.find_halt(&new).await.map_err(|error| refuse_store(&error))?;
    if let Some(halt) = halt {
        return Err(journal_denial(parts, ask, &facts, Denied::Halted(halt)).await);
    }
    store_gift(parts, &ask, giver.standing, new, None).await
}

impl Ask {
    fn read(run: RunRef, request: v1::SendJobRequest) -> Result<Self, Refusal> {
        let agent = read_agent_name("agent", &request.agent)?;
        let way = if request.spawn { Way::Spawn } else { Way::Send };
        let named = Some(request.key).filter(|key| !key.is_empty());
        named.as_deref().map_or(Ok(()), check_gift_key)?;
        check_body(&request.body)?;
        let key = GiftKey::of(way, &agent, &request.body, named.as_deref(), request.ordinal);
        let traceparent = Some(request.traceparent).filter(|context| !context.is_empty());
        Ok(Self { run, way, agent, body: request.body.into(), named, key, traceparent })
    }

    pub(super) fn gift(&self, facts: &JobFacts, priority: u8) -> Gift {
        let sender = Sender { job: self.run.job, run: self.run.run, agent: facts.agent.clone() };
        Gift {
            agent: self.agent.clone(),
            body: self.body.clone(),
            way: self.way,
            sender,
            priority,
            traceparent: self.traceparent.clone(),
        }
    }

    fn answer_earlier(&self, earlier: EarlierGift) -> Result<v1::SendJobResponse, Refusal> {
        if earlier.is_same {
            return Ok(v1::SendJobResponse {
                job_id: earlier.child.to_string(),
                session_id: earlier.session.to_string(),
                already_sent: true,
            });
        }
        let words = format!(
            "the key {:?} was used for job {}, which was given something else",
            self.named.as_deref().unwrap_or_default(),
            earlier.child.short()
        );
        Err(Refusal::new(Reason::KeyReused, words)
            .with_detail("job", earlier.child)
            .with_next(format!("tenure job {}", earlier.child.short())))
    }
}

async fn read_giver(parts: &Parts, ask: &Ask) -> Result<Giver, Refusal> {
    let found = parts.store.read_giver(&ask.run.tenant, ask.run.job, &ask.key).await;
    found.map_err(|error| refuse_store(&error))?.ok_or_else(|| refuse_missing(&ask.run.job.short()))
}

async fn read_facts(parts: &Parts, run: &RunRef) -> Result<JobFacts, Refusal> {
    let found = parts.store.read_facts(&[(run.tenant.clone(), run.job)]).await;
    let found = found.map_err(|error| refuse_store(&error))?.pop().flatten();
    found.ok_or_else(|| refuse_missing(&run.job.short()))?.map_err(|error| refuse_store(&error))
}

/// The routes that the giver is held to: those that stood when it was admitted.
fn read_routes(bundle: Option<&[u8]>) -> Result<RouteMap, Refusal> {
    let bundle = bundle.map(PolicyBundle::parse).transpose()?;
    Ok(bundle.map(|bundle| bundle.routes()).unwrap_or_default())
}

/// Writes what stood against it, and tells it. Where it cannot be written any more, the run is told that.
pub(super) async fn journal_denial(parts: &Parts, ask: Ask, facts: &JobFacts, denied: Denied) -> Refusal {
    let refusal = denied.refuse(facts);
    let key = (ask.run.tenant.clone(), ask.run.job);
    let planner: Planner = Box::new(move |facts| plan_denial(facts, &ask.run, ask.way, &ask.agent, &denied));
    match parts.lanes.decide(key, planner).await {
        Ok(_) => refusal,
        Err(error) => refuse_decision(error, &facts.job.short()),
    }
}

pub(super) async fn store_gift(
    parts: &Parts,
    ask: &Ask,
    standing: Standing,
    new: NewJob,
    delivery: Option<NewDelivery>,
) -> Result<v1::SendJobResponse, Refusal> {
    let given =
        Given { child: new.job, session: new.session, agent: ask.agent.clone(), key: ask.named.clone() };
    let answer = v1::SendJobResponse {
        job_id: new.job.to_string(),
        session_id: new.session.to_string(),
        already_sent: false,
    };
    let depth = match ask.way {
        Way::Send => None,
        Way::Spawn => Some(standing.depth + 1),
    };
    let (run, way, hops) = (ask.run.clone(), ask.way, new.hops);
    let planner: Planner = Box::new(move |facts| {
        // A run keeps its hops; what was admitted under others is not written.
        if way == Way::Send && facts.hops_left.saturating_sub(1) != hops {
            return Err(Refusal::new(Reason::Overloaded, "the hops of the job changed meanwhile"));
        }
        plan_giving(facts, &run, way, standing, given.clone())
    });
    let gift = tenure_store::Gift { new: new.clone(), key: ask.key, depth, delivery };
    let starts = gift.starts();
    let key = (ask.run.tenant.clone(), ask.run.job);
    match parts.lanes.decide_giving(key, planner, Some(Box::new(gift))).await {
        Ok(decided) => {
            if !starts {
                return Ok(answer);
            }
            let stored = Submitted::Admitted {
                deadline_at: None,
                claimed: false,
                queue_no: None,
                now: decided.facts.now,
            };
            metrics().note_submission(&stored);
            record_admission(&new, Some(&stored), &parts.clock);
            Ok(answer)
        }
        Err(error) => look_again(parts, ask, error).await,
    }
}

/// What could not be written may stand there already: the same was given through another coordinator, or by an attempt whose
/// answer was lost.
async fn look_again(parts: &Parts, ask: &Ask, error: DecideError) -> Result<v1::SendJobResponse, Refusal> {
    let refusal = refuse_decision(error, &ask.run.job.short());
    match read_giver(parts, ask).await {
        Ok(Giver { earlier: Some(earlier), .. }) => ask.answer_earlier(earlier),
        Ok(_) | Err(_) => Err(refusal),
    }
}
