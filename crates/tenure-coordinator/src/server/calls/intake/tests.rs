//! Where messages begin and end, in whatever pieces they come, and what is refused on the way.

use tenure_core::limits::{MESSAGE_MAX_BYTES, MESSAGE_WITHOUT_CALLER_MAX_BYTES};

use super::*;

fn message(length: usize) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    bytes.resize(HEAD_BYTES + length, 7);
    bytes
}

#[test]
fn messages_are_found_in_whatever_pieces_they_come() {
    let stream = [message(3), message(0), message(700), message(1)].concat();
    for piece_bytes in [1, 2, 4, 5, 6, 7, 100, stream.len()] {
        let mut cut = Cut::new(MESSAGE_MAX_BYTES);
        let mut whole = 0;
        for piece in stream.chunks(piece_bytes) {
            whole += cut.pass(piece).unwrap();
        }
        assert_eq!((whole, cut.is_between()), (4, true), "in pieces of {piece_bytes}");
    }
}

#[test]
fn a_message_is_not_whole_until_its_last_byte_came() {
    let mut cut = Cut::new(MESSAGE_MAX_BYTES);
    let bytes = message(100);
    assert_eq!(cut.pass(&bytes[..3]).unwrap(), 0);
    assert!(!cut.is_between(), "its head has begun");
    assert_eq!(cut.pass(&bytes[3..104]).unwrap(), 0);
    assert_eq!(cut.begun_bytes, 104);
    assert_eq!(cut.pass(&bytes[104..]).unwrap(), 1);
    assert!(cut.is_between());
}

#[test]
fn a_message_is_refused_by_the_length_it_announces() {
    let head =
        |length: usize| message(0).into_iter().take(1).chain(u32::try_from(length).unwrap().to_be_bytes());
    let mut cut = Cut::new(MESSAGE_MAX_BYTES);
    assert_eq!(cut.pass(&head(MESSAGE_MAX_BYTES).collect::<Vec<_>>()).unwrap(), 0);
    let refusal =
        Cut::new(MESSAGE_MAX_BYTES).pass(&head(MESSAGE_MAX_BYTES + 1).collect::<Vec<_>>()).unwrap_err();
    assert_eq!(refusal.reason, Reason::MessageTooLarge);
    // As much as is not counted is taken of whoever calls without a caller, and no more.
    let whole = message(MESSAGE_WITHOUT_CALLER_MAX_BYTES);
    assert_eq!(Cut::new(MESSAGE_WITHOUT_CALLER_MAX_BYTES).pass(&whole).unwrap(), 1);
    let longer = head(MESSAGE_WITHOUT_CALLER_MAX_BYTES + 1).collect::<Vec<_>>();
    assert!(Cut::new(MESSAGE_WITHOUT_CALLER_MAX_BYTES).pass(&longer).is_err());
}

fn share(connection: &Arc<Connection>, all: &Arc<AtomicUsize>) -> Share {
    Share { held: 0, connection: connection.clone(), all: all.clone() }
}

#[tokio::test]
async fn what_has_arrived_is_bounded_for_a_connection_and_given_back_with_the_message() {
    let (connection, all) = (Arc::new(Connection::new()), Arc::default());
    let mut shares: Vec<Share> = Vec::new();
    let refused = loop {
        let mut next = share(&connection, &all);
        let grown = next.grow_to(MESSAGE_MAX_BYTES);
        shares.push(next);
        if let Err(refusal) = grown {
            break refusal;
        }
    };
    assert_eq!(refused.reason, Reason::Overloaded);
    assert!(shares.len() <= ARRIVING_PER_CONNECTION_MAX_BYTES / MESSAGE_MAX_BYTES + 1);
    let mut small = share(&connection, &all);
    small.grow_to(ARRIVING_SMALL_BYTES).expect("a small one is taken whatever the others hold");
    let other = Arc::new(Connection::new());
    share(&other, &all).grow_to(MESSAGE_MAX_BYTES).expect("another connection has room of its own");
    shares.clear();
    assert_eq!(all.load(Ordering::Relaxed), 0);
    share(&connection, &all).grow_to(MESSAGE_MAX_BYTES).unwrap();
}

#[tokio::test]
async fn what_has_arrived_is_bounded_over_all_connections() {
    let all = Arc::default();
    let mut shares = Vec::new();
    let most = ARRIVING_MAX_BYTES / (MESSAGE_MAX_BYTES - ARRIVING_SMALL_BYTES);
    for _ in 0..most {
        let mut next = share(&Arc::new(Connection::new()), &all);
        next.grow_to(MESSAGE_MAX_BYTES).unwrap();
        shares.push(next);
    }
    let mut last = share(&Arc::new(Connection::new()), &all);
    assert_eq!(last.grow_to(MESSAGE_MAX_BYTES).unwrap_err().reason, Reason::Overloaded);
}
