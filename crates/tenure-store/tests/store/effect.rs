//! Effects: what stands under a key decides what may be said of it, in the statement that writes it, and behind that stands
//! the unique index.

use sqlx::AssertSqlSafe;
use tenure_core::{
    effect::{Compensation, Declared, Disposition, EffectKey, EffectRecovery, Outcome, Standing, follow_act},
    handover::Cause,
    id::{Digest, JobId, Seq},
    job::State,
    limits::{HANDOVER_EFFECT_OUTPUT_MAX_BYTES, JOB_EFFECTS_MAX},
    plan::{Changes, JobChange, ReadyChange},
    record::{Draft, RecordKind, SaltedValue},
    unwinding::Unwinding,
};
use tenure_store::{Append, AppendOutcome, EffectFilter, EffectRow, Guard, Store, StoreError, StoreOptions};

use crate::{
    fence::run_jobs,
    fleet::{Fleet, Holder, applied, by, note, salted},
};

pub(crate) const ASK: Declared =
    Declared { recovery: EffectRecovery::Ask, mutates: true, compensation: Compensation::Undeclared };

pub(crate) fn key(name: &str) -> EffectKey {
    name.parse().unwrap()
}

pub(crate) fn announce(name: &str, attempt: u32, declared: Declared) -> Draft {
    let Declared { recovery, mutates, compensation } = declared;
    let draft = Draft::with_value(salted(br#"{"command":["push"]}"#), |request| RecordKind::EffectStarted {
        key: key(name),
        attempt,
        recovery,
        mutates,
        tool: "git".to_owned(),
        compensation,
        request,
    });
    Draft { request: Some(Digest::of(b"push")), ..draft }
}

/// The record of an act other than an announcement.
pub(crate) fn outcome(name: &str, attempt: u32, outcome: Outcome) -> Draft {
    let key = key(name);
    match outcome {
        Outcome::Open => panic!("an open attempt has no record"),
        Outcome::Done => Draft::with_value(salted(b"the output"), |output| RecordKind::EffectDone {
            key,
            attempt,
            output,
            truncated: true,
        }),
        Outcome::Failed(disposition) => Draft::with_value(salted(b"no"), |error| RecordKind::EffectFailed {
            key,
            attempt,
            disposition,
            exit_code: Some(3),
            error,
        }),
        Outcome::Reconciled(verdict) => {
            Draft::bare(RecordKind::EffectReconciled { key, attempt, verdict, by: by(), value: None })
        }
    }
}

/// Everything that a record can say of attempts 1 to 3.
fn every_act(name: &str) -> Vec<Draft> {
    let announcements = (1..=3).map(|attempt| announce(name, attempt, ASK));
    let ended = Outcome::ALL.iter().filter(|outcome| **outcome != Outcome::Open);
    let outcomes = ended.flat_map(|ended| (1..=2).map(|attempt| outcome(name, attempt, *ended)));
    announcements.chain(outcomes).collect()
}

/// Every way in which an attempt can stand, with what leads there.
fn every_standing(name: &str) -> Vec<(Option<Standing>, Vec<Draft>)> {
    let mut standings = vec![(None, Vec::new())];
    for recovery in EffectRecovery::ALL.iter().copied() {
        let declared = Declared { recovery, ..ASK };
        for ended in Outcome::ALL.iter().copied() {
            let mut drafts = vec![announce(name, 1, declared)];
            drafts.extend((ended != Outcome::Open).then(|| outcome(name, 1, ended)));
            let reached = drafts.iter().try_fold(None, |last, draft| {
                follow_act(last, &draft.kind.effect_mark(draft.request).unwrap()).map(Some)
            });
            // What is performed again under the same attempt never fails in doubt.
            if let Ok(standing) = reached {
                standings.push((standing, drafts));
            }
        }
    }
    standings
}

async fn rows(fleet: &Fleet, job: JobId) -> Vec<EffectRow> {
    let page = fleet.store.list_effects(&fleet.tenant, job, EffectFilter::All, Seq(0), 1_000).await.unwrap();
    page.effects
}

