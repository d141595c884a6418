//! Medians and percentiles of samples. Nothing here interpolates: every answer is a sample that was taken.

/// The sample below which this share of all lies; 0 where there are none.
pub(crate) fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place among a few thousand samples"
    )]
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// The sample in the middle; 0 where there are none.
pub(crate) fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_sample_in_whatever_order_they_came() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((median(&samples), percentile(&samples, 0.99)), (51.0, 100.0));
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(median(&[]), 0.0);
    }
}
