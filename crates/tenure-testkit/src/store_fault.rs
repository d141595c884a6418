//! Faults of the store: between a coordinator and its PostgreSQL stands a relay that understands just enough of the protocol to
//! know an append when it sees one. What it does to it no prefix of a journal can show: the statement that never arrives, the
//! commit whose answer is lost, the writer that is fenced while its append is on its way.
//!
//! The coordinator, its statements and the database are the real ones; only the connection is not. A fault is ordered for an
//! occasion and counts as injected once it happened: an append that the database did not admit is no commit to be lost, and
//! the order stands for the next one. [`FaultyStore::assert_injected`] says that every order was carried out.
//!
//! It understands connections without TLS, and takes no part in anything but appends: submissions, claims and reads pass.
//! Neighbours: `wire` reads messages, `relay` carries a connection, `fencing` settles a run under its holder's append.

mod fencing;
mod relay;
mod wire;

use std::{
    str::FromStr as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use sqlx::postgres::PgConnectOptions;
use tenure_store::{Store, StoreOptions};
use tokio::{net::TcpListener, task::JoinHandle};

use self::{relay::serve, wire::SeenAppend};

/// Connections with which a run is settled under its holder.
const SETTLING_CONNECTIONS: u32 = 2;

/// What becomes of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// It never arrives: nothing is written, and the connection is gone.
    FailedClean,
    /// It is committed, and the connection is gone before the answer.
    CommittedAndLost,
    /// Before it arrives, somebody settles the run: the lease is given up and the epoch is the next, so it is fenced. The run's
    /// child is said to be gone, so let the worker have one slot: then the next run begins after the end of this one.
    Fenced,
}

/// Which append it is that the fault meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occasion {
    /// The so many-th after the order, from 1.
    Append(u64),
    /// The next that has a record of this kind.
    Kind(String),
    /// One in so many, drawn from the seed for each append: the same seed draws the same for the same number of an append.
    Seeded {
        /// From which all is drawn.
        seed: u64,
        /// How rare it is; 1 is every append.
        one_in: u64,
    },
}

/// A fault that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// What.
    pub fault: StoreFault,
    /// The number of the append since its order, from 1.
    pub append: u64,
    /// The kinds of the append's records.
    pub kinds: Vec<String>,
}

/// A fault that is to happen once.
#[derive(Debug)]
struct Order {
    fault: StoreFault,
    occasion: Occasion,
    /// Appends since it was given.
    seen: u64,
}

/// What is ordered and what was done.
#[derive(Debug, Default)]
struct Book {
    order: Option<Order>,
    injected: Vec<Injected>,
    /// Appends that passed or met a fault.
    appends: u64,
}

/// A database behind a relay, for as long as this value lives.
#[derive(Debug)]
pub struct FaultyStore {
    url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// What every connection has at hand.
#[derive(Debug)]
struct Shared {
    server: PgConnectOptions,
    store: Store,
    book: Mutex<Book>,
}

impl FaultyStore {
    /// Relays to a migrated database.
    ///
    /// # Errors
    /// It cannot be connected to, or no port can be had.
    pub async fn start(database_url: &str) -> Result<Self> {
        let server = PgConnectOptions::from_str(database_url).context("the address of the database")?;
        let options = StoreOptions { connections_max: SETTLING_CONNECTIONS, ..StoreOptions::default() };
        let store = Store::connect(database_url, options).await?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listening for a coordinator")?;
        let url = compose_url(database_url, server.get_database(), listener.local_addr()?.port());
        let shared = Arc::new(Shared { server, store, book: Mutex::default() });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { url, shared, serving })
    }

    /// The address for the coordinator.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Orders one fault, in place of an earlier order that was not carried out.
    pub fn inject(&self, fault: StoreFault, occasion: Occasion) {
        self.shared.book().order = Some(Order { fault, occasion, seen: 0 });
    }

    /// What happened so far, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<Injected> {
        self.shared.book().injected.clone()
    }

    /// Appends so far, whatever became of them.
    #[must_use]
    pub fn appends(&self) -> u64 {
        self.shared.book().appends
    }

    /// Says what the last order came to.
    ///
    /// # Panics
    /// It was not carried out: whatever the test shows, it does not show what a fault does.
    #[expect(clippy::panic, reason = "a test whose fault was never injected has shown nothing")]
    #[must_use]
    pub fn assert_injected(&self) -> Injected {
        let book = self.shared.book();
        match (&book.order, book.injected.last()) {
            (None, Some(injected)) => injected.clone(),
            (order, _) => panic!("the store's fault was never injected: {order:?}, {} appends", book.appends),
        }
    }
}

impl Drop for FaultyStore {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the order where this append is its occasion.
    fn take_order(&self, append: &SeenAppend) -> Option<Order> {
        let mut book = self.book();
        book.appends += 1;
        let order = book.order.as_mut()?;
        order.seen += 1;
        let is_due = match &order.occasion {
            Occasion::Append(number) => order.seen == *number,
            Occasion::Kind(kind) => append.kinds.contains(kind),
            Occasion::Seeded { seed, one_in } => draw(*seed, order.seen).is_multiple_of((*one_in).max(1)),
        };
        if is_due { book.order.take() } else { None }
    }

    /// It happened.
    fn note(&self, order: &Order, append: &SeenAppend) {
        let injected = Injected { fault: order.fault, append: order.seen, kinds: append.kinds.clone() };
        self.book().injected.push(injected);
    }

    /// It could not happen to this one: it is for the next. An order that was given meanwhile goes before it.
    fn put_back(&self, mut order: Order) {
        if let Occasion::Append(number) = &mut order.occasion {
            *number += 1;
        }
        self.book().order.get_or_insert(order);
    }
}

/// A number that looks random and follows from these two (splitmix64).
const fn draw(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The same user and database by way of the relay.
fn compose_url(database_url: &str, database: Option<&str>, port: u16) -> String {
    let rest = database_url.split_once("://").map_or(database_url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or(String::new(), |(user, _)| format!("{user}@"));
    format!("postgresql://{user}127.0.0.1:{port}/{}?sslmode=disable", database.unwrap_or("postgres"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relay_has_the_same_user_and_database() {
        let url = compose_url("postgresql://me:secret@localhost:1/db?host=/s", Some("db"), 77);
        assert_eq!(url, "postgresql://me:secret@127.0.0.1:77/db?sslmode=disable");
    }

    #[test]
    fn what_a_seed_draws_is_drawn_again() {
        let drawn: Vec<bool> = (1..=40).map(|number| draw(7, number).is_multiple_of(4)).collect();
        let again: Vec<bool> = (1..=40).map(|number| draw(7, number).is_multiple_of(4)).collect();
        assert_eq!(drawn, again);
        assert!(drawn.contains(&true) && drawn.contains(&false), "{drawn:?}");
    }
}
