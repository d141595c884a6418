//! The worker's side of one guardian.
//!
//! Owns the control socket, the run's own timeouts, and the watch over the guardian: one that died, does not answer,
//! or lets the local deadline pass is replaced by this worker, which ends the group itself ([`super::orphans`]).
//! Decides only *that* a run is to end; the guardian does it, in the order that its lifecycle says.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use tenure_core::limits::{
    GUARDIAN_LATE_AFTER, GUARDIAN_MISSED_PINGS_MAX, GUARDIAN_PING_INTERVAL, GUARDIAN_SPEC_TIMEOUT,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::capture::{Activity, sleep_until};
use super::orphans::{Remains, end_remains};
use super::process::as_milliseconds;
use super::spec::{ProcessEnd, StopCause};
use crate::guardian::BootInstant;
use crate::guardian::protocol::{
    ChildEnd, EndCause, FrameBuffer, FromGuardian, GuardSpec, ToGuardian, encode_frame,
};

/// What the executor wants by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Orders {
    pub(super) deadline: BootInstant,
    pub(super) stop: Option<(Duration, StopCause)>,
    pub(super) kill: bool,
    pub(super) forget: bool,
}

impl Orders {
    pub(super) fn new(deadline: BootInstant) -> Self {
        Self { deadline, stop: None, kill: false, forget: false }
    }

    /// The first cause and the shortest grace hold.
    pub(super) fn stop(&mut self, grace: Duration, cause: StopCause) {
        let (grace, cause) = self.stop.map_or((grace, cause), |(earlier, first)| (earlier.min(grace), first));
        self.stop = Some((grace, cause));
    }
}

/// Whether anything has asked for the end of a process. Nothing takes that back.
#[derive(Debug, Clone, Default)]
pub(super) struct AskedToEnd(Arc<AtomicBool>);

impl AskedToEnd {
    pub(super) fn note(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The run's own limits in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) timeout: Duration,
    pub(super) idle_timeout: Option<Duration>,
}

/// One guardian, watched.
pub(super) struct Supervisor {
    guardian: Child,
    socket: UnixStream,
    frames: FrameBuffer,
    spec: GuardSpec,
    timing: Timing,
    activity: Arc<Activity>,
    asked_to_end: AskedToEnd,
    orders: watch::Receiver<Orders>,
    told: Orders,
    remains: Remains,
    pings: Interval,
    ping_number: u64,
    unanswered: u32,
    started: bool,
    timed_out: bool,
    abandoned: bool,
}

/// What woke the supervisor.
enum News {
    Frames(std::io::Result<usize>),
    Ordered(bool),
    PingDue,
    GuardianLate,
    TimedOut,
    Idle,
}

/// Why the guardian can no longer be relied upon.
struct Lost;

impl Supervisor {
    pub(super) fn new(
        guardian: Child,
        socket: UnixStream,
        spec: GuardSpec,
        timing: Timing,
        activity: Arc<Activity>,
        asked_to_end: AskedToEnd,
        orders: watch::Receiver<Orders>,
    ) -> Self {
        let mut pings = tokio::time::interval(GUARDIAN_PING_INTERVAL);
        // A worker that was frozen has not asked meanwhile, so nothing was left unanswered.
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let remains = Remains::of_run(&guardian, &spec);
        let told = Orders::new(spec.deadline);
        Self {
            guardian,
            socket,
            frames: FrameBuffer::default(),
            spec,
            timing,
            activity,
            asked_to_end,
            orders,
            told,
            remains,
            pings,
            ping_number: 0,
            unanswered: 0,
            started: false,
            timed_out: false,
            abandoned: false,
        }
    }

    /// Returns when the whole group is empty.
    pub(super) async fn await_end(&mut self, tell_pid: &watch::Sender<Option<i32>>) -> ProcessEnd {
        match self.await_guardian(tell_pid).await {
            Ok((end, cause)) => compose_end(end, cause),
            Err(Lost) => self.take_over().await,
        }
    }

