//! Dropout as a function: element `i` of a sample is kept or not by a hash of (seed, module, step, sample, i). Nothing
//! is stored between the passes, and neither the order of computation, the number of threads, recomputation, padding
//! nor how samples are put into micro-batches changes a mask.

use std::fmt::Display;

use base::random;
use candle_core::{DType, Result};
use kernels::dropout::{self, Mask, mix};
use rand_chacha::rand_core::RngCore;

use super::{
    Pass,
    convert::{self, Converted},
    tensor::{Tensor, for_format},
};

/// The dropout of one module.
#[derive(Debug, Clone)]
pub struct Dropout {
    module: u64,
    probability: f64,
}

impl Dropout {
    /// Drops with `probability`, a number in [0, 1), in steps of 2^-24, and scales what is kept by
    /// 1 / (1 - probability).
    pub fn new(seed: u64, module: impl Display, probability: f64) -> Self {
        let module = if probability > 0.0 && !memory::is_dry_run() {
            random::stream(seed, &format!("{module}.dropout")).next_u64()
        } else {
            0
        };
        Self { module, probability }
    }

    /// Whether it ever drops anything.
    pub fn is_active(&self) -> bool {
        self.probability > 0.0
    }

    /// The mask of a sample: its index within the effective batch of the step.
    pub fn mask(&self, step: u64, sample: u64) -> Mask {
        let key = mix(mix(self.module ^ mix(step)) ^ mix(!sample));
        Mask::new(key, self.probability)
    }

    /// True if the pass drops anything here.
    pub fn drops(&self, pass: &Pass) -> bool {
        self.is_active() && pass.dropout.is_some()
    }

    /// The masks of the pass's sequences; none if nothing is dropped.
    pub fn masks(&self, pass: &Pass) -> Option<Vec<Mask>> {
        let at = pass.dropout.as_ref().filter(|_| self.is_active())?;
        Some(at.samples.iter().map(|&sample| self.mask(at.step, sample)).collect())
    }

    /// [`Self::masks`] of inputs with so many features, from the first token on that the pass has of each sample.
    pub(super) fn masks_of(&self, pass: &Pass, features: usize) -> Option<Vec<Mask>> {
        let mut masks = self.masks(pass)?;
        let first_tokens = pass.dropout.iter().flat_map(|dropout| &dropout.first_tokens);
        for (mask, first) in masks.iter_mut().zip(first_tokens) {
            *mask = mask.skip((first * features) as u64);
        }
        Some(masks)
    }

    /// `x` with its dropped elements, of samples of one length.
    pub fn forward(&self, x: Tensor, pass: &Pass) -> Result<Tensor> {
        if self.drops(pass) {
            self.forward_of(&x, pass)
        } else {
            Ok(x)
        }
    }

    /// A copy of `x` with its dropped elements.
    pub fn forward_of(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let masks = self.masks(pass).unwrap_or_default();
        drop_elements(x, &masks, x.dtype())
    }

    /// The gradient of the input, in `dtype`, from that of the output, in float32.
    pub fn backward<'a>(&self, dy: &'a Tensor, dtype: DType, pass: &Pass) -> Result<Converted<'a>> {
        match self.masks(pass) {
            None => convert::narrow(dy, dtype),
            Some(masks) => drop_elements(dy, &masks, dtype).map(Converted::Copy),
        }
    }
}

/// `residual` and `x` with its dropped elements, on the CPU in the memory of `x`.
pub(super) fn add_dropped(mut x: Tensor, residual: &Tensor, masks: &[Mask]) -> Result<Tensor> {
    if !x.has_kernels() {
        let sum = (drop_plain(&x, masks)? + residual.to_candle_f32()?)?;
        return Tensor::from_candle(sum.to_dtype(x.dtype())?);
    }
    if !memory::is_dry_run() {
        for_format!(x.dtype(), E => {
            dropout::add_in_place(x.values_mut::<E>()?, residual.values::<E>()?, masks);
            Ok(())
        })?;
    }
    Ok(x)
}

fn drop_elements(x: &Tensor, masks: &[Mask], dtype: DType) -> Result<Tensor> {
    if !x.has_kernels() {
        return Tensor::from_candle(drop_plain(x, masks)?.to_dtype(dtype)?);
    }
    for_format!(x.dtype(), X => {
        let values = x.values::<X>()?;
        for_format!(dtype, E => Ok(Tensor::written(x.shape(), |out: &mut [E]| dropout::apply(values, masks, out))))
    })
}

/// `x` with its dropped elements in float32, by candle's ops.
fn drop_plain(x: &Tensor, masks: &[Mask]) -> Result<candle_core::Tensor> {
    let x = x.to_candle_f32()?;
    let sample = x.dim(0)? / masks.len().max(1);
    let factors = factors(masks, std::iter::repeat(sample), &x)?;
    x * factors
}

