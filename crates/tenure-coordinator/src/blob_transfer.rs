//! Blobs on their way: in, piece by piece, into the blob store, and out again to a reader. The coordinator draws the salt and
//! computes the digests while it stores; while it reads it computes the digest again, and a value that is not the one that
//! was named ends its stream with that. Promises: of each blob that moves one piece is in memory; an upload that breaks off
//! leaves a row in the database by which whatever was stored of it is found and deleted. Neighbours: `blob_store` (pieces),
//! `server/blobs` (calls).

use bytes::{Bytes, BytesMut};
use tenure_core::{
    chain::ValueDigest,
    id::{Digest, JobId, Tenant},
    limits::{BLOB_CHUNK_MAX_BYTES, BLOB_MAX_BYTES, BLOB_PART_BYTES, BLOB_TRANSFER_WITHIN, VALUE_MAX_BYTES},
    reason::Reason,
    record::ValueRef,
    refusal::Refusal,
};
use tenure_proto::v1;
use tenure_store::{BlobPlace, FoundBlob, StoredBlob};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout},
};
use uuid::Uuid;

use crate::{
    blob_store::PieceError,
    coordinator::Parts,
    mint::mint_salt,
    patience::within,
    refusals::{OVERLOAD_RETRY, refuse_store},
    server::followers::{Handed, Reader},
};

/// A blob that is being stored.
pub(crate) struct Upload {
    parts: Parts,
    place: BlobPlace,
    /// What it is called in refusals.
    field: &'static str,
    salt: [u8; 16],
    name: ValueDigest,
    content: ValueDigest,
    piece: BytesMut,
    pieces: u32,
    bytes: u64,
    /// How many bytes were said to come.
    expected: Option<u64>,
    began: Instant,
    finished: bool,
    _turn: OwnedSemaphorePermit,
}

/// The refusal of a value that is too large for what there is.
pub(crate) fn check_size(parts: &Parts, field: &'static str, bytes: u64) -> Result<(), Refusal> {
    let limit = if parts.blobs.is_there() { BLOB_MAX_BYTES } else { VALUE_MAX_BYTES };
    if bytes <= limit {
        return Ok(());
    }
    let without =
        if parts.blobs.is_there() { "" } else { " without a blob store, which the option --blobs gives" };
    let words = format!("the {field} has {bytes} bytes, and at most {limit} are taken{without}");
    Err(Refusal::new(Reason::InputTooLarge, words)
        .with_detail("field", field)
        .with_detail("bytes", bytes)
        .with_detail("limit_bytes", limit))
}

impl Upload {
    /// Begins one: from now on it is known in the database.
    pub(crate) async fn begin(
        parts: &Parts,
        tenant: &Tenant,
        field: &'static str,
        expected: Option<u64>,
    ) -> Result<Self, Refusal> {
        // Something that would be stored comes, and without a store nothing beyond a row's size is taken.
        check_size(parts, field, VALUE_MAX_BYTES + 1)?;
        let turn = parts.blobs.take_turn()?;
        let place = BlobPlace { tenant: tenant.clone(), blob: Uuid::now_v7() };
        within(parts.store.begin_blob(&place)).await?.map_err(|error| refuse_store(&error))?;
        let salt = mint_salt();
        Ok(Self {
            parts: parts.clone(),
            place,
            field,
            salt,
            name: ValueDigest::begin(&salt),
            content: ValueDigest::begin(b""),
            piece: BytesMut::new(),
            pieces: 0,
            bytes: 0,
            expected,
            began: Instant::now(),
            finished: false,
            _turn: turn,
        })
    }

