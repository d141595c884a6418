//! Captured output: written in any order, twice, late, and for runs that never were.

use bytes::Bytes;
use tenure_core::id::Run;
use tenure_store::{OutputChunk, OutputStream};

use crate::fleet::{Fleet, Holder};

fn chunk(holder: &Holder, no: u64, stream: OutputStream, text: &'static str) -> OutputChunk {
    OutputChunk {
        tenant: holder.tenant.clone(),
        job: holder.job,
        run: holder.run,
        chunk: no,
        stream,
        bytes: Bytes::from_static(text.as_bytes()),
    }
}

#[tokio::test]
async fn chunks_are_read_in_the_order_of_capture_and_the_first_of_two_stands() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let (out, err) = (OutputStream::Stdout, OutputStream::Stderr);
    let first = [chunk(&holder, 1, err, "b"), chunk(&holder, 0, out, "a")];
    fleet.store.write_output(&first).await.unwrap();
    fleet.append(holder.success()).await;
    let late = [chunk(&holder, 2, out, "c"), chunk(&holder, 0, out, "another")];
    fleet.store.write_output(&late).await.unwrap();
    let read = async |from, stream, limit| {
        let chunks =
            fleet.store.read_output(&fleet.tenant, holder.job, Run(1), from, stream, limit).await.unwrap();
        chunks.iter().map(|chunk| (chunk.chunk, chunk.bytes.clone())).collect::<Vec<_>>()
    };
    let text = |no, text: &'static str| (no, Bytes::from_static(text.as_bytes()));
    assert_eq!(read(0, None, 10).await, [text(0, "a"), text(1, "b"), text(2, "c")]);
    assert_eq!(read(1, None, 1).await, [text(1, "b")]);
    assert_eq!(read(0, Some(out), 10).await, [text(0, "a"), text(2, "c")]);
}

#[tokio::test]
async fn output_of_a_run_that_never_was_is_left_out() {
    let fleet = Fleet::start().await;
    let holder = fleet.run_job(&fleet.attach("w1").await).await;
    let known = chunk(&holder, 0, OutputStream::Stdout, "a");
    let chunks = [
        OutputChunk { run: Run(2), ..known.clone() },
        OutputChunk { run: Run(0), ..known.clone() },
        OutputChunk { tenant: "other".parse().unwrap(), ..known.clone() },
        known,
    ];
    fleet.store.write_output(&chunks).await.unwrap();
    assert_eq!(fleet.count("SELECT count(*) FROM output").await, 1);
}
