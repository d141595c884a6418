//! Every call of the protocol with every credential: each cell is answered as the table here says. The methods come from
//! the protocol's description, so that a new one without a row fails. A foreign caller names what is another tenant's, and is
//! answered exactly as if there were no such thing.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use prost::Message;
use tenure_core::{
    credential::{
        Scope::{self, Administer, Operate, Read, Submit, Work},
        Token,
    },
    reason::Reason,
};
use tenure_proto::{status::status_to_refusal, v1};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_request::MessageRequest};

use super::{
    raw::{call, described_methods},
    scene::{Scene, apply, issue, issue_until, submit},
};
use crate::{
    fleet::{PLAIN_AGENT, Way, submission},
    worker::{Registration, Worker, introduction, register},
};

/// What is answered to whoever is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// A message.
    Given,
    /// A refusal of the service behind the gate.
    Refused(Reason),
    /// What is answered where there is no such thing.
    AsUnknown(Reason),
}

use Answer::{AsUnknown, Given, Refused};

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Everybody.
    Nothing,
    /// A token with this scope.
    Token(Scope),
}

use Needs::{Nothing, Token as Bearer};

struct Row {
    method: &'static str,
    needs: Needs,
    request: fn(&Things) -> Vec<u8>,
    /// To a caller of the tenant that has the things.
    own: Answer,
    /// To a caller of another one.
    foreign: Answer,
}

/// What the tenant `acme` has, and what it is called.
#[derive(Debug, Clone)]
struct Things {
    job: String,
    /// One that may be cancelled.
    spare: String,
    /// One that may be given up.
    unwanted: String,
    run: v1::RunRef,
    secret: Vec<u8>,
    registration: Registration,
}

const UNKNOWN_JOB: Answer = AsUnknown(Reason::JobNotFound);