#[tokio::test]
async fn what_stands_of_an_effect_admits_what_the_core_says_and_nothing_else() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let standings = every_standing("x").len();
    let mut tried = 0;
    for standing in 0..standings {
        for act in 0..every_act("x").len() {
            let name = format!("effect/{standing}/{act}");
            let (last, drafts) = every_standing(&name).remove(standing);
            for draft in drafts {
                assert!(applied(&fleet.append(holder.say(vec![draft])).await).is_some(), "{name}: {last:?}");
            }
            let draft = every_act(&name).remove(act);
            let mark = draft.kind.effect_mark(draft.request).unwrap();
            let before = holder.clone();
            let told = fleet.append(holder.say(vec![draft])).await;
            let stands = fleet.store.read_last_attempt(&fleet.tenant, holder.job, &mark.key).await.unwrap();
            let stands = stands.map(|row| (row.last.attempt, row.last.outcome));
            match follow_act(last, &mark) {
                Ok(next) => {
                    assert!(applied(&told).is_some(), "{last:?} and {mark:?}: {told:?}");
                    assert_eq!(stands, Some((next.attempt, next.outcome)), "{last:?} and {mark:?}");
                }
                Err(refused) => {
                    assert_eq!(told, AppendOutcome::EffectRefused(refused), "{last:?} and {mark:?}");
                    assert_eq!(stands, last.map(|last| (last.attempt, last.outcome)), "{mark:?}");
                    holder = before;
                }
            }
            tried += 1;
        }
    }
    println!("{tried} pairs of what stands and what is said");
    assert!(tried > 400, "{tried}");
}

#[tokio::test]
async fn a_verdict_lets_the_next_attempt_be_announced_in_the_same_append_and_not_without_it() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let declared = Declared { recovery: EffectRecovery::Probe, ..ASK };
    fleet.append(holder.say(vec![announce("push", 1, declared)])).await;
    let without = fleet.append(holder.clone().say(vec![announce("push", 2, declared)])).await;
    assert!(matches!(without, AppendOutcome::EffectRefused(_)), "{without:?}");
    let verdict = outcome("push", 1, Outcome::Reconciled(Disposition::DidNotHappen));
    let skipping =
        fleet.append(holder.clone().say(vec![verdict.clone(), announce("push", 3, declared)])).await;
    assert!(matches!(skipping, AppendOutcome::EffectRefused(_)), "{skipping:?}");
    let both = fleet.append(holder.say(vec![verdict, announce("push", 2, declared)])).await;
    assert_eq!(both, AppendOutcome::Applied { seq: Seq(6) });
    let stands: Vec<_> = rows(&fleet, holder.job).await;
    let stands: Vec<_> = stands.iter().map(|row| (row.last.attempt, row.last.outcome)).collect();
    assert_eq!(stands, [(1, Outcome::Reconciled(Disposition::DidNotHappen)), (2, Outcome::Open)]);
}

#[tokio::test]
async fn what_a_probe_could_not_find_out_can_be_answered_later_and_by_a_later_run() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let declared = Declared { recovery: EffectRecovery::Probe, ..ASK };
    let verdict = |name, disposition| outcome(name, 1, Outcome::Reconciled(disposition));
    for name in ["push", "pull"] {
        fleet.append(holder.say(vec![announce(name, 1, declared)])).await;
        fleet.append(holder.say(vec![verdict(name, Disposition::InDoubt)])).await;
    }
    let told = fleet.append(holder.say(vec![verdict("push", Disposition::Landed)])).await;
    assert!(applied(&told).is_some(), "{told:?}");
    let over = fleet.append(holder.clone().say(vec![verdict("push", Disposition::DidNotHappen)])).await;
    assert!(matches!(over, AppendOutcome::EffectRefused(_)), "what is decided stays so: {over:?}");
    fleet.append(holder.settlement()).await;
    let mut second = Holder::of(&fleet.claim(&worker, 1).await.claimed[0]);
    let again = vec![verdict("pull", Disposition::DidNotHappen), announce("pull", 2, declared)];
    let told = fleet.append(second.say(again)).await;
    assert!(applied(&told).is_some(), "{told:?}");
    let stands: Vec<_> = rows(&fleet, holder.job).await.iter().map(|row| row.last.outcome).collect();
    let reconciled = Outcome::Reconciled;
    assert_eq!(
        stands,
        [reconciled(Disposition::Landed), reconciled(Disposition::DidNotHappen), Outcome::Open]
    );
}

