//! What may need a person, as the store finds it: which workers would be offered a job, and which jobs are noted as stopped,
//! whatever statement stopped them or had them go on.

use jiff::{SignedDuration, Timestamp};
use tenure_core::{
    attention::{Ages, Kind},
    credential::Tenants,
    id::{Digest, WorkerName},
    job::State,
};
use tenure_store::{Look, NewJob, NewTerm};

use crate::fleet::{AGENT, Fleet, agent, new_term, now};

fn look(fleet: &Fleet, at: Timestamp) -> Look {
    Look { tenant: fleet.tenant.clone(), at, page: 100, ages: Ages::default() }
}

impl Fleet {
    async fn found(&self, kind: Kind, after: SignedDuration) -> Vec<String> {
        let look = look(self, now().checked_add(after).unwrap());
        let found = self.store.find_subjects(&look, kind).await.unwrap();
        found.subjects.into_iter().map(|subject| subject.name).collect()
    }

    /// Attaches a worker that is as plain as can be, but for what is changed.
    async fn attach_with(&self, change: impl FnOnce(&mut NewTerm)) {
        let name: WorkerName = "w1".parse().unwrap();
        let secret_hash = Digest::of(b"secret");
        let mut term = NewTerm { labels: Vec::new(), ..new_term(&name, secret_hash) };
        // It holds for longer than the grace after which a job counts.
        term.ttl = std::time::Duration::from_secs(300);
        change(&mut term);
        let registered = self.store.register_worker(&term).await.unwrap();
        let attached = self.store.attach_worker(&name, registered.term, secret_hash, &Tenants::All).await;
        attached.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_job_is_unclaimable_where_no_attached_worker_would_be_offered_it_and_the_grace_is_over() {
    type Change = fn(&mut NewTerm);
    let labelled: Change = |term| term.labels = vec!["git".to_owned(), "zone=eu".to_owned()];
    let cases: [(&str, &[&str], Change, bool); 8] = [
        ("nothing is wanted", &[], |_| {}, true),
        ("a label that is there", &["git"], labelled, true),
        ("a label that is not", &["git", "moon"], labelled, false),
        ("its agent", &[], |term| term.agents = vec![agent(AGENT)], true),
        ("another agent", &[], |term| term.agents = vec![agent("other")], false),
        ("another tenant", &[], |term| term.tenants = Tenants::one("other".parse().unwrap()), false),
        (
            "its handler",
            &["tenure.handler/notes=1"],
            |term| term.labels = vec!["tenure.handler/notes=1".to_owned()],
            true,
        ),
        ("handlers alone", &[], |term| term.labels = vec!["tenure.handler/notes=1".to_owned()], false),
    ];
    let grace = SignedDuration::from_secs(61);
    for (case, requires, change, offered) in cases {
        let fleet = Fleet::start().await;
        let requires = requires.iter().map(|label| (*label).to_owned()).collect();
        let job = fleet.submit_as(NewJob { requires, ..fleet.new_job() }).await;
        let name = vec![job.job.to_string()];
        assert_eq!(fleet.found(Kind::JobUnclaimable, grace).await, name, "{case}: no worker at all");
        fleet.attach_with(change).await;
        let expected = if offered { Vec::new() } else { name.clone() };
        assert_eq!(fleet.found(Kind::JobUnclaimable, grace).await, expected, "{case}");
        assert_eq!(
            fleet.found(Kind::JobUnclaimable, SignedDuration::ZERO).await,
            Vec::<String>::new(),
            "{case}"
        );
        let lapsed = SignedDuration::from_secs(400);
        assert_eq!(fleet.found(Kind::JobUnclaimable, lapsed).await, name, "{case}: its term lapsed");
    }
}

#[tokio::test]
async fn what_stopped_is_noted_with_its_present_state_and_what_goes_on_is_not() {
    let kinds = [
        (State::Interrupted, Kind::JobInterrupted),
        (State::Exhausted, Kind::JobExhausted),
        (State::Withheld, Kind::JobWithheld),
        (State::Quarantined, Kind::JobQuarantined),
    ];
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let job = fleet.run_job(&worker).await.job;
    let set = async |state: State| {
        let changed = sqlx::query(
            "UPDATE jobs SET state = $2, reason = 'test', state_since = statement_timestamp(), concluded_seq = 3,
                concluded_hash = sha256('') WHERE job = $1",
        )
        .bind(job.0)
        .bind(state.name())
        .execute(&fleet.pool)
        .await
        .unwrap();
        assert_eq!(changed.rows_affected(), 1, "{state}");
    };
    for (state, kind) in kinds {
        set(state).await;
        for (_, other) in kinds {
            let expected = if other == kind { vec![job.to_string()] } else { Vec::new() };
            assert_eq!(fleet.found(other, SignedDuration::from_secs(1)).await, expected, "{state}");
        }
    }
    for state in State::ALL.iter().filter(|state| !kinds.iter().any(|(stopped, _)| stopped == *state)) {
        if matches!(state, State::Cancelled) {
            continue;
        }
        set(*state).await;
        let noted = if *state == State::Failed { 1 } else { 0 };
        assert_eq!(fleet.count("SELECT count(*) FROM stopped_jobs").await, noted, "{state}");
    }
}
