//! The share of a model that is trained.

/// Trained weights over all weights, as PEFT's `print_trainable_parameters` counts them: adapters, and the copy that it
/// makes of a trained head, come on top of the base model. `None` for a model without weights.
pub fn trainable_share(rank: u64, parameter_count: f64, trainable_count: f64) -> Option<f64> {
    let all = all_parameters(rank, parameter_count, trainable_count);
    (all > 0.0).then(|| trainable_count / all)
}

/// All weights of the trained model: those of the base model, and of its adapters if it has any.
pub fn all_parameters(rank: u64, parameter_count: f64, trainable_count: f64) -> f64 {
    match rank {
        0 => parameter_count,
        _ => parameter_count + trainable_count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PEFT's README says of mt0-large with rank 8: "trainable params: 2359296 || all params: 1231940608 || trainable%:
    /// 0.19151053100118282".
    #[test]
    fn the_share_is_that_of_peft() {
        let (all, trainable) = (1_231_940_608.0, 2_359_296.0);
        let share = trainable_share(8, all - trainable, trainable).unwrap();
        assert!((100.0 * share - 0.191_510_531_001_182_82).abs() < 1e-12, "{share}");
        assert_eq!(trainable_share(0, 1e6, 1e6), Some(1.0));
        assert_eq!(trainable_share(0, 0.0, 0.0), None);
    }
}
