//! Which job a caller means: a whole id, or an ending of it that no other job of the tenant has. Neighbours: every call
//! that names a job.

use tenure_core::{
    id::{JobId, Tenant},
    limits::JOB_ENDING_MIN_DIGITS,
    reason::Reason,
    refusal::Refusal,
};
use tenure_store::JobRow;

use crate::{coordinator::Parts, refusals::refuse_missing};

/// Candidates that an ambiguous ending is answered with.
const CANDIDATES_NAMED: u32 = 5;

/// The job that is meant, as it stands.
pub(crate) async fn find_job(parts: &Parts, tenant: &Tenant, named: &str) -> Result<JobRow, Refusal> {
    let job = match read_name(named)? {
        Name::Whole(job) => job,
        Name::Ending(digits) => find_by_ending(parts, tenant, &digits).await?,
    };
    let row = parts.bulk.ask(parts.store.read_job(tenant, job)).await?;
    row.ok_or_else(|| refuse_missing(named))
}

#[derive(Debug, PartialEq, Eq)]
enum Name {
    Whole(JobId),
    Ending(String),
}

fn read_name(named: &str) -> Result<Name, Refusal> {
    const UUID_DIGITS: usize = 32;
    // A short id may be pasted with its ellipsis.
    let named = named.trim().trim_start_matches(['…', '.']);
    let digits = named.replace('-', "").to_ascii_lowercase();
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !hexadecimal || !(JOB_ENDING_MIN_DIGITS..=UUID_DIGITS).contains(&digits.len()) {
        let words = format!(
            "{named:?} is neither a whole job id nor an ending of one with at least {JOB_ENDING_MIN_DIGITS} \
             hexadecimal digits"
        );
        return Err(Refusal::new(Reason::JobIdInvalid, words).with_next("tenure jobs"));
    }
    Ok(digits.parse().map_or(Name::Ending(digits), Name::Whole))
}

async fn find_by_ending(parts: &Parts, tenant: &Tenant, digits: &str) -> Result<JobId, Refusal> {
    let found = parts.bulk.ask(parts.store.find_jobs_by_ending(tenant, digits, CANDIDATES_NAMED)).await?;
    match found.as_slice() {
        [] => Err(refuse_missing(digits)),
        [job] => Ok(*job),
        several => {
            let candidates: Vec<String> = several.iter().map(JobId::to_string).collect();
            let words = format!("several jobs end in {digits}, among them {}", candidates.join(", "));
            Err(Refusal::new(Reason::JobAmbiguous, words).with_detail("candidates", candidates.join(",")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mint::mint_job_id;

    #[test]
    fn a_whole_id_is_one_in_every_form_and_a_short_one_is_an_ending() {
        let job = mint_job_id(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(read_name(&job.to_string()), Ok(Name::Whole(job)));
        assert_eq!(read_name(&job.0.as_simple().to_string()), Ok(Name::Whole(job)));
        for short in ["…9F3C21", "...9f3c21"] {
            assert_eq!(read_name(short), Ok(Name::Ending("9f3c21".to_owned())));
        }
    }

    #[test]
    fn what_cannot_be_an_ending_is_refused() {
        for named in ["", "9f3c2", "9f3c2g", "release-notes", &"a".repeat(33)] {
            assert_eq!(read_name(named).unwrap_err().reason, Reason::JobIdInvalid, "{named}");
        }
    }
}
