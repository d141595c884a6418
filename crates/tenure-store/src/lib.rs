//! The only SQL of Tenure: what is remembered, in PostgreSQL. One method is one transaction, and nobody outside holds one.
//! Each statement that writes to a job checks by itself that its writer may (position, lease, generation, timeline); what
//! it did not admit is told apart afterwards. It decides nothing: what is to be written comes from `tenure-core` as plans
//! and sealed records. It does not know gRPC, keeps no memory between calls, and retries nothing but what says so
//! (`append_with_retry`, `claim_jobs`, `attach_worker`).
//! Neighbours: `tenure-core` (types), `tenure-coordinator` (the only caller at run time), `tenure-testkit`.

mod error;
mod stored;
mod timestamp;

mod connection;
mod installation;
mod partition;
mod pool;
mod schema;
mod settings;

mod agent;
mod append;
mod attention;
mod blob;
mod claim;
mod effect;
mod erasure;
mod facts;
mod fleet;
mod halt;
mod job;
mod joining;
mod journal;
mod layover;
mod lease;
mod memory;
mod notification;
mod output;
mod ready;
mod sending;
mod session;
mod spending;
mod submission;
mod term;
mod testimony;
mod token;
mod wait;

pub use agent::{AgentRevision, Change, ChangeKind, NewBundle, NewDeclaration};
pub use append::{Append, AppendOutcome, AppendReport, Gift, Guard, NewDelivery};
pub use attention::Look;
pub use blob::{BlobPlace, FoundBlob, JudgedBlobs, LiveBlob, StoredBlob};
pub use claim::{ClaimOutcome, ClaimRequest, Claimed, Floors};
pub use connection::{Store, StoreOptions};
pub use effect::{EffectFilter, EffectPage, EffectRow, StepToUndo};
pub use erasure::Erasure;
pub use error::StoreError;
pub use facts::FoundFacts;
pub use fleet::FleetCount;
pub use halt::{HaltFilter, Lifted, Thrown};
pub use installation::Installation;
pub use job::{JobFilter, JobRow};
pub use joining::WaitingJoin;
pub use journal::{RecordPage, StoredRecord, Tail, TailRow};
pub use layover::DueLayover;
pub use lease::{LapsedCursor, LapsedPage, LostGrant, RunSecret};
pub use memory::MemoryRow;
pub use notification::Listener;
pub use output::{OutputChunk, OutputStream};
pub use partition::PartitionReport;
pub use ready::{DueReport, NeedsPage, OverduePage};
pub use schema::SchemaState;
pub use sending::{EarlierGift, GiftRow, Giver};
pub use session::{SessionJob, SessionRow};
pub use settings::own_role_settings;
pub use submission::{EagerClaim, NewJob, SubmissionKey, Submitted};
pub use term::{
    AttachedTerm, ClosableTerm, ClosedTerm, HeldLabels, LapsedTerm, NewTerm, Registered, Renewal, Standing,
    TermRefusal, WorkerRow,
};
pub use testimony::{NewTestimony, TestimonyPage, TestimonyRow};
pub use token::TokenStored;
pub use wait::{AwaitedJob, Due, WaitKey, WaitPage};
