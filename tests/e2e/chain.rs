//! What somebody with access to the database does to a journal, `tenure verify` finds and names by its seq. The chain is
//! recomputed in the client.

use uuid::Uuid;

use crate::fixture::Fleet;

const AGENTS: &str = r#"
[agents.noter]
script = '''
tenure note one
tenure note two
'''
"#;

/// Tampers with the second of two concluded jobs, in a statement that gets both, and expects `verify` to name `seq`.
/// Provokes `CHAIN_BROKEN`.
async fn expect_finding(tamper: &'static str, seq: u64) {
    let fleet = Fleet::start(AGENTS, &[("w1", &[])]).await;
    let (other, job) = (fleet.submit("noter", "a"), fleet.submit("noter", "b"));
    fleet.wait_for_state(other, "succeeded").await;
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(fleet.kinds(job).await.len(), 6);
    assert!(fleet.try_run(&["verify", &job.to_string()]).status.success(), "it verifies before");
    tamper_with(&fleet, tamper, job, other).await;
    let output = fleet.try_run(&["verify", &job.to_string(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("CHAIN_BROKEN"), "{said}");
    assert!(
        said.contains(&format!("seq {seq}")) || said.contains(&format!("\"seq\":{seq}")),
        "seq {seq}: {said}"
    );
    assert!(fleet.try_run(&["verify", &other.to_string()]).status.success(), "the other job still verifies");
}

async fn tamper_with(fleet: &Fleet, statement: &'static str, job: Uuid, other: Uuid) {
    let mut query = sqlx::query(statement).bind(job);
    if statement.contains("$2") {
        query = query.bind(other);
    }
    let done = query.execute(&fleet.cluster.database).await.unwrap();
    assert!(done.rows_affected() > 0, "the statement changed nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_byte_is_named() {
    expect_finding(
        "UPDATE journal SET bytes = set_byte(bytes, length(bytes) / 2, get_byte(bytes, length(bytes) / 2) # 1)
         WHERE job = $1 AND seq = 3",
        3,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn added_white_space_is_named() {
    expect_finding("UPDATE journal SET bytes = bytes || '\\x20'::bytea WHERE job = $1 AND seq = 4", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_value_is_named() {
    expect_finding("UPDATE journal SET value = 'three'::bytea WHERE job = $1 AND seq = 5", 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_row_is_named() {
    expect_finding("DELETE FROM journal WHERE job = $1 AND seq = 4", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_last_row_of_a_concluded_job_is_named() {
    expect_finding("DELETE FROM journal WHERE job = $1 AND seq = 6", 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swapped_rows_are_named() {
    expect_finding(
        "UPDATE journal j SET bytes = o.bytes, hash = o.hash, value = o.value, salt = o.salt FROM journal o
         WHERE j.job = $1 AND o.job = j.job AND j.seq IN (4, 5) AND o.seq = 9 - j.seq",
        4,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_spliced_from_another_job_is_named() {
    expect_finding(
        "UPDATE journal j SET bytes = o.bytes, hash = o.hash, value = o.value, salt = o.salt FROM journal o
         WHERE j.job = $1 AND o.job = $2 AND j.seq = 4 AND o.seq = 4",
        4,
    )
    .await;
}
