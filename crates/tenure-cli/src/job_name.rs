//! What a verb that acts is given: the job's name and the reason. A job is named by its whole id or by an ending of it; the
//! ellipsis of a short id may be pasted with it. Whether the name fits one job is looked up by the coordinator; one that
//! cannot fit any is refused here.

use tenure_core::limits::JOB_ENDING_MIN_DIGITS;

use crate::failure::Failure;

/// Reads the name of a job; for the parser of the command line.
pub(crate) fn parse_job_name(given: &str) -> Result<String, String> {
    let bare = given.trim_start_matches('…').trim_start_matches("...");
    let digits = bare.chars().filter(|c| *c != '-');
    if !digits.clone().all(|c| c.is_ascii_hexdigit()) {
        return Err("a job is named by its id or by an ending of it, in hexadecimal digits".to_owned());
    }
    if digits.count() < JOB_ENDING_MIN_DIGITS {
        return Err(format!("an ending of a job's id has at least {JOB_ENDING_MIN_DIGITS} digits"));
    }
    Ok(bare.to_ascii_lowercase())
}

/// The reason of a verb that acts; a blank one would stand in the journal and say nothing.
pub(crate) fn require_reason(why: &str) -> Result<&str, Failure> {
    let trimmed = why.trim();
    if trimmed.is_empty() {
        return Err(Failure::new(
            tenure_core::reason::Reason::ReasonMissing,
            "the reason given with --why is blank",
        ));
    }
    Ok(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_may_be_pasted_with_its_ellipsis() {
        assert_eq!(parse_job_name("…9F3C21").as_deref(), Ok("9f3c21"));
        assert_eq!(parse_job_name("...9f3c21").as_deref(), Ok("9f3c21"));
        let whole = "0193a7c2-1111-7000-8000-00000000abcd";
        assert_eq!(parse_job_name(whole).as_deref(), Ok(whole));
    }

    #[test]
    fn what_can_name_no_job_is_refused() {
        for bad in ["", "9f3c2", "release-notes", "9f3c2g"] {
            assert!(parse_job_name(bad).is_err(), "{bad}");
        }
    }
}
