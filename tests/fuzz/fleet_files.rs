//! Fleet files: those of the corpus, changed as bytes and as lines, read in this process. Neighbours: the core reads them.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::mpsc,
    thread,
    time::Duration,
};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use tenure_core::{declaration::Declaration, fleet::read_fleet};

use crate::mutation::mutate;

/// A file takes a millisecond; whatever takes so long goes on for ever.
const HANG: Duration = Duration::from_secs(60);
const VALUES: [&str; 14] = [
    "\"\"",
    "0",
    "-1",
    "9223372036854775807",
    "1e400",
    "nan",
    "true",
    "[]",
    "{}",
    "\"99999999999h\"",
    "\"10y\"",
    "\"1e9 GiB\"",
    "1979-05-27",
    "\"\u{1F980}\"",
];

/// A file: lines of the corpus in some order, and changed.
pub(crate) fn make_file(random: &mut StdRng, corpus: &[Vec<u8>]) -> String {
    let text =
        corpus.choose(random).map(|case| String::from_utf8_lossy(case).into_owned()).unwrap_or_default();
    let other =
        corpus.choose(random).map(|case| String::from_utf8_lossy(case).into_owned()).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let spare: Vec<&str> = other.lines().collect();
    for _ in 0..random.random_range(0..4) {
        change_lines(random, &mut lines, &spare);
    }
    let mut bytes = lines.join("\n").into_bytes();
    if random.random_bool(0.6) {
        mutate(random, &mut bytes, corpus);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn change_lines(random: &mut StdRng, lines: &mut Vec<String>, spare: &[&str]) {
    let at = random.random_range(0..=lines.len());
    match random.random_range(0..4) {
        0 if at < lines.len() => drop(lines.remove(at)),
        1 => lines.insert(at, (*spare.choose(random).unwrap_or(&"")).to_owned()),
        2 if at < lines.len() => {
            let key = lines[at].split('=').next().unwrap_or_default().to_owned();
            lines[at] = format!("{key}= {}", VALUES.choose(random).unwrap_or(&"1"));
        }
        _ => lines.push("[".repeat(random.random_range(1..5_000))),
    }
}

/// Reads a file as `tenure apply` does, and what it declares as a coordinator does. What was found, if anything.
pub(crate) fn read_file(text: &str) -> Option<String> {
    let (said, heard) = mpsc::channel();
    let text = text.to_owned();
    let reader = thread::Builder::new().name("reader".to_owned()).spawn(move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| read_whole(&text)));
        // Nobody waits any longer for one that took too long.
        let _ = said.send(outcome.is_err());
    });
    let Ok(_reader) = reader else { return Some("no thread for reading".to_owned()) };
    match heard.recv_timeout(HANG) {
        Ok(false) => None,
        Ok(true) => Some("reading a fleet file panicked".to_owned()),
        Err(_) => {
            Some(format!("reading a fleet file took longer than {} s, or ended its thread", HANG.as_secs()))
        }
    }
}

fn read_whole(text: &str) {
    // A declaration is what a coordinator is sent, so it is read as one too, whatever it is.
    let _ = Declaration::parse(text.as_bytes());
    let Ok(file) = read_fleet(text, |path| Err(format!("{path} is not there"))) else { return };
    for agent in file.agents {
        let read = Declaration::parse(agent.declaration.document());
        assert!(read.is_ok(), "what is declared is read back: {read:?}");
    }
}