const ROWS: [Row; 45] = [
    row("tenure.v1.JobService/SubmitJob", Bearer(Submit), submit_job, Given, AsUnknown(Reason::UnknownAgent)),
    // A batch is answered for each item.
    row("tenure.v1.JobService/SubmitJobs", Bearer(Submit), submit_jobs, Given, Given),
    row("tenure.v1.JobService/GetJob", Bearer(Read), get_job, Given, UNKNOWN_JOB),
    row("tenure.v1.JobService/ListJobs", Bearer(Read), nothing, Given, Given),
    row("tenure.v1.JobService/WatchJob", Bearer(Read), watch_job, Given, UNKNOWN_JOB),
    row("tenure.v1.JobService/ListRecords", Bearer(Read), list_records, Given, UNKNOWN_JOB),
    row("tenure.v1.JobService/ReadOutput", Bearer(Read), read_output, Given, UNKNOWN_JOB),
    row("tenure.v1.JobService/ListEffects", Bearer(Read), list_effects, Given, UNKNOWN_JOB),
    row("tenure.v1.JobService/ListUndecided", Bearer(Read), list_undecided, Given, UNKNOWN_JOB),
    row(
        "tenure.v1.JobService/GetResult",
        Bearer(Read),
        get_result,
        Refused(Reason::ResultNotFound),
        UNKNOWN_JOB,
    ),
    // Nothing of a value comes after its length.
    row(
        "tenure.v1.JobService/PutBlob",
        Bearer(Submit),
        put_blob,
        Refused(Reason::InvalidArgument),
        Refused(Reason::InvalidArgument),
    ),
    row("tenure.v1.JobService/GetBlob", Bearer(Read), get_blob, Refused(Reason::BlobNotFound), UNKNOWN_JOB),
    row(
        "tenure.v1.JobService/EraseJob",
        Bearer(Administer),
        erase_job,
        Refused(Reason::VerbNotAllowed),
        UNKNOWN_JOB,
    ),
    row("tenure.v1.JobService/CancelJob", Bearer(Operate), cancel_job, Given, UNKNOWN_JOB),
    row(
        "tenure.v1.JobService/RecoverJob",
        Bearer(Operate),
        recover_job,
        Refused(Reason::VerbNotAllowed),
        UNKNOWN_JOB,
    ),
    row(
        "tenure.v1.JobService/ConfirmGone",
        Bearer(Operate),
        confirm_gone,
        Refused(Reason::VerbNotAllowed),
        UNKNOWN_JOB,
    ),
    row(
        "tenure.v1.JobService/ReconcileEffect",
        Bearer(Operate),
        reconcile_effect,
        Refused(Reason::VerbNotAllowed),
        UNKNOWN_JOB,
    ),
    row(
        "tenure.v1.JobService/ReopenJob",
        Bearer(Operate),
        reopen_job,
        Refused(Reason::VerbNotAllowed),
        UNKNOWN_JOB,
    ),
    row("tenure.v1.JobService/AbandonJob", Bearer(Operate), abandon_job, Given, UNKNOWN_JOB),
    row(
        "tenure.v1.JobService/ResumeJob",
        Bearer(Operate),
        resume_job,
        Refused(Reason::VerbNotAllowed),
        UNKNOWN_JOB,
    ),
    row("tenure.v1.AttentionService/GetAttention", Bearer(Read), nothing, Given, Given),
    // A halt of an agent that nobody has; it is of the caller's own tenant.
    row("tenure.v1.HaltService/ThrowHalt", Bearer(Operate), throw_halt, Given, Given),
    row(
        "tenure.v1.HaltService/LiftHalt",
        Bearer(Operate),
        lift_halt,
        Refused(Reason::HaltNotStanding),
        AsUnknown(Reason::HaltNotStanding),
    ),
    row("tenure.v1.HaltService/ListHalts", Bearer(Read), nothing, Given, Given),
    row("tenure.v1.JobService/GetSession", Bearer(Read), get_session, Given, UNKNOWN_JOB),
    row("tenure.v1.JobService/RaiseLimit", Bearer(Operate), raise_limit, Given, UNKNOWN_JOB),
    row("tenure.v1.JobService/SteerJob", Bearer(Operate), steer_job, Given, UNKNOWN_JOB),
    // The declaration becomes the caller's own; nothing of another tenant's is touched.
    row("tenure.v1.AgentService/ApplyAgents", Bearer(Administer), apply_agents, Given, Given),
    row("tenure.v1.AgentService/ListAgents", Bearer(Read), nothing, Given, Given),
    row("tenure.v1.AgentService/ListMemories", Bearer(Read), list_memories, Given, Given),
    // A registration is for the caller's own tenants, whatever its name.
    row("tenure.v1.WorkerService/RegisterWorker", Bearer(Work), register_worker, Given, Given),
    row("tenure.v1.WorkerService/Attach", Bearer(Work), attach, Given, Refused(Reason::AttachRefused)),
    row("tenure.v1.WorkerService/ReadEffect", Bearer(Work), read_effect, Given, AsUnknown(Reason::Fenced)),
    row("tenure.v1.WorkerService/ReadSteps", Bearer(Work), read_steps, Given, AsUnknown(Reason::Fenced)),
    row(
        "tenure.v1.WorkerService/ReadStepToUndo",
        Bearer(Work),
        read_step_to_undo,
        Given,
        AsUnknown(Reason::Fenced),
    ),
    row("tenure.v1.WorkerService/AskWait", Bearer(Work), ask_wait, Given, AsUnknown(Reason::Fenced)),
    row("tenure.v1.WorkerService/BookLayover", Bearer(Work), book_layover, Given, AsUnknown(Reason::Fenced)),
    row(
        "tenure.v1.WorkerService/ReadInput",
        Bearer(Work),
        read_input,
        Refused(Reason::BlobNotFound),
        AsUnknown(Reason::Fenced),
    ),
    // This coordinator has no blob store.
    row(
        "tenure.v1.WorkerService/PutResult",
        Bearer(Work),
        put_result,
        Refused(Reason::InputTooLarge),
        AsUnknown(Reason::Fenced),
    ),
    row("tenure.v1.WorkerService/SendJob", Bearer(Work), send_job, Given, AsUnknown(Reason::Fenced)),
    row(
        "tenure.v1.WorkerService/ReportGone",
        Nothing,
        report_gone,
        Refused(Reason::GoneRefused),
        Refused(Reason::GoneRefused),
    ),
    row("tenure.v1.WorkerService/ListWorkers", Bearer(Read), nothing, Given, Given),
    row("grpc.health.v1.Health/Check", Nothing, check_health, Given, Given),
    row("grpc.health.v1.Health/Watch", Nothing, check_health, Given, Given),
    row("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Bearer(Read), reflect, Given, Given),
];

const fn row(
    method: &'static str,
    needs: Needs,
    request: fn(&Things) -> Vec<u8>,
    own: Answer,
    foreign: Answer,
) -> Row {
    Row { method, needs, request, own, foreign }
}

fn nothing(_: &Things) -> Vec<u8> {
    Vec::new()
}

fn submit_job(_: &Things) -> Vec<u8> {
    v1::SubmitJobRequest { submission: Some(submission("plain")) }.encode_to_vec()
}

fn submit_jobs(_: &Things) -> Vec<u8> {
    v1::SubmitJobsRequest { submissions: vec![submission("plain")] }.encode_to_vec()
}

fn get_job(things: &Things) -> Vec<u8> {
    v1::GetJobRequest { job: things.job.clone() }.encode_to_vec()
}

fn watch_job(things: &Things) -> Vec<u8> {
    v1::WatchJobRequest { job: things.job.clone(), from_seq: 1 }.encode_to_vec()
}

fn list_records(things: &Things) -> Vec<u8> {
    v1::ListRecordsRequest { job: things.job.clone(), ..Default::default() }.encode_to_vec()
}

fn read_output(things: &Things) -> Vec<u8> {
    v1::ReadOutputRequest { job: things.job.clone(), ..Default::default() }.encode_to_vec()
}

fn list_effects(things: &Things) -> Vec<u8> {
    v1::ListEffectsRequest { job: things.job.clone(), ..Default::default() }.encode_to_vec()
}

fn list_undecided(things: &Things) -> Vec<u8> {
    v1::ListUndecidedRequest { job: things.job.clone(), ..Default::default() }.encode_to_vec()
}

fn get_result(things: &Things) -> Vec<u8> {
    v1::GetResultRequest { job: things.job.clone(), accept_blob: true }.encode_to_vec()
}

fn put_blob(_: &Things) -> Vec<u8> {
    v1::PutBlobRequest { part: Some(v1::put_blob_request::Part::Bytes(1)) }.encode_to_vec()
}

fn get_blob(things: &Things) -> Vec<u8> {
    v1::GetBlobRequest { job: things.job.clone(), sha256: vec![7; 32].into() }.encode_to_vec()
}

fn erase_job(things: &Things) -> Vec<u8> {
    let part = v1::ErasedPart::Output.into();
    v1::EraseJobRequest { job: things.job.clone(), part, why: "asked for".into() }.encode_to_vec()
}

fn cancel_job(things: &Things) -> Vec<u8> {
    v1::CancelJobRequest { job: things.spare.clone(), why: "no longer wanted".into() }.encode_to_vec()
}

fn recover_job(things: &Things) -> Vec<u8> {
    v1::RecoverJobRequest { job: things.job.clone(), why: "to try again".into() }.encode_to_vec()
}

fn confirm_gone(things: &Things) -> Vec<u8> {
    let (job, epoch) = (things.job.clone(), things.run.epoch);
    v1::ConfirmGoneRequest { job, epoch, why: "looked".into() }.encode_to_vec()
}

fn reconcile_effect(things: &Things) -> Vec<u8> {
    let answer = Some(v1::reconcile_effect_request::Answer::NotDone(v1::EffectNotDone {}));
    let (job, why) = (things.job.clone(), "looked".into());
    v1::ReconcileEffectRequest { job, key: "publish".into(), answer, why }.encode_to_vec()
}

fn reopen_job(things: &Things) -> Vec<u8> {
    let (job, why) = (things.job.clone(), "answered".into());
    v1::ReopenJobRequest { job, why, accept_declaration: None }.encode_to_vec()
}

fn abandon_job(things: &Things) -> Vec<u8> {
    v1::AbandonJobRequest { job: things.unwanted.clone(), why: "not worth it".into() }.encode_to_vec()
}

fn resume_job(things: &Things) -> Vec<u8> {
    v1::ResumeJobRequest { job: things.job.clone(), why: "to go on".into() }.encode_to_vec()
}

fn throw_halt(_: &Things) -> Vec<u8> {
    v1::ThrowHaltRequest { scope: "agent nobodys".into(), why: "looked".into() }.encode_to_vec()
}

fn lift_halt(_: &Things) -> Vec<u8> {
    v1::LiftHaltRequest { halt: 1_000_000, why: "looked".into() }.encode_to_vec()
}

fn get_session(things: &Things) -> Vec<u8> {
    v1::GetSessionRequest { session: things.job.clone() }.encode_to_vec()
}

fn raise_limit(things: &Things) -> Vec<u8> {
    let (target, limit) = (things.job.clone(), "runs".into());
    v1::RaiseLimitRequest { target, limit, value: "80".into(), why: "to go on".into() }.encode_to_vec()
}

fn steer_job(things: &Things) -> Vec<u8> {
    v1::SteerJobRequest { job: things.job.clone(), note: "the other branch".into() }.encode_to_vec()
}

fn apply_agents(_: &Things) -> Vec<u8> {
    let agent = v1::AgentDeclaration { name: "another".into(), document: PLAIN_AGENT.into() };
    v1::ApplyAgentsRequest { agents: vec![agent], ..Default::default() }.encode_to_vec()
}

fn register_worker(_: &Things) -> Vec<u8> {
    introduction("somebody").encode_to_vec()
}

fn attach(things: &Things) -> Vec<u8> {
    let hello = v1::AttachHello {
        worker: things.registration.name.clone(),
        term: things.registration.term,
        secret: things.registration.secret.clone().into(),
        runs: Vec::new(),
    };
    v1::AttachRequest { message: Some(v1::attach_request::Message::Hello(hello)) }.encode_to_vec()
}

fn list_memories(_: &Things) -> Vec<u8> {
    v1::ListMemoriesRequest { agent: "plain".into(), limit: 0 }.encode_to_vec()
}

fn read_effect(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    v1::ReadEffectRequest { run, secret, key: "publish".into() }.encode_to_vec()
}

fn read_steps(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    v1::ReadStepsRequest { run, secret, from_seq: 1 }.encode_to_vec()
}

fn read_step_to_undo(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    v1::ReadStepToUndoRequest { run, secret, keys: Vec::new() }.encode_to_vec()
}

fn ask_wait(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    let after = prost_types::Duration { seconds: 60, nanos: 0 };
    let until = Some(v1::WaitUntil { when: Some(v1::wait_until::When::After(after)) });
    v1::AskWaitRequest { run, secret, name: "#1".into(), until, job_ids: Vec::new() }.encode_to_vec()
}

fn book_layover(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    let after = prost_types::Duration { seconds: 60, nanos: 0 };
    let until = Some(v1::WaitUntil { when: Some(v1::wait_until::When::After(after)) });
    v1::BookLayoverRequest { run, secret, until, waiting_for: "the review".into() }.encode_to_vec()
}

fn read_input(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    v1::ReadInputRequest { run, secret, sha256: vec![7; 32].into() }.encode_to_vec()
}

fn put_result(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    let head = v1::ResultHead { run, secret, bytes: 0 };
    v1::PutResultRequest { part: Some(v1::put_result_request::Part::Head(head)) }.encode_to_vec()
}

/// The first that is let in gives the work, and the others are answered with the same job.
fn send_job(things: &Things) -> Vec<u8> {
    let (run, secret) = (Some(things.run.clone()), things.secret.clone().into());
    let (agent, body) = ("plain".to_owned(), b"more".to_vec().into());
    v1::SendJobRequest { run, secret, agent, body, ordinal: 1, ..Default::default() }.encode_to_vec()
}

/// With a secret that was made up: with the run's own it would be taken from everybody.
fn report_gone(things: &Things) -> Vec<u8> {
    v1::ReportGoneRequest {
        tenant: things.run.tenant.clone(),
        job_id: things.run.job_id.clone(),
        epoch: things.run.epoch,
        generation: things.run.generation,
        secret: vec![7; 32].into(),
        end: Some(v1::RunEnd { how: Some(v1::run_end::How::ExitCode(0)) }),
        ended_by_guardian: true,
    }
    .encode_to_vec()
}

fn check_health(_: &Things) -> Vec<u8> {
    HealthCheckRequest { service: String::new() }.encode_to_vec()
}

fn reflect(_: &Things) -> Vec<u8> {
    let message_request = Some(MessageRequest::ListServices(String::new()));
    ServerReflectionRequest { host: String::new(), message_request }.encode_to_vec()
}

/// A caller, and why nobody lets them in; none: they are somebody.
struct Caller {
    name: String,
    way: Way,
    scope: Option<Scope>,
    foreign: bool,
    turned_away: Option<Reason>,
}

impl Caller {
    /// What is declared for a cell.
    ///
    /// Provokes `SCOPE_MISSING`.
    fn expected(&self, row: &Row) -> Answer {
        let granted = if self.foreign { row.foreign } else { row.own };
        match (row.needs, self.turned_away) {
            (Nothing, _) => granted,
            (Bearer(_), Some(reason)) => Refused(reason),
            (Bearer(scope), None) if self.scope != Some(scope) => Refused(Reason::ScopeMissing),
            (Bearer(_), None) => granted,
        }
    }
}

/// Everybody who calls: with each scope for either tenant, and in each way in which a credential can be none.
async fn gather_callers(scene: &mut Scene) -> Vec<Caller> {
    let mut wanted = Vec::new();
    for scope in Scope::ALL {
        wanted.push((format!("acme {scope}"), issue("acme", &[scope]), Some(scope), false, None));
        wanted.push((format!("other {scope}"), issue("other", &[scope]), Some(scope), true, None));
    }
    let past = "2020-01-01T00:00:00Z".parse().unwrap();
    let expired = issue_until("acme", &Scope::ALL, past);
    wanted.push(("expired".into(), expired, None, false, Some(Reason::CredentialExpired)));
    let (mut callers, mut given) = (Vec::new(), Vec::new());
    for (name, issued, scope, foreign, turned_away) in wanted {
        let way = scene.way(&issued.0);
        callers.push(Caller { name, way, scope, foreign, turned_away });
        given.push(issued);
    }
    // A token that is known last tells that all are.
    given.push(issue("acme", &Scope::ALL));
    let own = scene.give_out(given).await.pop().unwrap();
    let unknown = scene.way(&issue("acme", &Scope::ALL).0);
    for (name, way, reason) in [
        ("nobody", scene.anonymous(), Reason::CredentialMissing),
        ("unknown", unknown, Reason::CredentialInvalid),
        ("of acme, who means other", scene.way_for(&own, "other"), Reason::TenantNotGranted),
    ] {
        callers.push(Caller {
            name: name.into(),
            way,
            scope: None,
            foreign: false,
            turned_away: Some(reason),
        });
    }
    callers
}

async fn make_things(scene: &Scene, every: &Token) -> (Things, Worker) {
    let acme = scene.way_for(every, "acme");
    apply(acme.clone()).await;
    let mut worker = Worker::start_at(&acme, "of-acme", 1).await;
    let job = submit(acme.clone()).await;
    let grant = worker.hear_grant().await;
    // What it says is readable: output, of which the first message is one.
    let output = v1::WriteOutput {
        run: grant.run.clone(),
        chunk: 0,
        stream: v1::OutputStream::Stdout.into(),
        bytes: "a secret of acme".into(),
    };
    worker.say(v1::attach_request::Message::WriteOutput(output)).await;
    worker
        .hear(|message| match message {
            v1::attach_response::Message::OutputWritten(_) => Some(()),
            _ => None,
        })
        .await;
    let spare = submit(acme.clone()).await;
    let unwanted = submit(acme.clone()).await;
    let registration = register(&acme, introduction("idle-acme")).await;
    let (run, secret) = (grant.run.unwrap(), grant.secret.to_vec());
    (Things { job, spare, unwanted, run, secret, registration }, worker)
}

/// The same things by names that nobody has.
fn unknown(things: &Things) -> Things {
    let job = "0193a7c2-1111-7000-8000-00000000abcd".to_owned();
    let run = v1::RunRef { job_id: job.clone(), ..things.run.clone() };
    Things { job: job.clone(), spare: job.clone(), unwanted: job, run, ..things.clone() }
}

/// A message for every call, about things that nobody has.
pub(super) fn made_up_calls() -> Vec<(&'static str, Vec<u8>)> {
    let job = "0193a7c2-1111-7000-8000-00000000abcd".to_owned();
    let run = v1::RunRef { tenant: "acme".into(), job_id: job.clone(), epoch: 1, run: 1, generation: 1 };
    let registration = Registration { name: "nobody".into(), term: 1, secret: vec![7; 32], answer: 1 };
    let (spare, unwanted) = (job.clone(), job.clone());
    let things = Things { job, spare, unwanted, run, secret: vec![7; 32], registration };
    ROWS.iter().map(|row| (row.method, (row.request)(&things))).collect()
}

/// A status with what differs by the name alone made equal.
fn faceless(status: &Status, things: &Things) -> (Code, String, Vec<u8>) {
    let short = |job: &str| job[job.len() - 6..].to_owned();
    let names = [&things.job, &things.spare, &things.unwanted].map(|job| (job.clone(), short(job)));
    let hide = |text: &str| {
        names
            .iter()
            .fold(text.to_owned(), |text, (job, short)| text.replace(job, "JOB").replace(short, "SHORT"))
    };
    let details = status_to_refusal(status).map(|refusal| {
        let details: Vec<_> =
            refusal.details.iter().map(|(name, value)| (name.clone(), hide(value))).collect();
        format!("{:?} {details:?} {:?}", refusal.reason, refusal.next.as_deref().map(hide))
    });
    (status.code(), hide(status.message()), details.unwrap_or_default().into_bytes())
}

fn reason_of(status: &Status) -> Reason {
    status_to_refusal(status).unwrap_or_else(|| panic!("a refusal of ours, and not {status:?}")).reason
}

/// What must not be in any answer to somebody of another tenant, unless they said it themselves.
fn check_nothing_leaks(cell: &str, answer: &Result<Vec<u8>, Status>, asked: &[u8], things: &Things) {
    let text = match answer {
        Ok(bytes) => bytes.clone(),
        Err(status) => [status.message().as_bytes(), status.details()].concat(),
    };
    let held = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    for word in ["acme", "a secret of", &things.job, &things.spare, &things.unwanted, &things.run.job_id] {
        assert!(!held(&text, word) || held(asked, word), "{cell}: {word} is in the answer");
    }
}

async fn check_cell(caller: &Caller, row: &Row, things: &Things) {
    let cell = format!("{} by {}", row.method, caller.name);
    let asked = (row.request)(things);
    let answer = call(caller.way.clone(), row.method, asked.clone()).await;
    if caller.foreign {
        check_nothing_leaks(&cell, &answer, &asked, things);
    }
    match (caller.expected(row), &answer) {
        (Given, Ok(_)) => {}
        (Refused(reason) | AsUnknown(reason), Err(status)) => assert_eq!(reason_of(status), reason, "{cell}"),
        (expected, answered) => panic!("{cell}: {expected:?} was declared, and {answered:?} came"),
    }
    if let (AsUnknown(_), Err(status)) = (caller.expected(row), &answer) {
        let nobodys = unknown(things);
        let same = call(caller.way.clone(), row.method, (row.request)(&nobodys)).await.unwrap_err();
        assert_eq!(faceless(status, things), faceless(&same, &nobodys), "{cell}");
    }
}

#[test]
fn every_call_of_the_protocol_has_a_row() {
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.method.to_owned()).collect();
    assert_eq!(rows.len(), ROWS.len());
    assert_eq!(rows, described_methods());
}

#[tokio::test]
async fn every_call_is_answered_as_the_table_says_for_every_scope_and_tenant() {
    let (mut scene, every) = Scene::start().await;
    let (things, _worker) = make_things(&scene, &every).await;
    let callers = gather_callers(&mut scene).await;
    for caller in &callers {
        // Side by side: refusals are held back for a moment.
        join_all(ROWS.iter().map(|row| check_cell(caller, row, &things))).await;
    }
}

#[tokio::test]
async fn a_guardian_needs_no_token_and_the_secret_of_its_run() {
    let (scene, every) = Scene::start().await;
    let (things, _worker) = make_things(&scene, &every).await;
    let mut report = v1::ReportGoneRequest::decode(report_gone(&things).as_slice()).unwrap();
    report.secret = things.secret.clone().into();
    let method = "tenure.v1.WorkerService/ReportGone";
    call(scene.anonymous(), method, report.encode_to_vec()).await.unwrap();
    // A secret of this fleet, of another run: known as one of ours, and not as that run's.
    report.job_id = things.spare.clone();
    let refused = call(scene.anonymous(), method, report.encode_to_vec()).await.unwrap_err();
    assert_eq!(reason_of(&refused), Reason::GoneRefused);
}
