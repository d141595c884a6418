//! The settings that every statement relies on: commits that last, bounded waits, plans that look rows up. They stand on the
//! role in its database (`migrate` writes them there), because a session's own are lost behind a pooler that shares
//! connections by the transaction, and one that refuses start-up options would not even connect. Every new connection is
//! asked whether they are in force, by whatever means; where they are not, the error says which statements make them so.
//! Neighbours: `connection` asks, `schema` writes them when it migrates.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, query_file};
use tenure_core::limits::{
    DATABASE_IDLE_TRANSACTION_TIMEOUT, DATABASE_LOCK_TIMEOUT, DATABASE_STATEMENT_TIMEOUT,
};

use crate::{Store, StoreError, connection::begin};

/// A setting, and what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Setting {
    name: &'static str,
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// One of these; the first is what `migrate` writes.
    OneOf(&'static [&'static str]),
    /// No longer than this, and bounded; this is what `migrate` writes.
    AtMost(Duration),
}

/// The key of the advisory lock under which a role is altered: "tenure r" in ASCII.
const ALTERING_LOCK: i64 = 0x7465_6e75_7265_2072;

const OFF: Wanted = Wanted::OneOf(&["off"]);

const SETTINGS: [Setting; 11] = [
    Setting { name: "default_transaction_isolation", wanted: Wanted::OneOf(&["read committed"]) },
    Setting { name: "synchronous_commit", wanted: Wanted::OneOf(&["on", "remote_apply"]) },
    Setting { name: "statement_timeout", wanted: Wanted::AtMost(DATABASE_STATEMENT_TIMEOUT) },
    Setting { name: "lock_timeout", wanted: Wanted::AtMost(DATABASE_LOCK_TIMEOUT) },
    Setting {
        name: "idle_in_transaction_session_timeout",
        wanted: Wanted::AtMost(DATABASE_IDLE_TRANSACTION_TIMEOUT),
    },
    // Compiling a plan costs more than any of ours runs.
    Setting { name: "jit", wanted: OFF },
    // Every statement looks rows up by key, one by one. A plan that reads a table whole is right only while the table is
    // small, and would be kept by a connection that prepared it then.
    Setting { name: "enable_seqscan", wanted: OFF },
    Setting { name: "enable_bitmapscan", wanted: OFF },
    Setting { name: "enable_hashjoin", wanted: OFF },
    Setting { name: "enable_mergejoin", wanted: OFF },
    // So no plan depends on the values, and the first five uses of a statement on each connection need not find one anew:
    // 6 ms for the largest.
    Setting { name: "plan_cache_mode", wanted: Wanted::OneOf(&["force_generic_plan"]) },
];

impl Wanted {
    fn is_met(self, present: &str) -> bool {
        match self {
            Self::OneOf(values) => values.contains(&present),
            Self::AtMost(most) => {
                let present_ms: u128 = present.parse().unwrap_or(0);
                (1..=most.as_millis()).contains(&present_ms)
            }
        }
    }

    fn value(self) -> String {
        match self {
            Self::OneOf(values) => values.first().copied().unwrap_or_default().to_owned(),
            Self::AtMost(most) => most.as_millis().to_string(),
        }
    }
}

/// Who connects where, and which settings are not in force there.
#[derive(Debug)]
struct Present {
    role: String,
    database: String,
    unmet: Vec<Setting>,
}

impl Store {
    /// Writes the settings onto a role in this database, where they are not in force for it already; none: the role that
    /// this store connects as. They hold for connections that are made from then on.
    ///
    /// # Errors
    /// `SettingsMissing` where the role that asks may not do that: the statements that somebody else has to run.
    pub async fn prepare_role(&self, role: Option<&str>) -> Result<(), StoreError> {
        let attempted = "writing the settings of the role";
        let mut connection = self.take(attempted).await?;
        let present = read_present(&mut connection).await.map_err(StoreError::while_doing(attempted))?;
        let own = role.is_none_or(|role| role == present.role);
        if own && present.unmet.is_empty() {
            return Ok(());
        }
        let statements = alter_role(role.unwrap_or(&present.role), &present.database, &SETTINGS);
        let mut transaction = begin(&mut connection, attempted).await?;
        // Two who alter one role at once would meet on its row in the catalog, and one of them would fail.
        let locked = sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(ALTERING_LOCK);
        locked.execute(&mut *transaction).await.map_err(StoreError::while_doing(attempted))?;
        for statement in &statements {
            let done = sqlx::query(AssertSqlSafe(statement.clone())).execute(&mut *transaction).await;
            done.map_err(|error| refuse_alteration(attempted, error, &statements))?;
        }
        transaction.commit().await.map_err(StoreError::while_doing(attempted))
    }
}

