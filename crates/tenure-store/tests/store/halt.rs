//! Halts in the statements that they refuse: what they match, and nothing else, is neither stored nor claimed.

use tenure_core::{
    credential::Tenants,
    halt::Scope,
    id::{Digest, HaltId},
    limits::HALTS_STANDING_MAX,
};
use tenure_store::{HaltFilter, Lifted, NewJob, StoreError, SubmissionKey, Submitted, Thrown};

use crate::fleet::{Fleet, agent, by, eager_claim, new_job};

impl Fleet {
    async fn halt(&self, scope: Scope) -> HaltId {
        let tenant = (scope != Scope::Fleet).then_some(&self.tenant);
        match self.store.throw_halt(tenant, &scope, &by(), "it spams").await.unwrap() {
            Thrown::New(halt) => halt.id,
            other => panic!("{scope}: {other:?}"),
        }
    }

    async fn lift(&self, halt: HaltId) -> Lifted {
        self.store.lift_halt(halt, &Tenants::All, &by(), "it stopped").await.unwrap()
    }

    async fn submit_one(&self, job: &NewJob) -> Result<Submitted, StoreError> {
        Ok(self.store.submit_jobs(std::slice::from_ref(job)).await?.remove(0))
    }
}

/// A job beside the plain one that differs in each thing that a halt can name.
fn others(fleet: &Fleet) -> [NewJob; 4] {
    [
        new_job(&"other".parse().unwrap(), b"x"),
        NewJob { agent: agent("other"), ..fleet.new_job() },
        NewJob { declaration: Digest::of(b"another revision"), ..fleet.new_job() },
        NewJob { submitted_by: "somebody else".to_owned(), ..fleet.new_job() },
    ]
}

fn scopes() -> [Scope; 4] {
    [
        Scope::Tenant,
        Scope::Agent(agent(crate::fleet::AGENT)),
        Scope::Revision(Digest::of(crate::fleet::DOCUMENT)),
        Scope::Principal(by().actor),
    ]
}

#[tokio::test]
async fn a_halt_refuses_the_submissions_of_its_scope_and_no_others_and_leaves_their_keys_free() {
    for (place, scope) in scopes().into_iter().enumerate() {
        let fleet = Fleet::start().await;
        let worker = fleet.attach("w1").await;
        let id = fleet.halt(scope.clone()).await;
        let key = SubmissionKey { hash: Digest::of(b"key"), payload: Digest::of(b"payload") };
        let mut job = NewJob { key: Some(key), ..fleet.new_job() };
        job.claim = Some(eager_claim(&job, &worker));
        let Submitted::Halted(halt) = fleet.submit_one(&job).await.unwrap() else { panic!("{scope}") };
        assert_eq!((halt.id, &halt.scope, halt.why.as_str()), (id, &scope, "it spams"));
        assert_eq!(fleet.count("SELECT count(*) FROM submission_keys").await, 0);
        assert_eq!(fleet.count("SELECT count(*) FROM journal").await, 0);
        let outside = others(&fleet)[place].clone();
        assert!(matches!(fleet.submit_one(&outside).await, Ok(Submitted::Admitted { .. })), "{scope}");
        assert!(matches!(fleet.lift(id).await, Lifted::Now(halt) if halt.lift.is_some()));
        assert!(matches!(fleet.submit_one(&job).await, Ok(Submitted::Admitted { .. })), "{scope}");
    }
}

#[tokio::test]
async fn a_halt_keeps_the_ready_jobs_of_its_scope_waiting_and_no_others() {
    for scope in scopes().into_iter().chain([Scope::Fleet]) {
        let fleet = Fleet::start().await;
        let worker = fleet.attach("w1").await;
        let inside = fleet.submit().await;
        let other_agent = NewJob { agent: agent("other"), ..fleet.new_job() };
        let other_principal = NewJob { submitted_by: "somebody else".to_owned(), ..fleet.new_job() };
        // Of a declaration that nobody holds, so that a claim finds it and puts it aside.
        let other_revision = NewJob { declaration: Digest::of(b"another revision"), ..fleet.new_job() };
        let [agents, principals, revisions] =
            [other_agent, other_principal, other_revision].map(|job| (job.job, job));
        let mut outside = match &scope {
            Scope::Fleet | Scope::Tenant => vec![],
            Scope::Agent(_) => vec![agents.0],
            Scope::Principal(_) => vec![principals.0],
            Scope::Revision(_) => vec![revisions.0],
        };
        for (_, job) in [agents, principals, revisions] {
            fleet.submit_as(job).await;
        }
        let id = fleet.halt(scope.clone()).await;
        let outcome = fleet.claim(&worker, 10).await;
        let mut found: Vec<_> = outcome.claimed.iter().map(|one| one.job).collect();
        found.extend(outcome.denied.iter().map(|facts| facts.job));
        outside.sort();
        found.sort();
        assert_eq!(found, outside, "{scope}");
        let row = fleet.store.read_job(&fleet.tenant, inside.job).await.unwrap().unwrap();
        assert_eq!(row.halt.as_ref().map(|halt| (halt.id, &halt.scope)), Some((id, &scope)));
        fleet.lift(id).await;
        let claimed = fleet.claim(&worker, 10).await.claimed;
        assert!(claimed.iter().any(|one| one.job == inside.job), "{scope}: {claimed:?}");
        assert_eq!(fleet.store.read_job(&fleet.tenant, inside.job).await.unwrap().unwrap().halt, None);
    }
}