    /// Takes what came.
    pub(crate) async fn add(&mut self, chunk: Bytes) -> Result<(), Refusal> {
        // One that sends next to nothing, or nothing, keeps a place from everybody else.
        if chunk.is_empty() {
            let words = "a piece has no bytes";
            return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "chunk"));
        }
        if self.began.elapsed() > BLOB_TRANSFER_WITHIN {
            return Err(refuse_slow());
        }
        if chunk.len() > BLOB_CHUNK_MAX_BYTES {
            let words =
                format!("a piece has {} bytes, and at most {BLOB_CHUNK_MAX_BYTES} are taken", chunk.len());
            return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "chunk"));
        }
        self.bytes += chunk.len() as u64;
        check_size(&self.parts, self.field, self.bytes)?;
        self.name.add(&chunk);
        self.content.add(&chunk);
        self.piece.extend_from_slice(&chunk);
        while self.piece.len() >= BLOB_PART_BYTES {
            let piece = self.piece.split_to(BLOB_PART_BYTES).freeze();
            self.store_piece(piece).await?;
        }
        Ok(())
    }

    /// Everything came: says how it is named.
    pub(crate) async fn finish(mut self, job: Option<JobId>) -> Result<ValueRef, Refusal> {
        if let Some(expected) = self.expected.filter(|expected| *expected != self.bytes) {
            let words =
                format!("{expected} bytes of the {} were to come, and {} did", self.field, self.bytes);
            return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", self.field));
        }
        if self.bytes <= VALUE_MAX_BYTES {
            let words = format!(
                "the {} has {} bytes, and up to {VALUE_MAX_BYTES} are sent in the message itself",
                self.field, self.bytes
            );
            return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", self.field));
        }
        if !self.piece.is_empty() {
            let piece = self.piece.split().freeze();
            self.store_piece(piece).await?;
        }
        let reference = ValueRef { sha256: self.name.clone().finish(), bytes: self.bytes };
        let stored = StoredBlob { reference, salt: self.salt, content: self.content.clone().finish() };
        let finished = within(self.parts.store.finish_blob(&self.place, &stored, job)).await?;
        if !finished.map_err(|error| refuse_store(&error))? {
            let words = "the upload took so long that it was given up";
            return Err(Refusal::new(Reason::BlobNotFound, words));
        }
        self.finished = true;
        Ok(reference)
    }

    async fn store_piece(&mut self, piece: Bytes) -> Result<(), Refusal> {
        self.parts.blobs.store_piece(&self.place, self.pieces, piece).await?;
        self.pieces += 1;
        Ok(())
    }
}

impl Drop for Upload {
    /// What broke off is deleted at once as far as that can be done; its row stays for the sweep, which looks once more.
    fn drop(&mut self) {
        if self.finished || self.pieces == 0 {
            return;
        }
        let (blobs, place) = (self.parts.blobs.clone(), self.place.clone());
        self.parts.tasks.spawn(async move {
            // Where it fails, the sweep does it.
            let _ = blobs.delete_pieces(&place).await;
        });
    }
}

/// A blob that is there to be read.
#[derive(Debug, Clone)]
pub(crate) struct OpenBlob {
    place: BlobPlace,
    reference: ValueRef,
    salt: [u8; 16],
}

/// Finds a blob of a job by the name that a record gives it.
pub(crate) async fn open_blob(
    parts: &Parts,
    tenant: &Tenant,
    job: JobId,
    name: Digest,
) -> Result<OpenBlob, Refusal> {
    let found = parts.bulk.ask(parts.store.find_blob(tenant, name)).await?;
    let Some(FoundBlob { blob, bytes, live, .. }) = found.filter(|blob| blob.job == Some(job)) else {
        return Err(refuse_unknown(name).with_next(format!("tenure journal {}", job.short())));
    };
    let Some(live) = live else { return Err(refuse_erased(job)) };
    let place = BlobPlace { tenant: tenant.clone(), blob };
    Ok(OpenBlob { place, reference: ValueRef { sha256: name, bytes }, salt: live.salt })
}

/// A value that was erased.
pub(crate) fn refuse_erased(job: JobId) -> Refusal {
    let words = format!("the value was erased; the journal of job {} says by whom and why", job.short());
    Refusal::new(Reason::ValueErased, words)
        .with_next(format!("tenure journal {} --kind operator_acted", job.short()))
}

/// A blob that is not there for this caller.
pub(crate) fn refuse_unknown(name: Digest) -> Refusal {
    let words = format!("there is no value {name} in the blob store for this job");
    Refusal::new(Reason::BlobNotFound, words).with_detail("sha256", name)
}

