//! Where tokens are kept: a file that coordinators read, or the database that they share. A file is replaced as a whole, so
//! that no coordinator reads half of it, and by one program at a time; a change in the database is announced, so that
//! coordinators read it at once. Neighbours: `token`.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use jiff::Timestamp;
use tenure_coordinator::announce_tokens;
use tenure_core::{
    credential::{
        IssuedToken,
        file::{parse_tokens, write_token},
    },
    id::TokenId,
    limits::TOKENS_MAX,
    reason::Reason,
    refusal::Refusal,
};
use tenure_store::{Store, StoreOptions, TokenStored};

use crate::{
    database::{check_scheme, explain_database},
    failure::Failure,
};

/// Where tokens are kept.
#[derive(Clone, Args)]
pub(super) struct BookArgs {
    /// The file of tokens; made where it is missing.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// The database of the fleet, where they are not in a file.
    #[arg(long, env = "TENURE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<String>,
}

/// The address may hold a password, and is never printed.
impl std::fmt::Debug for BookArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BookArgs").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// A place of tokens, open.
pub(super) enum Book {
    File(PathBuf),
    Database(Store),
}

impl BookArgs {
    /// Opens it; a file that is named goes before the database of the environment.
    pub(super) async fn open(self) -> Result<Book, Failure> {
        if let Some(path) = self.tokens {
            return Ok(Book::File(path));
        }
        let Some(url) = self.database_url else {
            return Err(Failure::usage(
                "tokens are kept in a file (--tokens) or in the database (--database-url)",
            ));
        };
        let options = StoreOptions {
            connections_max: 2,
            application_name: "tenure token".to_owned(),
            ..StoreOptions::default()
        };
        let store = Store::connect(&check_scheme(url)?, options).await;
        store.map(Book::Database).map_err(|error| explain_database(&error))
    }
}

impl Book {
    /// Adds a token that lives for so long; returns when it ends.
    pub(super) async fn add(
        self,
        token: IssuedToken,
        life: Option<Duration>,
    ) -> Result<Option<Timestamp>, Failure> {
        // Nobody gets a token without an end who asked for one with an end that is too far away.
        let expires_at = life.map(|life| Timestamp::now().checked_add(life)).transpose();
        let expires_at =
            expires_at.map_err(|error| Failure::usage(format!("the end of the token: {error}")))?;
        match self {
            Self::File(path) => {
                let token = IssuedToken { expires_at, ..token };
                rewrite(&path, Missing::Made, |tokens| tokens.push(token))?;
                Ok(expires_at)
            }
            Self::Database(store) => {
                let stored = store.store_token(&token, life).await;
                let TokenStored::Until(expires_at) = stored.map_err(|error| explain_database(&error))? else {
                    return Err(refuse_more("the database"));
                };
                announce(store).await?;
                Ok(expires_at)
            }
        }
    }

    /// All of them.
    pub(super) async fn list(self) -> Result<Vec<IssuedToken>, Failure> {
        match self {
            Self::File(path) => Ok(parse(&path, &read(&path)?)?),
            Self::Database(store) => {
                let tokens = store.list_tokens().await.map_err(|error| explain_database(&error))?;
                store.close().await;
                Ok(tokens)
            }
        }
    }

    /// Revokes a token; false where there is none of this id.
    pub(super) async fn revoke(self, id: &TokenId) -> Result<bool, Failure> {
        match self {
            Self::File(path) => {
                let mut found = false;
                rewrite(&path, Missing::Refused, |tokens| {
                    for token in tokens.iter_mut().filter(|token| token.id == *id) {
                        found = true;
                        token.revoked_at.get_or_insert_with(Timestamp::now);
                    }
                })?;
                Ok(found)
            }
            Self::Database(store) => {
                let found = store.revoke_token(id).await.map_err(|error| explain_database(&error))?;
                announce(store).await?;
                Ok(found)
            }
        }
    }
}

/// What is not heard is found by the coordinators' poll.
async fn announce(store: Store) -> Result<(), Failure> {
    let announced = store.send_notifications(&[announce_tokens()]).await;
    store.close().await;
    announced.map_err(|error| explain_database(&error))
}

/// What becomes of a file that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Refused,
}

