//! The guardian's report that its run is gone.
//!
//! Called only after the group was seen empty, and only where the worker is gone or does not answer. Repeats, over
//! all coordinators in turn and with jittered pauses, until one acknowledges or refuses, until the worker took the
//! outcome after all, or until one TTL has passed. The guardian is single-threaded until here; the runtime is made
//! now, when nothing is forked any more.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use tenure_core::limits::{GONE_CONNECT_TIMEOUT, GONE_PAUSE_FIRST, GONE_PAUSE_MAX, GONE_REPORT_TIMEOUT};
use tenure_proto::tls::ClientTls;
use tenure_proto::v1::worker_service_client::WorkerServiceClient;
use tenure_proto::v1::{
    ContactLost, IdleTimeout, NotStarted, OwnTimeout, ReportGoneRequest, RunEnd, run_end::How,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use super::control::Control;
use super::protocol::{ChildEnd, EndCause, ReportIdentity};
use super::release::heed_worker;

/// What became of a report.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reported {
    /// It is durable.
    Acknowledged,
    /// The worker came back and had the end acknowledged itself.
    Forgotten,
    /// A coordinator does not want it, now or ever.
    Refused(String),
    /// None took it within one TTL.
    Unreachable(String),
}

/// Reports until it is settled.
pub(super) fn report_gone(
    control: Control,
    identity: &ReportIdentity,
    end: &ChildEnd,
    cause: &EndCause,
) -> Reported {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Reported::Unreachable(format!("cannot start a runtime to report with: {error}"));
        }
    };
    let request = compose_report(identity, end, cause);
    let room = Semaphore::new(PASSES_AT_ONCE);
    let reported = runtime.block_on(async {
        tokio::select! {
            reported = report_within_ttl(identity, &request, &room) => reported,
            () = await_forget(control) => Reported::Forgotten,
        }
    });
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    reported
}

/// Passes over the coordinators that are under way at the same time. Between two passes a report takes no room, so that those
/// which nobody answers hold up no other.
const PASSES_AT_ONCE: usize = 64;

/// Reports that these are gone with their worker, each until it is settled. Returns for each why nobody took it, where nobody
/// did.
pub(super) fn report_lost_runs(identities: Vec<ReportIdentity>) -> Vec<Option<String>> {
    if identities.is_empty() {
        return Vec::new();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let why = format!("cannot start a runtime to report with: {error}");
            return vec![Some(why); identities.len()];
        }
    };
    let reported = runtime.block_on(report_each(identities));
    runtime.shutdown_background();
    reported
}

async fn report_each(identities: Vec<ReportIdentity>) -> Vec<Option<String>> {
    let room = Arc::new(Semaphore::new(PASSES_AT_ONCE));
    let report = |identity| tokio::spawn(report_lost_run(identity, Arc::clone(&room)));
    let tasks: Vec<_> = identities.into_iter().map(report).collect();
    let mut reported = Vec::with_capacity(tasks.len());
    for task in tasks {
        reported.push(task.await.unwrap_or_else(|error| Some(error.to_string())));
    }
    reported
}

async fn report_lost_run(identity: ReportIdentity, room: Arc<Semaphore>) -> Option<String> {
    let killed = ChildEnd::Signalled { signal: nix::libc::SIGKILL };
    let request = compose_report(&identity, &killed, &EndCause::ContactLost);
    match report_within_ttl(&identity, &request, &room).await {
        Reported::Acknowledged | Reported::Forgotten => None,
        Reported::Refused(why) | Reported::Unreachable(why) => Some(why),
    }
}

