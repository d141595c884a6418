//! What can go wrong with the database, in four kinds: the database is to blame for the moment (try again), the caller's
//! data is, the installation is not what this release expects, or we are. It owns the reading of PostgreSQL's error codes.
//! Being fenced is no error: it is an outcome of the method that was refused.

use std::sync::Arc;

use tenure_core::reason::Reason;

/// A store method did not do what it was asked. Cheap to clone: one failed batch has many waiters.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer, or one that came too late. Nothing is known about what was attempted.
    #[error("{attempted}: the database does not answer")]
    Unavailable {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The address is not one.
    #[error("the database's address cannot be read as a postgres:// URL")]
    InvalidUrl {
        /// The cause; it does not contain the address, which may contain a password.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The schema is older than this release, or absent.
    #[error("the database is at schema {found}, and this release needs {known}: run tenure migrate")]
    NotMigrated {
        /// The newest migration that was applied; 0: none.
        found: i64,
        /// The newest that this release knows.
        known: i64,
    },
    /// The schema is newer than this release.
    #[error("the database is at schema {found}, and this release knows only {known}: use a newer release")]
    DatabaseTooNew {
        /// The newest migration that was applied.
        found: i64,
        /// The newest that this release knows.
        known: i64,
    },
    /// The settings that every statement relies on are not in force for the role.
    #[error(
        "the settings of role {role} are not in force: run tenure migrate with --role {role} as a role that may alter it, or \
         have somebody run: {statements}"
    )]
    SettingsMissing {
        /// As which the connection was made.
        role: String,
        /// What makes them so, for connections that are made afterwards.
        statements: String,
        /// Why they could not be written, where that was tried.
        #[source]
        source: Option<Arc<sqlx::Error>>,
    },
    /// A migration failed.
    #[error("migrating the database")]
    Migrate {
        /// The cause.
        #[source]
        source: Arc<sqlx::migrate::MigrateError>,
    },
    /// The database is on another timeline than the installation's row says: a failover may have lost history.
    #[error(
        "the database is on timeline {present}, and was on {recorded}: a failover or a restore may have lost history, so \
         nothing is claimed or written"
    )]
    TimelineChanged {
        /// As noted at the installation.
        recorded: String,
        /// As it is now.
        present: String,
    },
    /// Somebody else took a position of the batch while it was on its way. Nothing was written; send it again.
    #[error("{attempted}: a position was taken by another writer meanwhile")]
    PositionTaken {
        /// What was attempted.
        attempted: &'static str,
    },
    /// The batch announces an attempt at an effect that was announced before, and the unique index stopped it, behind the
    /// check in the statement. Nothing was written, and sending it again changes nothing.
    #[error(
        "{attempted}: an attempt at an effect is announced a second time, and the index {index} stopped it"
    )]
    AlreadyAnnounced {
        /// What was attempted.
        attempted: &'static str,
        /// The unique index.
        index: String,
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// Somebody else kept what the batch needs for longer than is waited. Nothing was written; the part of the batch that
    /// does not need it can be sent at once.
    #[error("{attempted}: what it needs was kept locked by another transaction")]
    LockTimeout {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The batch and another transaction waited for each other, and the batch was given up. Nothing was written; send it
    /// again.
    #[error("{attempted}: given up in favour of another transaction")]
    Deadlock {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The database refused the data of the batch. Nothing was written, and sending it again changes nothing.
    #[error("{attempted}: the database refused the data")]
    Data {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A stored value that this release does not know. It is refused, never guessed at.
    #[error("{attempted}: the stored {what} {found:?} is not known to this release")]
    UnknownValue {
        /// What was attempted.
        attempted: &'static str,
        /// Which value.
        what: &'static str,
        /// As stored.
        found: String,
    },
    /// A record could not be composed.
    #[error("{attempted}: composing a record")]
    Seal {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        #[source]
        source: Arc<tenure_core::record::SealError>,
    },
    /// A defect of ours: the statement does not fit the schema.
    #[error("{attempted}: the statement failed")]
    Bug {
        /// What was attempted.
        attempted: &'static str,
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
}

impl StoreError {
    /// The stable reason code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Unavailable { .. }
            | Self::PositionTaken { .. }
            | Self::LockTimeout { .. }
            | Self::Deadlock { .. } => Reason::DatabaseUnavailable,
            Self::InvalidUrl { .. } => Reason::InvalidArgument,
            Self::NotMigrated { .. } => Reason::NotMigrated,
            Self::DatabaseTooNew { .. } => Reason::DatabaseTooNew,
            Self::SettingsMissing { .. } => Reason::SettingsMissing,
            Self::TimelineChanged { .. } => Reason::TimelineChanged,
            Self::AlreadyAnnounced { .. } => Reason::EffectRefused,
            Self::Migrate { .. }
            | Self::Data { .. }
            | Self::UnknownValue { .. }
            | Self::Seal { .. }
            | Self::Bug { .. } => Reason::Internal,
        }
    }

    /// True where the same call may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::PositionTaken { .. }
                | Self::LockTimeout { .. }
                | Self::Deadlock { .. }
        )
    }

    /// For `map_err`: reads what the driver says.
    pub(crate) fn while_doing(attempted: &'static str) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self::from_driver(attempted, source)
    }

    fn from_driver(attempted: &'static str, source: sqlx::Error) -> Self {
        if let Some(index) = index_of_effects(&source) {
            return Self::AlreadyAnnounced { attempted, index, source: Arc::new(source) };
        }
        let blame = match &source {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Protocol(_) => Blame::Moment,
            sqlx::Error::Database(refusal) => Blame::of(refusal.code().as_deref().unwrap_or_default()),
            _ => Blame::Statement,
        };
        let source = Arc::new(source);
        match blame {
            Blame::Position => Self::PositionTaken { attempted },
            Blame::Lock => Self::LockTimeout { attempted, source },
            Blame::Deadlock => Self::Deadlock { attempted, source },
            Blame::Moment => Self::Unavailable { attempted, source },
            Blame::Data => Self::Data { attempted, source },
            Blame::Statement => Self::Bug { attempted, source },
        }
    }

    pub(crate) fn invalid_url(source: sqlx::Error) -> Self {
        Self::InvalidUrl { source: Arc::new(source) }
    }

    pub(crate) fn migrate(source: sqlx::migrate::MigrateError) -> Self {
        Self::Migrate { source: Arc::new(source) }
    }

    pub(crate) fn seal(attempted: &'static str, source: tenure_core::record::SealError) -> Self {
        Self::Seal { attempted, source: Arc::new(source) }
    }
}

