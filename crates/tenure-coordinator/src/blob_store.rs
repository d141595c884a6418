//! The blob store: a local directory, or a bucket that speaks S3. It owns where the pieces of a blob lie and how long each
//! act on one may take; what a blob is, and whose, stands in the database. Promises: a piece that was stored is durable; no
//! act waits for ever; no more blobs come and go at the same time than there is memory for. A blob lies in pieces of a few
//! MiB, each an object of its own, so that what a broken upload leaves behind can always be listed and deleted.
//! Neighbours: `blob_transfer` moves blobs, `background/blobs` deletes.

use std::{error::Error, io, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt as _;
use opendal::{
    ErrorKind, Operator,
    services::{Fs, S3},
};
use tenure_core::{
    limits::{BLOB_PART_BYTES, BLOB_STORE_WITHIN, BLOB_TRANSFERS_MAX},
    reason::Reason,
    refusal::Refusal,
};
use tenure_store::BlobPlace;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    metrics::{Limit, metrics},
    refusals::{OVERLOAD_RETRY, chain},
};

/// When a caller may try again after the blob store did not answer.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// How often a piece is stored or read where the store says that this may help.
const ATTEMPTS_MAX: u32 = 3;
/// The pause before it is tried again.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);
const PART_BYTES: u64 = BLOB_PART_BYTES as u64;
/// The region, where nothing is said: that of stores that have none.
const REGION_DEFAULT: &str = "us-east-1";

/// Where the blobs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobLocation {
    /// In a directory, which is made where it is not there.
    Directory(PathBuf),
    /// In a bucket that speaks S3. Credentials come from the `AWS_*` variables, the files or the host, as everywhere.
    Bucket {
        /// Its name.
        bucket: String,
        /// What every key begins with; may be empty.
        prefix: String,
        /// Where it is asked; none: `AWS_ENDPOINT_URL`, otherwise Amazon.
        endpoint: Option<String>,
        /// Its region; none: `AWS_REGION`, otherwise `us-east-1`.
        region: Option<String>,
    },
}

/// A location that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBlobLocation {
    /// Nothing is said.
    #[error("the blob store is neither a directory nor s3://BUCKET/PREFIX")]
    Empty,
    /// The scheme is of no store that is known.
    #[error("the blob store {given:?} is neither a directory nor s3://BUCKET/PREFIX")]
    Scheme {
        /// What was given.
        given: String,
    },
    /// A parameter is not known.
    #[error("the blob store has a parameter {name:?}, and only endpoint and region are taken")]
    Parameter {
        /// Its name.
        name: String,
    },
}

impl std::str::FromStr for BlobLocation {
    type Err = InvalidBlobLocation;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let Some(address) = given.strip_prefix("s3://") else {
            return match given {
                "" => Err(InvalidBlobLocation::Empty),
                _ if given.contains("://") => Err(InvalidBlobLocation::Scheme { given: given.to_owned() }),
                _ => Ok(Self::Directory(PathBuf::from(given))),
            };
        };
        let (path, parameters) = address.split_once('?').unwrap_or((address, ""));
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() {
            return Err(InvalidBlobLocation::Scheme { given: given.to_owned() });
        }
        let (mut endpoint, mut region) = (None, None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "endpoint" => endpoint = Some(value.to_owned()),
                "region" => region = Some(value.to_owned()),
                _ => return Err(InvalidBlobLocation::Parameter { name: name.to_owned() }),
            }
        }
        let (bucket, prefix) = (bucket.to_owned(), prefix.trim_matches('/').to_owned());
        Ok(Self::Bucket { bucket, prefix, endpoint, region })
    }
}

/// A blob store that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BlobStoreError {
    /// The directory cannot be made, or is none.
    #[error("preparing the directory {path:?} for blobs")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The settings of the store are unusable.
    #[error("preparing the blob store")]
    Settings(#[source] Box<opendal::Error>),
}

/// The way to the blobs. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct BlobStore {
    /// None: this coordinator has none.
    operator: Option<Operator>,
    /// Where the pieces are files: what is made there is made durable.
    directory: Option<PathBuf>,
    transfers: Arc<Semaphore>,
}

/// Why a piece could not be had.
#[derive(Debug)]
pub(crate) enum PieceError {
    /// It is not there.
    Missing,
    /// The store does not answer, or refuses.
    Unavailable(Refusal),
}

impl BlobStore {
    /// Opens a store; none: there will be none. It is asked for nothing yet, but a directory is made.
    pub(crate) fn open(location: Option<&BlobLocation>) -> Result<Self, BlobStoreError> {
        let transfers = Arc::new(Semaphore::new(BLOB_TRANSFERS_MAX));
        let (operator, directory) = match location {
            None => (None, None),
            Some(BlobLocation::Directory(path)) => {
                let (operator, directory) = open_directory(path)?;
                (Some(operator), Some(directory))
            }
            Some(bucket) => (Some(open_bucket(bucket)?), None),
        };
        Ok(Self { operator, directory, transfers })
    }

