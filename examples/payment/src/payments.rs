//! The handler: what was ordered is reserved, the customer is charged, and told once the parcel has left. The three belong
//! together: until the parcel has left each can be taken back, and nobody is told of what may be taken back.
//!
//! Its world is a ledger, which stands for the shops and banks of the real one: it performs a key once and writes down what
//! it did. Files in a directory hold it up, so that the show can do its harm at the worst moment.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_testkit::LedgerClient;
use tenure_worker::{
    Worker,
    handler::{EffectCall, HandlerError, HandlerWorker, RunContext, UndoCall},
};

/// The version of [`pay`]: another one whenever its effects mean something else.
pub const VERSION: &str = "1";
/// How long the ledger is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a file is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// What it is called.
    pub id: String,
    /// What it costs, in cents.
    pub cents: u64,
    /// What the customer may be charged at most, in cents.
    pub limit_cents: u64,
    /// Where the ledger is.
    pub ledger: String,
    /// The directory of the files that hold it up.
    pub gates: PathBuf,
}

/// The output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paid {
    /// The number of the entry of the charge.
    pub charge: u64,
    /// The run that finished it.
    pub run: u32,
}

/// A worker for payments, not started yet.
pub fn worker() -> HandlerWorker {
    Worker::agent("payments", VERSION, pay).compensation("release", release).compensation("refund", refund)
}

/// Pays for an order. A later run goes on where an earlier one was, and repeats nothing that is recorded.
///
/// # Errors
/// The customer may not be charged so much; the ledger; what Tenure refuses.
pub async fn pay(run: RunContext, order: Order) -> Result<Paid, HandlerError> {
    let mut group = run.group("payment").await?;
    let reserve = run.effect("reserve").idempotent().undo("release", &order);
    let _: u64 = group.perform(reserve, async |call| enter(&order, &call, "reserve").await).await?;
    group.check("the customer may be charged so much", order.cents <= order.limit_cents).await?;

    let charge = run.effect("charge").idempotent().undo("refund", &order);
    let charge: u64 = group
        .perform(charge, async |call| {
            let number = enter(&order, &call, "charge").await?;
            pass_gate(&order, "charged").await;
            Ok::<_, HandlerError>(number)
        })
        .await?;
    let told = order.clone();
    group.defer(run.effect("notify").idempotent(), move |call: EffectCall| {
        let order = told.clone();
        async move { enter(&order, &call, "notify").await }
    })?;

    run.note("charged; waiting for the parcel").await?;
    let (cancellation, parcel) = (run.cancellation(), format!("sent-{}", order.id));
    tokio::select! {
        () = pass_gate(&order, &parcel) => {}
        () = cancellation.cancelled() => return Err(HandlerError::new("asked to end while it waited")),
    }
    group.commit().await?;
    Ok(Paid { charge, run: run.run().0 })
}

/// Takes a reservation back.
async fn release(call: UndoCall, order: Order) -> Result<(), HandlerError> {
    let reservation: u64 = call.output()?;
    post(&order, &call.idempotency_key, &format!("{} release {reservation}", order.id)).await?;
    Ok(())
}

/// Gives the money back.
async fn refund(call: UndoCall, order: Order) -> Result<(), HandlerError> {
    let charge: u64 = call.output()?;
    post(&order, &call.idempotency_key, &format!("{} refund {charge}", order.id)).await?;
    pass_gate(&order, "refunded").await;
    Ok(())
}

/// Enters an act into the ledger. Returns the number of the entry, which is the same however often it is asked for.
async fn enter(order: &Order, call: &EffectCall, what: &str) -> Result<u64, HandlerError> {
    post(order, &call.idempotency_key, &format!("{} {what} {}", order.id, order.cents)).await
}

async fn post(order: &Order, key: &str, text: &str) -> Result<u64, HandlerError> {
    let posted = LedgerClient::new(&order.ledger, PATIENCE).post(Some(key), text).await?;
    Ok(posted.entry.number)
}

/// For the show alone: whoever waits here has acted, and nobody has recorded it yet.
async fn pass_gate(order: &Order, name: &str) {
    let gate = order.gates.join(name);
    while !gate.exists() {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
