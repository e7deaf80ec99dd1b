//! DoRA (Liu et al. 2024, arXiv:2402.09353): the rows of `W + s · B A` keep their directions and get magnitudes `m` of
//! their own. As in PEFT the norms are constants to the gradients, and `m` starts as the norms of W's rows.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use arch::ModuleName;
use candle_core::{DType, Result, Tensor as Candle};
use kernels::{
    self,
    gemm::{
        Dense, Operand, OperandReader, Segment, Term,
        epilogue::{Output, Replace},
        multiply::Multiply,
        product,
    },
    row_norms,
};
use memory::Buffer;
use trace::Category;

use super::{
    change::{Change, Saved},
    interface::{Adapter, OutputScale},
    lora::Product,
    low_rank::LowRank,
};
use crate::{
    convert,
    operand::Stored,
    param::Param,
    tensor::{Tensor, for_format, for_number},
    weight::Weight,
};

/// W + scale · B A, whose rows are then scaled to their magnitudes.
pub(super) struct Directions<'a> {
    product: Product<'a>,
    magnitudes: &'a [f32],
}

impl<'a> Directions<'a> {
    pub(super) fn of(saved: &Saved<'a>) -> Self {
        Self {
            product: Product::of(saved),
            magnitudes: saved.values(options::methods::MAGNITUDE),
        }
    }
}

impl Change for Directions<'_> {
    fn apply(&self, values: &mut [f32], columns: usize, rows: Range<usize>) {
        self.product.apply(values, columns, rows.clone());
        for (row, magnitude) in values.chunks_mut(columns).zip(&self.magnitudes[rows]) {
            let norm = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            let factor = (f64::from(*magnitude) / norm) as f32;
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }
}

/// DoRA's adapter of a linear layer.
#[derive(Debug)]
pub struct Dora {
    low_rank: LowRank,
    /// `[out]`, in the format of the factors.
    magnitude: Param,
    /// Squared norms of the frozen weight's rows: `[out]` for the kernels, else empty.
    squared_norms: Buffer<f32>,
    /// One by the norms of the rows of `W + s · B A`, `[out]`, as they were last computed.
    inverse_norms: RefCell<Tensor>,
    /// False where A and B may have changed since.
    are_norms_current: Cell<bool>,
    /// The format of hidden states.
    hidden: DType,
}