#[tokio::test]
async fn a_job_announces_so_many_attempts_and_no_more_and_its_outcomes_and_other_jobs_are_not_hindered() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (mut holder, mut other) = (fleet.run_job(&worker).await, fleet.run_job(&worker).await);
    // All but one of them, as if they had been announced one by one.
    let earlier = "INSERT INTO effects (tenant, job, key, attempt, state, recovery, mutates, tool, request, run, epoch,
                                        announced_seq, compensation)
                   SELECT 'default', $1, 'earlier/' || n, 1, 'started', 'ask', true, 'git', sha256('x'), 1, 1, 4, 'undo'
                   FROM generate_series(2, $2::integer) AS n";
    let most = i32::try_from(JOB_EFFECTS_MAX).unwrap();
    sqlx::query(earlier).bind(holder.job.0).bind(most).execute(&fleet.pool).await.unwrap();
    let last = fleet.append(holder.say(vec![announce("last", 1, ASK)])).await;
    assert!(applied(&last).is_some(), "{last:?}");
    let batch =
        [holder.clone().say(vec![announce("too many", 1, ASK)]), other.say(vec![announce("push", 1, ASK)])];
    let told = fleet.store.append_records(&batch).await.unwrap();
    assert_eq!(told[0], AppendOutcome::EffectsExhausted);
    assert!(applied(&told[1]).is_some(), "{told:?}");
    let done = fleet.append(holder.say(vec![outcome("last", 1, Outcome::Done)])).await;
    assert!(applied(&done).is_some(), "{done:?}");
    assert_eq!(fleet.facts(holder.job).await.doubts.count, u64::from(JOB_EFFECTS_MAX) - 1);
}

#[tokio::test]
async fn of_a_history_only_the_values_are_read_that_a_handover_tells() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let long = vec![b'x'; 4 * HANDOVER_EFFECT_OUTPUT_MAX_BYTES];
    let done = Draft::with_value(SaltedValue { value: long.clone(), salt: [7; 16] }, |output| {
        RecordKind::EffectDone { key: key("push"), attempt: 1, output, truncated: false }
    });
    fleet.append(holder.say(vec![announce("push", 1, ASK)])).await;
    fleet.append(holder.say(vec![done])).await;
    fleet.append(holder.say(vec![announce("pull", 1, ASK)])).await;
    fleet.append(holder.say(vec![outcome("pull", 1, Outcome::Done)])).await;
    let text = String::from_utf8(long.clone()).unwrap();
    fleet.append(holder.notes(&[&text])).await;
    let kinds = ["effect_started", "effect_done", "note"].map(str::to_owned);
    let (mut read, mut next) = (Vec::new(), Some(Seq(1)));
    while let Some(from) = next {
        let page = fleet.store.read_history(&fleet.tenant, holder.job, from, &kinds, 2).await.unwrap();
        read.extend(page.records.into_iter().map(|record| (record.kind, record.value)));
        next = page.next;
    }
    let cut_off = long[..=HANDOVER_EFFECT_OUTPUT_MAX_BYTES].to_vec();
    let expected = [
        ("effect_started", None),
        ("effect_done", Some(cut_off)),
        ("effect_started", None),
        ("effect_done", Some(b"the output".to_vec())),
        ("note", Some(long)),
    ];
    assert_eq!(read, expected.map(|(kind, value)| (kind.to_owned(), value)));
}

