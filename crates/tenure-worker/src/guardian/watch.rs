//! The guardian's loop while its group lives.
//!
//! Owns the waiting: for the worker, for the children, for the clock. Every decision is [`Lifecycle`]'s; every
//! signal is sent by [`Group`]. The clock is a timer on `CLOCK_BOOTTIME`, so that a host that was suspended past the
//! deadline ends the group on waking.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::BootInstant;
use super::control::{Control, OutputStreams};
use super::group::{Collected, Group, StartNews};
use super::lifecycle::{Lifecycle, Order};
use super::protocol::{ChildEnd, EndCause, FromGuardian, GuardSpec, ToGuardian};

/// SIGKILL is repeated so often until the group is empty: a process may be forked while others are signalled.
pub(super) const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// A group and everything that may end it.
#[derive(Debug)]
pub(super) struct Watch {
    control: Control,
    group: Group,
    lifecycle: Lifecycle,
    signals: SignalFd,
    timer: OwnedFd,
    failure: Option<String>,
    main_ended: bool,
}

impl Watch {
    /// Forks the child, which waits at its gate for [`Self::open_gate`]. An error gives the socket back, with the reason
    /// why nothing runs.
    pub(super) fn start(
        control: Control,
        spec: &GuardSpec,
        output: OutputStreams,
    ) -> Result<Self, (Control, String)> {
        let watches = match make_watches() {
            Ok(watches) => watches,
            Err(error) => return Err((control, format!("the guardian cannot watch: {error}"))),
        };
        let group = match Group::start(spec, output) {
            Ok(group) => group,
            Err(reason) => return Err((control, reason)),
        };
        let margin = Duration::from_millis(spec.margin_ms);
        let lifecycle = Lifecycle::new(spec.deadline, margin, Duration::from_millis(spec.stop_grace_ms));
        let (signals, timer) = watches;
        Ok(Self { control, group, lifecycle, signals, timer, failure: None, main_ended: false })
    }

    /// Lets the child become its program, unless by now nobody may want that any more. Until here nothing was looked at:
    /// limits, fork and a file that is written through to the disk took their time. So first everything that the worker
    /// said is heard and the clock is read; a child that is refused is ended at its gate, and never was.
    pub(super) fn open_gate(&mut self, spec: &GuardSpec) {
        let forked = FromGuardian::Forked { child: self.group.main(), init: self.group.init() };
        self.control.send(&forked);
        let opened = self.group.write_down(spec).and_then(|()| {
            self.heed_worker();
            let order = self.lifecycle.advance(BootInstant::now());
            self.perform(order);
            if self.lifecycle.is_running() { self.group.open_gate() } else { Err(self.explain_refusal()) }
        });
        if let Err(reason) = opened {
            self.group.refuse_gate();
            self.failure = Some(reason);
            let order = self.lifecycle.abort();
            self.perform(order);
        }
    }

    fn explain_refusal(&self) -> String {
        let why = match self.lifecycle.cause() {
            EndCause::ContactLost => "its worker was gone, or the local deadline too near",
            EndCause::Itself
            | EndCause::Asked
            | EndCause::OwnTimeout { .. }
            | EndCause::IdleTimeout { .. } => "its end was asked for",
        };
        format!("the child was not started: {why}, before it could run")
    }

    /// The local deadline as the worker last said it.
    pub(super) fn deadline(&self) -> BootInstant {
        self.lifecycle.deadline()
    }

    /// Gives the socket back.
    pub(super) fn into_control(self) -> Control {
        self.control
    }

    /// Returns when nobody of the group is left.
    pub(super) fn run_until_empty(&mut self) -> io::Result<(ChildEnd, EndCause)> {
        loop {
            self.heed_worker();
            let order = self.lifecycle.advance(BootInstant::now());
            self.perform(order);
            self.heed_start();
            let collected = self.group.collect();
            if collected.empty {
                self.heed_start();
                self.group.dismantle();
                return Ok(self.conclude(collected));
            }
            self.heed_main_end(&collected);
            if self.lifecycle.is_killing() {
                self.group.kill();
            }
            self.wait()?;
        }
    }

    fn heed_worker(&mut self) {
        for message in self.control.receive() {
            let now = BootInstant::now();
            let order = match message {
                ToGuardian::Deadline { at } => {
                    self.lifecycle.move_deadline(at);
                    None
                }
                ToGuardian::Ping { number } => {
                    self.control.send(&FromGuardian::Pong { number });
                    None
                }
                ToGuardian::Stop { grace_ms, cause } => {
                    self.lifecycle.stop(now, Duration::from_millis(grace_ms), cause)
                }
                ToGuardian::Kill => self.lifecycle.kill(),
                // Neither belongs here: the run goes on.
                ToGuardian::Spec(_) | ToGuardian::Worker(_) | ToGuardian::Held(_) | ToGuardian::Forget => {
                    None
                }
            };
            self.perform(order);
        }
        if self.control.is_closed() {
            let order = self.lifecycle.lose_contact();
            self.perform(order);
        }
        self.control.flush();
    }

    fn heed_start(&mut self) {
        match self.group.start_news() {
            StartNews::None => {}
            StartNews::Failed(reason) => self.failure = Some(reason),
            StartNews::Started => {
                self.control.send(&FromGuardian::Started { pid: self.group.main().pid });
            }
        }
    }

    fn heed_main_end(&mut self, collected: &Collected) {
        if collected.main_end.is_some() && !self.main_ended {
            self.main_ended = true;
            let order = self.lifecycle.end_main(BootInstant::now());
            self.perform(order);
        }
    }

    fn conclude(&mut self, collected: Collected) -> (ChildEnd, EndCause) {
        let end = match (self.failure.take(), collected.main_end) {
            (Some(reason), _) => ChildEnd::NotStarted { reason },
            (None, Some(end)) => end,
            // PID 1 of the namespace was killed, and with it the child.
            (None, None) => ChildEnd::Signalled { signal: Signal::SIGKILL as i32 },
        };
        (end, self.lifecycle.cause())
    }

    fn perform(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Terminate) => self.group.terminate(),
            Some(Order::Kill) => self.group.kill(),
            None => {}
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        self.set_timer()?;
        let mut ready = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.timer.as_fd(), PollFlags::POLLIN),
        ];
        if !self.control.is_closed() {
            let writable = if self.control.has_unsent() { PollFlags::POLLOUT } else { PollFlags::empty() };
            ready.push(PollFd::new(self.control.as_fd(), PollFlags::POLLIN | writable));
        }
        ready.extend(self.group.readable().map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN)));
        // Whatever woke us, everything is looked at; an interrupted wait is a wait that ended.
        let _ = poll(&mut ready, PollTimeout::NONE);
        while let Ok(Some(_)) = self.signals.read_signal() {}
        Ok(())
    }

    /// Setting a timer anew also clears what made it readable.
    fn set_timer(&self) -> io::Result<()> {
        let repeat = if self.lifecycle.is_killing() {
            BootInstant::now().plus(KILL_INTERVAL)
        } else {
            BootInstant::NEVER
        };
        let at = self.lifecycle.next_wake().min(repeat);
        // Zero would disarm it.
        let nanoseconds = if at == BootInstant::NEVER { 0 } else { at.as_nanoseconds().max(1) };
        let it_value = Timespec {
            tv_sec: i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(nanoseconds % 1_000_000_000).unwrap_or(0),
        };
        let time = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(())
    }
}

/// SIGCHLD is blocked before the first fork, so that none is lost; the child gets an empty mask back.
fn make_watches() -> io::Result<(SignalFd, OwnedFd)> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    let signals = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    Ok((signals, timer))
}