impl Dora {
    /// The adapter of the frozen `weight` before training.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(low_rank: LowRank, module: ModuleName, weight: &Weight, hidden: DType) -> Result<Self> {
        let rows = weight.rows();
        let (squared_norms, magnitude, inverse_norms) = if low_rank.up.param().value.has_kernels() {
            let [mut squared, mut magnitude, inverse_norms] = {
                let _scope = memory::scope(Category::Adapter);
                [(); 3].map(|()| Buffer::<f32>::unwritten(rows))
            };
            if !memory::is_dry_run() {
                row_norms::squared::<f32>(&Stored::weight(weight, 0)?, weight.cols(), squared.values_mut());
                for (magnitude, squared) in magnitude.values_mut().iter_mut().zip(squared.values()) {
                    *magnitude = squared.sqrt();
                }
                for_format!(hidden, E => {
                    kernels::convert::round::<E>(magnitude.values_mut());
                    Ok(())
                })?;
            }
            (squared, Tensor::new(magnitude, rows), Tensor::new(inverse_norms, rows))
        } else {
            let norms = norms_plain(weight, None)?;
            let magnitude = norms.to_dtype(hidden)?.to_dtype(DType::F32)?;
            let inverse_norms = Tensor::from_candle(norms.recip()?)?;
            (Buffer::zeros(0), Tensor::from_candle(magnitude)?, inverse_norms)
        };
        let magnitude = {
            let _scope = memory::scope(Category::Adapter);
            convert::into_narrow(magnitude, low_rank.up.param().value.dtype())?
        };
        let mut magnitude = Param::adapter(module.part(options::methods::MAGNITUDE), magnitude);
        magnitude.lr_ratio = low_rank.up.param().lr_ratio;
        Ok(Self {
            low_rank,
            magnitude,
            squared_norms,
            inverse_norms: RefCell::new(inverse_norms),
            are_norms_current: Cell::new(false),
            hidden,
        })
    }

    /// Computes the norms again, if A and B may have changed.
    fn update_norms(&self, weight: &Weight) -> Result<()> {
        if self.are_norms_current.get() {
            return Ok(());
        }
        let mut inverse_norms = self.inverse_norms.borrow_mut();
        if inverse_norms.has_kernels() {
            let norms = inverse_norms.values_mut::<f32>()?;
            for_number!(self.hidden, P => self.norms::<P>(weight, norms))?;
            if !memory::is_dry_run() {
                norms.iter_mut().for_each(|norm| *norm = 1.0 / *norm);
            }
        } else {
            *inverse_norms = Tensor::from_candle(norms_plain(weight, Some(&self.low_rank))?.recip()?)?;
        }
        self.are_norms_current.set(true);
        Ok(())
    }

    /// The norms of the rows of `W + s · B A`, from the squared norms of W's rows:
    /// `‖Wⱼ + s Bⱼ A‖² = ‖Wⱼ‖² + 2s Bⱼ · (Wⱼ Aᵀ + s/2 · Bⱼ (A Aᵀ))`.
    /// Neither W + s · B A nor a dequantised W is held. The products have W on the right, as a layer's own: A is then a
    /// few rows of inputs.
    fn norms<P: Multiply>(&self, weight: &Weight, norms: &mut [f32]) -> Result<()>
    where
        for<'a> Stored<'a>: OperandReader<P>,
    {
        let (a, b) = self.low_rank.factors()?;
        let (rows, cols, rank) = (weight.rows(), weight.cols(), self.low_rank.rank());
        let scale = self.low_rank.scale as f32;
        let mut inner = Buffer::<f32>::unwritten(rows * rank);
        let mut gram = Buffer::<f32>::unwritten(rank * rank);
        let wide_b = convert::widen(&b.value)?;
        if memory::is_dry_run() {
            return Ok(());
        }
        let (w, a, b_reader) = (
            Stored::weight(weight, 0)?,
            Stored::tensor(&a.value)?,
            Stored::tensor(&b.value)?,
        );
        let one_product = |(left, terms): (usize, Vec<Term<P>>), out: &mut [f32], cols, scale| {
            let out = Output::new(out, cols);
            product(
                left,
                &[Segment {
                    cols,
                    terms,
                    epilogue: &Replace { out, scale },
                }],
            );
        };
        let term = |left, right, depth| Term {
            left: Operand::depth_last(left),
            right: Operand::depth_last(right),
            depth,
        };
        let of_a = (rank, vec![term(&a, &a, cols)]);
        one_product(of_a, gram.values_mut(), rank, scale / 2.0);
        let gram = Dense::new(gram.values(), rank);
        let of_w = (rank, vec![term(&a, &w, cols), term(&gram, &b_reader, rank)]);
        one_product(of_w, inner.values_mut(), rows, 1.0);
        let squared = self.squared_norms.values();
        row_norms::changed(squared, wide_b.values()?, inner.values(), scale, norms);
        Ok(())
    }
}

/// The factor, or in place of 0 one that makes no difference to a sum, so that an output tells what was multiplied.
fn not_zero(factor: f32) -> f32 {
    const SMALLEST: f32 = 1e-30;
    if factor.abs() < SMALLEST { SMALLEST } else { factor }
}

/// The norms of the rows of `W`, or of `W + s · B A`, by candle's ops: `[out]`, float32.
fn norms_plain(weight: &Weight, low_rank: Option<&LowRank>) -> Result<Candle> {
    let parts = weight.panels().map(|rows| {
        let mut panel = weight.rows_f32(rows.clone())?;
        if let Some(low_rank) = low_rank {
            let ((a, b), scale) = (low_rank.factors()?, low_rank.scale);
            let b = b.value.to_candle_f32()?.narrow(0, rows.start, rows.len())?;
            panel = (panel + (b.matmul(&a.value.to_candle_f32()?)? * scale)?)?;
        }
        // A row of zeros gets the factor 0, as by the kernel.
        panel.sqr()?.sum(1)?.maximum(f64::from(f32::MIN_POSITIVE))?.sqrt()
    });
    Candle::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
}

impl Adapter for Dora {
    fn low_rank(&self) -> Option<&LowRank> {
        Some(&self.low_rank)
    }

    fn low_rank_mut(&mut self) -> Option<&mut LowRank> {
        Some(&mut self.low_rank)
    }

