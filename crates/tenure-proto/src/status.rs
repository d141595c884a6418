//! The one table from reason codes to gRPC, and the form in which a refusal crosses the wire: a status whose details hold
//! a `google.rpc.ErrorInfo` (reason, domain `tenure`, details and `next` as metadata) and, where trying again helps, a
//! `google.rpc.RetryInfo`. Causes never cross: whoever refuses logs them. Neighbour: `tenure_core::reason` owns the codes.

use std::{collections::BTreeMap, time::Duration};

use tenure_core::{reason::Reason, refusal::Refusal};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The domain of every reason in an `ErrorInfo`.
pub const DOMAIN: &str = "tenure";
/// The metadata key under which the command that goes on travels.
pub const NEXT_KEY: &str = "next";
/// The detail under which a reason code that this release does not know is kept.
pub const UNKNOWN_CODE_DETAIL: &str = "unknown_code";

/// The gRPC code of a reason.
#[must_use]
#[expect(clippy::too_many_lines, reason = "the one table, whose reasons stand one to a line")]
pub const fn code_of(reason: Reason) -> Code {
    match reason {
        Reason::InvalidArgument
        | Reason::InvalidCursor
        | Reason::InvalidFleetFile
        | Reason::InvalidDeclaration
        | Reason::InputTooLarge
        | Reason::NoteTooLarge
        | Reason::MemoryTooLarge
        | Reason::EffectTooLarge
        | Reason::BatchTooLarge
        | Reason::MessageTooLarge
        | Reason::JobAmbiguous
        | Reason::JobIdInvalid
        | Reason::TenantRequired
        | Reason::WaitOutOfBounds
        | Reason::ReasonMissing => Code::InvalidArgument,
        Reason::NotSupported => Code::Unimplemented,
        Reason::UnknownAgent
        | Reason::JobNotFound
        | Reason::RunNotFound
        | Reason::EffectNotFound
        | Reason::ResultNotFound
        | Reason::BlobNotFound => Code::NotFound,
        Reason::KeyReused => Code::AlreadyExists,
        Reason::VerbNotAllowed
        | Reason::ValueErased
        | Reason::ChildUnaccountedFor
        | Reason::EpochMismatch
        | Reason::DeclarationMismatch
        | Reason::PlanMissing
        | Reason::LimitReached
        | Reason::Halted
        | Reason::HaltNotStanding
        | Reason::DeadlineReached
        | Reason::HopsExhausted
        | Reason::NotRouted
        | Reason::SpawnTooDeep
        | Reason::RunOver
        | Reason::EffectInDoubt
        | Reason::EffectDecided
        | Reason::EffectMismatch
        | Reason::EffectRefused
        | Reason::CancelRequested
        | Reason::TermClosed
        | Reason::NotMigrated
        | Reason::DatabaseTooNew
        | Reason::SettingsMissing
        | Reason::PortInUse
        | Reason::LoopbackOnly
        | Reason::TlsRequired
        | Reason::TlsUnusable
        | Reason::TokensUnreadable
        | Reason::PostgresNotFound
        | Reason::PostgresNotStarted
        | Reason::NotInsideRun
        | Reason::ReplayDiverged
        | Reason::JobNotSucceeded => Code::FailedPrecondition,
        Reason::Overloaded => Code::ResourceExhausted,
        Reason::Fenced | Reason::AppendConflict | Reason::Displaced => Code::Aborted,
        Reason::CredentialMissing
        | Reason::CredentialInvalid
        | Reason::CredentialExpired
        | Reason::CertificateMissing => Code::Unauthenticated,
        Reason::AttachRefused | Reason::GoneRefused | Reason::ScopeMissing | Reason::TenantNotGranted => {
            Code::PermissionDenied
        }
        Reason::DatabaseUnavailable
        | Reason::TimelineChanged
        | Reason::CoordinatorUnavailable
        | Reason::BlobStoreUnavailable
        | Reason::RequestTooSlow
        | Reason::LeaseTooShort => Code::Unavailable,
        Reason::WaitRanOut => Code::DeadlineExceeded,
        Reason::ChainBroken | Reason::BlobDiffers => Code::DataLoss,
        Reason::Internal => Code::Internal,
    }
}

