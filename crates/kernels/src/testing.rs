//! What the kernels' tests share.

/// Sizes around the vectors' widths, and past a part that a thread computes.
pub(super) const COUNTS: [usize; 10] = [0, 1, 15, 16, 17, 31, 33, 63, 65, super::rows::PART + 17];

/// Values between -4 and 4 without a pattern.
pub(super) fn values(count: usize, seed: u64) -> Vec<f32> {
    units(count, seed).into_iter().map(|value| 4.0 * value).collect()
}

/// Values between -1 and 1 without a pattern.
pub(super) fn units(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// In another format.
pub(super) fn narrowed<E: super::Element>(values: &[f32]) -> Vec<E> {
    values.iter().map(|value| E::narrow(*value)).collect()
}

/// Compares with what was computed in double precision: differences are at most `tolerance` of the larger of 1 and the
/// wanted magnitude, and what is not finite is the same.
pub(super) fn assert_close(got: impl IntoIterator<Item = f32>, want: &[f64], tolerance: f64, what: &str) {
    let got: Vec<f32> = got.into_iter().collect();
    assert_eq!(got.len(), want.len(), "{what}");
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        let got = f64::from(*got);
        let same = got == *want || got.is_nan() && want.is_nan();
        assert!(
            same || (got - want).abs() <= tolerance * want.abs().max(1.0),
            "{what}: {got} against {want} at {index}"
        );
    }
}