    fn output_scale(&self, weight: &Weight) -> Result<Option<Box<OutputScale>>> {
        self.update_norms(weight)?;
        let (magnitude, inverse_norms) = (&self.magnitude.value, self.inverse_norms.borrow());
        let factors = if magnitude.has_kernels() {
            let wide = convert::widen(magnitude)?;
            let (magnitudes, inverse_norms) = (wide.values::<f32>()?, inverse_norms.values::<f32>()?);
            Tensor::written(magnitude.len(), |factors: &mut [f32]| {
                for ((factor, magnitude), inverse) in factors.iter_mut().zip(magnitudes).zip(inverse_norms) {
                    *factor = not_zero(magnitude * inverse);
                }
            })
        } else {
            Tensor::from_candle((magnitude.to_candle_f32()? * inverse_norms.to_candle()?)?)?
        };
        Ok(Some(Box::new(OutputScale {
            factors,
            scales_bias: false,
        })))
    }

    /// True for kernels, whose factors are never 0. Float16 has too few digits for small outputs.
    fn can_undo_output_scale(&self) -> bool {
        self.magnitude.value.has_kernels() && self.hidden != DType::F16
    }

    fn accumulate_output_scale(&mut self, mut gradient: Tensor) -> Result<()> {
        let inverse_norms = self.inverse_norms.get_mut();
        if gradient.has_kernels() {
            let values = gradient.values_mut::<f32>()?;
            for (gradient, inverse) in values.iter_mut().zip(inverse_norms.values::<f32>()?) {
                *gradient *= inverse;
            }
        } else {
            gradient = Tensor::from_candle((gradient.to_candle()? * inverse_norms.to_candle()?)?)?;
        }
        self.magnitude.accumulate(gradient)
    }

    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.are_norms_current.set(false);
        self.low_rank.params(params);
        params.push(&mut self.magnitude);
    }
}

#[cfg(test)]
mod tests {
    use quant::{Builder, Format};

    use super::*;
    use crate::{
        linear::{Linear, Projection},
        testing::{
            Values, assert_close, assert_gradients, autograd, biased, low_rank, pass, tensor, uniform, values_of,
            with_plain_ops,
        },
    };

    const NAME: &str = "q_proj";
    const FORMATS: [Format; 2] = [Format::nf4(true), Format::Int8];

    fn quantised(format: Format, outputs: usize, inputs: usize) -> Weight {
        let mut builder = Builder::new(format, outputs, inputs);
        builder.push(&uniform(NAME, &[outputs, inputs]).elements()).unwrap();
        Weight::Quantized {
            matrix: builder.finish().unwrap(),
            products: DType::BF16,
        }
    }

    /// A layer with a bias, whose magnitudes are not the norms of the weight.
    fn layer(weight: Weight, hidden: DType, rank: usize) -> Linear {
        let (outputs, inputs) = (weight.rows(), weight.cols());
        let term = low_rank(NAME, outputs, inputs, rank, 0.0);
        let mut dora = Dora::new(term, ModuleName::new(NAME), &weight, hidden).unwrap();
        dora.magnitude.set(tensor(&uniform("magnitudes", &[outputs])));
        Linear {
            weight,
            adapter: Some(Box::new(dora)),
            ..biased(NAME, outputs, inputs, 0, false)
        }
    }

    fn dense(outputs: usize, inputs: usize) -> Weight {
        biased(NAME, outputs, inputs, 0, false).weight
    }

