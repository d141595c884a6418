//! A model of an effect's life, searched whole: up to three runs of one job, each of which may be killed or superseded at every
//! boundary (looked up, probed, announced, performed, recorded), commands that fail in every way, and a world that counts what
//! really happened. What is decided and what the journal admits is not modelled: it is asked of the functions that decide.
//!
//! A run that is superseded is not gone: what it still says arrives, and is fenced. Its child is gone, as the fleet sees to
//! before anybody claims. Attempts are few, so that there is an end. Nothing here sleeps or is random: every state that can be
//! reached is reached, and what was reached is counted.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
};

use super::*;

/// Runs of the job.
const RUNS: usize = 3;
/// Attempts, beyond which a run gives up. One that may always try again would have no end.
const ATTEMPTS_MAX: u32 = 3;
/// Executions by one run.
const EXECUTIONS_MAX: u8 = 2;

/// How a verdict that lets an effect be performed again comes into the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdicts {
    /// Together with the next announcement, in one append, whose acknowledgement is the permission.
    WithTheAnnouncement,
    /// By itself: its acknowledgement is the permission, and the announcement follows in an append of its own.
    BeforeTheAnnouncement,
}

/// Where a run stands. What comes next may be prevented by a kill, so each is a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    /// It does not exist yet.
    Unborn,
    /// It looks up what is recorded.
    Looking,
    /// It has decided to announce this attempt.
    Announcing(u32),
    /// It probes this attempt.
    Probing(u32),
    /// It has found that this attempt did not happen.
    FoundAbsent(u32),
    /// It may perform this attempt; the second says whether it was performed before, nobody knows with what success.
    Permitted(u32, bool),
    /// The command has ended.
    Ended(u32, bool, End),
    /// It does nothing more about the effect.
    Over,
    /// It was killed.
    Dead,
}

/// How a command ended, as its caller sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Done,
    /// It failed, and says so itself: nothing happened.
    DidNotHappen,
    /// It failed, and nobody knows.
    InDoubt,
    /// It failed, and says so itself: it took effect.
    Landed,
}

/// Everything at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    runs: [At; RUNS],
    /// How often each run ran the command.
    executions: [u8; RUNS],
    /// The run that holds the job.
    holder: usize,
    /// What stands in the journal under the key, the outcome as its place in `Outcome::ALL`.
    recorded: Option<(u32, usize)>,
    /// How often it happened.
    happened: u8,
    /// True where something was done that must never be: performed while the last record was no announcement.
    lawless: bool,
}

struct Model {
    recovery: EffectRecovery,
    verdicts: Verdicts,
}

fn place_of(outcome: Outcome) -> usize {
    Outcome::ALL.iter().position(|one| *one == outcome).unwrap()
}

impl Moment {
    fn first() -> Self {
        let mut runs = [At::Unborn; RUNS];
        runs[0] = At::Looking;
        Self { runs, executions: [0; RUNS], holder: 0, recorded: None, happened: 0, lawless: false }
    }

    fn outcome(&self) -> Option<(u32, Outcome)> {
        self.recorded.map(|(attempt, place)| (attempt, Outcome::ALL[place]))
    }

    fn with(mut self, run: usize, at: At) -> Self {
        self.runs[run] = at;
        self
    }

    /// True where the run's child is alive.
    fn has_child(&self, run: usize) -> bool {
        self.holder == run
    }
}

impl Model {
    fn last(&self, moment: &Moment) -> Option<LastAttempt> {
        moment.outcome().map(|(attempt, outcome)| LastAttempt { attempt, ..last(self.recovery, outcome) })
    }

    /// What an append makes of the journal, in one piece or not at all; none: it is fenced.
    fn append(&self, mut moment: Moment, run: usize, acts: &[(u32, EffectAct)]) -> Option<Moment> {
        if moment.holder != run {
            return None;
        }
        for (attempt, act) in acts {
            let stands = moment.outcome().map(|(attempt, outcome)| Standing {
                attempt,
                outcome,
                recovery: self.recovery,
            });
            let key: EffectKey = "git/push".parse().unwrap();
            let mark = EffectMark { key, attempt: *attempt, act: act.clone() };
            let next = follow_act(stands, &mark).unwrap_or_else(|refused| panic!("{moment:?}: {refused}"));
            moment.recorded = Some((next.attempt, place_of(next.outcome)));
        }
        Some(moment)
    }

