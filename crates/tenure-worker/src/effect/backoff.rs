//! The pauses before an effect is performed again: doubling, and jittered from what is performed alone, so that the same
//! effect waits equally long wherever it is tried, and different ones do not meet.

use std::time::Duration;

use tenure_core::{
    effect::EffectKey,
    id::{Digest, JobId},
    limits::{EFFECT_RETRY_FIRST, EFFECT_RETRY_MAX},
};

/// The pause after so many executions (from 1) by one caller: between half of the step and all of it.
pub(super) fn pause_after(executions: u32, job: JobId, key: &EffectKey, attempt: u32) -> Duration {
    let doublings = executions.saturating_sub(1).min(16);
    let step = EFFECT_RETRY_FIRST.saturating_mul(1 << doublings).min(EFFECT_RETRY_MAX);
    let named = format!("{job}/{attempt}/{executions}/{key}");
    let drawn = Digest::of(named.as_bytes()).0[0];
    step / 2 + step / 2 * u32::from(drawn) / 255
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factory::run_ref;

    #[test]
    fn pauses_double_to_their_bound_and_are_the_same_each_time() {
        let key: EffectKey = "mail/1".parse().unwrap();
        let pause = |executions| pause_after(executions, run_ref(1).job, &key, 1);
        for (executions, step_ms) in [(1, 100), (2, 200), (3, 400), (8, 10_000), (u32::MAX, 10_000)] {
            let step = Duration::from_millis(step_ms);
            assert!((step / 2..=step).contains(&pause(executions)), "{executions}: {:?}", pause(executions));
            assert_eq!(pause(executions), pause(executions));
        }
    }

    #[test]
    fn different_effects_do_not_wait_equally_long() {
        let pauses: std::collections::BTreeSet<Duration> = (0..20)
            .map(|number| pause_after(1, run_ref(1).job, &format!("k{number}").parse().unwrap(), 1))
            .collect();
        assert!(pauses.len() > 5, "{pauses:?}");
    }
}
