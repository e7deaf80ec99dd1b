//! Factors that are taken out of the weight before training: PiSSA (Meng et al. 2024, arXiv:2404.02948) and OLoRA
//! (Büyükakyüz 2024, arXiv:2406.01775). The weight keeps `W - scale · B A`, so that the layer computes what it did.
//!
//! PiSSA's singular vectors are the leading eigenvectors of the Gram matrix of W's shorter side. The first columns of
//! QR's Q are the first columns of W made orthonormal. Signs may differ from LAPACK's; the product B A does not.

use base::random;
use candle_core::{Result, bail};
use kernels::{
    self, Element, eigen,
    low_rank::{gram_of_columns, gram_of_rows, move_by, sums, times, transposed_times},
};
use memory::Buffer;
use options::InitLoraWeights;
use quant::Builder;
use rand::Rng;
use trace::Category;

use super::low_rank::LowRank;
use crate::{
    convert,
    param::Param,
    tensor::{Tensor, for_format},
    weight::Weight,
};

/// The two factors in float32.
struct Factors {
    /// `[rank, in]`.
    a: Buffer<f32>,
    /// `[out, rank]`.
    b: Buffer<f32>,
}

/// Moves the part of the weight that `init` asks for into the factors.
///
/// # Errors
/// If the rank is more than the weight's rows or columns, or this device cannot change the weight.
pub(super) fn take_out(low_rank: &mut LowRank, weight: &mut Weight, init: InitLoraWeights, seed: u64) -> Result<()> {
    let (rows, cols, rank) = (weight.rows(), weight.cols(), low_rank.rank());
    let most = rows.min(cols);
    let module = low_rank.factors()?.0.name.module;
    if rank > most {
        let init = init.name();
        bail!("init_lora_weights: {init} finds {most} directions in {module}, fewer than the rank {rank}");
    }
    let part = Part {
        rows,
        cols,
        rank,
        scale: low_rank.scale as f32,
        is_pissa: init == InitLoraWeights::Pissa,
        purpose: format!("{} of {}", init.name(), module),
        seed,
    };
    let factors = match weight {
        Weight::Dense(param) if param.value.has_kernels() => for_format!(param.value.dtype(), E => {
            Ok(part.take(param.value.values_mut::<E>()?))
        })?,
        Weight::Dense(param) => {
            let mut host = Buffer::from(param.value.to_vec_f32()?);
            let factors = part.take(host.values_mut());
            let rest = Tensor::on_device(host, (rows, cols), param.value.device())?;
            let rest = rest.to_candle()?.to_dtype(param.value.dtype())?;
            param.set(Tensor::from_candle(rest)?);
            factors
        }
        // As PEFT does for OLoRA: dequantised and quantised again.
        Weight::Quantized { matrix, products } => {
            let mut dense = Buffer::<f32>::unwritten(rows * cols);
            if !memory::is_dry_run() {
                matrix.dequantize(0, dense.values_mut());
                for_format!(*products, E => {
                    kernels::convert::round::<E>(dense.values_mut());
                    Ok(())
                })?;
            }
            let factors = part.take(dense.values_mut());
            let _scope = memory::scope(Category::Parameter);
            let mut builder = Builder::new(matrix.format(), rows, cols);
            let failed = |error| candle_core::Error::Msg(format!("{module}: {error}"));
            if !memory::is_dry_run() {
                builder.push(dense.values()).map_err(failed)?;
            }
            *matrix = builder.finish().map_err(failed)?;
            factors
        }
        Weight::OnDevice { .. } => bail!(
            "init_lora_weights: {} changes quantised weights on the CPU",
            init.name()
        ),
    };
    let (a, b) = low_rank.factors_mut()?;
    store(a, factors.a)?;
    store(b, factors.b)
}

/// Puts a factor in place of its start value.
fn store(param: &mut Param, values: Buffer<f32>) -> Result<()> {
    let _scope = memory::scope(Category::Adapter);
    let (shape, dtype, device) = (param.value.shape(), param.value.dtype(), param.value.device().clone());
    let value = if param.value.has_kernels() {
        convert::into_narrow(Tensor::new(values, shape), dtype)?
    } else {
        let wide = Tensor::on_device(values, shape, &device)?;
        Tensor::from_candle(wide.to_candle()?.to_dtype(dtype)?)?
    };
    param.set(value);
    Ok(())
}

/// The part of a weight `[rows, cols]` that becomes the factors.
struct Part {
    rows: usize,
    cols: usize,
    rank: usize,
    scale: f32,
    is_pissa: bool,
    /// The random start of the eigenvectors is a function of this and the seed.
    purpose: String,
    seed: u64,
}