#[tokio::test]
async fn rows_follow_from_records_and_tell_what_was_declared_and_what_came_of_it() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let declared =
        Declared { recovery: EffectRecovery::Idempotent, mutates: false, compensation: Compensation::Pivot };
    fleet.append(holder.say(vec![announce("push", 1, declared)])).await;
    let failed = outcome("push", 1, Outcome::Failed(Disposition::DidNotHappen));
    fleet.append(holder.say(vec![failed])).await;
    fleet.append(holder.say(vec![announce("push", 2, declared)])).await;
    fleet.append(holder.say(vec![outcome("push", 2, Outcome::Done)])).await;
    let [first, second] = &rows(&fleet, holder.job).await[..] else { panic!("two attempts") };
    assert_eq!((first.exit_code, first.value.as_deref()), (Some(3), Some(&b"no"[..])));
    assert_eq!((first.truncated, second.truncated), (false, true));
    assert_eq!((first.last.announced, first.outcome_seq), (Seq(4), Some(Seq(5))));
    assert_eq!((second.exit_code, second.value.as_deref()), (None, Some(&b"the output"[..])));
    assert_eq!((second.last.recovery, second.last.mutates), (EffectRecovery::Idempotent, false));
    assert_eq!((second.compensation, &second.tool[..]), (Compensation::Pivot, "git"));
    assert_eq!((second.last.request, second.last.run), (Digest::of(b"push"), holder.run));
    let last = fleet.store.read_last_attempt(&fleet.tenant, holder.job, &key("push")).await.unwrap();
    assert_eq!(last.as_ref(), Some(second));
    let none = fleet.store.read_last_attempt(&fleet.tenant, holder.job, &key("pus")).await.unwrap();
    assert_eq!(none, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_announcements_of_one_attempt_through_two_coordinators_one_is_written() {
    let fleet = Fleet::start().await;
    let second = fleet.second_store().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    for round in 0..60 {
        let name = format!("push/{round}");
        let mut ways = [holder.clone(), holder.clone()];
        // Of the second half of the rounds the loser does not remember the head that the winner left.
        let appends: Vec<Append> =
            ways.iter_mut().map(|way| way.say(vec![announce(&name, 1, ASK)])).collect();
        let (one, two) = (fleet.store.clone(), second.clone());
        let (first, other) = (appends[0].clone(), appends[1].clone());
        let (first, other) = tokio::join!(
            tokio::spawn(async move { one.append_with_retry(&[first]).await.outcomes.remove(0).unwrap() }),
            tokio::spawn(async move { two.append_with_retry(&[other]).await.outcomes.remove(0).unwrap() }),
        );
        let told = [first.unwrap(), other.unwrap()];
        let winners: Vec<usize> = (0..2).filter(|&way| applied(&told[way]).is_some()).collect();
        assert_eq!(winners.len(), 1, "round {round}: {told:?}");
        holder = ways[winners[0]].clone();
        // Whoever lost and tries at the new head is told what stands.
        let again =
            second.append_records(&[holder.clone().say(vec![announce(&name, 1, ASK)])]).await.unwrap();
        assert!(matches!(again[..], [AppendOutcome::EffectRefused(_)]), "round {round}: {again:?}");
    }
    assert_eq!(fleet.count("SELECT count(*) FROM effects").await, 60);
    assert_eq!(fleet.count("SELECT count(*) FROM journal WHERE kind = 'effect_started'").await, 60);
}

/// A store that sees no effect: the check in its statements finds nothing, as if there were none.
async fn blind_store(fleet: &Fleet) -> Store {
    let role: String =
        sqlx::query_scalar("SELECT 'blind_' || current_database()").fetch_one(&fleet.pool).await.unwrap();
    let script = format!(
        "CREATE ROLE \"{role}\" LOGIN;
         GRANT ALL ON ALL TABLES IN SCHEMA public TO \"{role}\";
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO \"{role}\";
         ALTER TABLE effects ENABLE ROW LEVEL SECURITY;
         CREATE POLICY writes ON effects FOR INSERT WITH CHECK (true)"
    );
    sqlx::raw_sql(AssertSqlSafe(script)).execute(&fleet.pool).await.unwrap();
    fleet.store.prepare_role(Some(&role)).await.unwrap();
    let url = fleet.db.url().replacen("//postgres@", &format!("//{role}@"), 1);
    Store::connect(&url, StoreOptions::default()).await.unwrap()
}

#[tokio::test]
async fn a_second_announcement_is_stopped_by_the_check_and_without_the_check_by_the_index() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    fleet.append(holder.say(vec![announce("push", 1, ASK)])).await;
    let again = holder.clone().say(vec![announce("push", 1, ASK)]);
    let checked = fleet.store.append_with_retry(std::slice::from_ref(&again)).await.outcomes.remove(0);
    assert!(matches!(checked, Ok(AppendOutcome::EffectRefused(_))), "{checked:?}");
    let blind = blind_store(&fleet).await;
    let stopped = blind.append_with_retry(std::slice::from_ref(&again)).await.outcomes.remove(0).unwrap_err();
    let StoreError::AlreadyAnnounced { index, .. } = &stopped else { panic!("{stopped:?}") };
    assert!(index.starts_with("effects_") && index.ends_with("_pkey"), "{index}");
    assert!(!stopped.is_retryable());
    assert_eq!(fleet.journal(holder.job).await.len(), 4);
    // What the check has nothing against goes through the same statement.
    let other = holder.say(vec![announce("pull", 1, ASK)]);
    assert!(applied(&blind.append_records(&[other]).await.unwrap()[0]).is_some());
}

