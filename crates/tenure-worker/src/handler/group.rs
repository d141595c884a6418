//! Effects of a handler that belong together: members that can be reversed are performed at once, members that cannot are put
//! off until the group is committed, and between them stand invariants. The first invariant that does not hold reverses
//! what was performed, the last first, and what was put off is never sent.
//!
//! The decision is recorded (`group_settled`) before anything is done about it, and a later run reads it back: it goes on
//! reversing, or goes on sending, and does not decide again. Each member and each reversal is an effect of its own, so nothing
//! is done or reversed twice. Neighbours: `effect` performs, `compensation` reverses, `step` reads the journal.

use std::{fmt, pin::Pin};

use serde::{Serialize, de::DeserializeOwned};
use tenure_core::{
    limits::GROUP_MEMBERS_MAX,
    replay::{Asked, Told},
    step::{InvalidStepName, StepName},
};
use tenure_proto::v1::{NewGroupOpened, NewGroupSettled, new_record::Kind};

use super::{Effect, EffectCall, HandlerError, RunContext, compensation::undo_keys, context::World};

/// A group that was reversed, or that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// One of its invariants did not hold: what was performed in it is reversed, and nothing that was put off was sent.
    #[error("the group {group:?} was reversed, because its invariant does not hold: {invariant}")]
    Reversed {
        /// Its name.
        group: String,
        /// The invariant, in the handler's words.
        invariant: String,
    },
    /// Its name.
    #[error("the name of a group of effects is none")]
    Name(#[from] InvalidStepName),
    /// Another group of this run has the name.
    #[error("the group {group:?} was opened twice in one run, and a name is unique in its job")]
    OpenedTwice {
        /// Its name.
        group: String,
    },
    /// A member that could not be reversed is to be performed before the group is committed.
    #[error(
        "the effect {key:?} of the group {group:?} cannot be reversed: declare how it is undone, or put it off"
    )]
    NotReversible {
        /// The group.
        group: String,
        /// The member.
        key: String,
    },
    /// There are too many members.
    #[error("the group {group:?} has {limit} members, and takes no more")]
    TooMany {
        /// The group.
        group: String,
        /// The most.
        limit: usize,
    },
}

type PutOff<'a> = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + 'a>>;

/// Effects that belong together; opened with [`RunContext::group`]. One that is dropped without [`Group::commit`] stays as it
/// is: what was performed in it stands, and the next run that opens it goes on.
#[must_use = "nothing that was put off is sent before the group is committed"]
pub struct Group<'a> {
    run: &'a RunContext,
    name: StepName,
    members: Vec<String>,
    put_off: Vec<PutOff<'a>>,
    is_committed: bool,
    /// The invariant that did not hold, from when this run found out.
    broken: Option<String>,
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Group({:?}, {} performed, {} put off)",
            self.name.as_str(),
            self.members.len(),
            self.put_off.len()
        )
    }
}

impl<'a> Group<'a> {
    /// Opens it, or goes on with what an earlier run decided.
    pub(super) async fn open(run: &'a RunContext, given: &str) -> Result<Self, HandlerError> {
        let name: StepName = given.parse().map_err(|error| final_error(GroupError::Name(error)))?;
        // A replay asks for every member again, as the run did that decided, and is told there what that decided.
        let World::Live { steps, .. } = run.world() else {
            run.ask_replay(Asked::Group(name.clone())).await;
            return Ok(Self::empty(run, name, false));
        };
        if !steps.take_group(&name) {
            return Err(final_error(GroupError::OpenedTwice { group: given.to_owned() }));
        }
        let settled = steps.find_group(&name).await?;
        let is_committed = settled.as_ref().is_some_and(|settled| !settled.reversed);
        let group = Self::empty(run, name, is_committed);
        match settled {
            Some(settled) if settled.reversed => {
                undo_keys(run, settled.members).await?;
                Err(group.reversed(settled.invariant))
            }
            Some(_) => Ok(group),
            None => {
                let opened = NewGroupOpened { name: group.name.to_string() };
                steps.begin_with(Kind::GroupOpened(opened)).await?;
                Ok(group)
            }
        }
    }

    const fn empty(run: &'a RunContext, name: StepName, is_committed: bool) -> Self {
        Self { run, name, members: Vec::new(), put_off: Vec::new(), is_committed, broken: None }
    }

