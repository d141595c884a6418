//! What an orchestrator and Prometheus ask over HTTP: `/livez` (this process answers), `/readyz` (it can do its work too) and
//! `/metrics`. It serves nothing else, and nothing that is a secret. Each connection bears one request and one answer; how
//! many there are, how long the head of a request is and how long all of it takes is bounded, because whoever is on the host
//! may connect. Neighbours: `coordinator` and `worker` serve it, `ping` asks.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tenure_core::{
    limits::{ACCEPT_PAUSE, PROBE_CONNECTIONS_MAX, PROBE_HEAD_MAX_BYTES, PROBE_HEAD_WITHIN, PROBE_WITHIN},
    reason::Reason,
    refusal::Refusal,
};
use tenure_telemetry::MetricsPage;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::failure::Failure;

/// Takes the port, before anything else is started. `verb` is the one that was told the address.
pub(crate) async fn listen(address: SocketAddr, verb: &str) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() {
        let message = format!("serving probes on {address} is refused, because it is not a loopback address");
        return Err(Failure::new(Reason::LoopbackOnly, message));
    }
    TcpListener::bind(address).await.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => Reason::PortInUse,
            _ => Reason::InvalidArgument,
        };
        let refusal = Refusal::new(reason, format!("serving probes on {address}"))
            .with_detail("address", address)
            .with_next(format!("tenure {verb} --http 127.0.0.1:0"));
        Failure::caused(refusal, &error)
    })
}

/// Answers until the program ends. `not_ready` says why it is not, where it is not.
pub(crate) async fn serve(
    listener: TcpListener,
    page: Option<MetricsPage>,
    not_ready: impl Fn() -> Option<&'static str> + Clone + Send + Sync + 'static,
) {
    let router = route(page, not_ready);
    let places = Arc::new(Semaphore::new(PROBE_CONNECTIONS_MAX));
    let mut full = false;
    loop {
        let stream = accept(&listener).await;
        let Ok(place) = places.clone().try_acquire_owned() else {
            if !full {
                tracing::warn!(limit = PROBE_CONNECTIONS_MAX, "more connections for probes are closed");
            }
            full = true;
            continue;
        };
        full = false;
        let router = router.clone();
        tokio::spawn(async move {
            answer(stream, router).await;
            drop(place);
        });
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // One that went away, or no file is left: trying again at once would only turn the processor.
            Err(error) => {
                tracing::warn!(%error, "a connection to the port for probes could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Reads one request and answers it, or gives up in time.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PROBE_HEAD_WITHIN)
        .max_buf_size(PROBE_HEAD_MAX_BYTES)
        .keep_alive(false)
        // Whoever says that nothing more will come is answered all the same.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(PROBE_WITHIN, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a probe ended without an answer"),
        Err(_) => tracing::debug!("a probe was given up, because its answer was not taken"),
    }
}

fn route(
    page: Option<MetricsPage>,
    not_ready: impl Fn() -> Option<&'static str> + Clone + Send + Sync + 'static,
) -> Router {
    let ready = async move || match not_ready() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    Router::new()
        .route("/livez", get(async || "live\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(async move || render_metrics(page.as_ref())))
}

fn render_metrics(page: Option<&MetricsPage>) -> Response {
    match page.map(MetricsPage::render) {
        Some(Ok(text)) => ([(CONTENT_TYPE, MetricsPage::CONTENT_TYPE)], text).into_response(),
        Some(Err(error)) => {
            tracing::error!(%error, "the metrics cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// So much of an answer is on its way, and no more.
    const WINDOW_BYTES: usize = 64;

    fn connect() -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (peer, stream) = duplex(WINDOW_BYTES);
        let long = "x".repeat(100 * WINDOW_BYTES);
        let router = Router::new().route("/livez", get(async move || long));
        (peer, tokio::spawn(answer(stream, router)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_is_given_up() {
        let (mut peer, served) = connect();
        peer.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        served.await.unwrap();
        let mut taken = Vec::new();
        peer.read_to_end(&mut taken).await.unwrap();
        assert_eq!(taken.len(), WINDOW_BYTES, "{}", String::from_utf8_lossy(&taken));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_taken_is_whole_and_the_last_of_its_connection() {
        let (mut peer, served) = connect();
        peer.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut taken = String::new();
        peer.read_to_string(&mut taken).await.unwrap();
        served.await.unwrap();
        assert!(taken.starts_with("HTTP/1.1 200 OK\r\n") && taken.contains("connection: close"), "{taken}");
        assert!(taken.ends_with(&"x".repeat(100 * WINDOW_BYTES)), "{taken}");
    }
}
