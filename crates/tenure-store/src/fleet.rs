//! Counting what is there, for whoever watches the whole. It counts everything of every tenant, names nothing, and is never
//! asked for a decision. Neighbours: a coordinator's gauges.

use tenure_core::job::State;

use crate::{Store, StoreError, connection::begin, stored::from_bigint};

/// Scans are what a count wants; the settings of the role keep other statements from them.
const SCANS: &str = "SET LOCAL enable_seqscan = on";
const JOINS: &str = "SET LOCAL enable_hashjoin = on";

/// The words that are always counted, beside the states of jobs, so that none of a kind is zero and not missing.
const ALWAYS: [(&str, &[&str]); 4] = [
    ("queue", &["claimable", "delayed"]),
    ("leases", &["live", "unaccounted"]),
    ("terms", &["open", "closed"]),
    ("effects", &["under_way", "in_doubt"]),
];

/// How many there are of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetCount {
    /// Of what: `jobs`, `queue`, `leases`, `terms`, `effects`.
    pub of: String,
    /// Which of them: a state or a kind.
    pub word: String,
    /// How many.
    pub count: u64,
}

impl Store {
    /// Counts jobs by state, what waits, leases, terms, and effects without an outcome.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn count_fleet(&self) -> Result<Vec<FleetCount>, StoreError> {
        let attempted = "counting the fleet";
        let mut connection = self.take(attempted).await?;
        let mut transaction = begin(&mut connection, attempted).await?;
        for setting in [SCANS, JOINS] {
            let set = sqlx::query(setting).execute(&mut *transaction).await;
            set.map_err(StoreError::while_doing(attempted))?;
        }
        let rows = sqlx::query_file!("queries/fleet/count_fleet.sql").fetch_all(&mut *transaction).await;
        let rows = rows.map_err(StoreError::while_doing(attempted))?;
        transaction.commit().await.map_err(StoreError::while_doing(attempted))?;
        let count = |row: Row| FleetCount { of: row.0, word: row.1, count: from_bigint(row.2) };
        Ok(with_zeros(rows.into_iter().map(|row| count((row.of, row.word, row.count))).collect()))
    }
}

type Row = (String, String, i64);

fn with_zeros(mut counts: Vec<FleetCount>) -> Vec<FleetCount> {
    let states = State::ALL.iter().map(|state| ("jobs", state.name()));
    let kinds = ALWAYS.iter().flat_map(|(of, words)| words.iter().map(|word| (*of, *word)));
    for (of, word) in states.chain(kinds) {
        if !counts.iter().any(|count| count.of == of && count.word == word) {
            counts.push(FleetCount { of: of.to_owned(), word: word.to_owned(), count: 0 });
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_none_of_is_counted_as_zero() {
        let one = FleetCount { of: "queue".to_owned(), word: "delayed".to_owned(), count: 3 };
        let counts = with_zeros(vec![one.clone()]);
        assert!(counts.contains(&one));
        let zeros = counts.iter().filter(|count| count.count == 0).count();
        assert_eq!((counts.len(), zeros), (8 + State::ALL.len(), 7 + State::ALL.len()));
    }
}