async fn report_within_ttl(
    identity: &ReportIdentity,
    request: &ReportGoneRequest,
    room: &Semaphore,
) -> Reported {
    let pauses = ExponentialBuilder::default()
        .with_min_delay(GONE_PAUSE_FIRST)
        .with_max_delay(GONE_PAUSE_MAX)
        .without_max_times()
        .with_jitter();
    let mut last = String::from("no coordinator answered");
    let tls = ClientTls { ca_pem: identity.tls_authority_pem.clone(), ..ClientTls::default() };
    let pass = || async {
        // The room is never closed; an error would mean that there is nothing to bound.
        let _permit = room.acquire().await;
        report_in_turn(&identity.endpoints, &tls, request).await
    };
    let attempts = pass
        .retry(pauses)
        .when(|status: &Status| !is_final(status))
        .notify(|status: &Status, _| last = describe(status));
    match tokio::time::timeout(Duration::from_millis(identity.ttl_ms), attempts).await {
        Ok(Ok(())) => Reported::Acknowledged,
        Ok(Err(status)) => Reported::Refused(describe(&status)),
        Err(_) => Reported::Unreachable(last),
    }
}

/// One pass over the coordinators: the first answer counts, and a refusal is an answer.
async fn report_in_turn(
    endpoints: &[String],
    tls: &ClientTls,
    request: &ReportGoneRequest,
) -> Result<(), Status> {
    let mut last = Status::unavailable("no endpoint is known");
    for endpoint in endpoints {
        match report_once(endpoint, tls, request).await {
            Ok(()) => return Ok(()),
            Err(status) if is_final(&status) => return Err(status),
            Err(status) => last = status,
        }
    }
    Err(last)
}

async fn report_once(endpoint: &str, tls: &ClientTls, request: &ReportGoneRequest) -> Result<(), Status> {
    let unusable =
        |error: tonic::transport::Error| Status::unavailable(format!("cannot reach {endpoint}: {error}"));
    let target = Endpoint::from_shared(endpoint.to_owned()).map_err(unusable)?;
    let target = tls.apply(endpoint, target).map_err(unusable)?;
    let channel = target
        .connect_timeout(GONE_CONNECT_TIMEOUT)
        .timeout(GONE_REPORT_TIMEOUT)
        .connect()
        .await
        .map_err(unusable)?;
    WorkerServiceClient::new(channel).report_gone(request.clone()).await.map(drop)
}

/// Codes that no repetition changes.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::Unimplemented
    )
}

