//! Reading: one job, a page, the journal as it grows, output, and what the server says about itself.

use tenure_core::{
    limits::{NOTE_MAX_BYTES, RECORD_PAGE_MAX_BYTES, VALUE_MAX_BYTES},
    reason::Reason,
};
use tenure_proto::v1::{
    self, JobState, attach_request::Message as Request, attach_response::Message as Response, run_end::How,
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use crate::{
    fleet::{Fleet, Way, reason, submission},
    worker::{Worker, applied, end},
};

async fn watch(
    fleet: &Fleet,
    channel: &Way,
    job: &str,
    from_seq: u64,
) -> tonic::Streaming<v1::WatchJobResponse> {
    let _ = fleet;
    let request = v1::WatchJobRequest { job: job.into(), from_seq };
    v1::job_service_client::JobServiceClient::new(channel.clone())
        .watch_job(request)
        .await
        .unwrap()
        .into_inner()
}

#[tokio::test]
async fn a_watch_gives_every_record_once_and_ends_when_the_job_is_sealed() {
    let fleet = Fleet::start().await;
    let (_other, elsewhere) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let mut here = watch(&fleet, &fleet.channel, &job, 0).await;
    let mut there = watch(&fleet, &elsewhere, &job, 3).await;
    let grant = worker.hear_grant().await;
    for n in 1..=5 {
        applied(worker.note(&grant, n, "a note").await);
    }
    applied(worker.end(&grant, 6, How::ExitCode(0)).await);
    let mut seqs = Vec::new();
    while let Some(response) = here.message().await.unwrap() {
        seqs.push(response.record.unwrap().seq);
    }
    assert_eq!(seqs, (1..=9).collect::<Vec<u64>>());
    let mut seqs = Vec::new();
    while let Some(response) = there.message().await.unwrap() {
        seqs.push(response.record.unwrap().seq);
    }
    assert_eq!(seqs, (3..=9).collect::<Vec<u64>>());
}

/// A job with 40 of the longest notes, 12 of them blown up to the largest value in the database, as results are.
async fn write_long_journal(fleet: &Fleet) -> String {
    let mut worker = Worker::start(fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let text = "x".repeat(NOTE_MAX_BYTES);
    for n in 1..=40 {
        applied(worker.note(&grant, n, &text).await);
    }
    let result = vec![b'r'; usize::try_from(VALUE_MAX_BYTES).unwrap()];
    let report = v1::EndRun { result: Some(result.into()), ..end(&grant, 41, How::ExitCode(0)) };
    worker.say(Request::EndRun(report)).await;
    applied(worker.hear_appended(41).await);
    sqlx::query("UPDATE journal SET value = convert_to(repeat('y', $1), 'UTF8') WHERE seq BETWEEN 20 AND 31")
        .bind(i32::try_from(VALUE_MAX_BYTES).unwrap())
        .execute(&fleet.pool().await)
        .await
        .unwrap();
    job
}

#[tokio::test]
async fn a_journal_with_large_values_is_listed_in_pages_that_any_client_takes_and_watched_whole() {
    let fleet = Fleet::start().await;
    let job = write_long_journal(&fleet).await;
    let (mut seqs, mut pages, mut from_seq) = (Vec::new(), 0, 1);
    while from_seq != 0 {
        // The client has the limit that gRPC has where nothing is said: 4 MiB.
        let request =
            v1::ListRecordsRequest { job: job.clone(), from_seq, limit: 1_000, ..Default::default() };
        let page = fleet.jobs().list_records(request).await.unwrap().into_inner();
        let size =
            |record: &v1::Record| record.bytes.len() + record.value.as_ref().map_or(0, |value| value.len());
        let bytes: usize = page.records.iter().map(size).sum();
        assert!(bytes <= usize::try_from(RECORD_PAGE_MAX_BYTES).unwrap(), "{bytes}");
        seqs.extend(page.records.into_iter().map(|record| record.seq));
        (pages, from_seq) = (pages + 1, page.next_seq);
    }
    assert_eq!(seqs, (1..=44).collect::<Vec<u64>>());
    assert!(pages > 1, "{pages}");
    let mut watched = watch(&fleet, &fleet.channel, &job, 0).await;
    let mut seqs = Vec::new();
    while let Some(response) = watched.message().await.unwrap() {
        seqs.push(response.record.unwrap().seq);
    }
    assert_eq!(seqs, (1..=44).collect::<Vec<u64>>());
}

/// Provokes `JOB_AMBIGUOUS`.
#[tokio::test]
async fn a_job_is_found_by_its_ending_and_an_ambiguous_one_names_the_candidates() {
    let fleet = Fleet::start().await;
    let (first, second) = (fleet.submit("plain").await, fleet.submit("plain").await);
    assert_eq!(fleet.job(&first[first.len() - 8..]).await.id, first);
    // Two ids that end alike cannot be submitted on purpose, so one is made in the database.
    let pool = fleet.pool().await;
    let twin = format!("{}{}", &second[..28], &first[28..]);
    for table in ["journal", "ready", "jobs"] {
        let statement = format!("UPDATE {table} SET job = '{twin}' WHERE job = '{second}'");
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await.unwrap();
    }
    let request = v1::GetJobRequest { job: first[28..].into() };
    let status = fleet.jobs().get_job(request).await.unwrap_err();
    assert!(status.message().contains(&first) && status.message().contains(&twin), "{}", status.message());
    assert_eq!(reason::<()>(Err(status)), Reason::JobAmbiguous);
    assert_eq!(fleet.job(&first).await.id, first);
}

#[tokio::test]
async fn a_name_that_is_no_job_is_refused() {
    let fleet = Fleet::start().await;
    let ask = async |job: &str| reason(fleet.jobs().get_job(v1::GetJobRequest { job: job.into() }).await);
    assert_eq!(ask("9f3c2").await, Reason::JobIdInvalid);
    assert_eq!(ask("not-a-job").await, Reason::JobIdInvalid);
    assert_eq!(ask("9f3c21").await, Reason::JobNotFound);
    assert_eq!(ask("0193a7c2-1111-7000-8000-00000000abcd").await, Reason::JobNotFound);
}

/// Provokes `INVALID_CURSOR`.
#[tokio::test]
async fn jobs_are_listed_newest_first_a_page_at_a_time() {
    let fleet = Fleet::start().await;
    fleet.apply("other", r#"{"command":["true"]}"#).await;
    let mut submitted = Vec::new();
    for _ in 0..5 {
        submitted.push(fleet.submit("plain").await);
        fleet.submit("other").await;
    }
    submitted.reverse();
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let request = v1::ListJobsRequest { agent: "plain".into(), limit: 2, cursor, ..Default::default() };
        let page = fleet.jobs().list_jobs(request).await.unwrap().into_inner();
        listed.extend(page.jobs.into_iter().map(|job| job.id));
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(listed, submitted);
    let cancelled = fleet
        .submit_with(v1::Submission { labels: [("team".into(), "red".into())].into(), ..submission("plain") })
        .await
        .unwrap()
        .job_id;
    fleet.cancel(&cancelled).await.unwrap();
    let by = async |request: v1::ListJobsRequest| {
        fleet
            .jobs()
            .list_jobs(request)
            .await
            .unwrap()
            .into_inner()
            .jobs
            .into_iter()
            .map(|job| job.id)
            .collect::<Vec<_>>()
    };
    let states = vec![JobState::Cancelled.into()];
    let in_state = by(v1::ListJobsRequest { states, ..Default::default() }).await;
    assert_eq!(in_state.as_slice(), std::slice::from_ref(&cancelled));
    let labels = [("team".into(), "red".into())].into();
    assert_eq!(by(v1::ListJobsRequest { labels, ..Default::default() }).await, [cancelled]);
    let wrong = v1::ListJobsRequest { cursor: "elsewhere".into(), ..Default::default() };
    assert_eq!(reason(fleet.jobs().list_jobs(wrong).await), Reason::InvalidCursor);
}

/// Provokes `RUN_NOT_FOUND`.
#[tokio::test]
async fn output_is_acknowledged_when_it_is_durable_and_followed_to_its_end() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let read = |follow, stream: v1::OutputStream| v1::ReadOutputRequest {
        job: job.clone(),
        follow,
        stream: stream.into(),
        ..Default::default()
    };
    let mut followed =
        fleet.jobs().read_output(read(true, v1::OutputStream::Unspecified)).await.unwrap().into_inner();
    for (chunk, stream, text) in [
        (0, v1::OutputStream::Stdout, "one\n"),
        (1, v1::OutputStream::Stderr, "careful\n"),
        (2, v1::OutputStream::Stdout, "two\n"),
    ] {
        let output =
            v1::WriteOutput { run: grant.run.clone(), chunk, stream: stream.into(), bytes: text.into() };
        worker.say(Request::WriteOutput(output)).await;
    }
    worker
        .hear(|message| match message {
            Response::OutputWritten(written) if written.chunk == 2 => Some(()),
            _ => None,
        })
        .await;
    let report = v1::EndRun { output_chunks: 3, ..end(&grant, 1, How::ExitCode(0)) };
    worker.say(Request::EndRun(report)).await;
    let mut text = String::new();
    while let Some(piece) = followed.message().await.unwrap() {
        text.push_str(std::str::from_utf8(&piece.bytes).unwrap());
    }
    assert_eq!(text, "one\ncareful\ntwo\n");
    let mut only =
        fleet.jobs().read_output(read(false, v1::OutputStream::Stderr)).await.unwrap().into_inner();
    assert_eq!(&*only.message().await.unwrap().unwrap().bytes, b"careful\n");
    assert!(only.message().await.unwrap().is_none());
    let unknown = v1::ReadOutputRequest { run: 2, ..read(false, v1::OutputStream::Unspecified) };
    assert_eq!(reason(fleet.jobs().read_output(unknown).await), Reason::RunNotFound);
}

/// Provokes `RESULT_NOT_FOUND`.
#[tokio::test]
async fn a_job_without_a_result_says_so() {
    let fleet = Fleet::start().await;
    let job = fleet.submit("plain").await;
    let refused = fleet.jobs().get_result(v1::GetResultRequest { job, accept_blob: false }).await;
    assert_eq!(reason(refused), Reason::ResultNotFound);
}

#[tokio::test]
async fn the_server_describes_itself_and_says_that_it_serves() {
    let fleet = Fleet::start().await;
    let check = HealthCheckRequest { service: "tenure.v1.JobService".into() };
    let health = HealthClient::new(fleet.channel.clone()).check(check).await.unwrap().into_inner();
    assert_eq!(health.status(), ServingStatus::Serving);
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(fleet.channel.clone());
    let mut answers = client.server_reflection_info(tokio_stream::once(ask)).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(services)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("a list of services");
    };
    let names: Vec<String> = services.service.into_iter().map(|service| service.name).collect();
    for service in
        ["tenure.v1.JobService", "tenure.v1.AgentService", "tenure.v1.WorkerService", "grpc.health.v1.Health"]
    {
        assert!(names.contains(&service.to_owned()), "{names:?}");
    }
}
