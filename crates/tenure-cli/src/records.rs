//! The journal of a job, read page by page, for the verbs that tell something from many of its records.

use tenure_client::{Client, job::Job};
use tenure_core::{id::Seq, record::Record};

use crate::failure::Failure;

/// Hands over every record of these kinds (none: of all) with the value beside it, in order; tells how many this release cannot
/// read.
pub(crate) async fn read_records(
    client: &Client,
    job: &Job,
    kinds: &[String],
    mut take: impl FnMut(Record, Option<&[u8]>),
) -> Result<u64, Failure> {
    let (mut unknown, mut from) = (0, Some(Seq(1)));
    while let Some(seq) = from {
        let page = client.list_records(&job.id.to_string(), seq, kinds, 0).await?;
        for record in page.records {
            match serde_json::from_slice(&record.bytes) {
                Ok(parsed) => take(parsed, record.value.as_deref()),
                Err(_) => unknown += 1,
            }
        }
        from = page.next_seq;
    }
    Ok(unknown)
}
