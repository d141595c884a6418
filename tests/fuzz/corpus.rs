//! What is kept: interesting cases to begin from, and what a finding came from. One folder for each kind; the name of what
//! was found begins with `found`. Neighbours: the tests replay all of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::target::Target;

/// Bytes at the port.
pub(crate) const BYTES: &str = "bytes";
/// Calls: a line with the path, then the body.
pub(crate) const CALLS: &str = "calls";
/// Fleet files.
pub(crate) const FLEET: &str = "fleet";

/// The cases to begin from.
pub(crate) struct Corpus {
    place: PathBuf,
    pub(crate) bytes: Vec<Vec<u8>>,
    pub(crate) calls: Vec<Vec<u8>>,
    pub(crate) fleet: Vec<Vec<u8>>,
}

impl Corpus {
    pub(crate) fn open(place: &Path) -> Result<Self> {
        let read = |kind: &str| read_cases(&place.join(kind));
        Ok(Self { bytes: read(BYTES)?, calls: read(CALLS)?, fleet: read(FLEET)?, place: place.to_owned() })
    }

    /// How many findings the cases of a turn led to: none or one. All of them are kept, because one or several led to it.
    pub(crate) fn judge(&self, target: &mut Target, kind: &str, cases: &[Vec<u8>]) -> Result<u64> {
        let Some(finding) = target.look()? else { return Ok(0) };
        for case in cases {
            self.keep(kind, case, &finding)?;
        }
        Ok(1)
    }

    /// Keeps a case, and says what it led to.
    pub(crate) fn keep(&self, kind: &str, case: &[u8], finding: &str) -> Result<()> {
        let digest = hex::encode(&Sha256::digest(case)[..6]);
        let ending = if kind == FLEET { "toml" } else { "bin" };
        let path = self.place.join(kind).join(format!("found-{digest}.{ending}"));
        fs::write(&path, case).with_context(|| format!("keeping {}", path.display()))?;
        println!("found: {finding}\n       kept as {}", path.display());
        Ok(())
    }
}

/// The cases in a folder, in the order of their names, so that a seed leads to the same again.
fn read_cases(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    paths.iter().map(|path| fs::read(path).with_context(|| format!("reading {}", path.display()))).collect()
}
