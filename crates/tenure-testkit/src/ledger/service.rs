//! The ledger over HTTP/1, as any agent can reach it:
//!
//! - `POST /entries` with the text as body, and `Idempotency-Key` where it has one: 201 and the entry, 200 where the key was
//!   entered before, 409 where it was entered with another text;
//! - `GET /entries`: all entries, from the file; `GET /entries/KEY`: those under this key (percent-encoded), 404 for none;
//! - `PUT /behaviour`: how it behaves from now on.
//!
//! An entry is made before anything is slow or swallowed: what the caller does not learn has happened all the same.
//! Neighbours: `book`, `client`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, task::JoinHandle};

use super::book::{Book, Entry, LedgerError};

/// The longest text that is taken, in bytes.
const TEXT_LIMIT_BYTES: usize = 1024 * 1024;

/// How the ledger treats whoever posts. Nothing is unusual by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// How long a post waits before it is entered, in milliseconds.
    pub delay_before_ms: u64,
    /// How long its answer is held after it was entered, in milliseconds.
    pub delay_after_ms: u64,
    /// So many posts from now on are entered and then left without an answer: the connection is dropped.
    pub swallow: u32,
}

/// The answer to a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    /// What was entered, now or before.
    pub entry: Entry,
    /// True where the key had been entered before, so that nothing was added.
    pub repeated: bool,
}

/// A ledger that serves as long as this value lives.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    behaviour: Mutex<Behaviour>,
}

/// Why a connection is dropped without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer is swallowed")]
struct Swallowed;

impl Ledger {
    /// Opens or begins the file and serves it on a loopback port of the system's choice.
    ///
    /// # Errors
    /// The file is not a ledger's, or no port can be had.
    pub async fn start(path: &Path) -> anyhow::Result<Self> {
        Self::start_on(path, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// The same on an address of the caller's choice.
    ///
    /// # Errors
    /// As [`Ledger::start`].
    pub async fn start_on(path: &Path, listen: SocketAddr) -> anyhow::Result<Self> {
        let book = Book::open(path)?;
        let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { book: Mutex::new(book), behaviour: Mutex::new(Behaviour::default()) });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { path: path.to_owned(), address, shared, serving })
    }

    /// Where it is, as `http://HOST:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes how it behaves from now on.
    pub fn behave(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    /// How many posts it will still swallow.
    #[must_use]
    pub fn left_to_swallow(&self) -> u32 {
        lock(&self.shared.behaviour).swallow
    }

    /// Everything that was really done, from the file.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no entry.
    pub fn entries(&self) -> Result<Vec<Entry>, LedgerError> {
        lock(&self.shared.book).entries()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // The connections end with the set, and the set with this task.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                    // A connection that fails, or is dropped on purpose, concerns its peer alone.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Swallowed> {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::POST, "/entries") => post(&shared, request).await,
        (&Method::PUT, "/behaviour") => Ok(change_behaviour(&shared, request).await),
        (&Method::GET, path) => Ok(list(&shared, path)),
        _ => Ok(words(StatusCode::NOT_FOUND, "there is /entries and /behaviour")),
    }
}

async fn post(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Swallowed> {
    let key = request.headers().get("idempotency-key").map(|key| key.to_str().map(str::to_owned));
    let Ok(key) = key.transpose() else {
        return Ok(words(StatusCode::BAD_REQUEST, "the idempotency key is not plain text"));
    };
    let Some(text) = read_text(request).await else {
        return Ok(words(StatusCode::BAD_REQUEST, "the text is not UTF-8 or is larger than 1 MiB"));
    };
    let behaviour = take_behaviour(shared);
    tokio::time::sleep(Duration::from_millis(behaviour.delay_before_ms)).await;
    let entering = Arc::clone(shared);
    let entered =
        tokio::task::spawn_blocking(move || lock(&entering.book).enter(key.as_deref(), &text)).await;
    tokio::time::sleep(Duration::from_millis(behaviour.delay_after_ms)).await;
    if behaviour.swallow > 0 {
        return Err(Swallowed);
    }
    Ok(match entered {
        Ok(Ok((entry, repeated))) => {
            let status = if repeated { StatusCode::OK } else { StatusCode::CREATED };
            json(status, &Posted { entry, repeated })
        }
        Ok(Err(error @ LedgerError::OtherText { .. })) => words(StatusCode::CONFLICT, &error.to_string()),
        Ok(Err(error)) => words(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:?}")),
        Err(error) => words(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    })
}

/// What holds for one post. It counts as swallowed from here on, so that two at once are two.
fn take_behaviour(shared: &Shared) -> Behaviour {
    let mut behaviour = lock(&shared.behaviour);
    let taken = *behaviour;
    behaviour.swallow = behaviour.swallow.saturating_sub(1);
    taken
}

async fn change_behaviour(shared: &Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let text = read_text(request).await.unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(behaviour) => {
            *lock(&shared.behaviour) = behaviour;
            json(StatusCode::OK, &behaviour)
        }
        Err(error) => words(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

fn list(shared: &Shared, path: &str) -> Response<Full<Bytes>> {
    let wanted = path.strip_prefix("/entries/").map(decode_percent);
    if wanted.is_none() && path != "/entries" {
        return words(StatusCode::NOT_FOUND, "there is /entries and /behaviour");
    }
    match lock(&shared.book).entries() {
        Ok(entries) => {
            let is_wanted = |entry: &Entry| wanted.is_none() || entry.key == wanted;
            let found: Vec<Entry> = entries.into_iter().filter(is_wanted).collect();
            let nothing = found.is_empty() && wanted.is_some();
            json(if nothing { StatusCode::NOT_FOUND } else { StatusCode::OK }, &found)
        }
        Err(error) => words(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:?}")),
    }
}

async fn read_text(request: Request<Incoming>) -> Option<String> {
    let body = Limited::new(request.into_body(), TEXT_LIMIT_BYTES).collect().await.ok()?;
    String::from_utf8(body.to_bytes().to_vec()).ok()
}

/// `%41` is `A`; what is no such triple stands for itself.
fn decode_percent(given: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = given.as_bytes();
    while let [first, tail @ ..] = rest {
        let triple = match (first, tail) {
            (b'%', [high, low, ..]) => decode_hex(*high).zip(decode_hex(*low)),
            _ => None,
        };
        match triple {
            Some((high, low)) => {
                bytes.push(high * 16 + low);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn decode_hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_vec(value) {
        Ok(bytes) => respond(status, bytes.into()),
        Err(error) => words(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn words(status: StatusCode, words: &str) -> Response<Full<Bytes>> {
    respond(status, Bytes::copy_from_slice(words.as_bytes()))
}

fn respond(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
