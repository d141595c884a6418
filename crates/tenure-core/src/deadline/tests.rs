//! The rules of the deadline, and properties that hold for any instants.

use proptest::prelude::*;

use super::*;
use crate::factory::{second, start};

fn ceiling(ceiling_s: u64) -> Deadline {
    Deadline::from_setting(start(), DeadlineSetting::CeilingS(ceiling_s))
}

#[test]
fn elapsed_below_the_ceiling_admits_and_at_it_denies_with_both_numbers() {
    let deadline = ceiling(60);
    let just_before = second(60) - SignedDuration::from_micros(1);
    assert_eq!(deadline.admit(just_before), Ok(()));
    let denied = deadline.admit(second(60)).unwrap_err();
    assert_eq!(denied, DeadlineReached { elapsed_s: 60, ceiling_s: 60 });
    assert_eq!(
        denied.to_string(),
        "the session's deadline is reached: 60 s have passed, and its ceiling is 60 s"
    );
}

#[test]
fn a_ceiling_of_zero_denies_the_first_admission_and_none_always_admits() {
    assert_eq!(ceiling(0).admit(start()), Err(DeadlineReached { elapsed_s: 0, ceiling_s: 0 }));
    let none = Deadline::from_setting(start(), DeadlineSetting::None);
    assert_eq!(none.admit(Timestamp::MAX), Ok(()));
    assert_eq!((none.remaining(start()), none.remaining_s(start())), (None, None));
}

#[test]
fn an_admitted_round_never_starts_with_zero_seconds() {
    let deadline = ceiling(60);
    assert_eq!(deadline.remaining_s(second(60) - SignedDuration::from_micros(1)), Some(1));
    assert_eq!(deadline.remaining_s(second(60)), Some(0));
    assert_eq!(deadline.remaining_s(second(61)), Some(0));
}

#[test]
fn a_rounds_own_timeout_is_clamped_by_what_remains() {
    let s = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(clamp(None, s(10)), s(10));
    assert_eq!(clamp(s(1_800), s(10)), s(10));
    assert_eq!(clamp(s(60), s(3_000)), s(60));
    assert_eq!(clamp(s(60), None), s(60));
    assert_eq!(clamp(None, None), None);
}

#[test]
fn durations_of_checks_saturate() {
    assert_eq!(duration_ms(Duration::from_micros(1_999)), 1);
    assert_eq!(duration_ms(Duration::MAX), u64::MAX);
}

#[test]
fn a_ceiling_beyond_the_end_of_time_is_the_end_of_time() {
    assert_eq!(ceiling(u64::MAX).deadline_at(), Some(Timestamp::MAX));
    assert_eq!(ceiling(u64::MAX).admit(second(1_000_000)), Ok(()));
}

fn any_instant() -> impl Strategy<Value = Timestamp> {
    let (least, most) = (Timestamp::MIN.as_microsecond(), Timestamp::MAX.as_microsecond());
    prop_oneof![
        (least..most),
        Just(start().as_microsecond()),
        (0..2_000_000_000i64).prop_map(|offset| start().as_microsecond() + offset),
    ]
    .prop_map(|us| Timestamp::from_microsecond(us).unwrap())
}

proptest! {
    #[test]
    fn admission_and_what_remains_agree(started in any_instant(), at in any_instant(), now in any_instant()) {
        let deadline = Deadline::new(started, Some(at));
        let remaining = deadline.remaining(now).unwrap();
        prop_assert_eq!(deadline.admit(now).is_ok(), remaining > Duration::ZERO);
        prop_assert_eq!(deadline.remaining_s(now).unwrap() == 0, remaining == Duration::ZERO);
        prop_assert!(deadline.remaining_s(now).unwrap() >= remaining.as_secs());
        prop_assert!(remaining <= deadline.ceiling().unwrap());
    }

    #[test]
    fn what_was_denied_is_never_admitted_later(started in any_instant(), at in any_instant(), now in any_instant(), later in any_instant()) {
        let deadline = Deadline::new(started, Some(at));
        prop_assert!(deadline.admit(now).is_ok() || later < now || deadline.admit(later).is_err());
        prop_assert!(later < now || deadline.remaining(later) <= deadline.remaining(now));
    }

    #[test]
    fn a_clamped_timeout_is_the_smaller_one(own in 0..u64::MAX, remaining in 0..u64::MAX) {
        let clamped = clamp(Some(Duration::from_micros(own)), Some(Duration::from_micros(remaining)));
        prop_assert_eq!(clamped, Some(Duration::from_micros(own.min(remaining))));
    }

    #[test]
    fn adding_and_measuring_agree(at in any_instant(), span_us in 0..4_000_000_000_000u64) {
        let span = Duration::from_micros(span_us);
        let later = add(at, span);
        prop_assert!(later == Timestamp::MAX || between(at, later) == span);
        prop_assert_eq!(between(later, at), Duration::ZERO);
    }
}
