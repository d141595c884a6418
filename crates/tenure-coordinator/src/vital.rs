//! Parts without which a coordinator is of no use: a lane, the writer of submissions, dispatch, the sweep. One that panics
//! has met a defect of ours; what it would have answered is lost, so the whole coordinator stops and lets workers and
//! clients go to another, instead of going on with a part missing. Neighbours: `coordinator` says that it ended.

use std::future::Future;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Where vital parts run. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct VitalTasks {
    /// Whatever must be over before the coordinator is.
    pub(crate) tasks: TaskTracker,
    /// Stops the coordinator.
    pub(crate) stopping: CancellationToken,
}

impl VitalTasks {
    /// Nothing runs yet.
    pub(crate) fn new() -> Self {
        Self { tasks: TaskTracker::new(), stopping: CancellationToken::new() }
    }

    /// Runs a part until it ends by itself.
    pub(crate) fn spawn(&self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        let guard = Guard { name, stopping: self.stopping.clone(), ended: false };
        self.tasks.spawn(async move {
            let mut guard = guard;
            part.await;
            guard.ended = true;
        });
    }
}

struct Guard {
    name: &'static str,
    stopping: CancellationToken,
    ended: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.ended && !self.stopping.is_cancelled() {
            tracing::error!(part = self.name, "a vital part of the coordinator ended by a defect; it stops");
            self.stopping.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vital_part_that_panics_stops_the_coordinator() {
        let vital = VitalTasks::new();
        vital.spawn("lane", async { panic!("a defect") });
        vital.stopping.cancelled().await;
    }

    #[tokio::test]
    async fn a_vital_part_that_ends_by_itself_stops_nothing() {
        let vital = VitalTasks::new();
        vital.spawn("lane", async {});
        vital.tasks.close();
        vital.tasks.wait().await;
        assert!(!vital.stopping.is_cancelled());
    }
}
