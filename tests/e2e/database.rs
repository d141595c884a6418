//! What was acknowledged survives the database's sudden death, and the fleet goes on afterwards.

use std::{collections::BTreeSet, fs};

use tenure_testkit::wait_for;

use crate::fixture::{Fleet, PATIENCE};

const AGENTS: &str = r#"
[agents.chatter]
timeout = "5m"
script = '''
i=0
while [ ! -e SHARED/go ]; do
    i=$((i + 1))
    if tenure note "note $i of $TENURE_JOB.$TENURE_RUN"; then
        echo "note $i of $TENURE_JOB.$TENURE_RUN" >> "SHARED/$TENURE_JOB"
    fi
done
'''
"#;

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_notes_survive_kill_9_of_postgresql_under_load() {
    let mut fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "2"]), ("w2", &["--slots", "2"])]).await;
    let jobs: Vec<_> = (0..4).map(|_| fleet.submit("chatter", "")).collect();
    for job in &jobs {
        wait_for_acknowledged(&fleet, *job, 5).await;
    }
    tokio::task::block_in_place(|| {
        fleet.cluster.postgres.kill9();
        fleet.cluster.postgres.start_again().unwrap();
    });
    for job in &jobs {
        let before = acknowledged(&fleet, *job).len();
        wait_for_acknowledged(&fleet, *job, before + 3).await;
    }
    fs::write(fleet.shared().join("go"), "").unwrap();
    for job in &jobs {
        fleet.wait_for_state(*job, "succeeded").await;
        let stored: Vec<String> = fleet.notes(*job).await;
        let distinct: BTreeSet<&String> = stored.iter().collect();
        assert_eq!(distinct.len(), stored.len(), "a note landed twice");
        for note in acknowledged(&fleet, *job) {
            assert!(distinct.contains(&note), "{note:?} was acknowledged, and is not there");
        }
        assert!(fleet.try_run(&["verify", &job.to_string()]).status.success());
    }
}

/// What the agent saw acknowledged.
fn acknowledged(fleet: &Fleet, job: uuid::Uuid) -> Vec<String> {
    let text = fs::read_to_string(fleet.shared().join(job.to_string())).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn wait_for_acknowledged(fleet: &Fleet, job: uuid::Uuid, wanted: usize) {
    wait_for("notes to be acknowledged", PATIENCE, async || {
        let seen = acknowledged(fleet, job).len();
        if seen >= wanted { Ok(()) } else { Err(seen) }
    })
    .await;
}
