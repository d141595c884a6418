//! Every stable reason code of the product, in one place. docs/operate/errors.md has a paragraph for each, a test provokes
//! each (``/// Provokes `FENCED`.``), and the mapping to gRPC status is one table in `tenure-proto`; the four are compared by
//! a test. Codes are for programs, and never change their meaning. A code comes with the feature that returns it.

/// What a caller can do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The request is wrong; sending it again changes nothing.
    Rejected,
    /// Somebody else owns it by now; step aside.
    Fenced,
    /// Try again later.
    Unavailable,
    /// A defect of ours.
    Bug,
}

/// Defines the codes with their text, class and meaning.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $class:ident;)*) => {
        /// A stable reason code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code as programs see it.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What a caller can do about it.
            #[must_use]
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }

            /// The reason with this code.
            #[must_use]
            pub fn from_code(code: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.code() == code)
            }
        }
    };
}

reasons! {
    /// A field of a request is missing or wrong; the message names it.
    InvalidArgument = "INVALID_ARGUMENT", Rejected;
    /// A cursor that this fleet did not make.
    InvalidCursor = "INVALID_CURSOR", Rejected;
    /// A fleet file that cannot be read as one: unknown key, wrong type, bad name.
    InvalidFleetFile = "INVALID_FLEET_FILE", Rejected;
    /// A declaration that is not one.
    InvalidDeclaration = "INVALID_DECLARATION", Rejected;
    /// Something that a later release will have.
    NotSupported = "NOT_SUPPORTED", Rejected;
    /// No such agent is declared.
    UnknownAgent = "UNKNOWN_AGENT", Rejected;
    /// An input beyond its agent's limit.
    InputTooLarge = "INPUT_TOO_LARGE", Rejected;
    /// A note beyond its limit.
    NoteTooLarge = "NOTE_TOO_LARGE", Rejected;
    /// A line to be remembered that is beyond its limit.
    MemoryTooLarge = "MEMORY_TOO_LARGE", Rejected;
    /// A batch beyond its limits.
    BatchTooLarge = "BATCH_TOO_LARGE", Rejected;
    /// A message beyond what the transport takes.
    MessageTooLarge = "MESSAGE_TOO_LARGE", Rejected;
    /// A message that was not whole in time.
    RequestTooSlow = "REQUEST_TOO_SLOW", Unavailable;
    /// An idempotency key that was used with another payload.
    KeyReused = "KEY_REUSED", Rejected;
    /// No such job.
    JobNotFound = "JOB_NOT_FOUND", Rejected;
    /// An ending that several jobs have.
    JobAmbiguous = "JOB_AMBIGUOUS", Rejected;
    /// A job id that is neither a whole one nor an ending of at least six digits.
    JobIdInvalid = "JOB_ID_INVALID", Rejected;
    /// No such run of the job.
    RunNotFound = "RUN_NOT_FOUND", Rejected;
    /// The job has no result.
    ResultNotFound = "RESULT_NOT_FOUND", Rejected;
    /// A value in the blob store that is not there, or that is not the caller's to use.
    BlobNotFound = "BLOB_NOT_FOUND", Rejected;
    /// A value in the blob store that is not the one that its digest names.
    BlobDiffers = "BLOB_DIFFERS", Rejected;
    /// The blob store does not answer, or takes nothing.
    BlobStoreUnavailable = "BLOB_STORE_UNAVAILABLE", Unavailable;
    /// A value that was erased.
    ValueErased = "VALUE_ERASED", Rejected;
    /// A blank reason or note.
    ReasonMissing = "REASON_MISSING", Rejected;
    /// The verb is not allowed in the job's state.
    VerbNotAllowed = "VERB_NOT_ALLOWED", Rejected;
    /// The child of an earlier run is not known to be gone.
    ChildUnaccountedFor = "CHILD_UNACCOUNTED_FOR", Rejected;
    /// The epoch that was named is not that of the run in question.
    EpochMismatch = "EPOCH_MISMATCH", Rejected;
    /// The declaration that was named is not one that the job may go on under.
    DeclarationMismatch = "DECLARATION_MISMATCH", Rejected;
    /// The journal of the job has no frozen plan: it never started.
    PlanMissing = "PLAN_MISSING", Rejected;
    /// A limit of the job or its session refuses another run.
    LimitReached = "LIMIT_REACHED", Rejected;
    /// A halt stands against it.
    Halted = "HALTED", Rejected;
    /// No such halt stands.
    HaltNotStanding = "HALT_NOT_STANDING", Rejected;
    /// The session's deadline is reached, and a handler begins nothing more.
    DeadlineReached = "DEADLINE_REACHED", Rejected;
    /// A wait, or work that is set down, until an instant that is over, beyond the session's deadline or too far away.
    WaitOutOfBounds = "WAIT_OUT_OF_BOUNDS", Rejected;
    /// No hop is left: neither another job nor another run.
    HopsExhausted = "HOPS_EXHAUSTED", Rejected;
    /// The fleet file declares no route from the giver to the agent.
    NotRouted = "NOT_ROUTED", Rejected;
    /// A session that is as deep as one may be, and would spawn another.
    SpawnTooDeep = "SPAWN_TOO_DEEP", Rejected;
    /// The epoch or generation is not the present one.
    Fenced = "FENCED", Fenced;
    /// The run is over.
    RunOver = "RUN_OVER", Fenced;
    /// The same number of an append came with other contents.
    AppendConflict = "APPEND_CONFLICT", Rejected;
    /// An effect is in doubt, and what was declared cannot settle it.
    EffectInDoubt = "EFFECT_IN_DOUBT", Rejected;
    /// No effect was announced under that key.
    EffectNotFound = "EFFECT_NOT_FOUND", Rejected;
    /// What became of the effect is known, so there is nothing to answer.
    EffectDecided = "EFFECT_DECIDED", Rejected;
    /// A key that was announced with another command, where the caller insists on its own.
    EffectMismatch = "EFFECT_MISMATCH", Rejected;
    /// A command, undo or probe, or what a person says an effect returned, beyond its limit.
    EffectTooLarge = "EFFECT_TOO_LARGE", Rejected;
    /// What is recorded of an effect does not admit this: a second announcement, or an outcome of what is not open.
    EffectRefused = "EFFECT_REFUSED", Rejected;
    /// A cancel stands, and nothing more is begun.
    CancelRequested = "CANCEL_REQUESTED", Rejected;
    /// Less is left of the lease than the effect needs, and it could not be renewed.
    LeaseTooShort = "LEASE_TOO_SHORT", Unavailable;
    /// The worker's term is closed.
    TermClosed = "TERM_CLOSED", Fenced;
    /// An attach without the secret of its registration.
    AttachRefused = "ATTACH_REFUSED", Rejected;
    /// Another attach of the same term took over.
    Displaced = "DISPLACED", Fenced;
    /// A report that a child is gone without the run's secret, or about no run.
    GoneRefused = "GONE_REFUSED", Rejected;
    /// More than the coordinator takes at once.
    Overloaded = "OVERLOADED", Unavailable;
    /// The database does not answer.
    DatabaseUnavailable = "DATABASE_UNAVAILABLE", Unavailable;
    /// The database is not migrated.
    NotMigrated = "NOT_MIGRATED", Rejected;
    /// The database was migrated by a newer release.
    DatabaseTooNew = "DATABASE_TOO_NEW", Rejected;
    /// The settings that every statement relies on are not in force for the role that connects.
    SettingsMissing = "SETTINGS_MISSING", Rejected;
    /// The database is another timeline than it was: a failover may have lost history.
    TimelineChanged = "TIMELINE_CHANGED", Unavailable;
    /// No coordinator answers.
    CoordinatorUnavailable = "COORDINATOR_UNAVAILABLE", Unavailable;
    /// A port is in use.
    PortInUse = "PORT_IN_USE", Rejected;
    /// An address that is not loopback, without credentials.
    LoopbackOnly = "LOOPBACK_ONLY", Rejected;
    /// An address that is not loopback, without TLS: to serve, or to send a token to.
    TlsRequired = "TLS_REQUIRED", Rejected;
    /// A certificate, key or authority that cannot be read or used.
    TlsUnusable = "TLS_UNUSABLE", Rejected;
    /// A file of tokens, or of one token, that cannot be read as one.
    TokensUnreadable = "TOKENS_UNREADABLE", Rejected;
    /// A call without a credential, where every call needs one.
    CredentialMissing = "CREDENTIAL_MISSING", Rejected;
    /// A credential that is not known, or was revoked.
    CredentialInvalid = "CREDENTIAL_INVALID", Rejected;
    /// A credential whose time is over.
    CredentialExpired = "CREDENTIAL_EXPIRED", Rejected;
    /// A worker's call without a client certificate, where one is wanted.
    CertificateMissing = "CERTIFICATE_MISSING", Rejected;
    /// A credential that does not allow what was asked for.
    ScopeMissing = "SCOPE_MISSING", Rejected;
    /// A tenant that the credential does not name.
    TenantNotGranted = "TENANT_NOT_GRANTED", Rejected;
    /// A credential that names several tenants, and a call that says none.
    TenantRequired = "TENANT_REQUIRED", Rejected;
    /// No PostgreSQL binaries.
    PostgresNotFound = "POSTGRES_NOT_FOUND", Rejected;
    /// A private PostgreSQL that could not be initialised or started; the message ends with its log.
    PostgresNotStarted = "POSTGRES_NOT_STARTED", Rejected;
    /// A verb of a run, outside a run.
    NotInsideRun = "NOT_INSIDE_RUN", Rejected;
    /// The wait ran out.
    WaitRanOut = "WAIT_RAN_OUT", Rejected;
    /// The job did not succeed.
    JobNotSucceeded = "JOB_NOT_SUCCEEDED", Rejected;
    /// A handler that asks for something else than the journal has.
    ReplayDiverged = "REPLAY_DIVERGED", Rejected;
    /// A journal that does not verify.
    ChainBroken = "CHAIN_BROKEN", Rejected;
    /// A defect of ours.
    Internal = "INTERNAL", Bug;
}