#[tokio::test]
async fn an_effect_that_is_refused_among_many_appends_drops_only_its_job() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holders = run_jobs(&fleet, &worker, 40).await;
    let announced: Vec<_> =
        holders.iter_mut().map(|holder| holder.say(vec![announce("push", 1, ASK)])).collect();
    for outcome in fleet.store.append_with_retry(&announced).await.outcomes {
        assert!(applied(&outcome.unwrap()).is_some());
    }
    let say = |(index, holder): (usize, &mut Holder)| {
        let at_fault = index == 17;
        holder.say(vec![if at_fault { announce("push", 1, ASK) } else { outcome("push", 1, Outcome::Done) }])
    };
    let before = holders[17].clone();
    let batch: Vec<_> = holders.iter_mut().enumerate().map(say).collect();
    let report = fleet.store.append_with_retry(&batch).await;
    assert_eq!((report.statements, report.classifications), (1, 1));
    for (index, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().unwrap();
        let refused = matches!(outcome, AppendOutcome::EffectRefused(_));
        assert_eq!((refused, applied(outcome).is_some()), (index == 17, index != 17), "{index}: {outcome:?}");
    }
    // Without the check the index fails the statement, and halves find whose fault it is.
    holders[17] = before;
    let say = |(index, holder): (usize, &mut Holder)| {
        holder.say(vec![announce(if index == 17 { "push" } else { "pull" }, 1, ASK)])
    };
    let batch: Vec<_> = holders.iter_mut().enumerate().map(say).collect();
    let report = blind_store(&fleet).await.append_with_retry(&batch).await;
    for (index, outcome) in report.outcomes.iter().enumerate() {
        let stopped = matches!(outcome, Err(StoreError::AlreadyAnnounced { .. }));
        let landed = outcome.as_ref().is_ok_and(|outcome| applied(outcome).is_some());
        assert_eq!((stopped, landed), (index == 17, index != 17), "{index}: {outcome:?}");
    }
}

#[tokio::test]
async fn of_one_jobs_appends_the_one_at_fault_is_named_and_the_others_may_try_again() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    fleet.append(holder.say(vec![announce("push", 1, ASK)])).await;
    let innocent = holder.notes(&["before"]);
    let at_fault = holder.say(vec![outcome("pull", 1, Outcome::Done)]);
    let after = holder.notes(&["after"]);
    let told = fleet.store.append_records(&[innocent, at_fault, after]).await.unwrap();
    let [AppendOutcome::Conflict, AppendOutcome::EffectRefused(refused), AppendOutcome::Conflict] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!((refused.key.as_str(), refused.last), ("pull", None));
    assert_eq!(fleet.journal(holder.job).await.len(), 4);
}

