//! Rotary position embedding (Su et al. 2021, arXiv:2104.09864), halves rotated as Hugging Face's Llama does it, with
//! the frequency scaling of Llama 3, LongRoPE and YaRN (transformers, `modeling_rope_utils._compute_llama3_parameters`,
//! `_compute_longrope_parameters` and `_compute_yarn_parameters`). A part of each head may be rotated alone, as Phi 3 does.

use arch::{Llama3Scaling, LongRopeScaling, RopeScaling, YarnScaling};
use candle_core::{Device, Result};
use kernels::rope::{self, Heads};
use memory::Buffer;

use super::tensor::{Tensor, for_format};

/// The rotation of queries and keys.
#[derive(Debug)]
pub struct Rope {
    table: Table,
    /// LongRoPE's table for sequences of at most its rows, in a model that sees longer ones, too.
    short: Option<Table>,
}

/// The angles' cosines and sines, `[positions, rotary_dim / 2]`, float32.
#[derive(Debug)]
struct Table {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// Tables for sequences of up to `positions`, with heads of the width `head_dim`, of which an even number of
    /// dimensions is rotated.
    ///
    /// LongRoPE has other frequencies for long sequences. The longest of a micro-batch decides, padding included, as in
    /// transformers (`modeling_rope_utils.longrope_frequency_update`).
    pub fn new(rope: &arch::Rope, head_dim: usize, positions: usize, device: &Device) -> Result<Self> {
        let table = |positions| Table::new(rope, head_dim, positions, device);
        let short = match &rope.scaling {
            Some(RopeScaling::LongRope(scaling)) if scaling.is_long(positions) => {
                Some(table(scaling.original_max_position_embeddings)?)
            }
            _ => None,
        };
        Ok(Self {
            table: table(positions)?,
            short,
        })
    }

    /// Dimensions of a head that are rotated.
    pub fn rotary_dim(&self) -> usize {
        2 * self.table.cos.cols()
    }

    /// The table of sequences of `len` tokens.
    fn table(&self, len: usize) -> &Table {
        let short = self.short.as_ref().filter(|short| len <= short.cos.rows());
        short.unwrap_or(&self.table)
    }

    /// Rotates heads `[batch · len, heads · head_dim]` in their dtype, on the CPU in their memory.
    pub fn forward(&self, x: Tensor, shape: Heads) -> Result<Tensor> {
        self.rotate(x, shape, 1.0)
    }

    /// The transpose of `forward`, which rotates back: the gradient of the input from that of the output.
    pub fn backward(&self, dy: Tensor, shape: Heads) -> Result<Tensor> {
        self.rotate(dy, shape, -1.0)
    }

    /// The cosines and sines for these sequences.
    pub(super) fn angles(&self, shape: Heads) -> Result<(&[f32], &[f32])> {
        let table = self.table(shape.sequences.longest());
        Ok((table.cos.values::<f32>()?, table.sin.values::<f32>()?))
    }

    fn rotate(&self, mut x: Tensor, shape: Heads, direction: f32) -> Result<Tensor> {
        if !x.has_kernels() {
            let rotated = self.rotate_plain(&x, shape, f64::from(direction))?;
            return Tensor::from_candle(rotated.to_dtype(x.dtype())?);
        }
        if !memory::is_dry_run() {
            let (cos, sin) = self.angles(shape)?;
            for_format!(x.dtype(), E => {
                rope::rotate_in_place(x.values_mut::<E>()?, cos, sin, shape, direction);
                Ok(())
            })?;
        }
        Ok(x)
    }

    /// The rotated `x` in float32, by candle's ops.
    fn rotate_plain(&self, x: &Tensor, shape: Heads, direction: f64) -> Result<candle_core::Tensor> {
        let Heads {
            sequences,
            heads,
            head_dim,
            ..
        } = shape;
        let table = self.table(sequences.longest());
        let half = table.cos.cols();
        let (rows, cols) = (x.rows(), x.cols());
        let x = x.to_candle_f32()?.reshape((rows, heads, head_dim))?;
        let positions: Vec<u32> = sequences.iter().flat_map(|tokens| 0..tokens.len() as u32).collect();
        let positions = candle_core::Tensor::from_vec(positions, rows, x.device())?;
        let angles = |of: &Tensor| of.to_candle()?.index_select(&positions, 0)?.unsqueeze(1);
        let (cos, sin) = (angles(&table.cos)?, (angles(&table.sin)? * direction)?);
        let (first, second) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
        let rotated_first = (first.broadcast_mul(&cos)? - second.broadcast_mul(&sin)?)?;
        let rotated_second = (second.broadcast_mul(&cos)? + first.broadcast_mul(&sin)?)?;
        let mut parts = vec![rotated_first, rotated_second];
        if 2 * half < head_dim {
            parts.push(x.narrow(2, 2 * half, head_dim - 2 * half)?);
        }
        candle_core::Tensor::cat(&parts, 2)?.reshape((rows, cols))
    }
}

