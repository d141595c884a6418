//! A guardian without a worker: the test itself holds the other end of its control socket, and says what a worker would
//! say, at the moment that the test is about.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tenure_worker::guardian::BootInstant;

use super::scene::Scene;

pub(crate) struct RawGuardian {
    process: Child,
    socket: UnixStream,
}

impl RawGuardian {
    /// Starts a guardian that finds all these frames together, whatever it does.
    pub(crate) fn start(frames: &[Value]) -> Self {
        let (socket, theirs) = connect(frames);
        Self::start_on(socket, theirs)
    }

    /// The same, and to the guardian its worker is gone already.
    pub(crate) fn start_abandoned(frames: &[Value]) -> Self {
        let (socket, theirs) = connect(frames);
        socket.shutdown(Shutdown::Write).unwrap();
        Self::start_on(socket, theirs)
    }

    fn start_on(socket: UnixStream, theirs: UnixStream) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_tenure-guard"))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, socket }
    }

    /// Reads until the guardian says something of that kind.
    pub(crate) fn await_frame(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.read_frame();
            if frame["kind"] == kind {
                return frame;
            }
        }
    }

    fn read_frame(&mut self) -> Value {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).unwrap();
        let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        self.socket.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for RawGuardian {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.process.wait();
    }
}

/// A control socket in which the frames stand already.
fn connect(frames: &[Value]) -> (UnixStream, UnixStream) {
    let (mut socket, theirs) = UnixStream::pair().unwrap();
    let bytes: Vec<u8> = frames.iter().flat_map(encode_frame).collect();
    socket.write_all(&bytes).unwrap();
    (socket, theirs)
}

fn encode_frame(frame: &Value) -> Vec<u8> {
    let body = serde_json::to_vec(frame).unwrap();
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

/// The first frame of a scene's run.
pub(crate) fn spec_frame(scene: &Scene, script: &str, deadline: BootInstant, margin_ms: u64) -> Value {
    json!({
        "kind": "spec",
        "run_name": scene.spec("").run_name,
        "argv": ["sh", "-c", script, scene.path("child")],
        "env": [["PATH", "/usr/local/bin:/usr/bin:/bin"]],
        "cwd": scene.run_directory.path(),
        "stdin": null,
        "user": null,
        "limits": { "memory_bytes": null, "cpu_cores": null },
        "stop_grace_ms": 300,
        "fencing": scene.fencing,
        "deadline": deadline,
        "margin_ms": margin_ms,
        "run_directory": scene.run_directory.path(),
        "report": null,
    })
}