    fn announcement(&self) -> EffectAct {
        let declared =
            Declared { recovery: self.recovery, mutates: true, compensation: Compensation::Unnecessary };
        EffectAct::Announced { declared, tool: "git".to_owned(), request: Digest::of(b"git push") }
    }

    /// Everything that may come next.
    fn successors(&self, moment: Moment) -> Vec<Moment> {
        let mut next = Vec::new();
        for run in 0..RUNS {
            next.extend(self.steps_of(moment, run));
            if !matches!(moment.runs[run], At::Unborn | At::Over | At::Dead) {
                next.push(moment.with(run, At::Dead));
            }
        }
        // The next run: whatever the one before it is doing, it has lost the job and its child.
        let claimed = moment.holder + 1;
        if claimed < RUNS {
            next.push(Moment { holder: claimed, ..moment.with(claimed, At::Looking) });
        }
        // Nobody holds a decision of the last run up: a person looks, and says what is so.
        next.extend(self.testify(moment));
        next
    }

    /// What a run may do next.
    fn steps_of(&self, moment: Moment, run: usize) -> Vec<Moment> {
        match moment.runs[run] {
            At::Unborn | At::Over | At::Dead => Vec::new(),
            At::Looking => vec![moment.with(run, self.decide(&moment))],
            At::Announcing(attempt) => {
                let announced = self.append(moment, run, &[(attempt, self.announcement())]);
                vec![permit(moment, announced, run, attempt)]
            }
            At::Probing(attempt) => self.probe(moment, run, attempt),
            At::FoundAbsent(attempt) => vec![self.use_absence(moment, run, attempt)],
            At::Permitted(attempt, is_doubtful) if moment.has_child(run) => {
                self.perform(moment, run, attempt, is_doubtful)
            }
            // Its child is gone; nobody performs.
            At::Permitted(..) => vec![moment.with(run, At::Over)],
            At::Ended(attempt, is_doubtful, end) => vec![self.record(moment, run, attempt, is_doubtful, end)],
        }
    }

    fn decide(&self, moment: &Moment) -> At {
        match decide_announcement(self.last(moment).as_ref()) {
            Announcement::Announce { attempt } if attempt > ATTEMPTS_MAX => At::Over,
            Announcement::Announce { attempt } => At::Announcing(attempt),
            Announcement::PerformAgain { attempt } => At::Permitted(attempt, true),
            Announcement::Probe { attempt } => At::Probing(attempt),
            Announcement::Done | Announcement::FailedForGood | Announcement::Undecided => At::Over,
        }
    }

    /// A probe says what is so, or nothing.
    fn probe(&self, moment: Moment, run: usize, attempt: u32) -> Vec<Moment> {
        if !moment.has_child(run) {
            return vec![moment.with(run, At::Over)];
        }
        let verdict = |verdict| {
            let recorded = self.append(moment, run, &[(attempt, EffectAct::Reconciled(verdict))]);
            recorded.unwrap_or(moment).with(run, At::Over)
        };
        let found = match moment.happened {
            0 => moment.with(run, At::FoundAbsent(attempt)),
            _ => verdict(Disposition::Landed),
        };
        vec![found, verdict(Disposition::InDoubt)]
    }

    /// It did not happen, and is performed now: under the next announcement.
    fn use_absence(&self, moment: Moment, run: usize, attempt: u32) -> Moment {
        let absent = (attempt, EffectAct::Reconciled(Disposition::DidNotHappen));
        if attempt >= ATTEMPTS_MAX || moment.executions[run] >= EXECUTIONS_MAX {
            return self.append(moment, run, &[absent]).unwrap_or(moment).with(run, At::Over);
        }
        let acts = match self.verdicts {
            Verdicts::WithTheAnnouncement => vec![absent, (attempt + 1, self.announcement())],
            Verdicts::BeforeTheAnnouncement => vec![absent],
        };
        permit(moment, self.append(moment, run, &acts), run, attempt + 1)
    }

