use std::fs;

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use tenure_core::chain::Head;
use uuid::Uuid;

use super::*;
use crate::TestDatabase;

/// A small history in which everything holds: a job that succeeded after a handover, with an effect; one that runs; one that
/// waits; and one that was interrupted and whose child nobody has accounted for.
struct Story {
    base: TestDatabase,
    pool: PgPool,
    files: tempfile::TempDir,
    finished: Uuid,
    running: Uuid,
    ready: Uuid,
    interrupted: Uuid,
}

const NOW: &str = "2026-11-30T09:00:00Z";

impl Story {
    async fn tell() -> Self {
        let base = TestDatabase::create().await.unwrap();
        let pool = base.connect(2).await.unwrap();
        let files = tempfile::tempdir().unwrap();
        for folder in ["beats", "notes"] {
            fs::create_dir(files.path().join(folder)).unwrap();
        }
        let [finished, running, ready, interrupted] = std::array::from_fn(|_| Uuid::now_v7());
        let story = Self { base, pool, files, finished, running, ready, interrupted };
        story.run("INSERT INTO terms (worker, term, attach, secret_hash, tenants, labels, agents, slots, ttl_ms, fencing, version, expires_at, answer)
                   VALUES ('w1', 1, 1, sha256(''), '{default}', '{}', '{}', 2, 30000, 'kernel', '1', now() + interval '1 h', 1)").await;
        story.tell_finished().await;
        story.tell_running().await;
        story.add_job(ready, "ready", &[(0, 0, "job_admitted", json!({}))]).await;
        story
            .run(&format!(
                "INSERT INTO ready (tenant, job, agent, priority, queue_no, requires, cause)
                 VALUES ('default', '{ready}', 'a', 1, 1, '{{}}', '{{}}')"
            ))
            .await;
        story.tell_interrupted().await;
        story
    }

    async fn tell_finished(&self) {
        let job = self.finished;
        let records = [
            (0, 0, "job_admitted", json!({})),
            (1, 1, "run_started", json!({"worker": "w1"})),
            (1, 1, "effect_started", json!({"key": "mail"})),
            (2, 1, "child_gone", json!({"of_epoch": 1, "proof": "guardian"})),
            (3, 2, "run_started", json!({"worker": "w2"})),
            (3, 2, "job_concluded", json!({"outcome": "succeeded"})),
        ];
        self.add_job(job, "succeeded", &records).await;
        self.add_effect(job, "mail", "done", None).await;
        self.write_beats(job, 1, "100\n200\n");
        self.write_beats(job, 2, "300\n400\n");
    }

    async fn tell_running(&self) {
        let job = self.running;
        let records = [(0, 0, "job_admitted", json!({})), (1, 1, "run_started", json!({"worker": "w1"}))];
        self.add_job(job, "running", &records).await;
        self.add_note(job, "first").await;
        self.add_lease(job, 1, 1, "NULL").await;
        self.write_notes(job, "first\n");
    }

    async fn tell_interrupted(&self) {
        let job = self.interrupted;
        let records = [
            (0, 0, "job_admitted", json!({})),
            (1, 1, "run_started", json!({"worker": "w1"})),
            (2, 1, "run_interrupted", json!({"of_epoch": 1})),
        ];
        self.add_job(job, "interrupted", &records).await;
        self.add_lease(job, 2, 1, "now()").await;
    }

    async fn add_job(&self, job: Uuid, state: &str, records: &[(i64, i32, &str, Value)]) {
        let mut head = Head::genesis();
        let mut last = 0;
        for ((epoch, run, kind, fields), seq) in records.iter().zip(1..) {
            let bytes = compose(job, seq, *epoch, *run, kind, fields);
            head = head.extend(&bytes);
            self.insert_record(job, seq, *epoch, *run, kind, &bytes, &head, None).await;
            last = seq;
        }
        let concluded = records.iter().any(|(_, _, kind, _)| *kind == "job_concluded").then_some(last);
        sqlx::query(
            "WITH s AS (INSERT INTO sessions (tenant, session, started_at, deadline_at, hops, run_cap, budget_micros)
                        VALUES ('default', $1, now(), now() + interval '1 h', 8, 64, 0))
             INSERT INTO jobs (tenant, job, session, agent, declaration, state, reason, run, hops_left, priority, labels, recovery, concluded_seq, concluded_hash)
             VALUES ('default', $1, $1, 'a', sha256(''), $2, 'child_unaccounted_for', 1, 8, 1, jsonb_build_object('submission', $1::text),
                     '{\"max_attempts\": 2, \"max_losses\": 10}', $3, $4)",
        )
        .bind(job)
        .bind(state)
        .bind(concluded)
        .bind(concluded.map(|_: i64| head.hash.0.to_vec()))
        .execute(&self.pool)
        .await
        .unwrap();
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of one row")]
    async fn insert_record(
        &self,
        job: Uuid,
        seq: i64,
        epoch: i64,
        run: i32,
        kind: &str,
        bytes: &[u8],
        head: &Head,
        value: Option<&str>,
    ) {
        sqlx::query(
            "INSERT INTO journal (tenant, job, seq, generation, epoch, run, kind, at, bytes, hash, value, salt)
             VALUES ('default', $1, $2, 1, $3, $4, $5, now(), $6, $7, $8, $9)",
        )
        .bind(job)
        .bind(seq)
        .bind(epoch)
        .bind(run)
        .bind(kind)
        .bind(bytes)
        .bind(head.hash.0.to_vec())
        .bind(value.map(str::as_bytes))
        .bind(value.map(|_| vec![7_u8; 16]))
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Adds a note at the end of a chain.
    async fn add_note(&self, job: Uuid, text: &str) {
        let (seq, hash): (i64, Vec<u8>) =
            sqlx::query_as("SELECT seq, hash FROM journal WHERE job = $1 ORDER BY seq DESC LIMIT 1")
                .bind(job)
                .fetch_one(&self.pool)
                .await
                .unwrap();
        let before = Head {
            seq: tenure_core::id::Seq(u64::try_from(seq).unwrap()),
            hash: tenure_core::id::Digest::from_slice(&hash).unwrap(),
        };
        let digest = tenure_core::chain::value_digest(&[7; 16], text.as_bytes());
        let fields = json!({"text": {"sha256": digest, "bytes": text.len()}});
        let bytes = compose(job, seq + 1, 1, 1, "note", &fields);
        self.insert_record(job, seq + 1, 1, 1, "note", &bytes, &before.extend(&bytes), Some(text)).await;
    }

    async fn add_lease(&self, job: Uuid, epoch: i64, run_epoch: i64, released: &str) {
        self.run(&format!(
            "INSERT INTO leases (tenant, job, epoch, run_epoch, run, generation, worker, term, attach, secret_hash, released_at)
             VALUES ('default', '{job}', {epoch}, {run_epoch}, 1, 1, 'w1', 1, 1, sha256(''), {released})"
        ))
        .await;
    }

    async fn add_effect(&self, job: Uuid, key: &str, state: &str, disposition: Option<&str>) {
        sqlx::query(
            "INSERT INTO effects (tenant, job, key, attempt, state, recovery, mutates, tool, request, run, epoch, announced_seq, outcome_seq, disposition, compensation)
             VALUES ('default', $1, $2, 1, $3, 'idempotent', true, $2, sha256(''), 1, 1, 4, $4, $5, 'undeclared')",
        )
        .bind(job)
        .bind(key)
        .bind(state)
        .bind((state != "started").then_some(5_i64))
        .bind(disposition)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    fn write_beats(&self, job: Uuid, run: u32, lines: &str) {
        fs::write(self.files.path().join("beats").join(format!("{job}.{run}")), lines).unwrap();
    }

    fn write_notes(&self, job: Uuid, lines: &str) {
        fs::write(self.files.path().join("notes").join(job.to_string()), lines).unwrap();
    }

    /// Runs statements, in which `FINISHED`, `RUNNING`, `READY` and `INTERRUPTED` stand for the jobs.
    async fn run(&self, statements: &str) {
        let mut statements = statements.to_owned();
        for (word, job) in [
            ("FINISHED", self.finished),
            ("RUNNING", self.running),
            ("READY", self.ready),
            ("INTERRUPTED", self.interrupted),
        ] {
            statements = statements.replace(word, &format!("'{job}'"));
        }
        for statement in statements.split(';').filter(|statement| !statement.trim().is_empty()) {
            sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&self.pool).await.unwrap();
        }
    }

    fn submissions(&self) -> Vec<Submitted> {
        [self.finished, self.running, self.ready, self.interrupted]
            .map(|job| Submitted { mark: job.to_string(), answer: Answer::Acknowledged(job) })
            .to_vec()
    }

    fn entries(&self) -> Vec<Entry> {
        vec![entry(&format!("{} mail", self.finished))]
    }

    /// What all checkers find.
    async fn check(&self, submissions: &[Submitted], entries: &[Entry]) -> Vec<Finding> {
        let witnesses = Witnesses {
            database: &self.pool,
            heartbeats: Some(&Heartbeats::new(&self.files.path().join("beats"))),
            submissions: Some(submissions),
            notes: Some(&self.files.path().join("notes")),
            entries: Some(entries),
        };
        witnesses.check().await.unwrap()
    }

    async fn check_honestly(&self) -> Vec<Finding> {
        self.check(&self.submissions(), &self.entries()).await
    }

    /// Expects that one thing does not hold, and perhaps more that follows from it.
    fn assert_found(&self, findings: &[Finding], concern: Concern, words: &str) {
        let found =
            findings.iter().any(|finding| finding.concern == concern && finding.to_string().contains(words));
        assert!(found, "{concern} with {words:?} is not among {findings:#?} ({})", self.base.name());
    }
}

fn compose(job: Uuid, seq: i64, epoch: i64, run: i32, kind: &str, fields: &Value) -> Vec<u8> {
    let mut record = json!({
        "tenant": "default", "job": job, "seq": seq, "generation": 1, "epoch": epoch, "run": run,
        "phase": "forward", "at": NOW, "kind": kind,
    });
    record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::to_vec(&record).unwrap()
}

fn entry(text: &str) -> Entry {
    Entry { number: 1, key: None, text: text.to_owned(), at: NOW.parse().unwrap() }
}

/// Tampers with the database in each of these ways, each in a story of its own.
async fn assert_all_found(concern: Concern, tamperings: &[(&str, &str)]) {
    for (tampering, words) in tamperings {
        let story = Story::tell().await;
        story.run(tampering).await;
        let findings = story.check_honestly().await;
        story.assert_found(&findings, concern, words);
    }
}

#[tokio::test]
async fn honest_history_has_no_findings() {
    let story = Story::tell().await;
    assert_eq!(story.check_honestly().await, []);
    assert_eq!(count_in_doubt(&story.pool).await.unwrap(), 0);
}

#[tokio::test]
async fn gap_falling_epoch_second_claim_and_wrong_lease_are_found() {
    assert_all_found(
        Concern::Ownership,
        &[
            ("DELETE FROM journal WHERE job = FINISHED AND seq = 3", "seq 4 follows seq 2"),
            (
                "UPDATE journal SET epoch = 1 WHERE job = FINISHED AND seq = 6",
                "has epoch 1, which 3 had superseded",
            ),
            (
                "UPDATE journal SET epoch = 2 WHERE job = FINISHED AND seq = 5",
                "claims under epoch 2, which was taken",
            ),
            (
                "UPDATE leases SET epoch = 2, run_epoch = 2 WHERE job = RUNNING",
                "has epoch 2, and its last claim 1",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn edited_bytes_columns_and_tail_are_found() {
    assert_all_found(
        Concern::Chain,
        &[
            ("UPDATE journal SET bytes = bytes || ' ' WHERE job = FINISHED AND seq = 2", "seq 2"),
            (
                "UPDATE journal SET kind = 'note' WHERE job = FINISHED AND seq = 4",
                "something else than its bytes",
            ),
            ("UPDATE journal SET value = 'other' WHERE job = RUNNING AND seq = 3", "seq 3"),
            ("DELETE FROM journal WHERE job = FINISHED AND seq = 6", "seq 6"),
            ("DELETE FROM jobs WHERE job = READY", "it has records and no row"),
        ],
    )
    .await;
}

#[tokio::test]
async fn final_state_that_was_left_is_found() {
    assert_all_found(
        Concern::Conclusion,
        &[
            (
                "INSERT INTO journal SELECT tenant, job, 7, generation, epoch, run, 'note', n, request, at, bytes, hash, value, salt, stored_at
                 FROM journal WHERE job = FINISHED AND seq = 6",
                "it was succeeded at seq 6, and its journal goes on to 7",
            ),
            ("UPDATE jobs SET state = 'ready' WHERE job = FINISHED", "its journal says succeeded, and its row ready"),
            (
                "UPDATE jobs SET state = 'succeeded', concluded_seq = 3, concluded_hash = sha256('') WHERE job = RUNNING",
                "its row says succeeded, and its journal does not",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn unfinished_job_that_nobody_works_on_is_found() {
    assert_all_found(
        Concern::Liveness,
        &[
            ("DELETE FROM ready", "it is ready; in the queue: false"),
            (
                "DELETE FROM leases WHERE job = RUNNING",
                "it is running; in the queue: false, has a lease: false",
            ),
            ("UPDATE terms SET expires_at = now(), closed_at = now()", "under an open term: false"),
            ("UPDATE jobs SET state = 'suspended' WHERE job = READY", "it is suspended"),
            ("UPDATE ready SET job = FINISHED", "it is succeeded; in the queue: true"),
            ("UPDATE ready SET job = gen_random_uuid()", "it is queued and has no row"),
        ],
    )
    .await;
}

#[tokio::test]
async fn lease_that_is_left_over_is_found() {
    assert_all_found(
        Concern::Lease,
        &[
            ("UPDATE leases SET job = FINISHED WHERE job = RUNNING", "it has a live lease and is succeeded"),
            (
                "UPDATE leases SET job = FINISHED WHERE job = INTERRUPTED",
                "it has a released lease and is succeeded",
            ),
            ("UPDATE leases SET job = gen_random_uuid() WHERE job = RUNNING", "and is missing"),
            ("DELETE FROM terms", "its term has no row"),
        ],
    )
    .await;
}

#[tokio::test]
async fn start_after_the_deadline_and_wait_past_it_are_found() {
    assert_all_found(
        Concern::Deadline,
        &[
            (
                "UPDATE sessions SET deadline_at = now() - interval '1 h' WHERE session = RUNNING",
                "starts a run at",
            ),
            (
                "UPDATE sessions SET deadline_at = now() - interval '1 h' WHERE session = READY",
                "it still waits",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn restart_and_lease_beyond_their_limits_are_found() {
    assert_all_found(
        Concern::Limit,
        &[
            ("UPDATE jobs SET attempts = 3 WHERE job = FINISHED", "restarted 3 times after failures"),
            ("UPDATE jobs SET losses = 11 WHERE job = FINISHED", "11 after losses"),
            (
                "UPDATE terms SET slots = 1; UPDATE leases SET released_at = NULL, epoch = 1 WHERE job = INTERRUPTED",
                "it has 1 slots and holds 2 jobs",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn restarts_that_no_record_granted_are_found() {
    assert_all_found(
        Concern::Price,
        &[
            ("UPDATE jobs SET attempts = 1 WHERE job = FINISHED", "its row counts 1 attempts and 0 losses"),
            ("UPDATE jobs SET losses = 2 WHERE job = READY", "its row counts 0 attempts and 2 losses"),
        ],
    )
    .await;
}

#[tokio::test]
async fn children_that_overlap_are_found_also_across_a_silent_run() {
    let story = Story::tell().await;
    story.write_beats(story.finished, 1, "100\n300\n");
    let findings = story.check_honestly().await;
    story.assert_found(&findings, Concern::OverlappingChildren, "the child of run 1 was alive");
    story.write_beats(story.finished, 1, "100\n299\n");
    assert_eq!(story.check_honestly().await, []);
}

#[tokio::test]
async fn submission_that_is_lost_doubled_or_stored_though_refused_is_found() {
    let story = Story::tell().await;
    let entries = story.entries();
    let answered = |answer: Answer| {
        let mut submissions = story.submissions();
        submissions[2].answer = answer;
        submissions
    };
    assert_eq!(story.check(&answered(Answer::Unknown), &entries).await, []);
    let refused = story.check(&answered(Answer::Refused), &entries).await;
    story.assert_found(&refused, Concern::Duplicated, "it was refused and is stored");
    let other = story.check(&answered(Answer::Acknowledged(Uuid::from_u128(1))), &entries).await;
    story.assert_found(&other, Concern::Lost, "and is stored as");
    let unheard = story.check(&story.submissions()[1..], &entries).await;
    story.assert_found(&unheard, Concern::Duplicated, "nobody submitted it");

    let mut more = story.submissions();
    more.push(Submitted { mark: "gone".to_owned(), answer: Answer::Acknowledged(Uuid::from_u128(2)) });
    more.push(Submitted { mark: "none".to_owned(), answer: Answer::Unknown });
    let lost = story.check(&more, &entries).await;
    assert_eq!(lost.len(), 1, "{lost:#?}");
    story.assert_found(&lost, Concern::Lost, "gone: it was acknowledged");

    story
        .run("UPDATE jobs SET labels = jsonb_build_object('submission', READY::text) WHERE job = INTERRUPTED")
        .await;
    let doubled = story.check_honestly().await;
    story.assert_found(&doubled, Concern::Duplicated, "it is stored 2 times");
}

#[tokio::test]
async fn note_that_was_acknowledged_and_is_missing_or_twice_is_found() {
    let story = Story::tell().await;
    story.write_notes(story.running, "first\nsecond\ncut sh");
    let findings = story.check_honestly().await;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    story.assert_found(&findings, Concern::Lost, "the note \"second\" was acknowledged and is not there");
    story.add_note(story.running, "second").await;
    assert_eq!(story.check_honestly().await, []);
    story.add_note(story.running, "second").await;
    let findings = story.check_honestly().await;
    story.assert_found(&findings, Concern::Duplicated, "the note \"second\" is there twice");
}

#[tokio::test]
async fn effect_that_is_lost_doubled_or_unannounced_is_found() {
    let story = Story::tell().await;
    let submissions = story.submissions();
    let text = format!("{} mail", story.finished);
    let lost = story.check(&submissions, &[]).await;
    story.assert_found(&lost, Concern::Lost, "it is recorded as done, and the ledger has it not");
    let doubled = story.check(&submissions, &[entry(&text), entry(&text)]).await;
    story.assert_found(&doubled, Concern::Duplicated, "the ledger has it 2 times");
    let unannounced = story.check(&submissions, &[entry(&text), entry("by hand")]).await;
    story.assert_found(
        &unannounced,
        Concern::Duplicated,
        "by hand: the ledger has it, and nobody announced it",
    );
}

#[tokio::test]
async fn doubt_is_counted_and_one_that_nobody_is_asked_about_is_found() {
    let story = Story::tell().await;
    let (submissions, entries) = (story.submissions(), story.entries());
    story.add_effect(story.running, "mail", "started", None).await;
    story.add_effect(story.interrupted, "mail", "failed", Some("in_doubt")).await;
    assert_eq!(story.check(&submissions, &entries).await, []);
    assert_eq!(count_in_doubt(&story.pool).await.unwrap(), 2);

    story.add_effect(story.running, "page", "reconciled", Some("landed")).await;
    let unseen = story.check(&submissions, &entries).await;
    story.assert_found(&unseen, Concern::Lost, "page: it is recorded as done, and the ledger has it not");

    story.add_effect(story.finished, "page", "started", None).await;
    let unlisted = story.check(&submissions, &entries).await;
    story.assert_found(&unlisted, Concern::Lost, "it is in doubt, and its job is succeeded");

    let story = Story::tell().await;
    story.add_effect(story.running, "mail", "reconciled", Some("did_not_happen")).await;
    let both = [entry(&format!("{} mail", story.finished)), entry(&format!("{} mail", story.running))];
    let happened = story.check(&story.submissions(), &both).await;
    story.assert_found(&happened, Concern::Duplicated, "it is recorded as not done, and the ledger has it");
}
