//! Names and digests on the wire. They travel as text or bytes and are checked here, so that nothing behind this module
//! sees a name of the wrong form. Endings of job ids are not read here: they are looked up by the coordinator.

use std::str::FromStr;

use tenure_core::id::{AgentName, Digest, JobId, SessionId, Tenant, WorkerName};
use uuid::Uuid;

use super::InvalidField;

/// A whole job id.
///
/// # Errors
/// It is not a hyphenated UUID.
pub fn read_job_id(field: &'static str, given: &str) -> Result<JobId, InvalidField> {
    read_uuid(field, given).map(JobId)
}

/// A whole session id.
///
/// # Errors
/// It is not a hyphenated UUID.
pub fn read_session_id(field: &'static str, given: &str) -> Result<SessionId, InvalidField> {
    read_uuid(field, given).map(SessionId)
}

/// The name of a tenant.
///
/// # Errors
/// It does not have the form of one.
pub fn read_tenant(field: &'static str, given: &str) -> Result<Tenant, InvalidField> {
    read_name(field, given, "[a-z][a-z0-9-]{0,62}")
}

/// The name of an agent.
///
/// # Errors
/// It does not have the form of one.
pub fn read_agent_name(field: &'static str, given: &str) -> Result<AgentName, InvalidField> {
    read_name(field, given, "[a-z][a-z0-9-]{0,62}")
}

/// The name of a worker.
///
/// # Errors
/// It does not have the form of one.
pub fn read_worker_name(field: &'static str, given: &str) -> Result<WorkerName, InvalidField> {
    read_name(field, given, "[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}")
}

/// A SHA-256.
///
/// # Errors
/// It does not have 32 bytes.
pub fn read_digest(field: &'static str, given: &[u8]) -> Result<Digest, InvalidField> {
    read_bytes_32(field, given).map(Digest)
}

/// A secret or a digest of 32 bytes.
///
/// # Errors
/// It has another length; what was given is not repeated, because it may be a secret.
pub fn read_bytes_32(field: &'static str, given: &[u8]) -> Result<[u8; 32], InvalidField> {
    given
        .try_into()
        .map_err(|_| InvalidField::malformed(field, &format!("{} bytes", given.len()), "32 bytes"))
}

fn read_uuid(field: &'static str, given: &str) -> Result<Uuid, InvalidField> {
    Uuid::try_parse(given).map_err(|_| InvalidField::malformed(field, given, "a UUID"))
}

fn read_name<N: FromStr>(field: &'static str, given: &str, form: &'static str) -> Result<N, InvalidField> {
    given.parse().map_err(|_| InvalidField::malformed(field, given, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_of_another_length_is_refused_without_being_repeated() {
        let refused = read_bytes_32("secret", b"hunter2").unwrap_err();
        assert_eq!(refused.to_string(), "the field secret is \"7 bytes\", and 32 bytes is wanted");
    }

    #[test]
    fn ids_read_back_what_they_print() {
        let id = JobId(Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_009f_3c21));
        assert_eq!(read_job_id("job", &id.to_string()), Ok(id));
        assert!(read_job_id("job", "9f3c21").is_err());
    }
}
