//! Asking a ledger over HTTP/1: one connection a request, no retries. Whoever wants a post to be repeated repeats it, with
//! its key. Neighbours: `service`.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::{
    book::{Entry, LedgerError},
    service::{Behaviour, Posted},
};

/// A ledger somewhere.
#[derive(Debug, Clone)]
pub struct LedgerClient {
    url: String,
    timeout: Duration,
}

impl LedgerClient {
    /// The ledger at `http://HOST:PORT`; an answer that takes longer than this is none.
    #[must_use]
    pub fn new(url: &str, timeout: Duration) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), timeout }
    }

    /// Posts a text. Without a key it is entered each time.
    ///
    /// # Errors
    /// There was no answer, whatever was entered; or the key was entered with another text.
    pub async fn post(&self, key: Option<&str>, text: &str) -> Result<Posted, LedgerError> {
        let mut request = Request::builder().method(Method::POST).uri("/entries");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let (status, body) = self.send("posting", request, text.to_owned()).await?;
        self.read(status, &[StatusCode::OK, StatusCode::CREATED], &body)
    }

    /// Everything that was really done, from the ledger's file.
    ///
    /// # Errors
    /// There was no answer, or the file holds a line that is no entry.
    pub async fn entries(&self) -> Result<Vec<Entry>, LedgerError> {
        let request = Request::builder().uri("/entries");
        let (status, body) = self.send("listing", request, String::new()).await?;
        self.read(status, &[StatusCode::OK], &body)
    }

    /// What was entered under a key.
    ///
    /// # Errors
    /// As [`LedgerClient::entries`].
    pub async fn find(&self, key: &str) -> Result<Vec<Entry>, LedgerError> {
        let encoded: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let request = Request::builder().uri(format!("/entries/{encoded}"));
        let (status, body) = self.send("looking up a key", request, String::new()).await?;
        self.read(status, &[StatusCode::OK, StatusCode::NOT_FOUND], &body)
    }

    /// Changes how it behaves from now on.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn behave(&self, behaviour: Behaviour) -> Result<(), LedgerError> {
        let request = Request::builder().method(Method::PUT).uri("/behaviour");
        let text = serde_json::to_string(&behaviour).unwrap_or_default();
        let (status, body) = self.send("changing the behaviour", request, text).await?;
        self.read::<Behaviour>(status, &[StatusCode::OK], &body).map(|_| ())
    }

    async fn send(
        &self,
        attempt: &'static str,
        request: hyper::http::request::Builder,
        text: String,
    ) -> Result<(StatusCode, Bytes), LedgerError> {
        let exchange = self.exchange(request, text);
        let answer = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(anyhow::anyhow!("no answer within {:?}", self.timeout)),
        };
        answer.map_err(|cause| LedgerError::Unanswered { attempt, url: self.url.clone(), cause })
    }

    async fn exchange(
        &self,
        request: hyper::http::request::Builder,
        text: String,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let host = self.url.strip_prefix("http://").context("a ledger's address begins with http://")?;
        let stream = TcpStream::connect(host).await.context("connecting")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = request.header("host", host).body(Full::new(Bytes::from(text)))?;
        // It drives the request, and ends when the sender is dropped; its own failure is the request's too.
        let driving = tokio::spawn(connection);
        let response = sender.send_request(request).await.context("waiting for the answer")?;
        let status = response.status();
        let body = response.into_body().collect().await.context("reading the answer")?.to_bytes();
        driving.abort();
        Ok((status, body))
    }

    fn read<T: DeserializeOwned>(
        &self,
        status: StatusCode,
        expected: &[StatusCode],
        body: &[u8],
    ) -> Result<T, LedgerError> {
        let refused =
            |words: String| LedgerError::Refused { url: self.url.clone(), status: status.as_u16(), words };
        if !expected.contains(&status) {
            return Err(refused(String::from_utf8_lossy(body).into_owned()));
        }
        serde_json::from_slice(body).map_err(|error| refused(error.to_string()))
    }
}
