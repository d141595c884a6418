//! The account that the server runs as.
//!
//! Owns one decision: PostgreSQL refuses to run as root, so root hands it to `postgres` or `nobody`,
//! and everybody else runs it as themselves. Promises that a directory that the account cannot reach
//! is refused with the name of the directory in the way. Does not create accounts or change the
//! permissions of directories that it did not make. Neighbours: `directory`, `process`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::{Uid, User};

use crate::Error;

/// Accounts that root hands the server to, best first.
const ORDINARY_ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// Search permission for the owner, the group and everybody else.
const SEARCH_BITS: [u32; 3] = [0o100, 0o010, 0o001];

/// Whom the server's processes belong to: `None` means whoever runs this process.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    ordinary: Option<User>,
}

impl Account {
    /// Chooses the account for this process.
    pub(crate) fn choose() -> Result<Self, Error> {
        if !Uid::effective().is_root() {
            return Ok(Self { ordinary: None });
        }
        let ordinary = ORDINARY_ACCOUNTS
            .iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .ok_or(Error::NoAccount)?;
        Ok(Self { ordinary: Some(ordinary) })
    }

    /// Makes `command` run as the account.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Some(user) = &self.ordinary {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
    }

    /// Creates `directory` if need be, for the account alone.
    pub(crate) fn create_private(&self, directory: &Path) -> Result<(), Error> {
        fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
        self.check_reach(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
            .map_err(Error::io("restrict the permissions of", directory))?;
        self.give(directory)
    }

    /// Makes the account the owner of `path`.
    pub(crate) fn give(&self, path: &Path) -> Result<(), Error> {
        match &self.ordinary {
            Some(user) => chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .map_err(Error::io("change the owner of", path)),
            None => Ok(()),
        }
    }

    /// Refuses a directory of which an ancestor may not be entered by the account.
    fn check_reach(&self, directory: &Path) -> Result<(), Error> {
        let Some(user) = &self.ordinary else {
            return Ok(());
        };
        let directory = directory.canonicalize().map_err(Error::io("resolve", directory))?;
        for ancestor in directory.ancestors().skip(1) {
            let metadata = fs::metadata(ancestor).map_err(Error::io("inspect", ancestor))?;
            if !may_enter(&metadata, user) {
                return Err(Error::Unreachable {
                    account: user.name.clone(),
                    directory: directory.clone(),
                    blocked_at: ancestor.to_owned(),
                    suggestion: std::env::temp_dir(),
                });
            }
        }
        Ok(())
    }
}

/// The classic permission check; access control lists are not considered.
fn may_enter(metadata: &fs::Metadata, user: &User) -> bool {
    let [owner, group, everybody] = SEARCH_BITS;
    let bit = if metadata.uid() == user.uid.as_raw() {
        owner
    } else if metadata.gid() == user.gid.as_raw() {
        group
    } else {
        everybody
    };
    metadata.mode() & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_directory_below_a_closed_one_is_refused_for_another_account() {
        let account = Account::choose().unwrap();
        let closed = tempfile::tempdir().unwrap();
        fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let outcome = account.create_private(&closed.path().join("inner"));
        match (&account.ordinary, outcome) {
            (Some(_), Err(Error::Unreachable { blocked_at, .. })) => {
                assert_eq!(blocked_at, closed.path().canonicalize().unwrap());
            }
            (None, Ok(())) => {}
            (account, outcome) => panic!("as {account:?}: {outcome:?}"),
        }
    }
}
