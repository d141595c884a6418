//! What tenants spent, by the minute. It is written with the records that say so (`append`) and read where a session is to be opened (`agent`);
//! here it is only cleared away.

use std::time::Duration;

use sqlx::query_file;

use crate::{Store, StoreError, stored::to_ms};

impl Store {
    /// Deletes what was spent longer ago than `age`, at most `limit` minutes of it; returns how many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_old_spending(&self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let deleted = query_file!("queries/spending/delete_old_spending.sql", to_ms(age), i64::from(limit))
            .execute(&self.pool)
            .await
            .map_err(StoreError::while_doing("deleting what was spent long ago"))?;
        Ok(deleted.rows_affected())
    }
}