    async fn await_guardian(
        &mut self,
        tell_pid: &watch::Sender<Option<i32>>,
    ) -> Result<(ChildEnd, EndCause), Lost> {
        self.send_spec().await?;
        let timeout_at = Instant::now() + self.timing.timeout;
        let mut bytes = vec![0; 8 * 1024];
        loop {
            if let Some(ended) = self.read_messages(tell_pid)? {
                return Ok(ended);
            }
            let idle_at = self.timing.idle_timeout.map(|limit| self.activity.last() + limit);
            let held = !self.abandoned;
            let late_at = self.find_late();
            let timing = held && !self.timed_out;
            let news = tokio::select! {
                biased;
                read = self.socket.read(&mut bytes) => News::Frames(read),
                changed = self.orders.changed(), if held => News::Ordered(changed.is_ok()),
                _ = self.pings.tick(), if held => News::PingDue,
                () = sleep_until(late_at), if held => News::GuardianLate,
                () = tokio::time::sleep_until(timeout_at), if timing => News::TimedOut,
                () = sleep_until(idle_at), if timing => News::Idle,
            };
            match news {
                News::Frames(Ok(length @ 1..)) => self.frames.push(&bytes[..length]),
                News::Frames(_) => return Err(Lost),
                News::Ordered(true) => self.pass_orders().await?,
                // Nobody holds this run any more: the guardian sees the socket close and does the rest.
                News::Ordered(false) => self.abandon().await,
                News::PingDue => self.ping().await?,
                // The guardian's clock is ours: it is frozen, and the deadline is past.
                News::GuardianLate => return Err(Lost),
                News::TimedOut => self.end_for_time(self.own_timeout()).await?,
                News::Idle => self.end_when_idle().await?,
            }
        }
    }

    async fn send_spec(&mut self) -> Result<(), Lost> {
        let frame = encode_frame(&ToGuardian::Spec(Box::new(self.spec.clone()))).map_err(|_| Lost)?;
        match tokio::time::timeout(GUARDIAN_SPEC_TIMEOUT, self.socket.write_all(&frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Lost),
        }
    }

    fn read_messages(
        &mut self,
        tell_pid: &watch::Sender<Option<i32>>,
    ) -> Result<Option<(ChildEnd, EndCause)>, Lost> {
        while let Some(message) = self.frames.next_frame().map_err(|_| Lost)? {
            self.unanswered = 0;
            match message {
                FromGuardian::Pong { .. } | FromGuardian::Watching => {}
                FromGuardian::Forked { child, init } => self.remains.set_marks(child, init),
                FromGuardian::Started { pid } => {
                    self.started = true;
                    tell_pid.send_replace(Some(pid));
                }
                FromGuardian::Ended { end, cause } => return Ok(Some((end, cause))),
            }
        }
        Ok(None)
    }

    /// Tells the guardian what it has not been told yet.
    async fn pass_orders(&mut self) -> Result<(), Lost> {
        let wanted = self.orders.borrow_and_update().clone();
        if wanted.deadline != self.told.deadline {
            self.send(&ToGuardian::Deadline { at: wanted.deadline }).await?;
        }
        if let Some((grace, cause)) = wanted.stop.filter(|_| wanted.stop != self.told.stop) {
            let cause = match cause {
                StopCause::Asked => EndCause::Asked,
                StopCause::ContactLost => EndCause::ContactLost,
            };
            self.send(&ToGuardian::Stop { grace_ms: as_milliseconds(grace), cause }).await?;
        }
        if wanted.kill && !self.told.kill {
            self.send(&ToGuardian::Kill).await?;
        }
        self.told = wanted;
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), Lost> {
        if self.unanswered >= GUARDIAN_MISSED_PINGS_MAX {
            return Err(Lost);
        }
        self.unanswered += 1;
        self.ping_number += 1;
        self.send(&ToGuardian::Ping { number: self.ping_number }).await
    }

    /// When the guardian should have ended its group long since.
    fn find_late(&self) -> Option<Instant> {
        let late = self.told.deadline.plus(GUARDIAN_LATE_AFTER);
        (late != BootInstant::NEVER).then(|| Instant::now() + late.since(BootInstant::now()))
    }

    fn own_timeout(&self) -> EndCause {
        EndCause::OwnTimeout { limit_ms: as_milliseconds(self.timing.timeout) }
    }

    async fn end_when_idle(&mut self) -> Result<(), Lost> {
        let Some(limit) = self.timing.idle_timeout else { return Ok(()) };
        if self.activity.last() + limit > Instant::now() {
            return Ok(());
        }
        self.end_for_time(EndCause::IdleTimeout { limit_ms: as_milliseconds(limit) }).await
    }