/// A refusal as a status.
#[must_use]
pub fn refusal_to_status(refusal: &Refusal) -> Status {
    let mut metadata: std::collections::HashMap<String, String> =
        refusal.details.clone().into_iter().collect();
    if let Some(next) = &refusal.next {
        metadata.insert(NEXT_KEY.to_owned(), next.clone());
    }
    let mut details = ErrorDetails::with_error_info(refusal.reason.code(), DOMAIN, metadata);
    if let Some(pause) = refusal.retry_after {
        details.set_retry_info(Some(pause));
    }
    Status::with_error_details(code_of(refusal.reason), refusal.message.clone(), details)
}

/// The refusal that a status carries; none where it carries none of ours, as with every failure of the transport itself.
/// A code that this release does not know is kept in the details, and reads as an internal one.
#[must_use]
pub fn status_to_refusal(status: &Status) -> Option<Refusal> {
    let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN)?;
    let mut details: BTreeMap<String, String> = info.metadata.into_iter().collect();
    let next = details.remove(NEXT_KEY);
    let reason = Reason::from_code(&info.reason).unwrap_or_else(|| {
        details.insert(UNKNOWN_CODE_DETAIL.to_owned(), info.reason);
        Reason::Internal
    });
    let retry_after: Option<Duration> = status.get_details_retry_info().and_then(|info| info.retry_delay);
    Some(Refusal { reason, message: status.message().to_owned(), details, next, retry_after })
}

#[cfg(test)]
mod tests {
    use tenure_core::reason::Class;

    use super::*;

    fn full(reason: Reason) -> Refusal {
        Refusal::new(reason, "job …9f3c21 is held by worker w2 under epoch 4, yours was 3")
            .with_detail("held_by", "w2")
            .with_detail("epoch", 4)
            .with_next("tenure job …9f3c21")
            .with_retry_after(Duration::from_millis(1_250))
    }

    #[test]
    fn every_reason_crosses_the_wire_whole() {
        for reason in Reason::ALL {
            let refusal = full(*reason);
            let status = refusal_to_status(&refusal);
            // As on the wire: only code, message and details survive.
            let arrived =
                Status::with_details(status.code(), status.message(), status.details().to_vec().into());
            assert_eq!(status_to_refusal(&arrived), Some(refusal));
        }
    }

    #[test]
    fn no_reason_looks_like_a_failure_of_the_transport_unless_trying_again_helps() {
        for reason in Reason::ALL {
            let code = code_of(*reason);
            assert!(!matches!(code, Code::Ok | Code::Unknown | Code::Cancelled), "{reason:?}");
            if code == Code::Unavailable {
                assert_eq!(reason.class(), Class::Unavailable, "{reason:?}");
            }
        }
    }

    #[test]
    fn a_status_of_somebody_else_carries_no_refusal() {
        assert_eq!(status_to_refusal(&Status::unavailable("connection reset")), None);
        let foreign =
            ErrorDetails::with_error_info("FENCED", "example.com", std::collections::HashMap::new());
        let status = Status::with_error_details(Code::Aborted, "no", foreign);
        assert_eq!(status_to_refusal(&status), None);
    }

    #[test]
    fn a_code_of_a_later_release_is_kept() {
        let later = ErrorDetails::with_error_info("MOON_PHASE", DOMAIN, std::collections::HashMap::new());
        let status = Status::with_error_details(Code::Aborted, "wait for the moon", later);
        let refusal = status_to_refusal(&status).unwrap();
        assert_eq!(refusal.reason, Reason::Internal);
        assert_eq!(refusal.details.get(UNKNOWN_CODE_DETAIL).map(String::as_str), Some("MOON_PHASE"));
    }
}
