//! The shapes that are handlers. Their world is the ledger, and a count of executions that begins anew in every scene: what
//! fails a few times before it is done fails as often after a crash.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tenure_core::effect::Disposition;
use tenure_testkit::LedgerClient;
use tenure_worker::{
    Worker,
    handler::{EffectCall, Gift, GroupError, HandlerError, HandlerWorker, Probe, RunContext, UndoCall},
};

/// What handlers change.
#[derive(Clone)]
pub(crate) struct World {
    ledger: LedgerClient,
    executions: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl World {
    pub(crate) fn new(ledger: LedgerClient) -> Self {
        Self { ledger, executions: Arc::default() }
    }

    /// How often this was executed for the job in this scene, with this time.
    fn count(&self, run: &RunContext, key: &str) -> u32 {
        let mut executions = self.executions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = executions.entry(format!("{} {key}", run.job())).or_default();
        *count += 1;
        *count
    }

    /// Posts what the checkers read, with the key that the provider knows it by.
    async fn post(&self, run: &RunContext, key: &str, call: &EffectCall) -> Result<u64, HandlerError> {
        let text = format!("{} {key}", run.job());
        Ok(self.ledger.post(Some(&call.idempotency_key), &text).await?.entry.number)
    }

    /// The same without a key: it is entered every time.
    async fn post_unkeyed(&self, run: &RunContext, key: &str) -> Result<u64, HandlerError> {
        Ok(self.ledger.post(None, &format!("{} {key}", run.job())).await?.entry.number)
    }

    async fn find(&self, run: &RunContext, key: &str) -> Result<Probe<u64>, HandlerError> {
        let text = format!("{} {key}", run.job());
        let entries = self.ledger.entries().await?;
        let found = entries.into_iter().find(|entry| entry.text == text);
        Ok(found.map_or(Probe::DidNotHappen, |entry| Probe::Landed(entry.number)))
    }

    async fn post_once(&self, run: &RunContext, key: &str) -> Result<u64, HandlerError> {
        run.effect(key).idempotent().no_undo().perform(async |call| self.post(run, key, &call).await).await
    }

    async fn post_probed(&self, run: &RunContext, key: &str) -> Result<u64, HandlerError> {
        run.effect(key)
            .probe(move |_| self.find(run, key))
            .no_undo()
            .perform(async |_| self.post_unkeyed(run, key).await)
            .await
    }

    async fn post_asking(&self, run: &RunContext, key: &str) -> Result<u64, HandlerError> {
        run.effect(key).ask().no_undo().perform(async |_| self.post_unkeyed(run, key).await).await
    }

    /// Fails so often, with nothing done, before it is done.
    async fn post_after(&self, run: &RunContext, key: &str, failures: u32) -> Result<u64, HandlerError> {
        let work = async |call: EffectCall| {
            if self.count(run, key) <= failures {
                return Err(HandlerError::new("not yet"));
            }
            self.post(run, key, &call).await
        };
        run.effect(key).retry().on_failure(Disposition::DidNotHappen).no_undo().perform(work).await
    }

    async fn read(&self, run: &RunContext, key: &str) -> Result<usize, HandlerError> {
        run.effect(key)
            .read_only()
            .perform(async |_| Ok::<_, HandlerError>(self.ledger.entries().await?.len()))
            .await
    }
}

async fn step(run: &RunContext, name: &str, value: u32) -> Result<u32, HandlerError> {
    run.step(name, async || Ok::<_, HandlerError>(value)).await
}

/// Steps and notes.
pub(crate) fn take_steps(_: World) -> HandlerWorker {
    Worker::agent("steps", "1", |run: RunContext, (): ()| async move {
        let mut sum = 0;
        for number in 1..=8 {
            sum += step(&run, &format!("step {number}"), number).await?;
            if number % 3 == 0 {
                run.note(format!("{number} steps come to {sum}")).await?;
            }
        }
        Ok::<_, HandlerError>(sum)
    })
}

/// One effect of each recovery, and one that only reads.
pub(crate) fn recover_in_four_ways(world: World) -> HandlerWorker {
    Worker::agent("recoveries", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            world.post_after(&run, "retry", 0).await?;
            world.post_once(&run, "idempotent").await?;
            world.post_probed(&run, "probe").await?;
            world.post_asking(&run, "ask").await?;
            world.read(&run, "read").await?;
            run.note("all five").await
        }
    })
}

