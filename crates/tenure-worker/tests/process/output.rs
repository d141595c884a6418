//! Output of real processes: kept, cut, redacted, and never in the way.

use tenure_worker::guardian::Fencing;
use tenure_worker::runner::{OutputStream, ProcessEnd, Redactor};

use super::scene::{Scene, finish};

#[tokio::test(flavor = "multi_thread")]
async fn both_streams_are_captured_whole() {
    let scene = Scene::new(Fencing::Kernel);
    let (stdout, stderr, outcome) = finish(scene.start("echo out; echo err >&2; printf tail")).await;
    assert_eq!((stdout.as_str(), stderr.as_str()), ("out\ntail", "err\n"));
    assert!(!outcome.output_truncated);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_written_one_after_the_other_are_captured_in_order() {
    let scene = Scene::new(Fencing::Kernel);
    let mut process = scene.start("echo 1; sleep 0.1; echo 2 >&2; sleep 0.1; echo 3");
    let mut seen = Vec::new();
    while let Some(chunk) = process.next_output().await {
        seen.push((chunk.stream, String::from_utf8(chunk.bytes.to_vec()).unwrap()));
    }
    let expected =
        [(OutputStream::Stdout, "1\n"), (OutputStream::Stderr, "2\n"), (OutputStream::Stdout, "3\n")];
    assert_eq!(seen, expected.map(|(stream, text)| (stream, text.to_owned())));
    process.handle().forget();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_cut_at_the_limit_and_the_child_goes_on_to_its_end() {
    let scene = Scene::new(Fencing::Guardian);
    let mut spec = scene.spec("yes 0123456789 | head -c 100000000; echo done >&2; exit 6");
    spec.output_limit_bytes = 1024 * 1024;
    let before = resident_bytes();
    let mut process = scene.start_spec(spec);
    let mut output = process.take_output();
    let (mut kept, mut largest) = (0, 0);
    let mut last = Vec::new();
    while let Some(chunk) = output.recv().await {
        kept += chunk.bytes.len();
        largest = largest.max(chunk.bytes.len());
        last = chunk.bytes.to_vec();
    }
    let outcome = process.wait().await;
    process.handle().forget();
    assert_eq!(outcome.end, ProcessEnd::ExitCode(6));
    assert!(outcome.output_truncated);
    let marker = String::from_utf8_lossy(&last).into_owned();
    assert!(
        marker.ends_with("[tenure: output limit of 1048576 bytes reached; the rest is dropped]\n"),
        "{marker}"
    );
    assert!(kept < 1024 * 1024 + 200, "{kept} bytes kept");
    assert!(largest <= 64 * 1024, "a chunk of {largest} bytes");
    // 100 MB went through; what stays is buffers.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 30 * 1024 * 1024, "the worker grew by {grown} bytes");
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_written_in_pieces_never_shows() {
    let scene = Scene::new(Fencing::Kernel);
    let mut spec = scene.spec("printf 'a s3c'; sleep 0.4; printf 'ret b\\n'; echo s3cret >&2; printf s3c");
    spec.redactor = Redactor::new([("GIT_TOKEN".to_owned(), "s3cret".to_owned())]).unwrap();
    let (stdout, stderr, _) = finish(scene.start_spec(spec)).await;
    assert_eq!(stdout, "a [redacted:GIT_TOKEN] b\ns3c");
    assert_eq!(stderr, "[redacted:GIT_TOKEN]\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_takes_no_output_holds_up_nothing_once_it_dropped_it() {
    let scene = Scene::new(Fencing::Kernel);
    let mut spec = scene.spec("head -c 3000000 /dev/zero; exit 2");
    spec.output_limit_bytes = 10_000_000;
    let mut process = scene.start_spec(spec);
    drop(process.take_output());
    assert_eq!(process.wait().await.end, ProcessEnd::ExitCode(2));
    process.handle().forget();
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_outside_the_group_who_holds_the_pipe_holds_up_nothing() {
    let scene = Scene::new(Fencing::Guardian);
    let path = scene.path("held");
    let script = format!(
        "readlink /proc/$$/fd/1 > {0}.tmp; mv {0}.tmp {0}; echo said; sleep 0.5; exit 1",
        path.display()
    );
    let mut process = scene.start(&script);
    let child = process.wait_started().await.unwrap();
    super::scene::wait_until("the child to speak", || {
        path.exists().then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    // The pipe's writing end, opened by this process, which is no part of the group.
    let held = std::fs::File::options().write(true).open(format!("/proc/{child}/fd/1")).unwrap();
    let (stdout, _, outcome) = finish(process).await;
    assert_eq!((stdout.as_str(), outcome.end), ("said\n", ProcessEnd::ExitCode(1)));
    drop(held);
}
