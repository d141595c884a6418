//! A fleet of two workers for the robot. They are killed here; what became of the world is asked of the world.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use tenure_testkit::{Cluster, find_program, wait_for};

use crate::world::World;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A fleet and the world that its agent changes.
pub struct Stage {
    /// The coordinator, the workers and the database.
    pub cluster: Cluster,
    /// What the robot changes.
    pub world: World,
}

impl Stage {
    /// Starts PostgreSQL, a coordinator and two workers, and declares the robot for a new project.
    ///
    /// # Errors
    /// A process does not start, or a file cannot be written.
    pub async fn start() -> Result<Self> {
        let mut cluster = Cluster::start(find_program("tenure")?).await?;
        let place = cluster.directory().join("world");
        fs::create_dir(&place)?;
        let world = World::create(&place).await?;
        let fleet = place.join("fleet.toml");
        fs::write(&fleet, fill_in(&world)?)?;
        cluster.run(&["apply", &fleet.display().to_string()])?;
        for name in ["w1", "w2"] {
            cluster.start_worker(name, &["--slots", "4"])?;
        }
        Ok(Self { cluster, world })
    }

    /// Submits the release of a version. Returns the job.
    ///
    /// # Errors
    /// It is refused.
    pub fn release(&self, version: &str) -> Result<String> {
        let job = self.cluster.run(&["submit", "release", "--input", version, "--key", version])?;
        Ok(job.trim().to_owned())
    }

    /// Kills the worker that holds a job with SIGKILL, and starts it again. Returns its name.
    ///
    /// # Errors
    /// Nobody holds it.
    pub fn kill_holder(&mut self, job: &str) -> Result<String> {
        let held = self.cluster.job(job)?["holder"]["worker"].as_str().map(str::to_owned);
        let holder = held.with_context(|| format!("nobody holds job {job}"))?;
        self.cluster.kill_worker(&holder, &[])?;
        self.cluster.restart_worker(&holder)?;
        Ok(holder)
    }

    /// Waits until something is so in the world.
    pub async fn wait_until(&self, what: &str, mut is_so: impl FnMut(&World) -> Result<bool>) {
        wait_for(what, PATIENCE, async || match is_so(&self.world) {
            Ok(true) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }
}

/// The fleet file with the places of this world.
fn fill_in(world: &World) -> Result<String> {
    let mut file: toml::Table = toml::from_str(include_str!("../fleet.toml"))?;
    let env = file["agents"]["release"]["env"].as_table_mut().context("the fleet file has no env")?;
    for (name, value) in [
        ("REMOTE", show(&world.remote)),
        ("REGISTRY", show(&world.registry)),
        ("GATES", show(&world.gates)),
        ("LEDGER", show(&find_program("tenure-ledger")?)),
        ("LEDGER_URL", world.ledger.url()),
    ] {
        env.insert(name.into(), value.into());
    }
    Ok(toml::to_string(&file)?)
}

fn show(path: &Path) -> String {
    path.display().to_string()
}
