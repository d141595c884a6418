//! The file of tokens as one coordinator reads it: whole, at its start and whenever it looks different. It is replaced by
//! whoever writes it, so that nobody reads half of it. Neighbours: the core has the form of its lines,
//! `background/credentials` looks at it.

use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use tenure_core::{
    credential::{
        IssuedToken,
        file::{InvalidTokens, parse_tokens},
    },
    limits::TOKENS_FILE_MAX_BYTES,
};

use crate::refusals::chain;

/// A file of tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("reading the tokens in {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is too large, or no file.
    #[error("{} is no file of at most {TOKENS_FILE_MAX_BYTES} bytes", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("{} is no file of tokens", path.display())]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: InvalidTokens,
    },
}

/// How a file looks from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    /// Also its mode and its owner are part of whether it can be read.
    changed: (i64, i64),
}

/// A file of tokens, and how it looked when it was last read whole.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    last_look: Option<Look>,
    /// What was last said to be wrong with it; none since it was read.
    told: Option<String>,
}

impl TokenFile {
    /// Reads it for the first time.
    pub(crate) async fn open(path: PathBuf) -> Result<(Self, Vec<IssuedToken>), TokenFileError> {
        let last_look = Some(look_at(&path).await?);
        let tokens = read(&path).await?;
        Ok((Self { path, last_look, told: None }, tokens))
    }

    /// Reads it again where it looks different; none where it does not. One that cannot be read is tried each time, and
    /// the same failure is told once.
    pub(crate) async fn read_changed(&mut self) -> Result<Option<Vec<IssuedToken>>, TokenFileError> {
        match self.try_read().await {
            Ok(read) => {
                self.told = None;
                Ok(read)
            }
            Err(error) => {
                let words = Some(chain(&error));
                if words == self.told {
                    return Ok(None);
                }
                self.told = words;
                Err(error)
            }
        }
    }

    async fn try_read(&mut self) -> Result<Option<Vec<IssuedToken>>, TokenFileError> {
        // Looked at before it is read: what changes meanwhile is read again.
        let look = look_at(&self.path).await?;
        if Some(look) == self.last_look {
            return Ok(None);
        }
        let tokens = read(&self.path).await?;
        self.last_look = Some(look);
        Ok(Some(tokens))
    }
}

async fn look_at(path: &Path) -> Result<Look, TokenFileError> {
    let looked = tokio::fs::metadata(path).await;
    let metadata = looked.map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
    if !metadata.is_file() || metadata.len() > TOKENS_FILE_MAX_BYTES {
        return Err(TokenFileError::TooLarge { path: path.to_owned() });
    }
    Ok(Look {
        inode: metadata.ino(),
        size_bytes: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

async fn read(path: &Path) -> Result<Vec<IssuedToken>, TokenFileError> {
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
    parse_tokens(&text).map_err(|source| TokenFileError::Invalid { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use tenure_core::credential::file::write_token;

    use super::*;
    use crate::credentials::tests::issue;

    #[tokio::test]
    async fn a_file_is_read_again_when_it_changed_and_what_is_bad_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let replace = |text: &str| {
            let draft = directory.path().join("draft");
            std::fs::write(&draft, text).unwrap();
            std::fs::rename(&draft, &path).unwrap();
        };
        assert!(matches!(TokenFile::open(path.clone()).await, Err(TokenFileError::Read { .. })));
        let (_, first) = issue(1);
        replace(&write_token(&first));
        let (mut file, tokens) = TokenFile::open(path.clone()).await.unwrap();
        assert_eq!(tokens.as_slice(), std::slice::from_ref(&first));
        assert_eq!(file.read_changed().await.unwrap(), None);
        replace("no tokens");
        assert!(matches!(file.read_changed().await, Err(TokenFileError::Invalid { .. })));
        assert_eq!(file.read_changed().await.unwrap(), None, "it is told once");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(file.read_changed().await, Err(TokenFileError::Read { .. })));
        assert_eq!(file.read_changed().await.unwrap(), None, "it is told once");
        replace("");
        assert_eq!(file.read_changed().await.unwrap(), Some(Vec::new()));
    }

    /// Whoever runs as root reads whatever it likes, so what fails here is a read of something that is no text.
    #[tokio::test]
    async fn a_file_that_could_not_be_read_once_is_read_as_soon_as_it_can_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        std::fs::write(&path, "").unwrap();
        let (mut file, _) = TokenFile::open(path.clone()).await.unwrap();
        let (_, issued) = issue(1);
        let line = write_token(&issued);
        std::fs::write(&path, vec![0xff; line.len()]).unwrap();
        assert!(file.read_changed().await.is_err());
        // What it holds comes in place, and it looks as it did when it could not be read.
        let before = std::fs::metadata(&path).unwrap();
        std::fs::write(&path, &line).unwrap();
        let times = std::fs::FileTimes::new().set_modified(before.modified().unwrap());
        std::fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
        assert_eq!(file.read_changed().await.unwrap(), Some(vec![issued]));
        assert_eq!(file.read_changed().await.unwrap(), None);
    }
}
