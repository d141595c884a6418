//! Joins: an agent that starts once its work has come from several others. What one of those sends to it in a session is a delivery;
//! the k-th of an upstream belongs to the k-th wave, and the delivery that completes a wave makes the one job of it. It owns which
//! wave a delivery belongs to, whether it completes it, and what the job reads. It stores nothing: whoever carries a placement out
//! writes it only where no other delivery came meanwhile. Neighbours: `routing` has the joins, `sending` gives.
//!
//! ```text
//!   developer ── send release ─▶ delivery 1, wave 1, misses reviewer
//!   reviewer  ── send release ─▶ delivery 2, wave 1, completes it ─▶ the job
//! ```

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    id::{AgentName, JobId},
    limits::JOIN_DELIVERIES_MAX,
};

/// When a join starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Once each upstream has delivered.
    All,
    /// Once any of them has.
    Any,
}

/// A join of the fleet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The agent that starts.
    pub agent: AgentName,
    /// Its upstreams.
    pub from: BTreeSet<AgentName>,
    /// When.
    pub mode: Mode,
}

/// What an upstream delivered in a session before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Who.
    pub upstream: AgentName,
    /// The wave to which it belongs, from 1.
    pub wave: u32,
    /// The job that delivered.
    pub giver: JobId,
    /// The id of the job that the wave makes.
    pub child: JobId,
    /// Whether it made that job.
    pub starts: bool,
    /// What it delivered; gone once the wave has its job.
    pub body: Vec<u8>,
}

/// Where a delivery belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Its number among the deliveries to this join in this session, from 1. Whoever writes it under a number that is taken writes nothing.
    pub no: u32,
    /// Its wave.
    pub wave: u32,
    /// The id of the wave's job, where it has one already.
    pub child: Option<JobId>,
    /// True where it makes the wave's job.
    pub starts: bool,
    /// Who has not delivered after it, where the wave waits for that.
    pub missing: BTreeSet<AgentName>,
}

/// A session in which a join has had as many deliveries as it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{agent} has had {JOIN_DELIVERIES_MAX} deliveries in this session, and no more are taken")]
pub struct TooManyDeliveries {
    /// The agent of the join.
    pub agent: AgentName,
}

impl Join {
    /// Where the next delivery of an upstream belongs.
    ///
    /// # Errors
    /// There were too many before.
    pub fn place(&self, upstream: &AgentName, earlier: &[Delivery]) -> Result<Placement, TooManyDeliveries> {
        let no = u32::try_from(earlier.len() + 1).unwrap_or(u32::MAX);
        if no > JOIN_DELIVERIES_MAX {
            return Err(TooManyDeliveries { agent: self.agent.clone() });
        }
        let own = earlier.iter().filter(|delivery| delivery.upstream == *upstream);
        let wave = own.map(|delivery| delivery.wave).max().unwrap_or_default() + 1;
        let in_wave: Vec<&Delivery> = earlier.iter().filter(|delivery| delivery.wave == wave).collect();
        let started = in_wave.iter().any(|delivery| delivery.starts);
        let has_come = |agent: &AgentName| {
            agent == upstream || in_wave.iter().any(|delivery| delivery.upstream == *agent)
        };
        let missing: BTreeSet<_> = match self.mode {
            Mode::All if !started => self.from.iter().filter(|agent| !has_come(agent)).cloned().collect(),
            Mode::All | Mode::Any => BTreeSet::new(),
        };
        let child = in_wave.first().map(|delivery| delivery.child);
        Ok(Placement { no, wave, child, starts: !started && missing.is_empty(), missing })
    }