#[tokio::test]
async fn what_one_batch_says_of_one_effect_in_two_appends_is_written_in_two_statements() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let batch = [
        holder.say(vec![announce("push", 1, ASK)]),
        holder.say(vec![announce("pull", 1, ASK)]),
        holder.say(vec![outcome("push", 1, Outcome::Done)]),
    ];
    let told = fleet.store.append_records(&batch).await.unwrap();
    let at = |seq| AppendOutcome::Applied { seq: Seq(seq) };
    assert_eq!(told, [at(4), at(5), AppendOutcome::Conflict]);
    assert_eq!(fleet.append(batch[2].clone()).await, at(6));
    let stands: Vec<_> = rows(&fleet, holder.job).await.iter().map(|row| row.last.outcome).collect();
    assert_eq!(stands, [Outcome::Done, Outcome::Open]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_outcome_and_a_takeover_exclude_each_other() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (mut recorded, mut in_doubt) = (0, 0);
    for mut holder in run_jobs(&fleet, &worker, 60).await {
        fleet.append(holder.say(vec![announce("push", 1, ASK)])).await;
        let (done, settlement) =
            (holder.clone().say(vec![outcome("push", 1, Outcome::Done)]), holder.settlement());
        let (one, two) = (fleet.store.clone(), fleet.store.clone());
        let (done, settlement) = tokio::join!(
            tokio::spawn(async move { one.append_with_retry(&[done]).await.outcomes.remove(0).unwrap() }),
            tokio::spawn(
                async move { two.append_with_retry(&[settlement]).await.outcomes.remove(0).unwrap() }
            ),
        );
        let (done, settlement) = (applied(&done.unwrap()), applied(&settlement.unwrap()));
        assert!(done.is_some() != settlement.is_some(), "outcome {done:?}, settlement {settlement:?}");
        let stands = rows(&fleet, holder.job).await[0].last.outcome;
        assert_eq!(stands == Outcome::Done, done.is_some(), "{stands:?}");
        recorded += usize::from(done.is_some());
        in_doubt += usize::from(settlement.is_some());
        if settlement.is_some() {
            let doubts = fleet.facts(holder.job).await.doubts;
            assert_eq!((doubts.count, doubts.undecided), (1, 1));
        }
    }
    println!("{recorded} outcomes and {in_doubt} settlements won");
}

#[tokio::test]
async fn facts_name_what_is_in_doubt_as_the_core_would() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    for mutates in [true, false] {
        for (place, (_, drafts)) in every_standing("x").into_iter().enumerate() {
            for draft in drafts {
                let name = format!("{}/{place:02}", if mutates { "write" } else { "read" });
                fleet.append(holder.say(vec![renamed(draft, &name, mutates)])).await;
            }
        }
    }
    let all = rows(&fleet, holder.job).await;
    let doubtful: Vec<_> = all.iter().filter(|row| row.last.mutates && row.last.is_in_doubt()).collect();
    let facts = fleet.facts(holder.job).await;
    assert_eq!(facts.doubts.count, doubtful.len() as u64);
    let mut listed: Vec<_> = facts.doubts.listed.iter().map(|doubt| (&doubt.key, &doubt.last)).collect();
    listed.sort_by_key(|(key, _)| (*key).clone());
    let mut expected: Vec<_> = doubtful.iter().map(|row| (&row.key, &row.last)).collect();
    expected.sort_by_key(|(key, _)| (*key).clone());
    assert_eq!(listed, expected);
    let undecided = facts.doubts.listed.iter().filter(|doubt| doubt.needs_a_person()).count();
    assert_eq!((facts.doubts.undecided, undecided > 0), (undecided as u64, true));
    let people_first = facts.doubts.listed.iter().map(tenure_core::effect::Doubt::needs_a_person);
    assert!(people_first.collect::<Vec<_>>().is_sorted_by(|before, after| before >= after));
}

fn renamed(draft: Draft, name: &str, changes: bool) -> Draft {
    let mut kind = draft.kind;
    match &mut kind {
        RecordKind::EffectStarted { key, mutates, .. } => (*key, *mutates) = (self::key(name), changes),
        RecordKind::EffectDone { key, .. }
        | RecordKind::EffectFailed { key, .. }
        | RecordKind::EffectReconciled { key, .. } => *key = self::key(name),
        other => panic!("{other:?} is about no effect"),
    }
    Draft { kind, ..draft }
}