fn describe(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn compose_report(identity: &ReportIdentity, end: &ChildEnd, cause: &EndCause) -> ReportGoneRequest {
    let (how, ended_by_guardian) = describe_end(end, cause);
    ReportGoneRequest {
        tenant: identity.tenant.clone(),
        job_id: identity.job.clone(),
        epoch: identity.epoch,
        generation: identity.generation,
        secret: identity.secret.as_bytes().to_vec().into(),
        end: Some(RunEnd { how: Some(how) }),
        ended_by_guardian,
    }
}

/// What a worker asked for and did not live to explain is no verdict: contact was lost.
fn describe_end(end: &ChildEnd, cause: &EndCause) -> (How, bool) {
    let limit = |limit_ms: u64| {
        Some(prost_types::Duration {
            seconds: i64::try_from(limit_ms / 1000).unwrap_or(i64::MAX),
            nanos: i32::try_from(limit_ms % 1000 * 1_000_000).unwrap_or(0),
        })
    };
    match (end, cause) {
        // Refused at its gate: that is no fault of what was to be started.
        (ChildEnd::NotStarted { reason }, EndCause::Asked | EndCause::ContactLost) => {
            (How::NotStarted(NotStarted { reason: reason.clone() }), true)
        }
        (ChildEnd::NotStarted { reason }, _) => {
            (How::NotStarted(NotStarted { reason: reason.clone() }), false)
        }
        (_, EndCause::OwnTimeout { limit_ms }) => {
            (How::OwnTimeout(OwnTimeout { limit: limit(*limit_ms) }), false)
        }
        (_, EndCause::IdleTimeout { limit_ms }) => {
            (How::IdleTimeout(IdleTimeout { limit: limit(*limit_ms) }), false)
        }
        (_, EndCause::Asked | EndCause::ContactLost) => {
            (How::ContactLost(ContactLost { drained: false }), true)
        }
        (ChildEnd::Exited { code }, EndCause::Itself) => (How::ExitCode(*code), false),
        (ChildEnd::Signalled { signal }, EndCause::Itself) => (How::Signal(*signal), false),
    }
}

/// Returns when the worker says that it has the end acknowledged; answers its pings meanwhile.
async fn await_forget(mut control: Control) {
    let Ok(watched) = control.clone_socket().and_then(UnixStream::from_std) else {
        return std::future::pending().await;
    };
    loop {
        if heed_worker(&mut control) {
            return;
        }
        if control.is_closed() || watched.readable().await.is_err() {
            return std::future::pending().await;
        }
        // Everything is read above, by the other descriptor: this one is told that there is no more.
        let _ =
            watched.try_io(Interest::READABLE, || -> io::Result<()> { Err(ErrorKind::WouldBlock.into()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guardian::protocol::RunSecret;

    #[tokio::test]
    async fn a_report_does_not_wait_for_others_that_nobody_answers() {
        let answering = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hour = Duration::from_secs(3_600);
        let identity = |job: String, port: u16| ReportIdentity {
            tenant: "default".to_owned(),
            job,
            epoch: 1,
            generation: 1,
            secret: RunSecret::from_bytes([9; 32]),
            endpoints: vec![format!("http://127.0.0.1:{port}")],
            tls_authority_pem: None,
            ttl_ms: u64::try_from(hour.as_millis()).unwrap(),
        };
        let nobody = (0..PASSES_AT_ONCE).map(|number| identity(number.to_string(), 1));
        let last = identity("last".to_owned(), answering.local_addr().unwrap().port());
        let reported = tokio::spawn(report_each(nobody.chain([last]).collect()));
        let patience = Duration::from_secs(30);
        let called = tokio::time::timeout(patience, answering.accept()).await;
        assert!(called.is_ok_and(|called| called.is_ok()), "the last one has its turn within its own time");
        reported.abort();
    }

    #[test]
    fn an_end_of_its_own_is_told_as_it_was() {
        let exited = ChildEnd::Exited { code: 65 };
        assert_eq!(describe_end(&exited, &EndCause::Itself), (How::ExitCode(65), false));
        let killed = ChildEnd::Signalled { signal: 11 };
        assert_eq!(describe_end(&killed, &EndCause::Itself), (How::Signal(11), false));
    }

    #[test]
    fn a_child_that_was_ended_for_its_worker_lost_contact_whatever_it_exited_with() {
        let exited = ChildEnd::Exited { code: 0 };
        for cause in [EndCause::Asked, EndCause::ContactLost] {
            assert_eq!(
                describe_end(&exited, &cause),
                (How::ContactLost(ContactLost { drained: false }), true)
            );
        }
    }

    #[test]
    fn a_child_that_was_refused_at_its_gate_never_was_and_is_not_to_blame() {
        let refused = ChildEnd::NotStarted { reason: "too late".to_owned() };
        let how = How::NotStarted(NotStarted { reason: "too late".to_owned() });
        for cause in [EndCause::Asked, EndCause::ContactLost] {
            assert_eq!(describe_end(&refused, &cause), (how.clone(), true));
        }
        assert_eq!(describe_end(&refused, &EndCause::Itself), (how, false));
    }

    #[test]
    fn a_timeout_keeps_its_limit() {
        let (how, healthy) =
            describe_end(&ChildEnd::Exited { code: 0 }, &EndCause::OwnTimeout { limit_ms: 1_500 });
        let limit = Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 });
        assert_eq!((how, healthy), (How::OwnTimeout(OwnTimeout { limit }), false));
    }

    #[test]
    fn a_refusal_is_final_and_an_outage_is_not() {
        assert!(is_final(&Status::permission_denied("")));
        assert!(!is_final(&Status::unavailable("")));
        assert!(!is_final(&Status::unknown("")));
    }
}