/// Stores the same value once more, as an input that no job has yet.
pub(crate) async fn copy_input(parts: &Parts, blob: &OpenBlob) -> Result<ValueRef, Refusal> {
    let mut upload = Upload::begin(parts, &blob.place.tenant, "input", Some(blob.reference.bytes)).await?;
    let mut digest = ValueDigest::begin(&blob.salt);
    let mut left = blob.reference.bytes;
    for number in 0.. {
        if left == 0 {
            break;
        }
        let mut piece = read_piece(parts, blob, number, left).await?;
        left -= piece.len() as u64;
        digest.add(&piece);
        while !piece.is_empty() {
            upload.add(piece.split_to(piece.len().min(BLOB_CHUNK_MAX_BYTES))).await?;
        }
    }
    if digest.finish() != blob.reference.sha256 {
        return Err(refuse_different(blob));
    }
    upload.finish(None).await
}

/// What is sent, as each of the two streams has it.
pub(crate) struct Wire<M> {
    /// The first message.
    pub(crate) head: fn(v1::BlobHead) -> M,
    /// A piece.
    pub(crate) chunk: fn(Bytes) -> M,
}

/// Sends a blob to whoever reads. A stream that ends without a reason has given all of it.
pub(crate) async fn send_blob<M>(
    parts: Parts,
    blob: OpenBlob,
    wire: Wire<M>,
    reader: Reader<M>,
    turn: OwnedSemaphorePermit,
) {
    let sent = timeout(BLOB_TRANSFER_WITHIN, send_pieces(&parts, &blob, &wire, &reader)).await;
    if let Err(refusal) = sent.unwrap_or_else(|_| Err(refuse_slow())) {
        reader.end_with(&refusal);
    }
    drop(turn);
}

async fn send_pieces<M>(
    parts: &Parts,
    blob: &OpenBlob,
    wire: &Wire<M>,
    reader: &Reader<M>,
) -> Result<(), Refusal> {
    let head = v1::BlobHead { salt: blob.salt.to_vec().into(), bytes: blob.reference.bytes };
    if !hand(reader, (wire.head)(head)).await? {
        return Ok(());
    }
    let mut digest = ValueDigest::begin(&blob.salt);
    let mut left = blob.reference.bytes;
    for number in 0.. {
        if left == 0 {
            break;
        }
        let mut piece = read_piece(parts, blob, number, left).await?;
        left -= piece.len() as u64;
        digest.add(&piece);
        while !piece.is_empty() {
            let chunk = piece.split_to(piece.len().min(BLOB_CHUNK_MAX_BYTES));
            if !hand(reader, (wire.chunk)(chunk)).await? {
                return Ok(());
            }
        }
    }
    if digest.finish() == blob.reference.sha256 { Ok(()) } else { Err(refuse_different(blob)) }
}

async fn read_piece(parts: &Parts, blob: &OpenBlob, number: u32, left: u64) -> Result<Bytes, Refusal> {
    let expected = left.min(BLOB_PART_BYTES as u64);
    match parts.blobs.read_piece(&blob.place, number).await {
        Ok(piece) if piece.len() as u64 == expected => Ok(piece),
        Ok(_) => Err(refuse_different(blob)),
        Err(PieceError::Missing) => {
            let words =
                format!("piece {number} of the value {} is missing in the blob store", blob.reference.sha256);
            Err(Refusal::new(Reason::BlobNotFound, words).with_detail("sha256", blob.reference.sha256))
        }
        Err(PieceError::Unavailable(refusal)) => Err(refusal),
    }
}

fn refuse_slow() -> Refusal {
    let words = format!("the value took more than {} s", BLOB_TRANSFER_WITHIN.as_secs());
    Refusal::new(Reason::RequestTooSlow, words)
}

fn refuse_different(blob: &OpenBlob) -> Refusal {
    let name = blob.reference.sha256;
    let words =
        format!("the value {name} in the blob store is not the one that was stored: its digest differs");
    Refusal::new(Reason::BlobDiffers, words).with_detail("sha256", name)
}

/// Hands a message over; false where the reader left.
async fn hand<M>(reader: &Reader<M>, message: M) -> Result<bool, Refusal> {
    if !reader.await_room().await? {
        return Ok(false);
    }
    match reader.hand(message).await {
        Handed::Over => Ok(true),
        Handed::Left => Ok(false),
        // There was room, and nobody else uses it: a piece that is dropped all the same must not be passed over.
        Handed::Dropped => {
            let words = "the reader of a value has no room";
            Err(Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY))
        }
    }
}
