//! What a lane makes of reports and decisions, without a database: composing is pure.

use std::collections::VecDeque;

use jiff::Timestamp;
use tenure_core::{
    admission::Amount,
    chain::Head,
    effect::{Compensation, Disposition, Doubts, EffectAct, EffectRecovery, StepsToUndo},
    id::{Digest, Epoch, Generation, Run, Seq, SessionId, Tenant, Term},
    job::State,
    plan::{Decision, Fencing, JobFacts, LeaseChange, LeaseFacts},
    principal::Principal,
    reason::Reason,
    record::{Draft, RecordKind},
    recovery::{Policy, RecoveryPolicy},
    run_ref::RunRef,
    settlement::{EndReport, RunEnd},
};
use tenure_store::{AppendOutcome, Guard};
use tokio::sync::oneshot;

use super::{
    compose::{Composed, Known, compose_job},
    memory::{KnownAppend, Memories, RunMemory},
    round::{ATTEMPTS_MAX, fail, sort_waiting},
    work::{Decide, LaneError, Pending, Reply, ReportAnswer, ReportBody, ReportStream, RunReport, Work},
};
use crate::mint::{mint_job_id, salt_value};

type Answer = oneshot::Receiver<Result<ReportAnswer, LaneError>>;

fn run() -> RunRef {
    let job = mint_job_id(Timestamp::UNIX_EPOCH);
    let (tenant, generation) = (Tenant::default_tenant(), Generation(1));
    RunRef { tenant, job, epoch: Epoch(1), run: Run(1), generation }
}

fn head() -> Head {
    Head { seq: Seq(3), hash: Digest::of(b"started") }
}

fn claimed() -> RunMemory {
    RunMemory::of_claim(head(), Timestamp::UNIX_EPOCH, Epoch(1), Run(1))
}

/// What a tail shows that ends with the last of these appends.
fn of_tail(appends: Vec<KnownAppend>) -> RunMemory {
    let seq = appends.last().map_or(head().seq, |known| known.last_seq);
    RunMemory::of_tail(Head { seq, ..head() }, Timestamp::UNIX_EPOCH, Epoch(1), Run(1), appends)
}

fn report(run: &RunRef, n: u64, body: ReportBody) -> (Pending, Answer) {
    let (reply, answer) = Reply::channel();
    let (request, stream) = (Digest::of(&n.to_be_bytes()), ReportStream::default());
    let report = RunReport {
        run: run.clone(),
        n,
        request,
        acknowledged: Seq(3),
        body,
        announces: None,
        stream,
        room: None,
        reply,
    };
    (Pending { work: Work::Report(report), attempts: 0, refused: None }, answer)
}

fn note(run: &RunRef, n: u64) -> (Pending, Answer) {
    let value = salt_value(format!("note {n}").into_bytes());
    let draft = Draft::with_value(value, |text| RecordKind::Note { text });
    report(run, n, ReportBody::Records(vec![draft]))
}

/// A copy of the note with this number, or another note under the same number.
fn copy(run: &RunRef, n: u64, text: &str) -> (Pending, Answer) {
    let (mut pending, answer) = note(run, n);
    if let Work::Report(report) = &mut pending.work {
        report.request = Digest::of(text.as_bytes());
    }
    (pending, answer)
}

fn end(run: &RunRef, n: u64, end: RunEnd, last_notice: Seq) -> (Pending, Answer) {
    let report_of_end = EndReport {
        epoch: run.epoch,
        end,
        result: None,
        output_chunks: 0,
        last_notice,
        unasked: None,
        booking: None,
    };
    report(run, n, ReportBody::End(Box::new(report_of_end), Principal::fleet("worker w1")))
}

fn compose(
    run: &RunRef,
    known: Known,
    pendings: impl IntoIterator<Item = Pending>,
) -> (Vec<Composed>, VecDeque<Pending>) {
    let mut queue: VecDeque<Pending> = pendings.into_iter().collect();
    let share = compose_job(&(run.tenant.clone(), run.job), known, &mut queue, Timestamp::UNIX_EPOCH);
    // What comes too late is answered once it is kept.
    share.late.into_iter().for_each(|late| late.report.reply.send(Ok(late.answer)));
    (share.appends, queue)
}

/// A note that came through this stream.
fn through(stream: &ReportStream, run: &RunRef, n: u64) -> (Pending, Answer) {
    let (mut pending, answer) = note(run, n);
    if let Work::Report(report) = &mut pending.work {
        report.stream = stream.clone();
    }
    (pending, answer)
}

