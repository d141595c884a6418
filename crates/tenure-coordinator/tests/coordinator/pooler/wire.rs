//! The way between a coordinator and its database, where what the coordinator says is read along.

use std::{
    collections::BTreeSet,
    str::FromStr as _,
    sync::{Arc, Mutex},
};

use sqlx::postgres::PgConnectOptions;
use tenure_testkit::TestDatabase;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream, tcp::OwnedReadHalf},
};

/// A message that asks for encryption has this in place of a version.
const ENCRYPTION: u32 = 80_877_103;

/// What was said.
#[derive(Clone, Default)]
pub(super) struct Wire {
    parameters: Arc<Mutex<BTreeSet<String>>>,
    statements: Arc<Mutex<BTreeSet<String>>>,
}

impl Wire {
    /// The way, and the address of the database through it.
    pub(super) async fn before(database: &TestDatabase) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire = Self::default();
        let (serving, server) = (wire.clone(), PgConnectOptions::from_str(database.url()).unwrap());
        let url = format!("postgres://{}@127.0.0.1:{port}/{}", server.get_username(), database.name());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (wire, server) = (serving.clone(), server.clone());
                tokio::spawn(async move { wire.connect(client, &server).await });
            }
        });
        (wire, url)
    }

    /// The names of what was asked for at the start of connections.
    pub(super) fn parameters(&self) -> BTreeSet<String> {
        self.parameters.lock().unwrap().clone()
    }

    /// Every statement, without its comments, in capitals.
    pub(super) fn statements(&self) -> BTreeSet<String> {
        self.statements.lock().unwrap().clone()
    }

    async fn connect(&self, client: TcpStream, server: &PgConnectOptions) {
        let port = server.get_port();
        match server.get_socket() {
            Some(directory) => {
                let socket = directory.join(format!(".s.PGSQL.{port}"));
                self.carry(client, UnixStream::connect(socket).await.unwrap()).await;
            }
            None => self.carry(client, TcpStream::connect((server.get_host(), port)).await.unwrap()).await,
        }
    }

    async fn carry(&self, client: TcpStream, server: impl AsyncRead + AsyncWrite) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = tokio::io::split(server);
        tokio::select! {
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            _ = self.read_along(&mut from_client, &mut to_server) => {}
        }
    }

    /// Passes whole messages on, until either end closes.
    async fn read_along(
        &self,
        from: &mut OwnedReadHalf,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Result<()> {
        loop {
            let start = read_message(from).await?;
            self.note_start(&start);
            to.write_all(&start).await?;
            if start[4..8] != ENCRYPTION.to_be_bytes() {
                break;
            }
        }
        loop {
            let kind = from.read_u8().await?;
            let message = read_message(from).await?;
            self.note_statement(kind, &message[4..]);
            to.write_u8(kind).await?;
            to.write_all(&message).await?;
        }
    }

    fn note_start(&self, message: &[u8]) {
        let mut words = message[8..].split(|byte| *byte == 0).map(String::from_utf8_lossy);
        while let (Some(name), Some(_)) = (words.next().filter(|name| !name.is_empty()), words.next()) {
            self.parameters.lock().unwrap().insert(name.into_owned());
        }
    }

    fn note_statement(&self, kind: u8, body: &[u8]) {
        let words: Vec<&[u8]> = body.split(|byte| *byte == 0).collect();
        let text = match kind {
            b'Q' => words[0],
            // The name of the statement comes first.
            b'P' => words[1],
            _ => return,
        };
        let text = String::from_utf8_lossy(text).to_uppercase();
        let bare: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
        self.statements.lock().unwrap().insert(bare.join(" "));
    }
}

/// The length and what it counts, itself included.
async fn read_message(from: &mut OwnedReadHalf) -> std::io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut message = length.to_be_bytes().to_vec();
    message.resize(length as usize, 0);
    from.read_exact(&mut message[4..]).await?;
    Ok(message)
}
