//! The coordinator: services, worker streams, group commit, dispatch and sweep. It holds no state of its own that another
//! could not rebuild from the database; any number of them may run side by side, and none leads. It contains no SQL, and
//! decides nothing that `tenure-core` can decide.
//! Neighbours: `tenure-store` remembers, `tenure-core` decides, `tenure-proto` translates, workers and clients call.

mod coordinator;
mod options;
mod readiness;
mod tls;

mod server;

mod submission;

mod lane;

mod attachment;
mod attachments;
mod denial;
mod dispatch;
mod gone;
mod grant;

mod blob_store;
mod blob_transfer;

mod background;

mod credentials;
mod run_secret;

mod clock;
mod metrics;
mod mint;
mod patience;
mod poll;
mod promise;
mod refusals;
mod trace;
mod vital;
mod wake;

pub use blob_store::{BlobLocation, BlobStoreError, InvalidBlobLocation};
pub use coordinator::{Coordinator, RunningCoordinator};
pub use credentials::{TooManyTokens, file::TokenFileError};
pub use mint::mint_token;
pub use options::{CoordinatorOptions, LANES_DEFAULT, LANES_MAX, StartError, WAIT_FOR_DATABASE_DEFAULT};
pub use readiness::Readiness;
pub use tls::{TlsFileError, TlsFiles};
pub use wake::announce_tokens;