impl Part {
    /// Takes the part out of the matrix, which has no elements in a dry run.
    fn take<E: Element>(&self, matrix: &mut [E]) -> Factors {
        let factors = match self.is_pissa {
            true => self.singular(matrix),
            false => self.orthogonal(matrix),
        };
        if !memory::is_dry_run() {
            let product = (factors.b.values(), factors.a.values());
            move_by(matrix, self.cols, 1.0, self.scale, product);
        }
        factors
    }

    /// `A = √(S/scale) Uᵀ` and `B = V √(S/scale)` with the leading singular values S of `V S Uᵀ`.
    fn singular<E: Element>(&self, matrix: &[E]) -> Factors {
        let Self { rows, cols, rank, .. } = *self;
        let is_tall = rows >= cols;
        let side = rows.min(cols);
        let mut gram = Buffer::<f64>::zeros(side * side);
        if !memory::is_dry_run() {
            match is_tall {
                true => gram_of_columns(matrix, cols, gram.values_mut()),
                false => gram_of_rows(matrix, cols, gram.values_mut()),
            }
        }
        let mut random = random::stream(self.seed, &self.purpose);
        let start = Buffer::from_fn(eigen::starts(side, rank) * side, |_| random.random_range(-1.0..1.0));
        let vectors = eigen::leading(&gram, side, rank, start);
        drop(gram);
        if is_tall {
            let mut a = self.rows_of(&vectors);
            let mut b = Buffer::<f32>::unwritten(rows * rank);
            if !memory::is_dry_run() {
                times(matrix, cols, a.values(), rank, b.values_mut());
                for (at, value) in self.values(b.values(), |at| at % rank).into_iter().enumerate() {
                    let [near, far] = self.shares(value);
                    a.values_mut()[at * cols..][..cols].iter_mut().for_each(|x| *x *= near);
                    b.values_mut().iter_mut().skip(at).step_by(rank).for_each(|x| *x *= far);
                }
            }
            return Factors { a, b };
        }
        let mut b = self.columns_of(&vectors);
        let mut a = self.times_transposed(matrix, &b);
        if !memory::is_dry_run() {
            for (at, value) in self.values(a.values(), |at| at / cols).into_iter().enumerate() {
                let [near, far] = self.shares(value);
                b.values_mut()
                    .iter_mut()
                    .skip(at)
                    .step_by(rank)
                    .for_each(|x| *x *= near);
                a.values_mut()[at * cols..][..cols].iter_mut().for_each(|x| *x *= far);
            }
        }
        Factors { a, b }
    }

    /// `B = Q`, the first columns of the matrix made orthonormal, and `A = Qᵀ W`, which are the first rows of R.
    fn orthogonal<E: Element>(&self, matrix: &[E]) -> Factors {
        let Self { rows, cols, rank, .. } = *self;
        let mut q = Buffer::<f64>::zeros(rank * rows);
        if !memory::is_dry_run() {
            for (at, value) in q.values_mut().iter_mut().enumerate() {
                *value = f64::from(matrix[at % rows * cols + at / rows].widen());
            }
            eigen::orthonormalise(q.values_mut(), rows);
        }
        let b = self.columns_of(&q);
        drop(q);
        let a = self.times_transposed(matrix, &b);
        Factors { a, b }
    }

    /// `leftᵀ · matrix`, `[rank, cols]`.
    fn times_transposed<E: Element>(&self, matrix: &[E], left: &Buffer<f32>) -> Buffer<f32> {
        let Self { cols, rank, .. } = *self;
        let mut blocks = Buffer::<f32>::zeros(sums(cols, rank));
        let mut out = Buffer::<f32>::unwritten(rank * cols);
        if !memory::is_dry_run() {
            transposed_times(matrix, cols, left.values(), rank, blocks.values_mut(), out.values_mut());
        }
        out
    }

    /// The vectors in float32, one below the other.
    fn rows_of(&self, vectors: &Buffer<f64>) -> Buffer<f32> {
        Buffer::from_fn(vectors.len(), |at| vectors.values()[at] as f32)
    }

    /// The vectors in float32, side by side.
    fn columns_of(&self, vectors: &Buffer<f64>) -> Buffer<f32> {
        let (rank, len) = (self.rank, vectors.len() / self.rank);
        Buffer::from_fn(vectors.len(), |at| vectors.values()[at % rank * len + at / rank] as f32)
    }