/// The numbers of the reports that are left to be composed, in order.
fn numbers(waiting: Vec<Pending>) -> Vec<u64> {
    let queues = sort_waiting(waiting.into(), &mut Memories::new(8));
    let left = queues.iter().flat_map(|(_, queue)| queue);
    left.filter_map(|pending| match &pending.work {
        Work::Report(report) => Some(report.n),
        _ => None,
    })
    .collect()
}

fn remembered(memory: RunMemory) -> Known {
    Known { memory: Some(memory), read: false, facts: None }
}

fn read(memory: RunMemory) -> Known {
    Known { memory: Some(memory), read: true, facts: None }
}

fn told(mut answer: Answer) -> ReportAnswer {
    answer.try_recv().expect("an answer").expect("no failure")
}

#[test]
fn appends_of_one_job_follow_one_another_in_the_chain() {
    let run = run();
    let (first, _a) = note(&run, 1);
    let (second, _b) = note(&run, 2);
    let (composed, left) = compose(&run, remembered(claimed()), [first, second]);
    assert!(left.is_empty());
    let [first, second] = composed.as_slice() else { panic!("two appends") };
    assert_eq!(first.append.head, head());
    assert_eq!(second.append.head.seq, Seq(4));
    assert_eq!(second.append.head.hash, first.append.records[0].hash);
    assert_eq!((second.append.records[0].seq, second.append.n), (Seq(5), Some(2)));
    assert_eq!(second.append.guard, Guard::Lease(Epoch(1)));
}

#[test]
fn a_success_is_written_from_memory_and_nothing_follows_it() {
    let run = run();
    let (note, _a) = note(&run, 1);
    let (end, _b) = end(&run, 2, RunEnd::ExitCode(0), Seq(0));
    let (late, _c) = self::note(&run, 3);
    let (composed, left) = compose(&run, remembered(claimed()), [note, end, late]);
    assert_eq!((composed.len(), left.len()), (2, 1));
    let changes = &composed[1].append.changes;
    assert_eq!(changes.lease, LeaseChange::Delete);
    assert_eq!(changes.job.as_ref().and_then(|job| job.state), Some(State::Succeeded));
}

/// The announcement of an effect, and its outcome.
fn announce(run: &RunRef, n: u64, name: &str, mutates: bool) -> (Pending, Answer) {
    let draft = Draft::with_value(salt_value(b"{}".to_vec()), |request| RecordKind::EffectStarted {
        key: name.parse().unwrap(),
        attempt: 1,
        recovery: EffectRecovery::Ask,
        mutates,
        tool: "git".to_owned(),
        compensation: Compensation::Undeclared,
        request,
    });
    let draft = Draft { request: Some(Digest::of(b"push")), ..draft };
    let (mut pending, answer) = report(run, n, ReportBody::Records(vec![draft]));
    if let Work::Report(report) = &mut pending.work {
        report.announces = Some(Seq(0));
    }
    (pending, answer)
}

fn settle(run: &RunRef, n: u64, name: &str, disposition: Disposition) -> (Pending, Answer) {
    let draft = Draft::with_value(salt_value(Vec::new()), |error| RecordKind::EffectFailed {
        key: name.parse().unwrap(),
        attempt: 1,
        disposition,
        exit_code: None,
        error,
    });
    report(run, n, ReportBody::Records(vec![draft]))
}

/// The memory after these were composed and written, round after round.
fn remember_written(run: &RunRef, mut memory: RunMemory, pendings: Vec<Pending>) -> RunMemory {
    let mut left = VecDeque::from(pendings);
    while !left.is_empty() {
        let (composed, rest) = compose(run, remembered(memory.clone()), left);
        assert!(!composed.is_empty(), "{} are left", rest.len());
        for Composed { append, .. } in &composed {
            let last = append.records.last().unwrap();
            memory.advance(Head { seq: last.seq, hash: last.hash }, last.at);
            memory.note_append(append.n.unwrap(), append.request.unwrap());
            memory.note_effects(&append.records);
        }
        left = rest;
    }
    memory
}

