//! Carries the connections of a coordinator to the database, message by message, and lets a fault happen where one is due.
//! Neighbours: `wire` reads the messages, `fencing` settles.

use std::{collections::HashSet, sync::Arc};

use anyhow::{Context as _, Result};
use bytes::{Bytes, BytesMut};
use sqlx::postgres::PgConnectOptions;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
    task::JoinSet,
};

use super::{
    Order, Shared, StoreFault,
    fencing::settle_holder,
    wire::{Message, SeenAppend, is_append, take_message},
};

/// Types of messages: what prepares, binds and ends a statement; a row, an error, and readiness for the next.
const PARSE: u8 = b'P';
const BIND: u8 = b'B';
const SYNC: u8 = b'S';
const ROW: u8 = b'D';
const ERROR: u8 = b'E';
const READY: u8 = b'Z';

/// A connection to the database, by whatever way.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Whether a connection goes on.
enum Next {
    GoOn,
    Reset,
}

/// One connection.
struct Relay {
    shared: Arc<Shared>,
    client: TcpStream,
    server: Box<dyn Stream>,
    from_client: BytesMut,
    from_server: BytesMut,
    /// False until the first message of the client.
    is_started: bool,
    /// The names of the statements of appends that were prepared here.
    appending: HashSet<Bytes>,
}

/// Accepts until it is ended.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                connections.spawn(carry(client, Arc::clone(&shared)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn carry(client: TcpStream, shared: Arc<Shared>) {
    // Small messages are not held back; a socket that refuses this works all the same.
    let _ = client.set_nodelay(true);
    let Ok(server) = connect(&shared.server).await else { return };
    let mut relay = Relay {
        shared,
        client,
        server,
        from_client: BytesMut::new(),
        from_server: BytesMut::new(),
        is_started: false,
        appending: HashSet::new(),
    };
    // An error is the end of one of the two connections, and dropping both is what follows.
    let _ = relay.run().await;
    // The end is a reset, as of a host that is gone.
    let _ = relay.client.set_zero_linger();
}

async fn connect(options: &PgConnectOptions) -> Result<Box<dyn Stream>> {
    if let Some(directory) = options.get_socket() {
        let path = directory.join(format!(".s.PGSQL.{}", options.get_port()));
        return Ok(Box::new(UnixStream::connect(path).await?));
    }
    let stream = TcpStream::connect((options.get_host(), options.get_port())).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

impl Relay {
    async fn run(&mut self) -> Result<()> {
        loop {
            tokio::select! {
                read = self.client.read_buf(&mut self.from_client) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    while let Some(message) = take_message(&mut self.from_client, self.is_started) {
                        if let Next::Reset = self.pass(message).await? {
                            return Ok(());
                        }
                    }
                }
                read = self.server.read_buf(&mut self.from_server) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    self.client.write_all_buf(&mut self.from_server).await?;
                }
            }
        }
    }

    /// Passes a message of the client on, unless a fault is due.
    async fn pass(&mut self, message: Message) -> Result<Next> {
        self.is_started = true;
        match message.kind {
            PARSE => {
                let statement = message.read_statement().context("a statement without a name")?;
                if is_append(&statement.1) {
                    self.appending.insert(statement.0);
                }
            }
            BIND if message.read_bound().is_some_and(|name| self.appending.contains(&name)) => {
                let append = message.read_append().context("an append that is not understood")?;
                if let Some(order) = self.shared.take_order(&append) {
                    return self.meet(order, &append, message).await;
                }
            }
            _ => {}
        }
        self.server.write_all(&message.bytes).await?;
        Ok(Next::GoOn)
    }

    async fn meet(&mut self, order: Order, append: &SeenAppend, message: Message) -> Result<Next> {
        match order.fault {
            StoreFault::FailedClean => {
                self.shared.note(&order, append);
                Ok(Next::Reset)
            }
            StoreFault::CommittedAndLost => self.lose_answer(order, append, message).await,
            StoreFault::Fenced => {
                if settle_holder(&self.shared.store, append).await? {
                    self.shared.note(&order, append);
                } else {
                    self.shared.put_back(order);
                }
                self.server.write_all(&message.bytes).await?;
                Ok(Next::GoOn)
            }
        }
    }

    /// Has the database answer, and keeps the answer where it says that something was committed.
    async fn lose_answer(&mut self, order: Order, append: &SeenAppend, bound: Message) -> Result<Next> {
        self.server.write_all(&bound.bytes).await?;
        loop {
            let message = self.read_from_client().await?;
            self.server.write_all(&message.bytes).await?;
            if message.kind == SYNC {
                break;
            }
        }
        let (mut answer, mut was_committed, mut failed) = (BytesMut::new(), false, false);
        loop {
            let message = self.read_from_server().await?;
            answer.extend_from_slice(&message.bytes);
            was_committed |= message.kind == ROW;
            failed |= message.kind == ERROR;
            if message.kind == READY {
                break;
            }
        }
        if was_committed && !failed {
            self.shared.note(&order, append);
            return Ok(Next::Reset);
        }
        self.shared.put_back(order);
        self.client.write_all(&answer).await?;
        Ok(Next::GoOn)
    }

    async fn read_from_client(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = take_message(&mut self.from_client, true) {
                return Ok(message);
            }
            let read = self.client.read_buf(&mut self.from_client).await?;
            anyhow::ensure!(read > 0, "the coordinator left");
        }
    }

    async fn read_from_server(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = take_message(&mut self.from_server, true) {
                return Ok(message);
            }
            let read = self.server.read_buf(&mut self.from_server).await?;
            anyhow::ensure!(read > 0, "the database left");
        }
    }
}