    /// True where there is one.
    pub(crate) const fn is_there(&self) -> bool {
        self.operator.is_some()
    }

    /// A turn to move one blob, as long as it is kept.
    pub(crate) fn take_turn(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.transfers.clone().try_acquire_owned().map_err(|_| {
            metrics().note_limit(Limit::BlobTransfers);
            let words = format!("{BLOB_TRANSFERS_MAX} blobs come and go here, and no more are taken at once");
            Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY)
        })
    }

    /// Stores a piece; when it returns, the piece is durable.
    pub(crate) async fn store_piece(
        &self,
        place: &BlobPlace,
        number: u32,
        piece: Bytes,
    ) -> Result<(), Refusal> {
        let operator = self.operator()?;
        let path = piece_path(place, number);
        let stored = attempt("storing", || operator.write(&path, piece.clone())).await;
        stored.map_err(|error| error.into_refusal())?;
        self.settle_directories(place).await
    }

    /// Reads a piece.
    pub(crate) async fn read_piece(&self, place: &BlobPlace, number: u32) -> Result<Bytes, PieceError> {
        let operator = self.operator().map_err(PieceError::Unavailable)?;
        let path = piece_path(place, number);
        let read = || async {
            // What somebody made too long is not read into memory; it is not what was stored, whatever is in it.
            match operator.stat(&path).await?.content_length() {
                0..=PART_BYTES => Ok(operator.read(&path).await?.to_bytes()),
                _ => Ok(Bytes::new()),
            }
        };
        attempt("reading", read).await
    }

    /// Deletes all pieces of a blob; those that are not there are no error.
    pub(crate) async fn delete_pieces(&self, place: &BlobPlace) -> Result<(), Refusal> {
        let operator = self.operator()?;
        let folder = format!("{}/{}/", place.tenant, place.blob);
        let delete = || async {
            let mut listed = operator.lister(&folder).await?;
            while let Some(entry) = listed.next().await {
                let entry = entry?;
                // A directory lists itself too, and goes last.
                if entry.path() != folder {
                    operator.delete(entry.path()).await?;
                }
            }
            operator.delete(&folder).await
        };
        match attempt("deleting", delete).await {
            Ok(()) | Err(PieceError::Missing) => Ok(()),
            Err(error) => Err(error.into_refusal()),
        }
    }

    fn operator(&self) -> Result<&Operator, Refusal> {
        self.operator.as_ref().ok_or_else(|| {
            let words = "this coordinator has no blob store: start it with --blobs";
            Refusal::new(Reason::BlobStoreUnavailable, words).with_retry_after(STORE_RETRY)
        })
    }

    /// The names in a directory are durable only once that is.
    async fn settle_directories(&self, place: &BlobPlace) -> Result<(), Refusal> {
        let Some(root) = self.directory.clone() else { return Ok(()) };
        let tenant = root.join(place.tenant.as_str());
        let folders = [tenant.join(place.blob.to_string()), tenant, root];
        let settle = move || folders.iter().try_for_each(|folder| std::fs::File::open(folder)?.sync_all());
        let settled = tokio::task::spawn_blocking(settle).await.unwrap_or_else(|error| Err(error.into()));
        settled.map_err(|error| refuse_store("storing", &error))
    }
}

impl PieceError {
    /// What it is to a caller, where a piece that is missing is no answer.
    pub(crate) fn into_refusal(self) -> Refusal {
        match self {
            Self::Missing => Refusal::new(Reason::BlobNotFound, "a piece is missing in the blob store"),
            Self::Unavailable(refusal) => refusal,
        }
    }
}

fn piece_path(place: &BlobPlace, number: u32) -> String {
    format!("{}/{}/{number:04}", place.tenant, place.blob)
}

fn open_directory(path: &std::path::Path) -> Result<(Operator, PathBuf), BlobStoreError> {
    let failed = |source| BlobStoreError::Directory { path: path.to_owned(), source };
    let directory = std::path::absolute(path).map_err(failed)?;
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let builder = Fs::default().root(&directory.to_string_lossy());
    let operator = Operator::new(builder).map_err(|error| BlobStoreError::Settings(error.into()))?;
    Ok((operator, directory))
}

fn open_bucket(location: &BlobLocation) -> Result<Operator, BlobStoreError> {
    let BlobLocation::Bucket { bucket, prefix, endpoint, region } = location else {
        return Err(BlobStoreError::Settings(
            opendal::Error::new(ErrorKind::ConfigInvalid, "no bucket is named").into(),
        ));
    };
    // Whoever was first has chosen: it is the same one everywhere in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    opendal_http_transport_reqwest::install_default();
    let mut builder = S3::default().bucket(bucket).root(&format!("/{prefix}"));
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint(endpoint);
    }
    let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| std::env::var_os(name).is_some());
    match region.as_deref() {
        Some(region) => builder = builder.region(region),
        None if !named => builder = builder.region(REGION_DEFAULT),
        None => {}
    }
    Operator::new(builder).map_err(|error| BlobStoreError::Settings(error.into()))
}

