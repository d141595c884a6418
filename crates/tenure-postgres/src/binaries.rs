//! Where the binaries of PostgreSQL are.
//!
//! Owns the search: `TENURE_PG_BIN`, which excludes all other places; the directories of PATH; then
//! the places where Debian, Fedora and Homebrew put their versions side by side, the highest first.
//! Promises that what it returns could be run and is new enough. Does not install anything.
//! Neighbours: `directory` and `process` run what is found here.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// The oldest major version that serves.
pub const MINIMUM_MAJOR: u32 = 15;

/// Folders whose children, filtered by a prefix, have binaries in `bin`.
const VERSIONED_PLACES: [(&str, &str); 5] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql"),
    ("/usr/local/opt", "postgresql"),
    ("/home/linuxbrew/.linuxbrew/opt", "postgresql"),
];

/// The binaries of one PostgreSQL installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    directory: PathBuf,
    major: u32,
}

/// Where to look for binaries.
#[derive(Debug, Clone, Default)]
pub struct SearchPlaces {
    /// Only here, if given.
    pub only: Option<PathBuf>,
    /// Directories tried in this order.
    pub path: Vec<PathBuf>,
    /// Directories of which the one with the highest version wins.
    pub versioned: Vec<PathBuf>,
}

impl SearchPlaces {
    /// What this process's environment and the usual layouts say.
    #[must_use]
    pub fn from_environment() -> Self {
        Self {
            only: env::var_os("TENURE_PG_BIN").filter(|value| !value.is_empty()).map(PathBuf::from),
            path: env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default(),
            versioned: list_versioned_places(),
        }
    }

    fn describe(&self) -> String {
        match &self.only {
            Some(only) => format!("TENURE_PG_BIN={}", only.display()),
            None => "PATH, /usr/lib/postgresql/*/bin, /usr/pgsql-*/bin, Homebrew".to_owned(),
        }
    }
}

impl Binaries {
    /// Finds the binaries to start a new server with.
    ///
    /// # Errors
    /// [`Error::NotFound`], which tells what to install.
    pub fn find(places: &SearchPlaces) -> Result<Self, Error> {
        list_candidates(places)
            .into_iter()
            .next()
            .ok_or_else(|| Error::NotFound { minimum: MINIMUM_MAJOR, looked_in: places.describe() })
    }

    /// Finds the binaries for data that the major version `major` wrote.
    pub(crate) fn find_major(places: &SearchPlaces, major: u32, data: &Path) -> Result<Self, Error> {
        Self::find(places)?;
        list_candidates(places)
            .into_iter()
            .find(|binaries| binaries.major == major)
            .ok_or_else(|| Error::OtherVersion { directory: data.to_owned(), written_by: major })
    }

    /// The full path of one program, for example `psql`; it need not exist.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The major version.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Asks the binaries in `directory` for their version; `None` if they are absent or too old.
    /// Follows a link, because one that was put on PATH has only some of its siblings beside it.
    fn probe(directory: &Path) -> Option<Self> {
        let postgres = directory.join("postgres").canonicalize().ok()?;
        let directory = postgres.parent().filter(|home| home.join("initdb").is_file())?;
        let output = Command::new(&postgres).arg("--version").output().ok()?;
        let major = parse_major(&String::from_utf8_lossy(&output.stdout))?;
        (major >= MINIMUM_MAJOR).then(|| Self { directory: directory.to_owned(), major })
    }
}

fn list_candidates(places: &SearchPlaces) -> Vec<Binaries> {
    if let Some(only) = &places.only {
        return Binaries::probe(only).into_iter().collect();
    }
    let mut versioned: Vec<_> = places.versioned.iter().filter_map(|place| Binaries::probe(place)).collect();
    versioned.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
    places.path.iter().filter_map(|place| Binaries::probe(place)).chain(versioned).collect()
}

fn list_versioned_places() -> Vec<PathBuf> {
    VERSIONED_PLACES
        .iter()
        .filter_map(|(folder, prefix)| Some((fs::read_dir(folder).ok()?, prefix)))
        .flat_map(|(entries, prefix)| {
            entries
                .flatten()
                .filter(|entry| starts_with(&entry.file_name(), prefix))
                .map(|entry| entry.path().join("bin"))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn starts_with(name: &OsStr, prefix: &str) -> bool {
    name.to_string_lossy().starts_with(prefix)
}

/// Reads the major version from `postgres (PostgreSQL) 15.18 (Debian …)`, `17beta1`, `18devel`.
fn parse_major(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL) ").nth(1)?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fake_installation(root: &Path, name: &str, version: &str) -> PathBuf {
        let directory = root.join(name);
        fs::create_dir_all(&directory).unwrap();
        for program in ["postgres", "initdb"] {
            let path = directory.join(program);
            fs::write(&path, format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        directory
    }

    #[test]
    fn major_version_is_read_from_every_known_form() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_major("postgres (EnterpriseDB) 15.1\n"), None);
    }

    #[test]
    fn absent_binaries_are_an_error_that_says_what_to_install() {
        let error = Binaries::find(&SearchPlaces::default()).unwrap_err();
        assert_eq!(error.reason_code(), "POSTGRES_NOT_FOUND");
        assert!(error.to_string().contains("apt-get install postgresql"), "{error}");
    }

    #[test]
    fn highest_version_wins_and_old_ones_are_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let places = SearchPlaces {
            versioned: vec![
                fake_installation(root.path(), "15", "15.2"),
                fake_installation(root.path(), "17", "17.1"),
                fake_installation(root.path(), "14", "14.9"),
            ],
            ..SearchPlaces::default()
        };
        assert_eq!(Binaries::find(&places).unwrap().major(), 17);
        assert_eq!(Binaries::find_major(&places, 15, root.path()).unwrap().major(), 15);
        let error = Binaries::find_major(&places, 14, root.path()).unwrap_err();
        assert!(matches!(error, Error::OtherVersion { written_by: 14, .. }), "{error}");
    }

    #[test]
    fn link_on_the_path_leads_to_the_whole_installation() {
        let root = tempfile::tempdir().unwrap();
        let home = fake_installation(root.path(), "home", "16.0");
        let links = root.path().join("links");
        fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink(home.join("postgres"), links.join("postgres")).unwrap();
        let places = SearchPlaces { path: vec![links], ..SearchPlaces::default() };
        let found = Binaries::find(&places).unwrap().program("psql");
        assert_eq!(found, home.canonicalize().unwrap().join("psql"));
    }

    #[test]
    fn path_goes_before_versioned_places_and_an_explicit_directory_excludes_both() {
        let root = tempfile::tempdir().unwrap();
        let mut places = SearchPlaces {
            path: vec![fake_installation(root.path(), "path", "16.0")],
            versioned: vec![fake_installation(root.path(), "17", "17.1")],
            only: None,
        };
        assert_eq!(Binaries::find(&places).unwrap().major(), 16);
        places.only = Some(fake_installation(root.path(), "only", "15.0"));
        assert_eq!(Binaries::find(&places).unwrap().major(), 15);
        places.only = Some(root.path().join("nothing"));
        let error = Binaries::find(&places).unwrap_err();
        assert!(error.to_string().contains("TENURE_PG_BIN="), "{error}");
    }
}