    /// The singular values: the lengths of the vectors that the matrix turns singular vectors into.
    fn values(&self, images: &[f32], index: impl Fn(usize) -> usize) -> Vec<f64> {
        let mut squares = vec![0f64; self.rank];
        for (at, value) in images.iter().enumerate() {
            squares[index(at)] += f64::from(*value).powi(2);
        }
        squares.into_iter().map(f64::sqrt).collect()
    }

    /// What a singular vector is multiplied by, and its image.
    fn shares(&self, value: f64) -> [f32; 2] {
        let scale = f64::from(self.scale);
        let far = if value > 0.0 { 1.0 / (value * scale).sqrt() } else { 0.0 };
        [(value / scale).sqrt() as f32, far as f32]
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use quant::Format;

    use super::*;
    use crate::testing::{Values, assert_close, low_rank, param, tensor, uniform, with_plain_ops};

    /// The weight after its part was taken out, and the part.
    fn taken(rows: usize, cols: usize, init: InitLoraWeights) -> (Vec<f32>, Vec<f32>) {
        let mut weight = Weight::Dense(param("w", &uniform("w", &[rows, cols]), false));
        let mut term = low_rank("w", rows, cols, 3, 0.0);
        take_out(&mut term, &mut weight, init, 0).unwrap();
        let (a, b) = term.factors().unwrap();
        let (a, b) = (a.value.to_candle_f32().unwrap(), b.value.to_candle_f32().unwrap());
        let product = (b.matmul(&a).unwrap() * term.scale).unwrap();
        (weight.rows_f32(0..rows).unwrap().elements(), product.elements())
    }

    #[test]
    fn the_weight_and_its_part_are_what_it_was() {
        for (rows, cols) in [(17, 9), (9, 17), (12, 12)] {
            let w = uniform("w", &[rows, cols]).elements();
            for init in [InitLoraWeights::Pissa, InitLoraWeights::Olora] {
                let ours = taken(rows, cols, init);
                let plain = with_plain_ops(|| taken(rows, cols, init));
                let norm = |values: &[f32]| values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
                for (rest, part) in [&ours, &plain] {
                    for ((rest, part), whole) in rest.iter().zip(part).zip(&w) {
                        assert!((rest + part - whole).abs() < 1e-5, "{init:?}");
                    }
                    // PiSSA's are orthogonal. OLoRA's part is scaled by alpha / rank, which is not 1 here.
                    let is_split = (norm(rest) + norm(part) - norm(&w)).abs() < 1e-4 * norm(&w);
                    assert_eq!(is_split, init == InitLoraWeights::Pissa, "{init:?}");
                }
            }
            let [pissa, olora] = [InitLoraWeights::Pissa, InitLoraWeights::Olora].map(|init| taken(rows, cols, init).1);
            let square = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>();
            assert!(square(&pissa) > square(&olora), "no three directions hold more");
        }
    }

    #[test]
    fn olora_takes_its_part_out_of_quantised_weights() {
        for format in [Format::nf4(true), Format::nf4(false), Format::Int8] {
            let w = uniform("w", &[33, 64]);
            let mut builder = Builder::new(format, 33, 64);
            builder.push(&w.elements()).unwrap();
            let mut weight = Weight::Quantized {
                matrix: builder.finish().unwrap(),
                products: DType::F32,
            };
            let before = weight.rows_f32(0..33).unwrap();
            let mut term = low_rank("w", 33, 64, 4, 0.0);
            take_out(&mut term, &mut weight, InitLoraWeights::Olora, 0).unwrap();
            let (a, b) = term.factors().unwrap();
            let (a, b) = (a.value.to_candle_f32().unwrap(), b.value.to_candle_f32().unwrap());
            let product = (b.matmul(&a).unwrap() * term.scale).unwrap();
            let after = (weight.rows_f32(0..33).unwrap() + product).unwrap();
            // But for the rounding of the rest, whose largest numbers lie a quarter apart.
            assert_close(&tensor(&after), &before, 0.25, &format!("{format:?}"));
            let Weight::Quantized { matrix, .. } = &weight else {
                panic!("quantised")
            };
            assert_eq!(matrix.format(), format);
        }
    }

    #[test]
    fn a_rank_beyond_the_weight_is_an_error() {
        let mut weight = Weight::Dense(param("w", &uniform("w", &[2, 9]), false));
        let mut term = low_rank("w", 2, 9, 3, 0.0);
        let error = take_out(&mut term, &mut weight, InitLoraWeights::Pissa, 0).unwrap_err();
        assert!(
            error.to_string().contains("2 directions in w, fewer than the rank 3"),
            "{error}"
        );
    }
}
