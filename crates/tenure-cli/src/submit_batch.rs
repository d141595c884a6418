//! `tenure submit --batch`: one job for each line of a file. Each line is admitted or refused by itself; a line that
//! cannot be read refuses the whole before anything is sent. A batch larger than the fleet takes at once is sent in parts.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use bytes::Bytes;
use serde::Deserialize;
use tenure_client::submission::Submission;
use tenure_core::{
    limits::{BATCH_MAX_BYTES, BATCH_MAX_JOBS},
    reason::Reason,
    record::DeadlineSetting,
    refusal::Refusal,
};

use crate::{
    context::Context,
    failure::Failure,
    relative::parse_span,
    submit::print_admitted,
    wait::{WaitLimit, wait_for_jobs},
};

/// One line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    agent: Option<String>,
    #[serde(default)]
    input: String,
    key: Option<String>,
    deadline: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Submits every line of a file; what a line does not say is taken from the command line.
pub(crate) async fn submit_batch(
    context: &Context,
    path: &Path,
    template: &Submission,
    limit: WaitLimit,
) -> Result<(), Failure> {
    let submissions = read_lines(path, template)?;
    let client = context.client()?;
    let (mut admitted, mut refused) = (Vec::new(), None);
    for part in split_batch(submissions) {
        for item in client.submit_jobs(part).await? {
            match item {
                Ok(item) => {
                    print_admitted(context, &item)?;
                    admitted.push(item.job_id);
                }
                Err(refusal) => {
                    let failure = Failure::from(refusal);
                    context.printer.failure(&failure);
                    refused.get_or_insert(failure);
                }
            }
        }
    }
    wait_for_jobs(context, &client, &admitted, limit).await?;
    refused.map_or(Ok(()), |failure| Err(failure.already_printed()))
}

fn read_lines(path: &Path, template: &Submission) -> Result<Vec<Submission>, Failure> {
    let refuse = |error: io::Error| {
        let message = format!("reading the batch {}", path.display());
        Failure::caused(Refusal::new(Reason::InvalidArgument, message), &error)
    };
    let reader: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(refuse)?))
    };
    let mut submissions = Vec::new();
    for (index, line) in reader.lines().enumerate() {
        let line = line.map_err(refuse)?;
        if !line.trim().is_empty() {
            submissions.push(read_line(index + 1, &line, template)?);
        }
    }
    Ok(submissions)
}

fn read_line(number: usize, text: &str, template: &Submission) -> Result<Submission, Failure> {
    let refuse = |what: String| {
        Failure::new(Reason::InvalidArgument, format!("line {number} of the batch cannot be read: {what}"))
    };
    let line: Line = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let deadline = match line.deadline.as_deref() {
        None => template.deadline,
        Some("none") => Some(DeadlineSetting::None),
        Some(span) => Some(DeadlineSetting::CeilingS(parse_span(span).map_err(refuse)?.as_secs())),
    };
    let agent = line.agent.unwrap_or_else(|| template.agent.clone());
    if agent.is_empty() {
        return Err(refuse("it names no agent, and neither does the command line".to_owned()));
    }
    let labels = template.labels.clone().into_iter().chain(line.labels).collect();
    Ok(Submission {
        agent,
        input: Bytes::from(line.input),
        key: line.key,
        deadline,
        labels,
        ..template.clone()
    })
}

/// Parts of at most as many jobs and bytes as the fleet takes at once.
fn split_batch(submissions: Vec<Submission>) -> Vec<Vec<Submission>> {
    let mut parts: Vec<Vec<Submission>> = Vec::new();
    let mut bytes = 0;
    for submission in submissions {
        let more = submission.input.len();
        match parts.last_mut() {
            Some(part) if part.len() < BATCH_MAX_JOBS && bytes + more <= BATCH_MAX_BYTES => {
                bytes += more;
                part.push(submission);
            }
            _ => {
                bytes = more;
                parts.push(vec![submission]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_input(bytes: usize) -> Submission {
        Submission { input: Bytes::from(vec![0; bytes]), ..Submission::default() }
    }

    #[test]
    fn parts_keep_within_both_limits_and_lose_nothing() {
        let jobs = split_batch(vec![with_input(1); BATCH_MAX_JOBS + 1]);
        assert_eq!(jobs.iter().map(Vec::len).collect::<Vec<_>>(), [BATCH_MAX_JOBS, 1]);
        let bytes = split_batch(vec![with_input(BATCH_MAX_BYTES / 2); 3]);
        assert_eq!(bytes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert!(split_batch(Vec::new()).is_empty());
    }

    #[test]
    fn a_line_takes_from_the_command_line_what_it_does_not_say() {
        let template = Submission {
            agent: "greet".into(),
            labels: [("team".to_owned(), "a".to_owned())].into(),
            ..Submission::default()
        };
        let line = r#"{"input": "world", "deadline": "90s", "labels": {"n": "1"}}"#;
        let read = read_line(1, line, &template).unwrap();
        assert_eq!(read.agent, "greet");
        assert_eq!(read.deadline, Some(DeadlineSetting::CeilingS(90)));
        assert_eq!(read.labels.len(), 2);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let failure = read_line(7, r#"{"imput": "x"}"#, &Submission::default()).unwrap_err();
        assert!(failure.text(str::to_owned).contains("line 7"), "{failure:?}");
        assert!(read_line(1, "{}", &Submission::default()).is_err());
    }
}