impl Table {
    /// LongRoPE's factors are those for sequences of `positions`.
    fn new(rope: &arch::Rope, head_dim: usize, positions: usize, device: &Device) -> Result<Self> {
        let frequencies = inverse_frequencies(rope, head_dim, positions)?;
        let factor = match &rope.scaling {
            Some(
                RopeScaling::LongRope(LongRopeScaling { attention_factor, .. })
                | RopeScaling::Yarn(YarnScaling { attention_factor, .. }),
            ) => *attention_factor as f32,
            _ => 1.0,
        };
        let table = |of: fn(f32) -> f32| {
            let cols = frequencies.len();
            let angle = |at: usize| (at / cols) as f32 * frequencies[at % cols];
            let values = Buffer::from_fn(positions * cols, |at| of(angle(at)) * factor);
            Tensor::on_device(values, (positions, cols), device)
        };
        Ok(Self {
            cos: table(f32::cos)?,
            sin: table(f32::sin)?,
        })
    }
}

/// `theta^(-2i / rotary_dim)`, scaled if the configuration says so.
fn inverse_frequencies(rope: &arch::Rope, head_dim: usize, positions: usize) -> Result<Vec<f32>> {
    let rotary_dim = rope.rotary_dim(head_dim);
    let exponents = (0..rotary_dim / 2).map(|i| 2.0 * i as f64 / rotary_dim as f64);
    let frequencies = exponents.map(|exponent| 1.0 / rope.theta.powf(exponent));
    Ok(match &rope.scaling {
        // No sequence here is longer than the model's positions.
        None | Some(RopeScaling::Dynamic) => frequencies.map(|frequency| frequency as f32).collect(),
        Some(RopeScaling::Llama3(scaling)) => frequencies.map(|frequency| llama3(frequency, scaling) as f32).collect(),
        Some(RopeScaling::LongRope(scaling)) => frequencies
            .zip(scaling.factors(positions))
            .map(|(frequency, factor)| (frequency / factor) as f32)
            .collect(),
        Some(RopeScaling::Yarn(scaling)) => frequencies
            .zip(scaling.ramp(rope.theta, rotary_dim))
            .map(|(frequency, ramp)| (frequency * (1.0 - ramp) + frequency / scaling.factor * ramp) as f32)
            .collect(),
        Some(RopeScaling::Linear(factor)) => frequencies.map(|frequency| (frequency / factor) as f32).collect(),
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
    use kernels::Sequences;

    use super::*;
    use crate::testing::{assert_close, dot, elements, tensor, tiny, uniform, with_plain_ops};

    fn rope(len: usize) -> Rope {
        Rope::new(&tiny().rope, 6, len, &Device::Cpu).unwrap()
    }

    /// Rotates 6 dimensions of 8 by stretched frequencies.
    fn partial(len: usize) -> Rope {
        Rope::new(&long(), 8, len, &Device::Cpu).unwrap()
    }

    fn heads_of<'a>(rope: &Rope, sequences: &'a Sequences, heads: usize, head_dim: usize) -> Heads<'a> {
        Heads {
            sequences,
            heads,
            head_dim,
            rotary_dim: rope.rotary_dim(),
        }
    }

    fn long() -> arch::Rope {
        arch::Rope {
            scaling: Some(RopeScaling::LongRope(LongRopeScaling {
                short_factor: vec![1.0, 1.5, 2.0],
                long_factor: vec![4.0, 8.0, 16.0],
                original_max_position_embeddings: 20,
                attention_factor: 1.25,
            })),
            partial_factor: 0.75,
            ..tiny().rope
        }
    }

    #[test]
    fn kernel_and_plain_ops_agree() {
        for (batch, len, heads) in [(1, 1, 1), (2, 17, 3), (3, 33, 5)] {
            for (head_dim, rope) in [(6, rope(len + 2)), (8, partial(len + 2))] {
                // Samples of one length, and a shorter one.
                let sequences = Sequences::of(std::iter::repeat_n(len, batch).chain([1 + len / 2]));
                let x = uniform("x", &[sequences.tokens(), heads * head_dim]);
                let shape = heads_of(&rope, &sequences, heads, head_dim);
                let forward = || rope.forward(tensor(&x), shape).unwrap();
                assert_close(&forward(), &with_plain_ops(forward), 1e-6, "forward");
                let backward = || rope.backward(tensor(&x), shape).unwrap();
                assert_close(&backward(), &with_plain_ops(backward), 1e-6, "backward");
            }
        }
    }

    #[test]
    fn backward_is_the_transpose_of_forward() {
        for (head_dim, rope) in [(6, rope(9)), (8, partial(9))] {
            let (x, dy) = (uniform("x", &[9, 2 * head_dim]), uniform("dy", &[9, 2 * head_dim]));
            let sequences = Sequences::of([5, 4]);
            let shape = heads_of(&rope, &sequences, 2, head_dim);
            let y = rope.forward(tensor(&x), shape).unwrap();
            let dx = rope.backward(tensor(&dy), shape).unwrap();
            assert!((dot(&y, &dy) - dot(&x, &dx)).abs() < 1e-5);
        }
    }

    /// As `modeling_rope_utils._compute_dynamic_ntk_parameters` of transformers 5.24, up to the model's positions.
    #[test]
    fn dynamic_scaling_is_none_within_the_positions() {
        let rope = |scaling| arch::Rope {
            theta: 10_000.0,
            scaling,
            partial_factor: 1.0,
        };
        let of = |scaling| inverse_frequencies(&rope(scaling), 32, 9).unwrap();
        assert_eq!(of(Some(RopeScaling::Dynamic)), of(None));
        assert_ne!(of(Some(RopeScaling::Linear(2.0))), of(None));
    }

    /// Against `ROPE_INIT_FUNCTIONS["yarn"]` of transformers 5.24, with 32 rotated dimensions and a base of 10,000.
    #[test]
    fn yarn_is_that_of_transformers() {
        let scaling = YarnScaling {
            factor: 8.0,
            beta_fast: 8.0,
            beta_slow: 2.0,
            original_max_position_embeddings: 256,
            truncate: false,
            attention_factor: 1.25,
        };
        let rope = |scaling| arch::Rope {
            theta: 10_000.0,
            scaling: Some(RopeScaling::Yarn(scaling)),
            partial_factor: 1.0,
        };
        let check = |scaling: YarnScaling, want: &[(usize, f32)]| {
            let frequencies = inverse_frequencies(&rope(scaling), 32, 9).unwrap();
            for &(pair, want) in want {
                assert!(
                    (frequencies[pair] / want - 1.0).abs() < 1e-6,
                    "{pair}: {}, {want}",
                    frequencies[pair]
                );
            }
        };
        let want = [
            (0, 1.0),
            (2, 0.316_227_76),
            (3, 0.166_707_07),
            (4, 0.057_412_69),
            (5, 0.011_853_65),
            (6, 0.003_952_847),
            (15, 2.222_849_3e-5),
        ];
        check(scaling, &want);
        let truncated = YarnScaling {
            factor: 4.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_max_position_embeddings: 64,
            truncate: true,
            ..scaling
        };
        let want = [
            (0, 1.0),
            (1, 0.477_990_12),
            (2, 0.221_359_43),
            (4, 0.04),
            (5, 0.014_058_532),
            (15, 4.445_698_5e-5),
        ];
        check(truncated, &want);
        let table = Table::new(&rope(scaling), 32, 9, &Device::Cpu).unwrap();
        assert!((elements(&table.cos)[0] - 1.25).abs() < 1e-6);
    }

    /// Against the definition, in double precision.
    #[test]
    fn long_sequences_have_factors_of_their_own() {
        let [short, long] = [[1.0, 1.5, 2.0], [4.0, 8.0, 16.0]];
        // A model that sees up to 33 positions has both tables; the length of a micro-batch chooses.
        for (positions, len, rows, factors) in [(20, 20, 20, short), (33, 20, 20, short), (33, 21, 33, long)] {
            let rope = partial(positions);
            let table = rope.table(len);
            let (cos, sin) = (elements(&table.cos), elements(&table.sin));
            assert_eq!(table.cos.dims(), [rows, 3]);
            for (position, pair) in [(0, 0), (7, 1), (13, 0), (rows - 1, 2)] {
                let frequency = 10_000f64.powf(-(pair as f64) / 3.0) / factors[pair];
                let (want_sin, want_cos) = (position as f64 * frequency).sin_cos();
                let at = position * 3 + pair;
                for (got, want) in [(cos[at], want_cos), (sin[at], want_sin)] {
                    assert!(
                        (f64::from(got) - 1.25 * want).abs() < 1e-5,
                        "{positions}, {position}, {pair}"
                    );
                }
            }
        }
    }
}