#[tokio::test]
async fn facts_name_the_steps_that_a_cancel_has_to_undo() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let as_declared = |compensation| Declared { compensation, ..ASK };
    let mut step = |name: &str, declared, ended| {
        let (announced, ended) = (announce(name, 1, declared), outcome(name, 1, ended));
        [holder.say(vec![announced]), holder.say(vec![ended])]
    };
    let landed = Outcome::Reconciled(Disposition::Landed);
    let failed = Outcome::Failed(Disposition::DidNotHappen);
    let steps = [
        step("before the pivot", as_declared(Compensation::Undo), Outcome::Done),
        step("a pivot", as_declared(Compensation::Pivot), Outcome::Done),
        step("undo", as_declared(Compensation::Undo), Outcome::Done),
        step("undeclared", as_declared(Compensation::Undeclared), landed),
        step("unnecessary", as_declared(Compensation::Unnecessary), Outcome::Done),
        step("did not happen", as_declared(Compensation::Undo), failed),
        step("in doubt", as_declared(Compensation::Undo), Outcome::Failed(Disposition::InDoubt)),
        step("reads", Declared { mutates: false, ..ASK }, Outcome::Done),
        step("a pivot that did not happen", as_declared(Compensation::Pivot), failed),
    ];
    for append in steps.into_iter().flatten() {
        assert!(applied(&fleet.append(append).await).is_some());
    }
    let facts = fleet.facts(holder.job).await;
    let named: Vec<_> = facts.steps.listed.iter().map(|step| step.key.as_str()).collect();
    assert_eq!(
        (&named[..], facts.steps.count),
        (&["undeclared", "undo"][..], 2),
        "the last to land comes first"
    );
    let undeclared: Vec<_> = facts.steps.undeclared.iter().map(|step| step.key.as_str()).collect();
    assert_eq!((&undeclared[..], facts.steps.undeclared_count), (&["undeclared"][..], 1));
    // Pivots and what need not be undone have landed too.
    assert_eq!((facts.landed, facts.compensated), (5, 0));
    let next = fleet.store.read_step_to_undo(&facts.tenant, holder.job, &[]).await.unwrap();
    assert_eq!(next, None, "where nobody can undo one of them, none is undone");
    let named = [key("before the pivot"), key("unnecessary")];
    let next = fleet.store.read_step_to_undo(&facts.tenant, holder.job, &named).await.unwrap().unwrap();
    assert_eq!(next.key, named[0], "of those that were named, whatever pivot came after it");
}

#[tokio::test]
async fn what_is_found_out_late_counts_as_landed_when_it_was_announced() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let as_declared = |compensation| Declared { compensation, ..ASK };
    let (pivot, undo) = (as_declared(Compensation::Pivot), as_declared(Compensation::Undo));
    let (in_doubt, landed) =
        (Outcome::Failed(Disposition::InDoubt), Outcome::Reconciled(Disposition::Landed));
    for draft in [
        announce("pivot", 1, pivot),
        outcome("pivot", 1, in_doubt),
        announce("bucket", 1, undo),
        outcome("bucket", 1, in_doubt),
        announce("object", 1, undo),
        outcome("object", 1, Outcome::Done),
        outcome("pivot", 1, landed),
        outcome("bucket", 1, landed),
    ] {
        assert!(applied(&fleet.append(holder.say(vec![draft])).await).is_some());
    }
    let facts = fleet.facts(holder.job).await;
    let named: Vec<_> = facts.steps.listed.iter().map(|step| step.key.as_str()).collect();
    assert_eq!(named, ["object", "bucket"], "both came after the pivot, whenever that was found out");
    let next = fleet.store.read_step_to_undo(&facts.tenant, holder.job, &[]).await.unwrap().unwrap();
    assert_eq!(next.key.as_str(), "object");
}

#[tokio::test]
async fn what_was_undone_is_no_step_any_more_and_its_job_waits_anew_in_the_queue() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let undo = Declared { compensation: Compensation::Undo, ..ASK };
    for name in ["a", "b"] {
        for draft in [announce(name, 1, undo), outcome(name, 1, Outcome::Done)] {
            assert!(applied(&fleet.append(holder.say(vec![draft])).await).is_some());
        }
    }
    let readied = holder.settlement();
    holder.advance(&readied);
    assert!(applied(&fleet.append(readied).await).is_some());
    // Whatever it was ready for, it is ready for this now.
    let cause = Cause::Unwinding { instead_of: State::Cancelled, attempt: 1 };
    let change = JobChange { unwinding: Some(Unwinding::Cancelled), ..JobChange::default() };
    let ready = ReadyChange::Replace { cause: cause.clone() };
    let changes = Changes { job: Some(change), ready, ..Changes::default() };
    let records = holder.seal_under(holder.epoch.next(), vec![note("cancelled")]);
    let append = Append { guard: Guard::NoLease, ..holder.append_of(records, changes) };
    assert!(applied(&fleet.append(append).await).is_some());
    let claimed = fleet.claim(&fleet.attach("w2").await, 1).await.claimed.remove(0);
    assert_eq!((claimed.job, &claimed.cause), (holder.job, &cause));
    let mut undoer = Holder::of(&claimed);
    let undone = Declared { compensation: Compensation::Unnecessary, ..ASK };
    assert!(applied(&fleet.append(undoer.say(vec![announce("undo:b", 1, undone)])).await).is_some());
    let facts = fleet.facts(holder.job).await;
    assert_eq!(facts.unwinding, Some(Unwinding::Cancelled));
    assert_eq!((facts.steps.count, facts.doubts.count, facts.compensated), (2, 1, 0), "it is under way");
    assert!(applied(&fleet.append(undoer.say(vec![outcome("undo:b", 1, Outcome::Done)])).await).is_some());
    let facts = fleet.facts(holder.job).await;
    let left: Vec<_> = facts.steps.listed.iter().map(|step| step.key.as_str()).collect();
    assert_eq!((&left[..], facts.landed, facts.compensated), (&["a"][..], 1, 1));
    let next = fleet.store.read_step_to_undo(&facts.tenant, holder.job, &[]).await.unwrap();
    assert_eq!(next.map(|step| step.key.to_string()), Some("a".to_owned()));
}