/// Passes where every setting is in force for this connection.
pub(crate) async fn check_settings(connection: &mut PgConnection) -> Result<(), StoreError> {
    let attempted = "reading the settings of a connection";
    let present = read_present(connection).await.map_err(StoreError::while_doing(attempted))?;
    if present.unmet.is_empty() {
        return Ok(());
    }
    let statements = alter_role(&present.role, &present.database, &present.unmet);
    Err(StoreError::SettingsMissing { role: present.role, statements: statements.join("; "), source: None })
}

async fn read_present(connection: &mut PgConnection) -> sqlx::Result<Present> {
    let names = SETTINGS.map(|setting| setting.name.to_owned());
    let rows =
        query_file!("queries/installation/read_settings.sql", &names[..]).fetch_all(connection).await?;
    let mut present = Present { role: String::new(), database: String::new(), unmet: Vec::new() };
    for row in rows {
        (present.role, present.database) = (row.role, row.database);
        let setting = SETTINGS.iter().find(|setting| setting.name == row.name);
        present.unmet.extend(setting.filter(|setting| !setting.wanted.is_met(&row.value)));
    }
    Ok(present)
}

/// The statements that put the settings onto a role in a database.
fn alter_role(role: &str, database: &str, settings: &[Setting]) -> Vec<String> {
    let (role, database) = (quote_name(role), quote_name(database));
    let statement = |setting: &Setting| {
        let (name, value) = (setting.name, setting.wanted.value());
        format!("ALTER ROLE {role} IN DATABASE {database} SET {name} = '{value}'")
    };
    settings.iter().map(statement).collect()
}

/// The statements that put every setting onto the role that runs them, in this database: for whoever clones databases,
/// which takes no settings along.
#[must_use]
pub fn own_role_settings(database: &str) -> Vec<String> {
    let database = quote_name(database);
    let statement = |setting: &Setting| {
        let (name, value) = (setting.name, setting.wanted.value());
        format!("ALTER ROLE CURRENT_USER IN DATABASE {database} SET {name} = '{value}'")
    };
    SETTINGS.iter().map(statement).collect()
}

fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A role that may not alter the other is told what somebody else has to run.
fn refuse_alteration(attempted: &'static str, error: sqlx::Error, statements: &[String]) -> StoreError {
    let denied = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    match denied.as_deref() {
        Some("42501") => StoreError::SettingsMissing {
            role: "the coordinators connect as".to_owned(),
            statements: statements.join("; "),
            source: Some(std::sync::Arc::new(error)),
        },
        _ => StoreError::while_doing(attempted)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_need_quotes_get_them() {
        let statements = alter_role("te\"n", "My db", &SETTINGS[..1]);
        assert_eq!(
            statements,
            [
                "ALTER ROLE \"te\"\"n\" IN DATABASE \"My db\" SET default_transaction_isolation = 'read committed'"
            ]
        );
    }

    #[test]
    fn a_timeout_may_be_shorter_but_not_absent() {
        let wanted = Wanted::AtMost(Duration::from_secs(1));
        let met = ["0", "1", "1000", "1001", "off"].map(|present| wanted.is_met(present));
        assert_eq!(met, [false, true, true, false, false]);
    }

    #[test]
    fn a_commit_may_wait_for_more_but_not_for_less() {
        let wanted = SETTINGS.iter().find(|setting| setting.name == "synchronous_commit").unwrap().wanted;
        let met =
            ["off", "local", "remote_write", "on", "remote_apply"].map(|present| wanted.is_met(present));
        assert_eq!(met, [false, false, false, true, true]);
    }
}
