//! Where the blobs of a test are, and how they are tampered with: a directory, or a bucket behind a proxy that can be cut.

use std::{env, path::Path};

use opendal::{
    Operator,
    services::{Fs, S3},
};
use tenure_testkit::{Proxy, Treatment};
use uuid::Uuid;

/// The address of a peer that speaks S3, and has the bucket `BUCKET`. Absent: a directory is used.
const ENDPOINT_VARIABLE: &str = "TENURE_TEST_S3";
const BUCKET: &str = "tenure-test";
/// What the peer takes for a credential.
const CREDENTIALS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "tester"), ("AWS_SECRET_ACCESS_KEY", "not-a-secret")];

pub(super) struct Place {
    operator: Operator,
    kind: Kind,
}

enum Kind {
    Directory(std::path::PathBuf),
    Bucket { prefix: String, proxy: Proxy },
}

impl Place {
    pub(super) async fn choose(directory: &Path) -> Self {
        match env::var(ENDPOINT_VARIABLE) {
            Ok(address) => Self::bucket(&address).await,
            Err(_) => {
                let path = directory.join("blobs");
                std::fs::create_dir(&path).unwrap();
                let operator = Operator::new(Fs::default().root(path.to_str().unwrap())).unwrap();
                Self { operator, kind: Kind::Directory(path) }
            }
        }
    }

    async fn bucket(address: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        opendal_http_transport_reqwest::install_default();
        let prefix = Uuid::now_v7().to_string();
        let builder = S3::default()
            .bucket(BUCKET)
            .root(&format!("/{prefix}"))
            .endpoint(&format!("http://{address}"))
            .region("us-east-1")
            .access_key_id(CREDENTIALS[0].1)
            .secret_access_key(CREDENTIALS[1].1);
        let operator = Operator::new(builder).unwrap();
        let proxy = Proxy::start(address.parse().unwrap()).await.unwrap();
        Self { operator, kind: Kind::Bucket { prefix, proxy } }
    }

    /// What a coordinator is told.
    pub(super) fn argument(&self) -> String {
        match &self.kind {
            Kind::Directory(path) => path.to_str().unwrap().to_owned(),
            Kind::Bucket { prefix, proxy } => format!("s3://{BUCKET}/{prefix}?endpoint={}", proxy.endpoint()),
        }
    }

    /// What its environment says beside.
    pub(super) fn environment(&self) -> &'static [(&'static str, &'static str)] {
        match &self.kind {
            Kind::Directory(_) => &[],
            Kind::Bucket { .. } => &CREDENTIALS,
        }
    }

    /// The pieces that there are.
    pub(super) async fn list(&self) -> Vec<String> {
        let entries = self.operator.list_with("/").recursive(true).await.unwrap();
        let pieces = entries.iter().filter(|entry| entry.metadata().is_file());
        pieces.map(|entry| entry.path().to_owned()).collect()
    }

    pub(super) async fn read(&self, piece: &str) -> Vec<u8> {
        self.operator.read(piece).await.unwrap().to_vec()
    }

    pub(super) async fn write(&self, piece: &str, bytes: Vec<u8>) {
        self.operator.write(piece, bytes).await.unwrap();
    }

    pub(super) async fn delete(&self, piece: &str) {
        self.operator.delete(piece).await.unwrap();
    }

    /// From now on the store takes and gives nothing: a file is in the place of the directory, or the peer is not reached.
    pub(super) async fn break_off(&self) {
        match &self.kind {
            Kind::Directory(path) => {
                std::fs::rename(path, path.with_extension("aside")).unwrap();
                std::fs::write(path, "a file in its place").unwrap();
            }
            Kind::Bucket { proxy, .. } => proxy.treat(Treatment::Refuse),
        }
    }

    /// It is as it was.
    pub(super) async fn mend(&self) {
        match &self.kind {
            Kind::Directory(path) => {
                std::fs::remove_file(path).unwrap();
                std::fs::rename(path.with_extension("aside"), path).unwrap();
            }
            Kind::Bucket { proxy, .. } => proxy.treat(Treatment::Pass),
        }
    }
}