    /// The command happens or not, and ends in a way that may be; or it is never heard of again, which a kill is.
    fn perform(&self, mut moment: Moment, run: usize, attempt: u32, is_doubtful: bool) -> Vec<Moment> {
        moment.lawless |= moment.outcome() != Some((attempt, Outcome::Open));
        moment.executions[run] += 1;
        // A provider that is given the same key performs it once.
        let is_known = self.recovery == EffectRecovery::Idempotent && moment.happened > 0;
        let happened = Moment { happened: moment.happened + u8::from(!is_known), ..moment };
        let ended = |moment: Moment, end| moment.with(run, At::Ended(attempt, is_doubtful, end));
        vec![
            ended(happened, End::Done),
            ended(happened, End::InDoubt),
            ended(happened, End::Landed),
            ended(moment, End::DidNotHappen),
            ended(moment, End::InDoubt),
        ]
    }

    fn record(&self, moment: Moment, run: usize, attempt: u32, is_doubtful: bool, end: End) -> Moment {
        // The second half of the variant: what was performed under the verdict is announced after it.
        let mut acts = Vec::new();
        if moment.outcome().is_some_and(|(recorded, _)| recorded < attempt) {
            acts.push((attempt, self.announcement()));
        }
        let is_announced = acts.is_empty();
        let mut say = |act, at| {
            acts.push((attempt, act));
            self.append(moment, run, &acts).unwrap_or(moment).with(run, at)
        };
        let may_execute = moment.executions[run] < EXECUTIONS_MAX;
        // That nothing happened now says nothing of what happened before, under the same announcement.
        let end = if end == End::DidNotHappen && is_doubtful { End::InDoubt } else { end };
        match (end, self.recovery) {
            (End::Done, _) => say(EffectAct::Done, At::Over),
            (End::Landed, _) => say(EffectAct::Failed(Disposition::Landed), At::Over),
            (End::DidNotHappen, _) => {
                let again = may_execute && attempt < ATTEMPTS_MAX;
                let at = if again { At::Announcing(attempt + 1) } else { At::Over };
                say(EffectAct::Failed(Disposition::DidNotHappen), at)
            }
            (End::InDoubt, EffectRecovery::Retry | EffectRecovery::Idempotent) if may_execute => {
                moment.with(run, At::Permitted(attempt, true))
            }
            // Its announcement stays open.
            (End::InDoubt, EffectRecovery::Retry | EffectRecovery::Idempotent) => moment.with(run, At::Over),
            (End::InDoubt, EffectRecovery::Probe) if is_announced => moment.with(run, At::Probing(attempt)),
            (End::InDoubt, EffectRecovery::Probe | EffectRecovery::Ask) => {
                say(EffectAct::Failed(Disposition::InDoubt), At::Over)
            }
        }
    }

    /// Where only a person can decide and no child is left, a person decides, rightly; the next run goes on from there.
    fn testify(&self, moment: Moment) -> Option<Moment> {
        let is_idle = matches!(moment.runs[moment.holder], At::Over | At::Dead);
        let last = self.last(&moment)?;
        if !is_idle || decide_announcement(Some(&last)) != Announcement::Undecided {
            return None;
        }
        let truth = if moment.happened > 0 { Disposition::Landed } else { Disposition::DidNotHappen };
        self.append(moment, moment.holder, &[(last.attempt, EffectAct::Reconciled(truth))])
    }
}

/// The acknowledgement of an append is the permission; a fenced one is none.
fn permit(before: Moment, appended: Option<Moment>, run: usize, attempt: u32) -> Moment {
    match appended {
        Some(after) => after.with(run, At::Permitted(attempt, false)),
        None => before.with(run, At::Over),
    }
}

