//! The stderr of this program while it performs: a thread writes what is passed on to it, so that whoever does not read
//! holds up neither the signals, nor the worker's words, nor the report of how a command ended. A command that writes more
//! than is read waits for room, as it would for any reader; once it has exited nothing is waited for, and what goes beyond
//! the bound is lost here. What is recorded does not come from here.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use tokio::sync::{Notify, oneshot};

/// Of a command that is alive so many bytes wait; then it waits.
const WAITING_BYTES: usize = 256 * 1024;
/// So many bytes wait at most.
const WAITING_MAX_BYTES: usize = 1024 * 1024;

/// Where to pass on what is written to stderr. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Errors {
    tasks: mpsc::Sender<Task>,
    waiting: Arc<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    written: Notify,
}

#[derive(Debug)]
enum Task {
    Write(Vec<u8>),
    /// Say when everything before this was written.
    Tell(oneshot::Sender<()>),
}

impl Errors {
    /// To this program's stderr.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self::write_to(File::from(io::stderr().as_fd().try_clone_to_owned()?)))
    }

    fn write_to(file: File) -> Self {
        let (tasks, taken) = mpsc::channel();
        let waiting = Arc::new(Waiting::default());
        let writing = Arc::clone(&waiting);
        thread::spawn(move || write_tasks(file, &taken, &writing));
        Self { tasks, waiting }
    }

    /// Passes bytes on without waiting.
    pub(super) fn pass(&self, bytes: &[u8]) {
        let waiting = self.waiting.bytes.fetch_add(bytes.len(), Ordering::AcqRel);
        if waiting + bytes.len() > WAITING_MAX_BYTES || self.tasks.send(Task::Write(bytes.to_vec())).is_err()
        {
            self.waiting.bytes.fetch_sub(bytes.len(), Ordering::AcqRel);
        }
    }

    /// Waits until a command that is alive may write more.
    pub(super) async fn wait_for_room(&self) {
        loop {
            let written = self.waiting.written.notified();
            tokio::pin!(written);
            written.as_mut().enable();
            if self.waiting.bytes.load(Ordering::Acquire) <= WAITING_BYTES {
                return;
            }
            written.await;
        }
    }

    /// Waits until everything was written.
    pub(super) async fn wait_until_written(&self) {
        let (tell, told) = oneshot::channel();
        if self.tasks.send(Task::Tell(tell)).is_ok() {
            // An error is the end of the thread, and of everything that it writes.
            let _ = told.await;
        }
    }
}

fn write_tasks(mut file: File, tasks: &mpsc::Receiver<Task>, waiting: &Waiting) {
    for task in tasks {
        match task {
            Task::Write(bytes) => {
                // Where nobody takes it, it is kept for the record all the same.
                let _ = file.write_all(&bytes);
                waiting.bytes.fetch_sub(bytes.len(), Ordering::AcqRel);
                waiting.written.notify_waiters();
            }
            Task::Tell(tell) => drop(tell.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::fd::OwnedFd};

    use super::*;

    fn pipe() -> (File, Errors) {
        let (read, write) = io::pipe().unwrap();
        (File::from(OwnedFd::from(read)), Errors::write_to(File::from(OwnedFd::from(write))))
    }

    #[tokio::test]
    async fn nobody_who_passes_on_waits_for_a_reader_who_does_not_read() {
        let (reader, errors) = pipe();
        errors.pass(b"first ");
        let much = vec![b'x'; WAITING_BYTES];
        for _ in 0..8 {
            errors.pass(&much);
        }
        let waiting = errors.waiting.bytes.load(Ordering::Acquire);
        assert!((WAITING_BYTES + 1..=WAITING_MAX_BYTES).contains(&waiting), "{waiting}");
        tokio::select! {
            biased;
            () = errors.wait_for_room() => panic!("a command that is alive waits"),
            () = std::future::ready(()) => {}
        }
        drop(reader);
        errors.wait_until_written().await;
        errors.wait_for_room().await;
    }

    #[tokio::test]
    async fn what_was_passed_on_is_written_in_its_order() {
        let (mut reader, errors) = pipe();
        errors.pass(b"one\n");
        errors.pass(b"two\n");
        errors.wait_until_written().await;
        drop(errors);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }
}