    /// Performs a member that can be reversed, as [`Effect::perform`] does. It is declared with [`Effect::undo`] or
    /// [`Effect::no_undo`].
    ///
    /// # Errors
    /// As [`Effect::perform`]; a [`GroupError`], where it could not be reversed, there are 100 members, or the group was reversed.
    pub async fn perform<T, E, Fut>(
        &mut self,
        effect: Effect<'_, T>,
        work: impl FnMut(EffectCall) -> Fut,
    ) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.ensure_whole()?;
        if !effect.is_reversible() {
            let (group, key) = (self.name.to_string(), effect.key().to_owned());
            return Err(final_error(GroupError::NotReversible { group, key }));
        }
        self.make_room()?;
        self.members.push(effect.key().to_owned());
        effect.perform(work).await
    }

    /// Puts a member off until the group is committed: a letter, say, that nobody can call back.
    ///
    /// # Errors
    /// There are 100 members, or the group was reversed.
    pub fn defer<T, E, F, Fut>(&mut self, effect: Effect<'a, T>, work: F) -> Result<(), HandlerError>
    where
        T: Serialize + DeserializeOwned + Send + 'a,
        E: Into<HandlerError> + 'a,
        F: FnMut(EffectCall) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        self.ensure_whole()?;
        self.make_room()?;
        self.put_off.push(Box::pin(async move { effect.perform(work).await.map(drop) }));
        Ok(())
    }

    /// Asks whether an invariant holds; the words say which, for a person. Where it does not, the group is reversed.
    ///
    /// In a group that an earlier run committed every invariant held.
    ///
    /// # Errors
    /// [`GroupError::Reversed`], which is final unless the handler says otherwise, once everything is reversed; what failed
    /// while it was reversed, which the next run tries again.
    pub async fn check(&mut self, invariant: &str, holds: bool) -> Result<(), HandlerError> {
        self.ensure_whole()?;
        if self.is_upheld(invariant, holds).await {
            return Ok(());
        }
        // Whatever the handler makes of the error, the group is not decided a second time, nor anything sent.
        self.broken = Some(invariant.to_owned());
        self.put_off.clear();
        if let World::Live { .. } = self.run.world() {
            self.settle(Some(invariant)).await?;
            undo_keys(self.run, self.members.clone()).await?;
        }
        Err(self.reversed(invariant.to_owned()))
    }

    /// Whether the group goes on after this invariant. In a replay what was decided stands, as it does in a run. Nobody else looks
    /// at the group meanwhile, as in [`Self::settle`].
    async fn is_upheld(&mut self, invariant: &str, holds: bool) -> bool {
        match self.run.world() {
            World::Live { .. } => holds || self.is_committed,
            World::Replayed(_) => {
                let (group, words) = (self.name.clone(), invariant.to_owned());
                self.run.ask_replay(Asked::Invariant { group, words, holds }).await != Some(Told::Reversed)
            }
        }
    }

    /// Commits the group: no invariant is asked any more, and what was put off is performed in its order.
    ///
    /// # Errors
    /// As [`Effect::perform`] of the first that failed. The group stays committed, and the next run goes on there.
    /// [`GroupError::Reversed`] where an invariant did not hold: nothing is sent.
    pub async fn commit(mut self) -> Result<(), HandlerError> {
        self.ensure_whole()?;
        if !self.is_committed {
            self.settle(None).await?;
        }
        for put_off in self.put_off.drain(..) {
            put_off.await?;
        }
        Ok(())
    }

    /// Records what is decided; returns once that is durable. Nobody else looks at the group meanwhile: what is put off cannot be
    /// shared between threads.
    async fn settle(&mut self, invariant: Option<&str>) -> Result<(), HandlerError> {
        let settled = NewGroupSettled {
            name: self.name.to_string(),
            reversed: invariant.is_some(),
            members: self.members.clone(),
            invariant: invariant.unwrap_or_default().to_owned(),
        };
        match self.run.world() {
            World::Live { steps, .. } => steps.begin_with(Kind::GroupSettled(settled)).await?,
            World::Replayed(_) => {
                self.run.ask_replay(Asked::Commit(self.name.clone())).await;
            }
        }
        Ok(())
    }

    /// After an invariant did not hold there is nothing more to do with it.
    fn ensure_whole(&self) -> Result<(), HandlerError> {
        self.broken.as_ref().map_or(Ok(()), |invariant| Err(self.reversed(invariant.clone())))
    }

    fn make_room(&self) -> Result<(), HandlerError> {
        if self.members.len() + self.put_off.len() < GROUP_MEMBERS_MAX {
            return Ok(());
        }
        Err(final_error(GroupError::TooMany { group: self.name.to_string(), limit: GROUP_MEMBERS_MAX }))
    }

    fn reversed(&self, invariant: String) -> HandlerError {
        final_error(GroupError::Reversed { group: self.name.to_string(), invariant })
    }
}

fn final_error(error: GroupError) -> HandlerError {
    HandlerError::from(error).into_final()
}