/// Effects that fail up to twice before they are done.
pub(crate) fn retry_until_done(world: World) -> HandlerWorker {
    Worker::agent("retries", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            for (key, failures) in [("never", 0), ("once", 1), ("twice", 2), ("twice more", 2)] {
                world.post_after(&run, key, failures).await?;
            }
            Ok::<_, HandlerError>(())
        }
    })
}

/// Effects of which nobody knows at first whether they happened: one landed, one did not happen and is performed then.
pub(crate) fn look_it_up(world: World) -> HandlerWorker {
    Worker::agent("probes", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            let (world, run) = (&world, &run);
            for (key, lands) in [("landed", true), ("absent", false), ("landed too", true)] {
                let work = async |_: EffectCall| {
                    let is_first = world.count(run, key) == 1;
                    if lands || !is_first {
                        world.post_unkeyed(run, key).await?;
                    }
                    if is_first { Err(HandlerError::new("no answer")) } else { Ok(0) }
                };
                let effect = run.effect(key).probe(move |_| world.find(run, key)).no_undo();
                effect.perform(work).await?;
                run.note(format!("{key} is settled")).await?;
            }
            Ok::<_, HandlerError>(())
        }
    })
}

/// Two runs that fail, each a bit later, and a third that does not.
pub(crate) fn fail_twice(world: World) -> HandlerWorker {
    Worker::agent("restarts", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            step(&run, "prepare", 1).await?;
            world.post_once(&run, "first").await?;
            if run.run().0 == 1 {
                return Err(HandlerError::new("the first run"));
            }
            run.note("beyond the first").await?;
            world.post_probed(&run, "second").await?;
            if run.run().0 == 2 {
                return Err(HandlerError::new("the second run"));
            }
            world.post_asking(&run, "third").await?;
            step(&run, "tidy up", 2).await?;
            Ok(())
        }
    })
}

/// Steps, notes, effects of each recovery, and retries.
pub(crate) fn mix_all(world: World) -> HandlerWorker {
    Worker::agent("mixture", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            run.note("begun").await?;
            step(&run, "one", 1).await?;
            world.post_probed(&run, "probe").await?;
            world.post_after(&run, "retry", 1).await?;
            step(&run, "two", 2).await?;
            world.post_asking(&run, "ask").await?;
            world.read(&run, "read").await?;
            step(&run, "three", 3).await?;
            world.post_once(&run, "idempotent").await?;
            run.note("done").await
        }
    })
}

/// Many effects, each after a step.
pub(crate) fn go_on_for_long(world: World) -> HandlerWorker {
    Worker::agent("long", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            for number in 1..=8 {
                step(&run, &format!("compute {number}"), number).await?;
                let key = format!("post {number}");
                if number % 2 == 0 {
                    world.post_probed(&run, &key).await?;
                } else {
                    world.post_once(&run, &key).await?;
                }
            }
            Ok::<_, HandlerError>(())
        }
    })
}

/// Posts that an effect was undone, under the text that the checkers read.
async fn post_undone(world: World, call: UndoCall) -> Result<(), HandlerError> {
    let job = call.effect_idempotency_key.split('/').next().unwrap_or_default();
    let text = format!("{job} undo:{}", call.effect);
    world.ledger.post(Some(&call.idempotency_key), &text).await?;
    Ok(())
}

