//! The arithmetic of terms at its edges.

use super::*;
use crate::factory::second;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_margin_is_a_tenth_of_the_term_and_half_a_second_at_least() {
    assert_eq!(margin(s(30)), s(3));
    assert_eq!(margin(s(300)), s(30));
    assert_eq!(margin(s(5)), Duration::from_millis(500));
    assert_eq!(margin(s(1)), Duration::from_millis(500));
}

#[test]
fn a_worker_stops_one_margin_before_the_database_would_say_so_and_asks_one_margin_earlier() {
    assert_eq!((ask_instant(s(100), s(30)), local_deadline(s(100), s(30))), (s(124), s(127)));
    assert_eq!(renew_interval(s(30)), s(10));
}

#[test]
fn answers_are_the_databases_time_and_always_rise() {
    let us = u64::try_from(second(1).as_microsecond()).unwrap();
    assert_eq!(next_answer(second(1), 0), us);
    assert_eq!(next_answer(second(1), us), us + 1);
    assert_eq!(next_answer(second(1), us + 7), us + 8);
    assert_eq!(next_answer(Timestamp::MIN, 0), 1);
}

#[test]
fn a_renewal_is_deaf_only_where_its_echo_is_older_than_one_ttl() {
    let echo = next_answer(second(0), 0);
    assert!(!is_deaf(second(30), echo, s(30)));
    assert!(is_deaf(second(30) + jiff::SignedDuration::from_micros(1), echo, s(30)));
    assert!(!is_deaf(second(0), echo + 5_000_000, s(30)));
}

#[test]
fn a_term_lives_from_five_seconds_to_five_minutes() {
    for good in [5, 30, 300] {
        assert_eq!(check_ttl(s(good)), Ok(s(good)));
    }
    for bad in [Duration::ZERO, Duration::from_millis(4_999), s(301)] {
        let refusal = check_ttl(bad).unwrap_err();
        assert_eq!((refusal.reason, &*refusal.details["field"]), (Reason::InvalidArgument, "ttl"));
    }
}
