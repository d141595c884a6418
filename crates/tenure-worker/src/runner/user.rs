//! The user that a child runs as.
//!
//! Resolved by the worker before the run starts, because a guardian must not read the user database between fork
//! and program. Only a worker that runs as root can switch; everybody else refuses, naming the user.

use std::ffi::CString;

use nix::unistd::{User, geteuid, getgrouplist};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A user of this host, with everything that switching to it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUser {
    /// Its name.
    pub name: String,
    /// Its id.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// All its groups.
    pub groups: Vec<u32>,
    /// Its home directory, which becomes `HOME`.
    pub home: String,
}

/// Why a child cannot run as that user.
#[derive(Debug, Error)]
pub enum UserError {
    /// Only root can become somebody else.
    #[error("cannot run as user {user:?}: the worker runs as uid {worker_uid}, and only root can switch")]
    WorkerIsNotRoot {
        /// Whom the agent asks for.
        user: String,
        /// Who the worker is.
        worker_uid: u32,
    },
    /// This host has no such user.
    #[error("cannot run as user {user:?}: this host has no such user")]
    Unknown {
        /// Whom the agent asks for.
        user: String,
    },
    /// The user database did not answer.
    #[error("cannot look up user {user:?}")]
    Unreadable {
        /// Whom the agent asks for.
        user: String,
        /// What the host says.
        #[source]
        source: nix::Error,
    },
}

/// Finds a user that this worker can switch to.
pub fn resolve_user(name: &str) -> Result<RunUser, UserError> {
    let worker = geteuid();
    if !worker.is_root() {
        return Err(UserError::WorkerIsNotRoot { user: name.to_owned(), worker_uid: worker.as_raw() });
    }
    let unreadable = |source| UserError::Unreadable { user: name.to_owned(), source };
    let unknown = || UserError::Unknown { user: name.to_owned() };
    let user = User::from_name(name).map_err(unreadable)?.ok_or_else(unknown)?;
    let c_name = CString::new(name).map_err(|_| unknown())?;
    let groups = getgrouplist(&c_name, user.gid).map_err(unreadable)?;
    Ok(RunUser {
        name: name.to_owned(),
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(|group| group.as_raw()).collect(),
        home: user.dir.to_string_lossy().into_owned(),
    })
}