/// A group that is committed, whose last member was put off; and one that is reversed, because its invariant does not hold.
pub(crate) fn keep_together(world: World) -> HandlerWorker {
    let undoing = world.clone();
    let worker = Worker::agent("grouped", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            let (world, run) = (&world, &run);
            let mut kept = run.group("kept").await?;
            for key in ["kept one", "kept two"] {
                let effect = run.effect(key).idempotent().undo("post undone", &());
                kept.perform(effect, async |call| world.post(run, key, &call).await).await?;
            }
            kept.check("it holds", true).await?;
            let last = run.effect("put off").idempotent().no_undo();
            kept.defer(last, move |call| async move { world.post(run, "put off", &call).await })?;
            kept.commit().await?;
            // A later run learns of the reversal where it opens the group.
            let reversed = async {
                let mut given_up = run.group("given up").await?;
                let effect = run.effect("given up one").idempotent().undo("post undone", &());
                given_up.perform(effect, async |call| world.post(run, "given up one", &call).await).await?;
                given_up.check("it does not hold", false).await
            };
            match reversed.await {
                Err(error) if error.downcast_ref::<GroupError>().is_some() => run.note("reversed").await,
                other => other,
            }
        }
    });
    worker.compensation("post undone", move |call: UndoCall, (): ()| post_undone(undoing.clone(), call))
}

/// Effects that functions of the worker undo after the handler failed for good.
pub(crate) fn fail_for_good(world: World) -> HandlerWorker {
    let undoing = world.clone();
    let worker = Worker::agent("compensated", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            for key in ["first", "second", "third"] {
                let effect = run.effect(key).idempotent().undo("post undone", &());
                effect.perform(async |call| world.post(&run, key, &call).await).await?;
            }
            Err::<(), _>(HandlerError::new("nothing can be done").into_final())
        }
    });
    worker.compensation("post undone", move |call: UndoCall, (): ()| post_undone(undoing.clone(), call))
}

/// Effects of which nobody knows whether they happened until a person says so: one landed, one did not happen.
pub(crate) fn leave_to_a_person(world: World) -> HandlerWorker {
    Worker::agent("answered", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            let (world, run) = (&world, &run);
            step(run, "prepare", 1).await?;
            for (key, lands) in [("landed", true), ("absent", false)] {
                let work = async |_: EffectCall| {
                    let is_first = world.count(run, key) == 1;
                    if lands || !is_first {
                        world.post_unkeyed(run, key).await?;
                    }
                    if is_first { Err(HandlerError::new("no answer")) } else { Ok(0) }
                };
                let _: u64 = run.effect(key).ask().no_undo().perform(work).await?;
                run.note(format!("{key} is settled")).await?;
            }
            Ok::<_, HandlerError>(())
        }
    })
}

/// A first run that fails for good, and a second that goes on.
pub(crate) fn fail_for_good_once(world: World) -> HandlerWorker {
    Worker::agent("resumed", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move {
            step(&run, "prepare", 1).await?;
            world.post_once(&run, "first").await?;
            if run.run().0 == 1 {
                return Err(HandlerError::new("the bucket is missing").into_final());
            }
            world.post_asking(&run, "second").await?;
            run.note("gone on").await?;
            world.post_probed(&run, "third").await
        }
    })
}

/// Steps, and between them work for another agent, some of it alike.
pub(crate) fn give_work(_: World) -> HandlerWorker {
    Worker::agent("giving", "1", async |run: RunContext, (): ()| -> Result<usize, HandlerError> {
        let mut given = Vec::new();
        for number in 0..2 {
            given.push(run.send("idle", "alike").await?.job);
            run.step(&format!("look {number}"), async || Ok::<_, HandlerError>(number)).await?;
        }
        given.push(run.spawn("idle", "apart").await?.job);
        given.push(run.give(Gift::send("idle", "third").key("once")).await?.job);
        given.push(run.give(Gift::send("idle", "third").key("once")).await?.job);
        given.sort_unstable();
        given.dedup();
        Ok(given.len())
    })
}