/// The unique index of `effects` (or of one of its partitions) that a statement violated, where it did.
fn index_of_effects(error: &sqlx::Error) -> Option<String> {
    let refusal = error.as_database_error().filter(|refusal| refusal.is_unique_violation())?;
    let of_effects = refusal.table().is_some_and(|table| table == "effects" || table.starts_with("effects_"));
    refusal.constraint().filter(|_| of_effects).map(str::to_owned)
}

/// What PostgreSQL's five-character code blames.
enum Blame {
    Position,
    Lock,
    Deadlock,
    Moment,
    Data,
    Statement,
}

impl Blame {
    fn of(code: &str) -> Self {
        match code {
            // A unique index: for the writers of this crate that is a position, a lease or a ready row of the same job.
            "23505" => Self::Position,
            "55P03" => Self::Lock,
            // A serialization failure is the same to us: given up in favour of another, and nothing was written.
            "40P01" | "40001" => Self::Deadlock,
            // The statement timeout.
            "57014" => Self::Moment,
            // A standby that is not promoted: the wal functions and every write refuse there.
            "25006" | "55000" => Self::Moment,
            // Connection lost, resources used up, operator's intervention, authorisation while roles are being changed.
            _ if matches!(code.get(..2), Some("08" | "53" | "57" | "58" | "28" | "3D")) => Self::Moment,
            // A session ended by idle_in_transaction_session_timeout.
            "25P03" => Self::Moment,
            _ if matches!(code.get(..2), Some("22" | "23")) => Self::Data,
            _ => Self::Statement,
        }
    }
}