/// Changes the tokens of a file and puts the new file in the place of the old one, with its owner and mode. Comments
/// go to its beginning.
fn rewrite(path: &Path, missing: Missing, change: impl FnOnce(&mut Vec<IssuedToken>)) -> Result<(), Failure> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Held until the end: of two programs that change the file, one comes after the other.
    let lock = fs::File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
    let _lock = lock.map_err(|error| refuse(path, "locking the directory of", &error))?;
    let text = match missing {
        Missing::Made if !path.exists() => String::new(),
        Missing::Made | Missing::Refused => read(path)?,
    };
    let mut tokens = parse(path, &text)?;
    let before = tokens.len();
    change(&mut tokens);
    if tokens.len() > before.max(TOKENS_MAX) {
        return Err(refuse_more(&path.display().to_string()));
    }
    let comments = text.lines().filter(|line| line.trim_start().starts_with('#')).map(str::to_owned);
    let lines: Vec<String> = comments.chain(tokens.iter().map(write_token)).collect();
    replace(path, directory, &lines).map_err(|error| refuse(path, "writing", &error))
}

fn replace(path: &Path, directory: &Path, lines: &[String]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = directory.join(format!(".{name}.{}", std::process::id()));
    let mut file = fs::File::create(&draft)?;
    for line in lines {
        writeln!(file, "{line}")?;
    }
    if let Ok(present) = fs::metadata(path) {
        file.set_permissions(present.permissions())?;
        // Whoever may not give files away keeps them; the coordinator's own user is the usual owner.
        let _ = chown(&draft, Some(present.uid()), Some(present.gid()));
    }
    file.sync_all()?;
    fs::rename(&draft, path)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| refuse(path, "reading", &error))
}

fn parse(path: &Path, text: &str) -> Result<Vec<IssuedToken>, Failure> {
    parse_tokens(text).map_err(|error| {
        let words = format!("{} is no file of tokens", path.display());
        Failure::caused(Refusal::new(Reason::TokensUnreadable, words), &error)
    })
}

/// With one more no coordinator would read any of them.
fn refuse_more(place: &str) -> Failure {
    let words = format!("{place} has {TOKENS_MAX} tokens, and with one more none would be read");
    Failure::from(Refusal::new(Reason::TokensUnreadable, words)).or_next("tenure token list")
}

fn refuse(path: &Path, what: &str, error: &io::Error) -> Failure {
    let words = format!("{what} the tokens in {}", path.display());
    Failure::caused(Refusal::new(Reason::TokensUnreadable, words), error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tenure_coordinator::mint_token;
    use tenure_core::credential::{Scope, Tenants};

    use super::*;

    fn token() -> IssuedToken {
        let token = mint_token();
        IssuedToken {
            id: token.id().clone(),
            hash: token.hash(),
            tenants: Tenants::All,
            actor: "ada".into(),
            scopes: BTreeSet::from([Scope::Read]),
            expires_at: None,
            revoked_at: None,
        }
    }

    #[tokio::test]
    async fn an_end_that_is_too_far_away_is_refused_and_no_token_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let ages = Duration::from_secs(20_000 * 365 * 24 * 60 * 60);
        assert!(Book::File(path.clone()).add(token(), Some(ages)).await.is_err());
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn revoking_in_a_file_that_is_not_there_makes_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        assert!(Book::File(path.clone()).revoke(&token().id).await.is_err());
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_full_file_takes_no_more_tokens_and_stays_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let tokens: Vec<_> = (0..TOKENS_MAX).map(|_| token()).collect();
        let lines: Vec<_> = tokens.iter().map(write_token).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        let before = fs::read(&path).unwrap();
        assert!(Book::File(path.clone()).add(token(), None).await.is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
        assert!(Book::File(path.clone()).revoke(&tokens[0].id).await.unwrap());
    }

    #[tokio::test]
    async fn tokens_are_added_and_revoked_and_comments_and_the_mode_stay() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let (first, second) = (token(), token());
        Book::File(path.clone()).add(first.clone(), None).await.unwrap();
        fs::write(&path, format!("# ours\n{}", fs::read_to_string(&path).unwrap())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let day = Duration::from_secs(24 * 60 * 60);
        let ends = Book::File(path.clone()).add(second.clone(), Some(day)).await.unwrap();
        assert!(Book::File(path.clone()).revoke(&first.id).await.unwrap());
        assert!(!Book::File(path.clone()).revoke(&token().id).await.unwrap());
        let listed = Book::File(path.clone()).list().await.unwrap();
        assert!(listed[0].revoked_at.is_some() && listed[1].revoked_at.is_none());
        assert_eq!(listed[1], IssuedToken { expires_at: ends, ..second });
        assert!(ends.is_some());
        assert!(fs::read_to_string(&path).unwrap().starts_with("# ours\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
    }
}
