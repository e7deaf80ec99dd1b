//! Dynamic loss scaling, as `torch.amp.GradScaler` does it: the loss is multiplied by a power of two, so that small
//! gradients do not vanish in float16.

use candle_core::Result;
use nn::Carrier;

/// The first scale.
const INITIAL: f64 = 65536.0;
/// Factor of the scale after [`GROWTH_INTERVAL`] steps without an overflow.
const GROWTH: f64 = 2.0;
/// Factor of the scale after an overflow.
const BACKOFF: f64 = 0.5;
/// Consecutive steps before the scale grows.
const GROWTH_INTERVAL: usize = 2000;

/// The scale of the loss from step to step.
#[derive(Debug)]
pub(super) struct LossScaler {
    scale: f64,
    /// Steps since the last change of the scale.
    steps: usize,
}

impl LossScaler {
    pub(super) fn new() -> Self {
        Self {
            scale: INITIAL,
            steps: 0,
        }
    }

    /// Factor of the loss in the next step.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// Saves or restores it.
    pub(super) fn carry(&mut self, carrier: &mut dyn Carrier) -> Result<()> {
        carrier.number(&mut self.scale)?;
        carrier.count(&mut self.steps)
    }

    /// Takes a step into account: true if its gradients were not finite.
    pub(super) fn update(&mut self, overflowed: bool) {
        self.steps += 1;
        if overflowed {
            self.scale *= BACKOFF;
            self.steps = 0;
        } else if self.steps == GROWTH_INTERVAL {
            self.scale *= GROWTH;
            self.steps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_halves_at_an_overflow_and_doubles_after_two_thousand_steps() {
        let mut scaler = LossScaler::new();
        scaler.update(true);
        assert_eq!(scaler.scale(), 32768.0);
        for _ in 0..1999 {
            scaler.update(false);
        }
        assert_eq!(scaler.scale(), 32768.0);
        scaler.update(false);
        assert_eq!(scaler.scale(), 65536.0);
        (0..1999).for_each(|_| scaler.update(false));
        scaler.update(true);
        (0..1999).for_each(|_| scaler.update(false));
        assert_eq!(scaler.scale(), 32768.0, "an overflow starts the count again");
    }
}
