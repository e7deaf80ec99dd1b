//! The optimizers by their names in specs, one line each.

use candle_core::Result;
use options::{Optimizer as Name, OptimizerOptions};

use super::{
    adafactor::AdafactorRule,
    adamw::AdamwRule,
    adamw_8bit::Adamw8bitRule,
    each_param::{EachParam, ParamRule},
    elementwise::Elementwise,
    galore::Galore,
    lion::LionRule,
    low_rank::LowRankAdam,
    optimizer::Optimizer,
    rsvd::Rsvd,
    sgd::SgdRule,
};

/// Makes one optimizer.
type Build = fn(&OptimizerOptions) -> Box<dyn Optimizer>;

/// Each optimizer of our trainer with the function that makes it.
const BUILT: &[(Name, Build)] = &[
    (Name::Adamw, |options| {
        each(Elementwise(AdamwRule(options.adamw)), options)
    }),
    (Name::Galore, |options| {
        Box::new(LowRankAdam::new(
            Galore::new(options.low_rank),
            options.adamw,
            options.low_rank,
            options.is_offloaded,
        ))
    }),
    (Name::Rsvd, |options| {
        Box::new(LowRankAdam::new(
            Rsvd,
            options.adamw,
            options.low_rank,
            options.is_offloaded,
        ))
    }),
    (Name::Lion, |options| {
        each(Elementwise(LionRule(options.adamw)), options)
    }),
    (Name::Sgd, |options| {
        let weight_decay = options.adamw.weight_decay;
        each(Elementwise(SgdRule { weight_decay }), options)
    }),
    (Name::Adafactor, |options| {
        let weight_decay = options.adamw.weight_decay;
        each(AdafactorRule { weight_decay }, options)
    }),
    (Name::Adamw8bit, |options| each(Adamw8bitRule(options.adamw), options)),
];

/// The optimizer of a parameter's rule.
fn each<R: ParamRule + 'static>(rule: R, options: &OptimizerOptions) -> Box<dyn Optimizer> {
    Box::new(EachParam::new(rule, options.is_offloaded))
}

/// Makes the optimizer that the options name.
///
/// # Errors
/// If only the plan of the torch stack has this optimizer.
pub fn new(options: &OptimizerOptions) -> Result<Box<dyn Optimizer>> {
    match BUILT.iter().find(|(name, _)| *name == options.optimizer) {
        Some((_, build)) => Ok(build(options)),
        None => candle_core::bail!("{} is planned, not trained with", options.optimizer.name()),
    }
}

#[cfg(test)]
mod tests {
    use options::Stack;

    use super::*;

    #[test]
    fn the_optimizers_that_are_built_are_those_that_pass_the_checks() {
        let built = BUILT.iter().map(|(name, _)| *name);
        assert!(built.eq(Name::of(Stack::Candle)));
    }
}
