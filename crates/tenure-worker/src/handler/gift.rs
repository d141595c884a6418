//! Work that a handler gives to an agent, as it declares it. Neighbour: `gifts` of this crate sends it.

use bytes::Bytes;
use tenure_core::sending::Way;

/// Work for an agent: [`Gift::send`] or [`Gift::spawn`], under a key where it is given one.
#[derive(Debug, Clone)]
pub struct Gift {
    pub(super) agent: String,
    pub(super) body: Bytes,
    pub(super) way: Way,
    pub(super) key: Option<String>,
}

impl Gift {
    /// As a job in the session of the run, with one hop less.
    pub fn send(agent: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { agent: agent.into(), body: body.into(), way: Way::Send, key: None }
    }

    /// As a session of its own, one level deeper.
    pub fn spawn(agent: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { way: Way::Spawn, ..Self::send(agent, body) }
    }

    /// Under this key the job is made once, however often this run or a later one gives it. Without one, the same given twice by
    /// one run is two jobs, and a later run that gives the same again is answered with those.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}