    /// Output, gradient of the input and gradients of A, B and the magnitudes, of a layer with outputs of these widths.
    fn passes<const N: usize>(linear: Linear, widths: [usize; N], x: &Candle) -> Vec<Candle> {
        let tokens = x.dims()[0];
        let mut layer = Projection::new(vec![linear], widths);
        let dys = widths.map(|width| tensor(&uniform("dy", &[tokens, width]).to_dtype(x.dtype()).unwrap()));
        let (x, pass) = (tensor(x), pass(1, tokens));
        let ys = layer.forward(&x, &pass).unwrap();
        let dx = layer.backward(&x, dys.each_ref(), &pass).unwrap();
        let mut results: Vec<Candle> = ys.iter().chain([&dx]).map(|y| y.to_candle_f32().unwrap()).collect();
        results.extend(crate::testing::take_gradients(&mut layer));
        results
    }

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for (tokens, outputs, inputs, rank) in [(1, 1, 1, 1), (5, 33, 17, 3), (70, 96, 64, 40), (33, 47, 130, 8)] {
            let (x, dy) = (uniform("x", &[tokens, inputs]), uniform("dy", &[tokens, outputs]));
            let w = uniform(NAME, &[outputs, inputs]);
            let bias = biased(NAME, outputs, inputs, 0, false)
                .bias
                .unwrap()
                .value
                .to_candle()
                .unwrap();
            let values = values_of(&mut Projection::of(layer(dense(outputs, inputs), DType::F32, rank)));
            // As in PEFT's forward pass, where the norms are detached.
            let forward = |inputs: &[Candle]| {
                let [x, a, b, m] = inputs else { panic!("four inputs") };
                let sum = (&w + (b.matmul(a).unwrap() * 0.5).unwrap()).unwrap();
                let norms = sum.detach().sqr().unwrap().sum(1).unwrap().sqrt().unwrap();
                let y = x.matmul(&sum.t().unwrap()).unwrap();
                let y = y.broadcast_mul(&(m / norms).unwrap()).unwrap();
                y.broadcast_add(&bias).unwrap()
            };
            let inputs_of = [&x, &values[0], &values[1], &values[2]];
            let y = forward(&inputs_of.map(Candle::clone));
            let [dx, gradients @ ..] = &autograd(&inputs_of, &dy, forward)[..] else {
                panic!("four gradients")
            };
            let check = || {
                let mut layer = Projection::of(layer(dense(outputs, inputs), DType::F32, rank));
                let (x, dy, pass) = (tensor(&x), tensor(&dy), pass(1, tokens));
                let [got] = layer.forward(&x, &pass).unwrap();
                assert_close(&got, &y, 1e-5, "y");
                let got = layer.backward(&x, [&dy], &pass).unwrap();
                assert_close(&got, dx, 1e-4, "dx");
                assert_gradients(&mut layer, gradients, 1e-4);
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn a_fused_layer_on_weights_in_few_bits_is_computed_alike() {
        for format in FORMATS {
            for (dtype, tolerance) in [(DType::F32, 1e-3), (DType::F16, 1e-2), (DType::BF16, 3e-2)] {
                let x = uniform("x", &[37, 72]).to_dtype(dtype).unwrap();
                let results = || passes(layer(quantised(format, 96, 72), dtype, 4), [64, 15, 17], &x);
                let (kernels, plain) = (results(), with_plain_ops(results));
                for (at, (got, want)) in kernels.iter().zip(&plain).enumerate() {
                    assert_close(got, want, tolerance, &format!("{format:?}, {dtype:?}: {at}"));
                }
            }
        }
    }

    #[test]
    fn magnitudes_gradients_follow_from_column_dots() {
        const WIDTHS: [usize; 2] = [24, 40];
        let without_bias = |outputs: usize, is_adapted: bool| {
            let mut linear = layer(dense(outputs, 17), DType::F32, 3);
            linear.adapter.take_if(|_| !is_adapted);
            Linear { bias: None, ..linear }
        };
        let x = tensor(&uniform("x", &[37, 17]));
        let dys = WIDTHS.map(|width| tensor(&uniform("dy", &[37, width])));
        for (layers, zero) in [
            (&[(24, true), (40, true)][..], false),
            (&[(24, true), (40, true)], true),
            (&[(24, false), (40, true)], false),
            (&[(64, true)], false),
        ] {
            let gradients = |with_dots: bool| {
                let linears = layers
                    .iter()
                    .map(|(outputs, is_adapted)| without_bias(*outputs, *is_adapted));
                let mut projection = Projection::new(linears.collect(), WIDTHS);
                let mut params = Vec::new();
                projection.trainable(&mut params);
                if let Some(magnitude) = params.last_mut().filter(|_| zero) {
                    let mut values = magnitude.value.to_vec_f32().unwrap();
                    values[5] = 0.0;
                    magnitude.fill(&values).unwrap();
                }
                assert!(projection.takes_column_dots());
                let pass = pass(1, 37);
                let ys = projection.forward(&x, &pass).unwrap();
                let (_, carried) = projection.input_gradient(dys.each_ref(), &pass, DType::F32).unwrap();
                let dots = ys.iter().zip(&dys).map(|(y, dy)| {
                    let products = y.to_candle_f32().unwrap() * dy.to_candle_f32().unwrap();
                    products.unwrap().sum(0).unwrap()
                });
                let dots = Candle::cat(&dots.collect::<Vec<_>>(), 0).unwrap();
                let carried = carried.with_column_dots(with_dots.then(|| tensor(&dots)));
                projection.accumulate(&x, dys.each_ref(), carried, &pass).unwrap();
                crate::testing::take_gradients(&mut projection)
            };
            for (got, want) in gradients(true).iter().zip(gradients(false)) {
                assert_close(got, &want, 1e-4, &format!("{layers:?}, {zero}"));
            }
        }
        let with_bias = Projection::of(layer(dense(24, 17), DType::F32, 3));
        assert!(!with_bias.takes_column_dots());
        let of_float16 = Linear {
            bias: None,
            ..layer(dense(24, 17), DType::F16, 3)
        };
        assert!(!Projection::of(of_float16).takes_column_dots());
    }

    #[test]
    fn norms_follow_the_trained_values() {
        let x = uniform("x", &[5, 17]);
        let outputs = || {
            let mut projection = Projection::of(layer(dense(33, 17), DType::F32, 4));
            let pass = pass(1, 5);
            let before = projection.forward(&tensor(&x), &pass).unwrap();
            let mut params = Vec::new();
            projection.trainable(&mut params);
            params[1].set(tensor(&uniform("another B", &[33, 4])));
            let after = projection.forward(&tensor(&x), &pass).unwrap();
            [before, after].map(|[y]| y.to_candle_f32().unwrap())
        };
        let (kernels, plain) = (outputs(), with_plain_ops(outputs));
        for (got, want) in kernels.iter().zip(&plain) {
            assert_close(got, want, 1e-5, "y");
        }
    }

    #[test]
    fn a_new_adapter_changes_nothing() {
        let weights = [
            dense(33, 17),
            quantised(FORMATS[0], 33, 17),
            quantised(FORMATS[1], 33, 17),
        ];
        let x = uniform("x", &[5, 17]);
        for weight in weights {
            let mut term = low_rank(NAME, 33, 17, 4, 0.0);
            let (_, b) = term.factors_mut().unwrap();
            b.set(tensor(&Candle::zeros((33, 4), DType::F32, x.device()).unwrap()));
            let want = weight.forward_plain(&x).unwrap();
            let check = |term: LowRank, weight: &Weight, tolerance| {
                let dora = Dora::new(term, ModuleName::new(NAME), weight, DType::F32).unwrap();
                let scale = dora.output_scale(weight).unwrap().unwrap();
                let ones = Candle::ones(33, DType::F32, x.device()).unwrap();
                assert_close(&scale.factors, &ones, tolerance, "factors");
                dora
            };
            let dora = check(term, &weight, 1e-6);
            let linear = Linear {
                weight,
                bias: None,
                adapter: Some(Box::new(dora)),
            };
            let [y] = Projection::of(linear).forward(&tensor(&x), &pass(1, 5)).unwrap();
            assert_close(&y, &want, 1e-5, "y");
        }
    }

    #[test]
    fn magnitudes_start_as_rounded_norms_by_kernels_and_by_plain_ops() {
        let weights = [
            dense(33, 17),
            quantised(FORMATS[0], 33, 17),
            quantised(FORMATS[1], 33, 17),
        ];
        for weight in weights {
            // One step of the 16-bit formats, where two sums may round to different sides.
            for (hidden, step) in [(DType::F32, 1e-6), (DType::F16, 1e-3), (DType::BF16, 8e-3)] {
                let start = || {
                    let term = low_rank(NAME, 33, 17, 4, 0.0);
                    let dora = Dora::new(term, ModuleName::new(NAME), &weight, hidden).unwrap();
                    let value = dora.magnitude.value.to_candle().unwrap();
                    let rounded = value.to_dtype(hidden).unwrap().to_dtype(DType::F32).unwrap();
                    assert_eq!(value.elements(), rounded.elements(), "{hidden:?}");
                    value
                };
                let (kernels, plain) = (start(), with_plain_ops(start));
                let every = weight.rows_f32(0..33).unwrap();
                let norms = every.sqr().unwrap().sum(1).unwrap().sqrt().unwrap();
                assert_close(&kernels, &plain, step, "by kernels and by plain ops");
                assert_close(&plain, &norms, step, "norms");
            }
        }
    }
}