    /// What the job of a wave reads: what came, in the order in which it came, and from whom.
    #[must_use]
    pub fn compose(
        &self,
        wave: u32,
        earlier: &[Delivery],
        (upstream, giver, body): (&AgentName, JobId, &[u8]),
    ) -> Vec<u8> {
        let before = earlier.iter().filter(|delivery| delivery.wave == wave);
        let before = before.map(|delivery| (&delivery.upstream, delivery.giver, delivery.body.as_slice()));
        let deliveries: Vec<Value> = before
            .chain([(upstream, giver, body)])
            .map(|(from, job, body)| match std::str::from_utf8(body) {
                Ok(text) => json!({ "from": from, "job": job, "body": text }),
                Err(_) => json!({ "from": from, "job": job, "body_hex": write_hex(body) }),
            })
            .collect();
        json!({ "join": self.agent, "wave": wave, "deliveries": deliveries }).to_string().into_bytes()
    }
}

fn write_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factory::job_id;

    fn agent(name: &str) -> AgentName {
        name.parse().unwrap()
    }

    fn join(mode: Mode) -> Join {
        Join { agent: agent("release"), from: ["developer", "reviewer"].map(agent).into(), mode }
    }

    /// Delivers in turn; what each came to: its wave, whether it started one, and who was missing.
    fn deliver(mode: Mode, upstreams: &[&str]) -> Vec<(u32, bool, Vec<String>)> {
        let (join, mut earlier, mut told) = (join(mode), Vec::new(), Vec::new());
        for upstream in upstreams {
            let placed = join.place(&agent(upstream), &earlier).unwrap();
            assert_eq!(placed.no as usize, earlier.len() + 1);
            told.push((placed.wave, placed.starts, placed.missing.iter().map(ToString::to_string).collect()));
            earlier.push(Delivery {
                upstream: agent(upstream),
                wave: placed.wave,
                giver: job_id(),
                child: placed.child.unwrap_or_else(job_id),
                starts: placed.starts,
                body: upstream.as_bytes().to_vec(),
            });
        }
        told
    }

    #[test]
    fn all_wait_for_each_and_a_second_delivery_of_one_begins_another_wave() {
        let missing = |name: &str| vec![name.to_owned()];
        assert_eq!(
            deliver(Mode::All, &["developer", "developer", "reviewer", "reviewer", "reviewer"]),
            [
                (1, false, missing("reviewer")),
                (2, false, missing("reviewer")),
                (1, true, vec![]),
                (2, true, vec![]),
                (3, false, missing("developer")),
            ]
        );
    }

    #[test]
    fn any_starts_at_the_first_and_what_comes_after_it_in_its_wave_is_late() {
        assert_eq!(
            deliver(Mode::Any, &["reviewer", "developer", "developer"]),
            [(1, true, vec![]), (1, false, vec![]), (2, true, vec![])]
        );
    }

    #[test]
    fn the_job_reads_what_came_in_its_order_and_from_whom() {
        let first = Delivery {
            upstream: agent("reviewer"),
            wave: 2,
            giver: job_id(),
            child: job_id(),
            starts: false,
            body: vec![0xff, 0x01],
        };
        let other = Delivery { wave: 1, ..first.clone() };
        let composed =
            join(Mode::All).compose(2, &[other, first], (&agent("developer"), job_id(), b"a \"patch\""));
        let job = job_id().to_string();
        assert_eq!(
            serde_json::from_slice::<Value>(&composed).unwrap(),
            json!({ "join": "release", "wave": 2, "deliveries": [
                { "from": "reviewer", "job": job, "body_hex": "ff01" },
                { "from": "developer", "job": job, "body": "a \"patch\"" },
            ]})
        );
    }

    #[test]
    fn a_session_has_so_many_deliveries_and_no_more() {
        let earlier = Delivery {
            upstream: agent("reviewer"),
            wave: 1,
            giver: job_id(),
            child: job_id(),
            starts: false,
            body: vec![],
        };
        let many = vec![earlier; JOIN_DELIVERIES_MAX as usize];
        assert!(join(Mode::All).place(&agent("developer"), &many).is_err());
        assert!(join(Mode::All).place(&agent("developer"), &many[1..]).is_ok());
    }
}