#[tokio::test]
async fn listings_come_in_the_order_of_announcements_in_pages_and_leave_out_what_is_under_way() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    for name in ["c", "a", "b", "d"] {
        fleet.append(holder.say(vec![announce(name, 1, ASK)])).await;
    }
    fleet.append(holder.say(vec![outcome("a", 1, Outcome::Failed(Disposition::InDoubt))])).await;
    let (mut names, mut after) = (Vec::new(), Some(Seq(0)));
    while let Some(from) = after {
        let page =
            fleet.store.list_effects(&fleet.tenant, holder.job, EffectFilter::All, from, 3).await.unwrap();
        names.extend(page.effects.iter().map(|row| (row.key.to_string(), row.under_way)));
        after = page.next;
    }
    let expected = [("c", true), ("a", false), ("b", true), ("d", true)];
    assert_eq!(names, expected.map(|(name, under_way)| (name.to_owned(), under_way)));
    let doubts = async || {
        let page =
            fleet.store.list_effects(&fleet.tenant, holder.job, EffectFilter::InDoubt, Seq(0), 9).await;
        page.unwrap().effects.iter().map(|row| row.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(doubts().await, ["a"]);
    fleet.append(holder.interruption()).await;
    assert_eq!(doubts().await, ["c", "a", "b", "d"], "their run is over");
    let foreign = "other".parse().unwrap();
    let page = fleet.store.list_effects(&foreign, holder.job, EffectFilter::All, Seq(0), 9).await.unwrap();
    assert!(page.effects.is_empty());
}

#[tokio::test]
async fn what_can_be_looked_up_goes_before_every_step_and_nothing_is_undone_around_another_doubt() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let job = holder.job;
    let undone = |recovery| Declared { recovery, compensation: Compensation::Undo, ..ASK };
    let (ask, probe) = (undone(EffectRecovery::Ask), undone(EffectRecovery::Probe));
    let (announced, done) = (announce("early", 1, ask), outcome("early", 1, Outcome::Done));
    let begun =
        [holder.say(vec![announced]), holder.say(vec![done]), holder.say(vec![announce("late", 1, probe)])];
    for append in begun {
        assert!(applied(&fleet.append(append).await).is_some());
    }
    let read = async || {
        let step = fleet.store.read_step_to_undo(&fleet.tenant, job, &[]).await.unwrap();
        step.map(|step| (step.key.to_string(), step.in_doubt))
    };
    assert_eq!(read().await, Some(("late".to_owned(), true)));
    assert_eq!(fleet.facts(job).await.doubts.bar_undoing, 0);
    let landed = holder.say(vec![outcome("late", 1, Outcome::Reconciled(Disposition::Landed))]);
    assert!(applied(&fleet.append(landed).await).is_some());
    assert_eq!(read().await, Some(("late".to_owned(), false)));
    for (name, recovery) in [("again", EffectRecovery::Idempotent), ("asked", EffectRecovery::Ask)] {
        let barring = fleet.facts(job).await.doubts.bar_undoing;
        let begun = holder.say(vec![announce(name, 1, undone(recovery))]);
        assert!(applied(&fleet.append(begun).await).is_some());
        assert_eq!(fleet.facts(job).await.doubts.bar_undoing, barring + 1, "{name}");
        assert_eq!(read().await, None, "{name}");
    }
}