#[test]
fn a_success_is_written_from_memory_only_while_nothing_that_mutates_is_open() {
    let run = run();
    for (mutates, settled, from_memory) in [
        (false, None, true),
        (true, None, false),
        (true, Some(Disposition::InDoubt), false),
        (true, Some(Disposition::DidNotHappen), true),
        (true, Some(Disposition::Landed), true),
    ] {
        let mut pendings = vec![announce(&run, 1, "push", mutates)];
        pendings.extend(settled.map(|disposition| settle(&run, 2, "push", disposition)));
        let (pendings, _answers): (Vec<_>, Vec<_>) = pendings.into_iter().unzip();
        let memory = remember_written(&run, claimed(), pendings);
        let (note, _note) = note(&run, 3);
        let (end, _answer) = end(&run, 4, RunEnd::ExitCode(0), Seq(0));
        let (composed, left) = compose(&run, remembered(memory), [note, end]);
        assert_eq!(composed.len(), 1 + usize::from(from_memory), "{mutates} {settled:?}");
        assert_eq!(left.len(), usize::from(!from_memory), "{mutates} {settled:?}");
    }
    // Of a later run it is not known what earlier ones left open.
    let later = RunMemory::of_claim(head(), Timestamp::UNIX_EPOCH, Epoch(1), Run(2));
    let (note, _note) = note(&run, 1);
    let (end, _answer) = end(&run, 2, RunEnd::ExitCode(0), Seq(0));
    let (composed, left) = compose(&run, remembered(later), [note, end]);
    assert_eq!((composed.len(), left.len()), (1, 1));
}

#[test]
fn an_announcement_waits_until_it_is_known_which_notices_stand() {
    let run = run();
    let (first, mut answer) = announce(&run, 1, "push", true);
    let (note, _note) = note(&run, 2);
    let (composed, left) = compose(&run, remembered(of_tail(Vec::new())), [note, first]);
    assert_eq!((composed.len(), left.len()), (1, 1));
    assert!(answer.try_recv().is_err());
    let mut memory = claimed();
    memory.advance(head().extend(b"cancel"), Timestamp::UNIX_EPOCH);
    memory.note_notice("cancel_requested");
    let (composed, _) = compose(&run, remembered(memory), left);
    assert!(composed.is_empty());
    assert!(matches!(told(answer), ReportAnswer::Notice(notice) if notice.seq == Seq(4)));
}

#[test]
fn a_permission_that_was_given_is_not_given_again_without_a_look_at_the_lease() {
    let run = run();
    let known = KnownAppend { n: 1, request: Digest::of(&1_u64.to_be_bytes()), last_seq: Seq(4) };
    let (behind, mut answer) = announce(&run, 1, "push", true);
    let (front, _note) = note(&run, 1);
    let (_, left) = compose(&run, remembered(of_tail(vec![known])), [front, behind]);
    assert_eq!(left.len(), 1, "the lease was read for nobody, or for another");
    assert!(answer.try_recv().is_err());
}

