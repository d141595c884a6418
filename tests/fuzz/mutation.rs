//! Changing bytes: what a careless program, a bad line and an attacker would do to them. Neighbours: every kind of case.

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};

/// Numbers at which something often changes.
const EDGES: [u8; 9] = [0, 1, 0x7f, 0x80, 0xfe, 0xff, b'"', b'\n', b'['];
/// Longest run of bytes that is repeated, removed or taken from another case.
const RUN_MAX: usize = 64;
/// Longest that a case grows to.
const CASE_MAX_BYTES: usize = 256 * 1024;

/// Changes a case in one to eight places; with others at hand, also by what stands in them.
pub(crate) fn mutate(random: &mut StdRng, case: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..random.random_range(1..=8) {
        mutate_once(random, case, others);
    }
    case.truncate(CASE_MAX_BYTES);
}

fn mutate_once(random: &mut StdRng, case: &mut Vec<u8>, others: &[Vec<u8>]) {
    let at = random.random_range(0..=case.len());
    let end = (at + random.random_range(1..=RUN_MAX)).min(case.len());
    match random.random_range(0..8) {
        0 => flip_bit(random, case),
        1 => case.insert(at, *EDGES.choose(random).unwrap_or(&0)),
        2 if at < case.len() => case[at] = *EDGES.choose(random).unwrap_or(&0),
        3 => drop(case.drain(at..end)),
        4 => {
            let run = case[at..end].repeat(random.random_range(1..=16));
            case.splice(at..at, run);
        }
        5 => case.truncate(at),
        6 => case.insert(at, random.random()),
        _ => {
            let other = others.choose(random).map_or(&[][..], Vec::as_slice);
            let from = random.random_range(0..=other.len());
            let to = (from + RUN_MAX).min(other.len());
            case.splice(at..end, other[from..to].iter().copied());
        }
    }
}

fn flip_bit(random: &mut StdRng, case: &mut [u8]) {
    if !case.is_empty() {
        let at = random.random_range(0..case.len());
        case[at] ^= 1 << random.random_range(0..8);
    }
}
