//! Bytes at the port: noise, what other protocols say, and connections of HTTP/2 whose frames are nearly right. Neighbours:
//! `mutation` changes them, `target` is who reads them.

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use tenure_testkit::PREFACE;

use crate::mutation::mutate;

/// Frames of one connection, at most.
const FRAMES_MAX: usize = 40;
/// The kinds of frames, and one that is none.
const KINDS: u8 = 11;

/// A case: from the corpus, of frames, or of noise; and changed, but for one in eight.
pub(crate) fn make_bytes(random: &mut StdRng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut case = match random.random_range(0..4) {
        0 => corpus.choose(random).cloned().unwrap_or_default(),
        1 => make_noise(random),
        _ => make_frames(random),
    };
    if !random.random_ratio(1, 8) {
        mutate(random, &mut case, corpus);
    }
    case
}

fn make_noise(random: &mut StdRng) -> Vec<u8> {
    (0..random.random_range(0..2_000)).map(|_| random.random()).collect()
}

fn make_frames(random: &mut StdRng) -> Vec<u8> {
    let mut case = PREFACE.to_vec();
    case.extend(frame(4, 0, 0, &[]));
    for _ in 0..random.random_range(0..FRAMES_MAX) {
        let stream = 2 * random.random_range(0..8_u32) + 1;
        let made = match random.random_range(0..6) {
            0 => frame(random.random_range(0..KINDS), random.random(), stream, &make_payload(random)),
            1 => frame(8, 0, random.random_range(0..3), &random.random::<u32>().to_be_bytes()),
            2 => frame(3, 0, stream, &random.random_range(0..14_u32).to_be_bytes()),
            3 => frame(0, random.random_range(0..2), stream, &make_payload(random)),
            4 => frame(4, 0, 0, &make_setting(random)),
            _ => frame(1, random.random_range(4..6), stream, &call_headers(random)),
        };
        case.extend(made);
    }
    case
}

fn make_payload(random: &mut StdRng) -> Vec<u8> {
    let length = *[0, 1, 4, 5, 8, 100, 16_384].choose(random).unwrap_or(&0);
    let filling: u8 = random.random();
    let mut payload = vec![filling; length];
    // The head of a message, so that what follows is read as one.
    for (byte, head) in payload.iter_mut().zip([0, 0, 0, random.random_range(0..2), random.random()]) {
        *byte = head;
    }
    payload
}

fn make_setting(random: &mut StdRng) -> Vec<u8> {
    let mut setting = random.random_range(0..8_u16).to_be_bytes().to_vec();
    setting.extend(random.random::<u32>().to_be_bytes());
    setting
}

/// The headers of a call, as HPACK has them where nothing is compressed.
fn call_headers(random: &mut StdRng) -> Vec<u8> {
    let paths = ["/tenure.v1.JobService/ListJobs", "/tenure.v1.WorkerService/Attach", "/", "*"];
    let path = paths.choose(random).unwrap_or(&"/");
    let mut block = vec![0x83, 0x86, 0x41, 1, b'a', 0x44, u8::try_from(path.len()).unwrap_or(0)];
    block.extend(path.as_bytes());
    block.extend([0x5f, 16]);
    block.extend(b"application/grpc");
    block
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}