/// A running job under the lease of the run.
fn running_facts(run: &RunRef) -> JobFacts {
    let lease = LeaseFacts {
        epoch: run.epoch,
        run_epoch: run.epoch,
        worker: "w1".parse().unwrap(),
        term: Term(7),
        live: true,
        term_closed: false,
        fencing: Fencing::Kernel,
        granted_at: Timestamp::UNIX_EPOCH,
        abandon: None,
        refused: None,
        steer: None,
    };
    let recovery = RecoveryPolicy {
        policy: Policy::Automatic,
        max_attempts: 2,
        max_losses: 10,
        backoff_first_ms: 1_000,
        backoff_max_ms: 300_000,
        final_exit_codes: Vec::new(),
        unwind_on_failure: false,
    };
    JobFacts {
        tenant: run.tenant.clone(),
        job: run.job,
        session: SessionId(run.job.0),
        agent: "notes".parse().unwrap(),
        declaration: Digest::of(b"declaration"),
        unheld_bundle: None,
        recovery,
        state: State::Running,
        reason: None,
        run: run.run,
        attempts: 1,
        losses: 0,
        hops_left: 16,
        submitted_by: Some("ada".to_owned()),
        halts: Vec::new(),
        runs: Amount { used: 1, limit: 64 },
        budget_micros: Amount { used: 0, limit: 5_000_000 },
        cancel_requested: None,
        interruption: None,
        set_aside: None,
        wait: None,
        plan_frozen: true,
        doubts: Doubts::default(),
        steps: StepsToUndo::default(),
        landed: 0,
        compensated: 0,
        unwinding: None,
        head: head(),
        head_epoch: run.epoch,
        head_at: Timestamp::UNIX_EPOCH,
        head_kind: "run_started".to_owned(),
        lease: Some(lease),
        started_at: Timestamp::UNIX_EPOCH,
        deadline_at: None,
        generation: run.generation,
        now: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn a_permission_is_not_given_again_from_a_memory_that_the_facts_contradict() {
    let run = run();
    let known = KnownAppend { n: 1, request: Digest::of(&1_u64.to_be_bytes()), last_seq: Seq(4) };
    for read in [false, true] {
        let (again, mut answer) = announce(&run, 1, "push", true);
        // The journal ends elsewhere than is remembered: the announcement may be lost with what came after it.
        let facts = running_facts(&run);
        let memory = of_tail(vec![known]);
        let (_, left) = compose(&run, Known { memory: Some(memory), read, facts: Some(facts) }, [again]);
        assert_eq!(left.front().map(|pending| pending.attempts), Some(1), "it is looked up again");
        assert!(answer.try_recv().is_err());
    }
    let facts = JobFacts { head: of_tail(vec![known]).head, ..running_facts(&run) };
    for (generation, permitted) in [(Generation(1), true), (Generation(2), false), (Generation::NONE, false)]
    {
        let (again, answer) = announce(&run, 1, "push", true);
        let facts = JobFacts { generation, ..facts.clone() };
        compose(&run, Known { memory: Some(of_tail(vec![known])), read: false, facts: Some(facts) }, [again]);
        assert_eq!(told(answer) == ReportAnswer::Applied(Seq(4)), permitted, "{generation}");
    }
}

#[test]
fn what_is_said_of_one_effect_in_two_appends_is_composed_in_two_rounds_and_counts_no_attempt() {
    let run = run();
    let (started, _started) = announce(&run, 1, "push", true);
    let (other, _other) = announce(&run, 2, "pull", true);
    let (done, _done) = settle(&run, 3, "push", Disposition::Landed);
    let (note, _note) = note(&run, 4);
    let (composed, left) = compose(&run, remembered(claimed()), [started, other, done, note]);
    let numbers = |of: &[Composed]| of.iter().filter_map(|composed| composed.append.n).collect::<Vec<_>>();
    assert_eq!(numbers(&composed), [1, 2]);
    assert_eq!(left.iter().map(|pending| pending.attempts).collect::<Vec<_>>(), [0, 0]);
    let mut memory = claimed();
    let last = composed[1].append.records[0].clone();
    memory.advance(Head { seq: last.seq, hash: last.hash }, last.at);
    let (composed, left) = compose(&run, remembered(memory), left);
    assert_eq!((numbers(&composed), left.len()), (vec![3, 4], 0));
}

#[test]
fn what_comes_too_late_is_set_apart_with_its_outcomes_before_it_is_answered() {
    let run = run();
    for refused in [AppendOutcome::Fenced { held_by: None, epoch: Epoch(2) }, AppendOutcome::Sealed] {
        let (mut pending, mut answer) = settle(&run, 1, "push", Disposition::Landed);
        pending.refused = Some(refused);
        let mut queue = VecDeque::from([pending]);
        let share = compose_job(
            &(run.tenant.clone(), run.job),
            read(of_tail(Vec::new())),
            &mut queue,
            Timestamp::UNIX_EPOCH,
        );
        assert!(answer.try_recv().is_err());
        let testimony = share.late[0].report.testimony();
        assert_eq!((share.late.len(), testimony.len(), testimony[0].n), (1, 1, 1));
        assert_eq!(testimony[0].mark.act, EffectAct::Failed(Disposition::Landed));
    }
}

#[test]
fn an_end_that_is_no_success_waits_for_facts_behind_the_notes_before_it() {
    let run = run();
    let (note, _answer) = note(&run, 1);
    let (end, mut answer) = end(&run, 2, RunEnd::ExitCode(1), Seq(0));
    let (composed, left) = compose(&run, remembered(claimed()), [note, end]);
    assert_eq!((composed.len(), left.len()), (1, 1));
    assert!(answer.try_recv().is_err());
}

#[test]
fn an_end_that_has_not_seen_the_last_notice_is_answered_with_it() {
    let run = run();
    let mut memory = claimed();
    memory.advance(head().extend(b"cancel"), Timestamp::UNIX_EPOCH);
    memory.note_notice("cancel_requested");
    let (end, answer) = end(&run, 1, RunEnd::ExitCode(0), Seq(0));
    let (composed, left) = compose(&run, remembered(memory), [end]);
    assert_eq!((composed.len(), left.len()), (0, 0));
    assert!(matches!(told(answer), ReportAnswer::Notice(notice) if notice.seq == Seq(4)));
}

/// All sequences of up to so many of these.
fn sequences<T: Copy>(of: &[T], most: usize) -> Vec<Vec<T>> {
    let mut all = vec![Vec::new()];
    let mut last: Vec<Vec<T>> = all.clone();
    for _ in 0..most {
        let longer =
            |sequence: &Vec<T>| of.iter().map(|item| [&sequence[..], &[*item]].concat()).collect::<Vec<_>>();
        last = last.iter().flat_map(longer).collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn in_whichever_order_copies_come_none_is_answered_from_what_the_round_has_only_composed() {
    let run = run();
    let known = KnownAppend { n: 1, request: Digest::of(b"a"), last_seq: head().seq };
    let tail = || of_tail(vec![known]);
    let knowns = [
        (false, remembered(claimed())),
        (false, read(claimed())),
        (true, remembered(tail())),
        (true, read(tail())),
    ];
    for (there, known) in &knowns {
        for sent in sequences(&[(1, "a"), (1, "b"), (2, "a"), (2, "b")], 4) {
            let known = Known { memory: known.memory.clone(), read: known.read, facts: None };
            let (pendings, answers): (Vec<_>, Vec<_>) =
                sent.iter().map(|(n, text)| copy(&run, *n, text)).unzip();
            let (composed, left) = compose(&run, known, pendings);
            let mut answered = 0;
            for ((n, text), mut answer) in sent.iter().zip(answers) {
                let Ok(answer) = answer.try_recv() else { continue };
                answered += 1;
                assert!(*there && *n == 1, "{n} {text} of {sent:?} was answered with {answer:?}");
                match answer.unwrap() {
                    ReportAnswer::Applied(seq) => assert_eq!((*text, seq), ("a", head().seq)),
                    ReportAnswer::Refused(refusal) => {
                        assert_eq!((*text, refusal.reason), ("b", Reason::AppendConflict));
                    }
                    other => panic!("{n} {text} of {sent:?} was answered with {other:?}"),
                }
            }
            assert_eq!(answered + composed.len() + left.len(), sent.len(), "{sent:?}");
            let mut numbers: Vec<_> = composed.iter().map(|composed| composed.append.n).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), composed.len(), "a number was composed twice of {sent:?}");
        }
    }
}

#[test]
fn a_copy_in_the_round_of_its_first_is_answered_once_that_is_written() {
    let run = run();
    let (first, _first) = copy(&run, 1, "a");
    let (second, mut answer) = copy(&run, 1, "a");
    let (composed, left) = compose(&run, remembered(claimed()), [first, second]);
    assert_eq!((composed.len(), left.len()), (1, 1));
    assert!(answer.try_recv().is_err());
    let mut memory = claimed();
    let written = &composed[0].append.records[0];
    memory.advance(Head { seq: written.seq, hash: written.hash }, written.at);
    memory.note_append(1, Digest::of(b"a"));
    compose(&run, remembered(memory), left);
    assert_eq!(told(answer), ReportAnswer::Applied(Seq(4)));
}

#[test]
fn a_copy_whose_first_was_not_written_is_written_itself() {
    let run = run();
    let (first, _first) = copy(&run, 1, "a");
    let (second, _second) = copy(&run, 1, "a");
    let (_, left) = compose(&run, remembered(claimed()), [first, second]);
    let (composed, left) = compose(&run, read(claimed()), left);
    assert_eq!((composed.len(), left.len()), (1, 0));
}

#[test]
fn a_report_that_is_there_gets_its_first_answer_and_one_with_other_contents_is_refused() {
    let run = run();
    let known = |request| KnownAppend { n: 1, request, last_seq: Seq(4) };
    let memory = |request| of_tail(vec![known(request)]);
    let (again, answer) = note(&run, 1);
    compose(&run, read(memory(Digest::of(&1_u64.to_be_bytes()))), [again]);
    assert_eq!(told(answer), ReportAnswer::Applied(Seq(4)));
    let (other, answer) = note(&run, 1);
    compose(&run, read(memory(Digest::of(b"other"))), [other]);
    assert!(
        matches!(told(answer), ReportAnswer::Refused(refusal) if refusal.reason == Reason::AppendConflict)
    );
}

#[test]
fn a_number_below_the_highest_is_refused_only_after_the_journal_was_read() {
    let run = run();
    let known = KnownAppend { n: 7, request: Digest::of(b"seven"), last_seq: Seq(9) };
    let memory = of_tail(vec![known]);
    let (low, mut answer) = note(&run, 6);
    let (_, left) = compose(&run, remembered(memory.clone()), [low]);
    assert_eq!(left.len(), 1);
    assert!(answer.try_recv().is_err());
    compose(&run, read(memory), left);
    assert!(
        matches!(told(answer), ReportAnswer::Refused(refusal) if refusal.reason == Reason::AppendConflict)
    );
}

#[test]
fn a_fenced_report_is_looked_up_before_it_is_answered() {
    let run = run();
    let fenced = AppendOutcome::Fenced { held_by: None, epoch: Epoch(2) };
    let (mut pending, answer) = note(&run, 1);
    pending.refused = Some(fenced.clone());
    let known = KnownAppend { n: 1, request: Digest::of(&1_u64.to_be_bytes()), last_seq: Seq(4) };
    let memory = of_tail(vec![known]);
    compose(&run, read(memory), [pending]);
    assert_eq!(told(answer), ReportAnswer::Applied(Seq(4)));

    let (mut pending, answer) = note(&run, 1);
    pending.refused = Some(fenced);
    let memory = of_tail(Vec::new());
    compose(&run, read(memory), [pending]);
    assert_eq!(told(answer), ReportAnswer::Fenced { held_by: None, epoch: Epoch(2), applied: None });
}

#[test]
fn the_time_of_a_record_is_never_below_its_predecessors() {
    let run = run();
    let later: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
    let memory = RunMemory::of_claim(head(), later, Epoch(1), Run(1));
    let (note, _answer) = note(&run, 1);
    let (composed, _) = compose(&run, remembered(memory), [note]);
    assert_eq!(composed[0].append.records[0].at, later);
}

#[test]
fn what_was_read_for_the_front_says_nothing_about_what_stands_behind_it() {
    let run = run();
    let known = |n| KnownAppend { n, request: Digest::of(&n.to_be_bytes()), last_seq: Seq(9) };
    let tail = || of_tail(vec![known(7)]);
    let (repeated, first) = note(&run, 7);
    let (earlier, mut second) = note(&run, 6);
    let (_, left) = compose(&run, read(tail()), [repeated, earlier]);
    assert_eq!(told(first), ReportAnswer::Applied(Seq(9)));
    assert_eq!(left.len(), 1);
    assert!(second.try_recv().is_err());

    let (decide, decided) = Reply::channel();
    let planner = Box::new(|_: &JobFacts| Ok(Decision::Already));
    let decide = Decide { job: (run.tenant.clone(), run.job), planner, gift: None, reply: decide };
    let decide = Pending { work: Work::Decide(decide), attempts: 0, refused: None };
    let (late, _answer) = note(&run, 7);
    let (_, left) = compose(&run, read(tail()), [late, decide]);
    assert_eq!(left.len(), 1);
    drop(left);
    assert!(decided.blocking_recv().is_err(), "it was answered without facts");
}

#[test]
fn a_report_of_an_unknown_job_is_answered_missing() {
    let run = run();
    let (note, answer) = note(&run, 1);
    compose(&run, Known { memory: None, read: true, facts: None }, [note]);
    assert_eq!(told(answer), ReportAnswer::Missing);
}

#[test]
fn whichever_report_is_given_back_none_of_its_stream_overtakes_it() {
    let run = run();
    for given_back in 1..=5 {
        let stream = ReportStream::default();
        let (mut waiting, answers): (Vec<_>, Vec<_>) = (1..=5).map(|n| through(&stream, &run, n)).unzip();
        waiting[given_back - 1].attempts = ATTEMPTS_MAX;
        let before: Vec<u64> = (1..given_back as u64).collect();
        assert_eq!(numbers(waiting), before, "{given_back} was given back");
        for mut answer in answers.into_iter().skip(given_back - 1) {
            assert!(matches!(answer.try_recv(), Ok(Err(_))), "it is sent again after {given_back}");
        }
    }
}

#[test]
fn a_report_that_comes_after_its_stream_broke_is_given_back_and_another_streams_are_not() {
    let run = run();
    let (old, new) = (ReportStream::default(), ReportStream::default());
    let (lost, _lost) = through(&old, &run, 6);
    fail(lost.work, LaneError::Stopping);
    let (overtaking, mut answer) = through(&old, &run, 7);
    let (first, _first) = through(&new, &run, 6);
    let (second, _second) = through(&new, &run, 7);
    assert_eq!(numbers(vec![overtaking, first, second]), [6, 7]);
    assert!(matches!(answer.try_recv(), Ok(Err(LaneError::Overtaking))));
}
