//! Lines between a client and the library of the protocol. What is no JSON, or too long, is answered here with an error that says so;
//! the library would pass over it in silence, and the client wait for ever. Everything else goes through as it is.

use std::{future::Future, io};

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader, DuplexStream,
    },
    sync::mpsc,
};

/// How much lies between the two.
const BETWEEN_BYTES: usize = 64 * 1024;
/// Errors that wait to be written.
const ERRORS_WAITING: usize = 16;

/// What the protocol calls something that is no JSON, and JSON that is no message.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;

/// The library's end, and what carries lines between it and the client until either is gone.
pub(super) fn relay(
    from_client: impl AsyncRead + Unpin,
    to_client: impl AsyncWrite + Unpin,
    line_max_bytes: usize,
) -> (DuplexStream, impl Future<Output = ()>) {
    let (inside, outside) = tokio::io::duplex(BETWEEN_BYTES);
    let (answers, requests) = tokio::io::split(outside);
    let (errors, refused) = mpsc::channel(ERRORS_WAITING);
    let carrying = async move {
        // A client that is gone, or a library that is, ends both directions.
        let (_, _) = tokio::join!(
            carry_in(from_client, requests, errors, line_max_bytes),
            carry_out(answers, to_client, refused)
        );
    };
    (inside, carrying)
}

async fn carry_in(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    errors: mpsc::Sender<Value>,
    line_max_bytes: usize,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    while let Some(line) = read_line(&mut from, line_max_bytes).await? {
        let refused = match &line {
            Line::Whole(line) if line.trim_ascii().is_empty() => continue,
            Line::Whole(line) => {
                let parsed = serde_json::from_slice::<IgnoredAny>(line);
                parsed.err().map(|error| (PARSE_ERROR, format!("the message is no JSON: {error}")))
            }
            Line::TooLong => Some((
                INVALID_REQUEST,
                format!("the message has more than {line_max_bytes} bytes, and no more are taken"),
            )),
        };
        match (refused, line) {
            (Some((code, message)), _) => {
                let error =
                    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
                if errors.send(error).await.is_err() {
                    break;
                }
            }
            (None, Line::Whole(line)) => to.write_all(&line).await?,
            (None, Line::TooLong) => {}
        }
    }
    to.shutdown().await
}

async fn carry_out(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut errors: mpsc::Receiver<Value>,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let (mut line, mut errors_come) = (Vec::new(), true);
    loop {
        // Reading a line keeps what it has of it where it is interrupted.
        tokio::select! {
            read = from.read_until(b'\n', &mut line) => {
                if read? == 0 {
                    return Ok(());
                }
                to.write_all(&line).await?;
                line.clear();
            }
            error = errors.recv(), if errors_come => match error {
                Some(error) => to.write_all(format!("{error}\n").as_bytes()).await?,
                None => errors_come = false,
            },
        }
        to.flush().await?;
    }
}

enum Line {
    /// With its line break.
    Whole(Vec<u8>),
    /// It was read to its end, and nothing of it is kept.
    TooLong,
}

/// The next line; what is left without a line break at the end is one too.
async fn read_line(from: &mut (impl AsyncBufRead + Unpin), max_bytes: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let limit = max_bytes as u64 + 1;
    if from.take(limit).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || line.len() <= max_bytes {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        return Ok(Some(Line::Whole(line)));
    }
    while !line.ends_with(b"\n") {
        line.clear();
        if from.take(limit).read_until(b'\n', &mut line).await? == 0 {
            break;
        }
    }
    Ok(Some(Line::TooLong))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes in to a library that answers each line with itself, and what the client reads.
    async fn exchange(said: &[u8], line_max_bytes: usize) -> Vec<String> {
        let mut heard = Vec::new();
        let (inside, relay) = relay(said, &mut heard, line_max_bytes);
        let echo = async move {
            let (mut read, mut write) = tokio::io::split(inside);
            tokio::io::copy(&mut read, &mut write).await.unwrap();
        };
        tokio::join!(relay, echo);
        let mut lines: Vec<String> = String::from_utf8(heard).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[tokio::test]
    async fn messages_go_through_as_they_are_and_the_last_without_its_line_break() {
        assert_eq!(exchange(b"{\"a\":1}\n\n {\"b\":\n", 100).await.len(), 2);
        assert_eq!(exchange(b"{\"a\": 1}\n[2]", 100).await, ["[2]", "{\"a\": 1}"]);
    }

    #[tokio::test]
    async fn what_is_no_json_or_too_long_is_answered_and_the_next_message_goes_through() {
        let heard =
            exchange(b"nonsense\n{\"jsonrpc\": \"2.0\"}\n[1111111111111111111111111111111]\n[3]\n", 20).await;
        assert_eq!(heard.len(), 4, "{heard:?}");
        assert_eq!(heard[0], "[3]");
        let codes: Vec<i64> = heard[1..]
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).unwrap()["error"]["code"].as_i64())
            .collect();
        assert_eq!(codes.len(), 2, "{heard:?}");
        assert!(
            codes.contains(&i64::from(PARSE_ERROR)) && codes.contains(&i64::from(INVALID_REQUEST)),
            "{codes:?}"
        );
    }
}