/// What a whole search came to.
#[derive(Debug, Default)]
struct Searched {
    moments: usize,
    /// Whatever must never be and was found, each with a shortest way to it.
    flaws: BTreeMap<String, String>,
    /// States of the journal in which nothing is left to be done, with how often it had happened.
    ends: BTreeSet<String>,
}

/// Visits every moment that can be reached, nearest first, so that a way that is found is a shortest one.
fn search(recovery: EffectRecovery, verdicts: Verdicts) -> Searched {
    let model = Model { recovery, verdicts };
    let first = Moment::first();
    let mut came_from: BTreeMap<Moment, Option<Moment>> = BTreeMap::from([(first, None)]);
    let mut open = VecDeque::from([first]);
    let mut searched = Searched::default();
    while let Some(moment) = open.pop_front() {
        for flaw in find_flaws(&model, &moment) {
            searched.flaws.entry(flaw).or_insert_with(|| tell_way(moment, &came_from));
        }
        let successors = model.successors(moment);
        if successors.is_empty() {
            let recorded = moment.outcome().map(|(_, outcome)| outcome);
            searched.ends.insert(format!("{recorded:?}, happened {}", moment.happened));
        }
        for next in successors {
            came_from.entry(next).or_insert_with(|| {
                open.push_back(next);
                Some(moment)
            });
        }
    }
    searched.moments = came_from.len();
    searched
}

fn find_flaws(model: &Model, moment: &Moment) -> Vec<String> {
    let mut flaws = Vec::new();
    if moment.lawless {
        flaws.push("performed while the last record of its key was no announcement of it".to_owned());
    }
    if moment.happened > 1 && model.recovery != EffectRecovery::Retry {
        flaws.push("performed twice".to_owned());
    }
    match moment.outcome().and_then(|(_, outcome)| outcome.happened()) {
        Some(true) if moment.happened == 0 => flaws.push("recorded as done and did not happen".to_owned()),
        Some(false) if moment.happened > 0 => flaws.push("recorded as not done and happened".to_owned()),
        Some(_) | None => {}
    }
    flaws
}

fn tell_way(last: Moment, came_from: &BTreeMap<Moment, Option<Moment>>) -> String {
    let mut way = vec![last];
    while let Some(Some(before)) = came_from.get(&way[way.len() - 1]) {
        way.push(*before);
    }
    let mut told = format!("after {} moments:\n", way.len());
    for moment in way.iter().rev() {
        writeln!(told, "  {:?} recorded {:?} happened {}", moment.runs, moment.outcome(), moment.happened)
            .unwrap();
    }
    told
}

#[test]
fn no_order_of_three_runs_that_are_killed_anywhere_performs_twice() {
    for recovery in EffectRecovery::ALL.iter().copied() {
        let searched = search(recovery, Verdicts::WithTheAnnouncement);
        println!("{recovery:?}: {} moments, {} ends", searched.moments, searched.ends.len());
        assert!(searched.flaws.is_empty(), "{recovery:?}: {:#?}", searched.flaws);
        assert!(searched.moments > 500, "{recovery:?}: {} moments are no search", searched.moments);
    }
}

#[test]
fn a_verdict_that_is_a_permission_before_its_announcement_is_found_to_perform_twice() {
    let searched = search(EffectRecovery::Probe, Verdicts::BeforeTheAnnouncement);
    searched.flaws.iter().for_each(|(flaw, way)| println!("{flaw}, {way}"));
    assert!(searched.flaws.contains_key("performed twice"), "{:?}", searched.flaws.keys());
}

#[test]
fn where_every_run_is_over_a_doubt_is_open_for_its_recovery_or_was_decided_by_a_person() {
    for recovery in EffectRecovery::ALL.iter().copied() {
        let ends = search(recovery, Verdicts::WithTheAnnouncement).ends;
        println!("{recovery:?}: {ends:#?}");
        assert!(ends.contains("Some(Done), happened 1"), "{recovery:?}: {ends:?}");
        let is_undecided =
            |end: &String| end.contains("InDoubt") || recovery == EffectRecovery::Ask && end.contains("Open");
        assert!(!ends.iter().any(is_undecided), "{recovery:?}: {ends:?}");
    }
}
