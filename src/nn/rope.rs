//! Rotary position embedding (Su et al. 2021, arXiv:2104.09864), halves rotated as Hugging Face's Llama does it, with
//! Llama 3's frequency scaling (transformers, `modeling_rope_utils._compute_llama3_parameters`).

use candle_core::{DType, Device, Result, Tensor};

use super::host::{self, for_format, values};
use crate::{
    arch::{self, Llama3Scaling, RopeScaling},
    kernels::rope::{self, Heads},
};

/// The angles' cosines and sines, `[positions, head_dim / 2]`, float32.
#[derive(Debug)]
pub struct Rope {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// Tables for heads of the width `head_dim`, which is even.
    pub fn new(rope: &arch::Rope, head_dim: usize, positions: usize, device: &Device) -> Result<Self> {
        let frequencies = inverse_frequencies(rope, head_dim)?;
        let angles: Vec<f32> = (0..positions)
            .flat_map(|p| frequencies.iter().map(move |f| p as f32 * f))
            .collect();
        let angles = Tensor::from_vec(angles, (positions, frequencies.len()), device)?;
        Ok(Self {
            cos: angles.cos()?,
            sin: angles.sin()?,
        })
    }

    /// Rotates `[batch, len, heads, head_dim]`, in its dtype and, on the CPU, in its memory, which must be nobody else's.
    pub fn forward(&self, x: Tensor) -> Result<Tensor> {
        self.rotate(x, 1.0)
    }

    /// Rotates back: the gradient of the input from that of the output.
    pub fn backward(&self, dy: Tensor) -> Result<Tensor> {
        self.rotate(dy, -1.0)
    }

    fn rotate(&self, x: Tensor, direction: f32) -> Result<Tensor> {
        if !host::has_kernels(x.device()) {
            return self.rotate_plain(&x, f64::from(direction))?.to_dtype(x.dtype());
        }
        let (_, len, heads, head_dim) = x.dims4()?;
        let shape = Heads { len, heads, head_dim };
        let (cos, sin) = (values::<f32>(&self.cos)?, values::<f32>(&self.sin)?);
        for_format!(x.dtype(), E => {
            host::change(&x, |x: &mut [E]| rope::rotate_in_place(x, &cos, &sin, shape, direction))
        })?;
        Ok(x)
    }

    /// The same in float32, by candle's ops.
    fn rotate_plain(&self, x: &Tensor, direction: f64) -> Result<Tensor> {
        let (_, len, _, head_dim) = x.dims4()?;
        let half = head_dim / 2;
        let x = x.to_dtype(DType::F32)?;
        let cos = self.cos.narrow(0, 0, len)?.reshape((1, len, 1, half))?;
        let sin = (self.sin.narrow(0, 0, len)?.reshape((1, len, 1, half))? * direction)?;
        let (first, second) = (x.narrow(3, 0, half)?, x.narrow(3, half, half)?);
        let rotated_first = (first.broadcast_mul(&cos)? - second.broadcast_mul(&sin)?)?;
        let rotated_second = (second.broadcast_mul(&cos)? + first.broadcast_mul(&sin)?)?;
        Tensor::cat(&[rotated_first, rotated_second], 3)
    }
}

/// `theta^(-2i / head_dim)`, scaled by wavelength where the configuration says so.
fn inverse_frequencies(rope: &arch::Rope, head_dim: usize) -> Result<Vec<f32>> {
    let exponents = (0..head_dim / 2).map(|i| 2.0 * i as f64 / head_dim as f64);
    let frequencies = exponents.map(|exponent| 1.0 / rope.theta.powf(exponent));
    Ok(match &rope.scaling {
        None => frequencies.map(|frequency| frequency as f32).collect(),
        Some(RopeScaling::Llama3(scaling)) => frequencies.map(|frequency| llama3(frequency, scaling) as f32).collect(),
        Some(RopeScaling::Other(kind)) => candle_core::bail!("rotary scaling {kind} is not supported"),
    })
}

fn llama3(frequency: f64, scaling: &Llama3Scaling) -> f64 {
    let original = scaling.original_max_position_embeddings as f64;
    let wavelength = 2.0 * std::f64::consts::PI / frequency;
    if wavelength < original / scaling.high_freq_factor {
        frequency
    } else if wavelength > original / scaling.low_freq_factor {
        frequency / scaling.factor
    } else {
        let smooth =
            (original / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
        (1.0 - smooth) * frequency / scaling.factor + smooth * frequency
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, tiny, uniform};

    fn rope(len: usize) -> Rope {
        Rope::new(&tiny().rope, 6, len, &Device::Cpu).unwrap()
    }

    #[test]
    fn kernel_and_plain_ops_agree() {
        for (batch, len, heads) in [(1, 1, 1), (2, 17, 3), (3, 33, 5)] {
            let x = uniform("x", &[batch, len, heads, 6]);
            let rope = rope(len + 2);
            assert_close(
                &rope.forward(x.copy().unwrap()).unwrap(),
                &rope.rotate_plain(&x, 1.0).unwrap(),
                1e-6,
                "forward",
            );
            assert_close(
                &rope.backward(x.copy().unwrap()).unwrap(),
                &rope.rotate_plain(&x, -1.0).unwrap(),
                1e-6,
                "backward",
            );
        }
    }

    #[test]
    fn backward_is_the_transpose_of_forward() {
        let (x, dy) = (uniform("x", &[1, 9, 2, 6]), uniform("dy", &[1, 9, 2, 6]));
        let rope = rope(9);
        let dot = |a: &Tensor, b: &Tensor| (a * b).unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
        let (forward, backward) = (
            dot(&rope.forward(x.copy().unwrap()).unwrap(), &dy),
            dot(&x, &rope.backward(dy.copy().unwrap()).unwrap()),
        );
        assert!((forward - backward).abs() < 1e-5);
    }
}