/// The factor of each element of `x` under masks of so many rows each, for candle's ops: `1 / (1 - probability)` or 0.
pub(super) fn factors(
    masks: &[Mask],
    rows: impl IntoIterator<Item = usize>,
    x: &candle_core::Tensor,
) -> Result<candle_core::Tensor> {
    let mut factors = vec![1f32; x.elem_count()];
    let (mut rest, cols) = (&mut factors[..], x.dim(1)?);
    for (mask, rows) in masks.iter().zip(rows) {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(rows * cols);
        mask.fill(0, part);
        rest = after;
    }
    candle_core::Tensor::from_vec(factors, x.shape(), x.device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DropoutPass,
        linear::Projection,
        testing::{assert_close, elements, linear, pass, tensor, uniform, with_plain_ops},
    };

    fn factors(mask: Mask) -> Vec<f32> {
        let mut factors = vec![0.0; 100_000];
        mask.fill(0, &mut factors);
        factors
    }

    #[test]
    fn drops_its_part_and_keeps_the_mean() {
        let factors = factors(Dropout::new(3, "q_proj", 0.1).mask(5, 2));
        let dropped = factors.iter().filter(|&&factor| factor == 0.0).count();
        assert!((9_700..10_300).contains(&dropped), "{dropped}");
        assert!(factors.iter().all(|&factor| factor == 0.0 || factor == 1.0 / 0.9));
    }

    #[test]
    fn masks_of_other_steps_samples_modules_and_seeds_are_independent() {
        let mask = |seed, module, step, sample| factors(Dropout::new(seed, module, 0.5).mask(step, sample));
        let first = mask(0, "q_proj", 1, 2);
        assert_eq!(first, mask(0, "q_proj", 1, 2));
        for other in [
            mask(1, "q_proj", 1, 2),
            mask(0, "k_proj", 1, 2),
            mask(0, "q_proj", 2, 1),
            mask(0, "q_proj", 1, 3),
        ] {
            let equal = first.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!((49_000..51_000).contains(&equal), "{equal}");
        }
    }

    #[test]
    fn a_part_of_the_mask_is_the_mask_of_the_part() {
        let mask = Dropout::new(0, "q_proj", 0.5).mask(0, 0);
        let mut part = [0.0; 100];
        mask.fill(1_000, &mut part);
        assert_eq!(part, factors(mask)[1_000..1_100]);
    }

    #[test]
    fn nothing_is_dropped_at_zero() {
        assert!(
            factors(Dropout::new(0, "q_proj", 0.0).mask(0, 0))
                .iter()
                .all(|&factor| factor == 1.0)
        );
    }

    #[test]
    fn both_passes_and_plain_ops_drop_the_same() {
        let dropout = Dropout::new(0, "dense", 0.4);
        let pass = Pass {
            dropout: Some(DropoutPass {
                step: 2,
                samples: vec![3, 0],
                first_tokens: Vec::new(),
            }),
            ..pass(2, 5)
        };
        let layer = Projection::of(linear("layer", 7, 7, 0, false));
        let (x, residual) = (uniform("x", &[10, 7]), uniform("residual", &[10, 7]));
        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 1e-2)] {
            let (x, residual) = (x.to_dtype(dtype).unwrap(), residual.to_dtype(dtype).unwrap());
            let run = || {
                let y = dropout.forward(tensor(&x), &pass).unwrap();
                let copy = dropout.forward_of(&tensor(&x), &pass).unwrap();
                let onto = layer.forward_dropped(&tensor(&x), Some(&tensor(&residual)), &dropout, &pass);
                let dy = tensor(&x.to_dtype(DType::F32).unwrap());
                let dx = dropout.backward(&dy, dtype, &pass).unwrap().copy().unwrap();
                (y, copy, onto.unwrap(), dx)
            };
            let (kernels, plain) = (run(), with_plain_ops(run));
            assert_close(&kernels.0, &plain.0, 0.0, "forward");
            assert_close(&kernels.1, &kernels.0, 0.0, "forward of a copy");
            assert_close(&kernels.2, &plain.2, tolerance, "onto a residual");
            assert_close(&kernels.3, &plain.3, 0.0, "backward");
            assert_close(&kernels.0, &kernels.3, 0.0, "the transpose is the same");
            let dropped = elements(&kernels.0).iter().filter(|y| **y == 0.0).count();
            assert!((15..42).contains(&dropped), "{dropped} of 70");
            let [y] = layer.forward(&tensor(&x), &pass).unwrap();
            let y = dropout.forward(y, &pass).unwrap().to_candle().unwrap();
            assert_close(
                &kernels.2,
                &(y + residual).unwrap(),
                tolerance,
                "the layer, its dropout, the sum",
            );
        }
        let evaluated = Pass { dropout: None, ..pass };
        let y = dropout.forward(tensor(&x), &evaluated).unwrap();
        assert_close(&y, &x, 0.0, "evaluated");
    }
}
