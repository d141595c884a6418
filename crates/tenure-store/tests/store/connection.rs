//! Connections that die without a word: the network between drops what it is given, and neither end hears of it.

use std::{
    fmt::Debug,
    str::FromStr as _,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use sqlx::postgres::PgConnectOptions;
use tenure_store::{Store, StoreOptions};
use tenure_testkit::{TestDatabase, wait_for};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream, tcp},
    time::timeout,
};

use crate::fleet::Fleet;

const PATIENCE: Duration = Duration::from_secs(60);
/// What a client sends to learn whether a connection is alive: a `Sync` alone.
const SYNC: [u8; 5] = *b"S\0\0\0\x04";

const NOTHING: u8 = 0;
const EVERYTHING: u8 = 1;
const SYNCS_ALONE: u8 = 2;

/// A network between a store and its database.
#[derive(Clone)]
struct Network {
    lost: Arc<AtomicU8>,
    connections: Arc<AtomicU64>,
}

impl Network {
    /// The network, and the address of a database through it.
    async fn before(database: &TestDatabase) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let network = Self { lost: Arc::default(), connections: Arc::default() };
        let (serving, server) = (network.clone(), PgConnectOptions::from_str(database.url()).unwrap());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (network, server) = (serving.clone(), server.clone());
                tokio::spawn(async move { network.connect(client, &server).await });
            }
        });
        (network, through(port, database.url()))
    }

    /// Where the address names a directory, the server's socket lies there.
    async fn connect(&self, client: TcpStream, server: &PgConnectOptions) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        self.lose(NOTHING);
        let port = server.get_port();
        match server.get_socket() {
            Some(directory) => {
                let socket = directory.join(format!(".s.PGSQL.{port}"));
                self.carry(client, UnixStream::connect(socket).await.unwrap()).await;
            }
            None => self.carry(client, TcpStream::connect((server.get_host(), port)).await.unwrap()).await,
        }
    }

    /// From now on this is lost of the connections that are there; of those that come, nothing is.
    fn lose(&self, what: u8) {
        self.lost.store(what, Ordering::SeqCst);
    }

    async fn carry(&self, client: TcpStream, server: impl AsyncRead + AsyncWrite) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = tokio::io::split(server);
        tokio::join!(self.pass(&mut from_client, &mut to_server), async {
            drop(tokio::io::copy(&mut from_server, &mut to_client).await)
        },);
    }

    async fn pass(&self, from: &mut tcp::OwnedReadHalf, to: &mut (impl AsyncWrite + Unpin)) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            let lost = match self.lost.load(Ordering::SeqCst) {
                NOTHING => false,
                SYNCS_ALONE => bytes[..count] == SYNC,
                _ => true,
            };
            if lost {
                // Both ends stay open: nobody is told.
                std::future::pending::<()>().await;
            }
            to.write_all(&bytes[..count]).await.unwrap();
        }
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The address with another place in it; the user, the password and the database stay.
fn through(port: u16, url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let database = path.split('?').next().unwrap();
    format!("{scheme}://{user}@127.0.0.1:{port}/{database}")
}

async fn store_of_one_connection(url: &str) -> Store {
    Store::connect(url, StoreOptions { connections_max: 1, ..StoreOptions::default() }).await.unwrap()
}

/// The connection is lost in each way: first with whatever is sent over it, then between a statement and the next.
async fn goes_on_without_its_connection<T: Debug>(
    network: &Network,
    ask: impl AsyncFn() -> Result<T, tenure_store::StoreError>,
) {
    ask().await.unwrap();
    for lost in [EVERYTHING, SYNCS_ALONE] {
        let before = network.connections();
        network.lose(lost);
        // Nobody waits for ever: the caller goes, and what it asked stays unanswered.
        let answered = timeout(Duration::from_secs(1), ask()).await;
        assert!(lost == SYNCS_ALONE || answered.is_err(), "{answered:?}");
        wait_for("an answer", PATIENCE, async || ask().await).await;
        assert_eq!(network.connections(), before + 1);
    }
}

#[tokio::test]
async fn the_place_of_a_connection_that_died_without_a_word_is_free_again() {
    let database = TestDatabase::create().await.unwrap();
    let (network, url) = Network::before(&database).await;
    let store = store_of_one_connection(&url).await;
    goes_on_without_its_connection(&network, async || store.read_clock().await).await;
}

#[tokio::test]
async fn renewals_go_on_after_their_connection_died_without_a_word() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (network, url) = Network::before(&fleet.db).await;
    let store = store_of_one_connection(&url).await;
    goes_on_without_its_connection(&network, async || {
        store.renew_term(&worker.name, worker.term, worker.attach, worker.answer).await
    })
    .await;
}