    async fn end_for_time(&mut self, cause: EndCause) -> Result<(), Lost> {
        self.timed_out = true;
        self.asked_to_end.note();
        self.send(&ToGuardian::Stop { grace_ms: self.spec.stop_grace_ms, cause }).await
    }

    /// One frame is small and the socket's buffer is not: what does not fit at once says that nobody reads.
    async fn send(&mut self, message: &ToGuardian) -> Result<(), Lost> {
        let frame = encode_frame(message).map_err(|_| Lost)?;
        match tokio::time::timeout(GUARDIAN_PING_INTERVAL, self.socket.write_all(&frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Lost),
        }
    }

    /// Closes the socket for writing and waits for what the guardian makes of it.
    async fn abandon(&mut self) {
        let _ = self.socket.shutdown().await;
        self.abandoned = true;
    }

    /// The guardian is gone or useless: this worker ends the group, and says so only when it is empty.
    async fn take_over(&mut self) -> ProcessEnd {
        self.asked_to_end.note();
        self.hear_last_words();
        let remains = self.remains.clone();
        // The loop reads /proc and sleeps; it has no place on a runtime's thread.
        let _ = tokio::task::spawn_blocking(move || end_remains(&remains)).await;
        let _ = self.guardian.start_kill();
        let status = self.guardian.wait().await;
        match status.ok().and_then(|status| status.code()) {
            Some(code) if !self.started => ProcessEnd::NotStarted {
                reason: format!("the guardian ended with exit code {code} before it started the child"),
            },
            Some(_) | None => ProcessEnd::ContactLost,
        }
    }

    /// What a guardian said before it died or froze may not be read yet, and among it who there is to end.
    fn hear_last_words(&mut self) {
        let mut bytes = vec![0; 8 * 1024];
        while let Ok(length @ 1..) = self.socket.try_read(&mut bytes) {
            self.frames.push(&bytes[..length]);
        }
        while let Ok(Some(message)) = self.frames.next_frame() {
            if let FromGuardian::Forked { child, init } = message {
                self.remains.set_marks(child, init);
            }
        }
    }

    /// After the end: keeps the guardian company until the end is acknowledged, so that it does not report by
    /// itself, and reaps it.
    pub(super) async fn await_release(&mut self) {
        let mut bytes = vec![0; 1024];
        let mut orders = self.orders.clone();
        let mut forgotten = orders.borrow().forget;
        let mut held = true;
        while held && !forgotten {
            tokio::select! {
                read = self.socket.read(&mut bytes) => held = matches!(read, Ok(1..)),
                changed = orders.changed() => match changed {
                    Ok(()) => forgotten = orders.borrow_and_update().forget,
                    Err(_) => held = false,
                },
                _ = self.pings.tick() => {
                    self.ping_number += 1;
                    held = self.send(&ToGuardian::Ping { number: self.ping_number }).await.is_ok();
                }
            }
        }
        if forgotten {
            let _ = self.send(&ToGuardian::Forget).await;
        }
        let _ = self.socket.shutdown().await;
        let _ = self.guardian.wait().await;
    }
}

fn compose_end(end: ChildEnd, cause: EndCause) -> ProcessEnd {
    match (end, cause) {
        // Refused at its gate, which is no fault of what was to be started.
        (ChildEnd::NotStarted { .. }, EndCause::ContactLost) => ProcessEnd::ContactLost,
        (ChildEnd::NotStarted { reason }, _) => ProcessEnd::NotStarted { reason },
        (_, EndCause::OwnTimeout { limit_ms }) => {
            ProcessEnd::OwnTimeout { limit: Duration::from_millis(limit_ms) }
        }
        (_, EndCause::IdleTimeout { limit_ms }) => {
            ProcessEnd::IdleTimeout { limit: Duration::from_millis(limit_ms) }
        }
        (_, EndCause::ContactLost) => ProcessEnd::ContactLost,
        (ChildEnd::Exited { code }, EndCause::Itself | EndCause::Asked) => ProcessEnd::ExitCode(code),
        (ChildEnd::Signalled { signal }, EndCause::Itself | EndCause::Asked) => ProcessEnd::Signal(signal),
    }
}
