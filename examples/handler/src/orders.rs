//! The handler: an order is added up, paid for once, and gets its label once somebody has approved it. Its world is a
//! directory: a provider of payments that knows idempotency keys, an approval, and a file that counts what was executed.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tenure_worker::{
    Worker,
    handler::{HandlerError, HandlerWorker, RunContext},
};

/// The version of [`fulfil`]: another one whenever its steps or effects mean something else.
pub const VERSION: &str = "1";
/// How often the approval is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// What it is called.
    pub id: String,
    /// What is ordered: a price for each thing, in cents.
    pub prices: Vec<u64>,
    /// The directory that is its world.
    pub world: PathBuf,
    /// True where the handler is to wait badly: it holds its thread, and hears nobody.
    #[serde(default)]
    pub holds_its_thread: bool,
}

/// The output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fulfilled {
    /// What was paid, in cents.
    pub total: u64,
    /// What the provider of payments said.
    pub receipt: String,
    /// What is stuck on the parcel.
    pub label: String,
    /// The run that finished it.
    pub run: u32,
}

/// A worker for orders, not started yet.
pub fn worker() -> HandlerWorker {
    Worker::agent("orders", VERSION, fulfil)
}

/// Fulfils an order. A later run reads back every step that an earlier one finished, and the payment.
///
/// # Errors
/// The order has no price, which no other run would change; the world's files; what Tenure refuses.
pub async fn fulfil(run: RunContext, order: Order) -> Result<Fulfilled, HandlerError> {
    run.note(format!("order {} has {} prices", order.id, order.prices.len())).await?;
    let total = run.step("add up", async || add_up(&order)).await?;
    let receipt: String = run
        .effect(&format!("pay/{}", order.id))
        .idempotent()
        .payload(&total)
        .perform(async |call| pay(&order.world, &call.idempotency_key, total))
        .await?;
    run.note("paid; waiting for the approval").await?;
    wait_for_approval(&run, &order).await?;
    let label = run.step("write the label", async || write_label(&order)).await?;
    Ok(Fulfilled { total, receipt, label, run: run.run().0 })
}

fn add_up(order: &Order) -> Result<u64, HandlerError> {
    count_execution(&order.world, "add up")?;
    if order.prices.is_empty() {
        return Err(HandlerError::new("the order has no price").into_final());
    }
    Ok(order.prices.iter().sum())
}

fn write_label(order: &Order) -> Result<String, HandlerError> {
    count_execution(&order.world, "write the label")?;
    Ok(format!("order {}", order.id))
}

/// Waits as a handler should: for what it waits for, and for being asked to end beside it.
async fn wait_for_approval(run: &RunContext, order: &Order) -> Result<(), HandlerError> {
    let approval = order.world.join("approved");
    let cancellation = run.cancellation();
    while !approval.exists() {
        if order.holds_its_thread {
            std::thread::sleep(LOOK_INTERVAL);
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            () = cancellation.cancelled() => return Err(HandlerError::new("asked to end while it waited")),
        }
    }
    Ok(())
}

/// The provider: it charges once for a key, and says the same receipt each time.
fn pay(world: &Path, idempotency_key: &str, cents: u64) -> io::Result<String> {
    count_execution(world, "pay")?;
    let receipt = format!("receipt of {cents} for {idempotency_key}");
    let path = world.join("payments");
    let earlier = fs::read_to_string(&path).unwrap_or_default();
    if !earlier.lines().any(|line| line == receipt) {
        append(&path, &receipt)?;
    }
    Ok(receipt)
}

fn count_execution(world: &Path, what: &str) -> io::Result<()> {
    append(&world.join("executed"), what)
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    writeln!(OpenOptions::new().create(true).append(true).open(path)?, "{line}")
}
