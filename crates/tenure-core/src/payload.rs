//! What an agent with `stdin = "payload"` reads: who it is, its instructions, what it wrote down last time, who sent the work, the
//! handover's brief, and the work itself, in this order. The brief stands directly above the work, so that "you are continuing"
//! is read next to what the work is. Only what stands above the work is composed here; the work follows as it is, byte for byte.
//! The wording is pinned by golden files, because agents act on it. Neighbours: `brief` has the brief, `memory` the tail.

use std::fmt::Write as _;

use crate::{
    id::{AgentName, JobId, Run, SessionId},
    memory::MemoryTail,
    sending::Sender,
};

/// What the work came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The session of the job.
    pub session: SessionId,
    /// Who submitted it.
    pub by: String,
    /// Whose run gave it the work, where one did.
    pub sender: Option<Sender>,
}

/// What is told above the work.
#[derive(Debug, Clone)]
pub struct Preamble<'a> {
    /// The agent.
    pub agent: &'a AgentName,
    /// Its job.
    pub job: JobId,
    /// Which run of it.
    pub run: Run,
    /// The text of the agent's instructions.
    pub instructions: Option<&'a str>,
    /// The end of what it remembers.
    pub memory: &'a MemoryTail,
    /// Where the work came from.
    pub origin: &'a Origin,
    /// The brief; empty where nothing was done before.
    pub brief: &'a str,
}

impl Preamble<'_> {
    /// The text, which ends with the heading of the work.
    #[must_use]
    pub fn compose(&self) -> String {
        let Self { agent, job, run, origin, .. } = self;
        let mut text = format!(
            "# Who you are\n\nYou are the agent {agent}. This is run {run} of job {job}, in session {}.\n",
            origin.session
        );
        if let Some(instructions) = self.instructions.map(str::trim).filter(|text| !text.is_empty()) {
            add_part(&mut text, "Your instructions", instructions);
        }
        if !self.memory.text.is_empty() {
            let cut = if self.memory.is_cut { "(older lines are left out)\n" } else { "" };
            add_part(
                &mut text,
                "What you wrote down earlier",
                &format!("{cut}{}", self.memory.text.trim_end()),
            );
        }
        add_part(&mut text, "Who sent this work", &self.tell_origin());
        if !self.brief.is_empty() {
            let _ = write!(text, "\n{}\n", self.brief.trim_end());
        }
        text.push_str("\n# The work\n\n");
        text
    }

    fn tell_origin(&self) -> String {
        match &self.origin.sender {
            Some(Sender { job, run, agent }) => {
                format!("Agent {agent} gave it to you, in run {run} of its job {job}.")
            }
            None => format!("{} submitted it.", self.origin.by),
        }
    }
}

fn add_part(text: &mut String, heading: &str, part: &str) {
    // Writing to a text cannot fail.
    let _ = write!(text, "\n# {heading}\n\n{part}\n");
}

#[cfg(test)]
mod tests;