/// Does something, within the time, and again where the store says that this may help.
async fn attempt<T, Fut>(doing: &'static str, act: impl Fn() -> Fut) -> Result<T, PieceError>
where
    Fut: Future<Output = opendal::Result<T>>,
{
    let mut attempts = 1;
    loop {
        let error = match timeout(BLOB_STORE_WITHIN, act()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) if error.kind() == ErrorKind::NotFound => return Err(PieceError::Missing),
            Ok(Err(error)) if error.is_temporary() && attempts < ATTEMPTS_MAX => {
                tracing::debug!(error = chain(&error), doing, "the blob store is asked again");
                attempts += 1;
                tokio::time::sleep(ATTEMPT_PAUSE).await;
                continue;
            }
            Ok(Err(error)) => refuse_store(doing, &error),
            Err(elapsed) => refuse_store(doing, &elapsed),
        };
        return Err(PieceError::Unavailable(error));
    }
}

/// Causes go to the log, and not over the wire.
fn refuse_store(doing: &'static str, error: &dyn Error) -> Refusal {
    tracing::warn!(error = chain(error), doing, "the blob store failed");
    let words = format!("the blob store failed at {doing} a piece; the coordinator's log says more");
    Refusal::new(Reason::BlobStoreUnavailable, words).with_retry_after(STORE_RETRY)
}

#[cfg(test)]
mod tests {
    use tenure_core::id::Tenant;
    use uuid::Uuid;

    use super::*;

    fn place(number: u128) -> BlobPlace {
        BlobPlace { tenant: Tenant::default_tenant(), blob: Uuid::from_u128(number) }
    }

    fn open(path: &std::path::Path) -> BlobStore {
        BlobStore::open(Some(&BlobLocation::Directory(path.to_owned()))).unwrap()
    }

    #[test]
    fn a_location_is_a_directory_or_a_bucket() {
        let bucket = |prefix: &str, endpoint: Option<&str>, region: Option<&str>| BlobLocation::Bucket {
            bucket: "values".to_owned(),
            prefix: prefix.to_owned(),
            endpoint: endpoint.map(str::to_owned),
            region: region.map(str::to_owned),
        };
        for (given, read) in [
            ("/srv/blobs", BlobLocation::Directory("/srv/blobs".into())),
            ("s3://values", bucket("", None, None)),
            ("s3://values/a/b/", bucket("a/b", None, None)),
            (
                "s3://values/a?endpoint=http://127.0.0.1:9&region=eu",
                bucket("a", Some("http://127.0.0.1:9"), Some("eu")),
            ),
        ] {
            assert_eq!(given.parse(), Ok(read), "{given}");
        }
        for wrong in ["", "s3://", "s3:///a", "gs://values", "s3://values?secret=x"] {
            assert!(wrong.parse::<BlobLocation>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn pieces_are_read_back_and_deleted_whole() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        for number in 0..3 {
            store.store_piece(&place(1), number, Bytes::from(vec![b'x'; 10])).await.unwrap();
        }
        store.store_piece(&place(2), 0, Bytes::from_static(b"other")).await.unwrap();
        assert_eq!(store.read_piece(&place(1), 2).await.unwrap(), vec![b'x'; 10]);
        store.delete_pieces(&place(1)).await.unwrap();
        assert!(matches!(store.read_piece(&place(1), 0).await, Err(PieceError::Missing)));
        assert!(!directory.path().join("default").join(place(1).blob.to_string()).exists());
        store.delete_pieces(&place(1)).await.unwrap();
        assert_eq!(store.read_piece(&place(2), 0).await.unwrap(), "other");
    }

    #[tokio::test]
    async fn a_store_that_takes_nothing_is_unavailable_and_says_so() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("blobs");
        let store = open(&path);
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "a file in its place").unwrap();
        let refusal = store.store_piece(&place(1), 0, Bytes::from_static(b"x")).await.unwrap_err();
        assert_eq!(refusal.reason, Reason::BlobStoreUnavailable);
        assert!(matches!(
            BlobStore::open(Some(&BlobLocation::Directory(path.join("below")))),
            Err(BlobStoreError::Directory { .. })
        ));
    }

    #[tokio::test]
    async fn no_more_blobs_move_at_once_than_there_is_memory_for() {
        let store = BlobStore::open(None).unwrap();
        let turns: Vec<_> = (0..BLOB_TRANSFERS_MAX).map(|_| store.take_turn().unwrap()).collect();
        assert_eq!(store.take_turn().unwrap_err().reason, Reason::Overloaded);
        drop(turns);
        assert!(store.take_turn().is_ok());
        assert!(!store.is_there());
    }
}