#[tokio::test]
async fn halts_are_independent_and_the_broadest_is_named() {
    let fleet = Fleet::start().await;
    let narrow = fleet.halt(Scope::Principal(by().actor)).await;
    let broad = fleet.halt(Scope::Tenant).await;
    let named = async || match fleet.submit_one(&fleet.new_job()).await.unwrap() {
        Submitted::Halted(halt) => Some(halt.id),
        _ => None,
    };
    assert_eq!(named().await, Some(broad));
    fleet.lift(narrow).await;
    assert_eq!(named().await, Some(broad), "lifting the narrow one leaves the broad one");
    let narrow = fleet.halt(Scope::Principal(by().actor)).await;
    fleet.lift(broad).await;
    assert_eq!(named().await, Some(narrow));
    fleet.lift(narrow).await;
    assert_eq!(named().await, None);
}

#[tokio::test]
async fn the_same_halt_is_thrown_once_and_another_reason_is_another_halt() {
    let fleet = Fleet::start().await;
    let first = fleet.halt(Scope::Tenant).await;
    let again = fleet.store.throw_halt(Some(&fleet.tenant), &Scope::Tenant, &by(), "it spams").await.unwrap();
    assert!(matches!(again, Thrown::Standing(halt) if halt.id == first));
    let other =
        fleet.store.throw_halt(Some(&fleet.tenant), &Scope::Tenant, &by(), "it is late").await.unwrap();
    let Thrown::New(other) = other else { panic!("{other:?}") };
    fleet.lift(first).await;
    assert!(
        matches!(fleet.submit_one(&fleet.new_job()).await, Ok(Submitted::Halted(halt)) if halt.id == other.id)
    );
}

#[tokio::test]
async fn a_lift_of_what_does_not_stand_is_told_apart_and_changes_nothing() {
    let fleet = Fleet::start().await;
    let (own, of_all) = (fleet.halt(Scope::Tenant).await, fleet.halt(Scope::Fleet).await);
    let lift = async |halt, tenants: &str| {
        let tenants = Tenants::one(tenants.parse().unwrap());
        fleet.store.lift_halt(halt, &tenants, &by(), "done").await.unwrap()
    };
    assert_eq!(lift(HaltId(999), "default").await, Lifted::Unknown);
    assert_eq!(lift(own, "other").await, Lifted::Unknown, "another tenant's is as good as none");
    assert_eq!(lift(of_all, "default").await, Lifted::NotGranted);
    assert!(matches!(lift(own, "default").await, Lifted::Now(_)));
    assert!(matches!(lift(own, "default").await, Lifted::Before(_)));
    let filter = HaltFilter { tenants: Tenants::All, lifted: false, before: None, limit: 10 };
    let standing: Vec<_> = fleet.store.list_halts(&filter).await.unwrap().iter().map(|one| one.id).collect();
    assert_eq!(standing, [of_all]);
    let other = HaltFilter { tenants: Tenants::one("other".parse().unwrap()), lifted: true, ..filter };
    let seen: Vec<_> = fleet.store.list_halts(&other).await.unwrap().iter().map(|one| one.id).collect();
    assert_eq!(seen, [of_all], "the fleet's concerns everybody, and another tenant's nobody else");
}

/// A later release may know more scopes than this one.
#[tokio::test]
async fn a_halt_that_cannot_be_read_is_an_error_and_never_passed_over() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let waiting = fleet.submit().await;
    for sql in [
        "ALTER TABLE halts DROP CONSTRAINT scope_is_known",
        "INSERT INTO halts (scope, tenant, name, why, thrown_by) VALUES ('region', 'default', 'eu', 'flood', '{}')",
    ] {
        sqlx::query(sql).execute(&fleet.pool).await.unwrap();
    }
    let unknown = |found: Result<(), StoreError>| {
        let error = found.unwrap_err();
        assert!(error.to_string().contains("region eu"), "{error}");
    };
    unknown(fleet.submit_one(&fleet.new_job()).await.map(drop));
    unknown(fleet.store.read_job(&fleet.tenant, waiting.job).await.map(drop));
    let filter = HaltFilter { tenants: Tenants::All, lifted: false, before: None, limit: 10 };
    unknown(fleet.store.list_halts(&filter).await.map(drop));
    assert_eq!(fleet.claim(&worker, 1).await.claimed, [], "nothing starts past it");
}

#[tokio::test]
async fn no_more_halts_stand_than_every_claim_can_look_through() {
    let fleet = Fleet::start().await;
    sqlx::query(
        "INSERT INTO halts (scope, tenant, name, why, thrown_by)
         SELECT 'principal', 'default', 'p' || g, 'flood', '{\"actor\":\"ada\",\"basis\":\"asserted\"}'
         FROM generate_series(1, $1) AS g",
    )
    .bind(i64::from(HALTS_STANDING_MAX))
    .execute(&fleet.pool)
    .await
    .unwrap();
    let thrown =
        fleet.store.throw_halt(Some(&fleet.tenant), &Scope::Tenant, &by(), "one more").await.unwrap();
    assert_eq!(thrown, Thrown::TooMany);
}
