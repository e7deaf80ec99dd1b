//! What the layers' tests share: seeded tensors, comparison, and candle's autograd as an oracle.
//!
//! Values are drawn and differentiated as candle's tensors. [`tensor`] copies them to where the kernels compute.

use arch::{ModelConfig, ModuleName, Preset};
use base::random;
use candle_core::{DType, Device, Tensor as Candle, Var};
use kernels::Sequences;
use memory::Buffer;
use rand::Rng;

use super::{
    DropoutPass, Pass,
    adapter::{Adapter, Down, LowRank, Up},
    classifier::Classifier,
    decoder_block::DecoderBlock,
    dropout::Dropout,
    encoder_block::EncoderBlock,
    encoder_embedding::EncoderEmbedding,
    head::Head,
    layer_norm::LayerNorm,
    linear::{Linear, Projection},
    norm::RmsNorm,
    param::Param,
    tensor::{Tensor, for_format},
    weight::Weight,
};

pub(crate) use crate::plain_ops::with_plain_ops;

/// Values between -1 and 1.
pub(crate) fn uniform(name: &str, shape: &[usize]) -> Candle {
    let mut random = random::stream(7, name);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| random.random_range(-1.0..1.0))
        .collect();
    Candle::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// A copy with memory of its own, in the format of `values`: a matrix, or a vector of one dimension.
pub(crate) fn tensor(values: &Candle) -> Tensor {
    let flat = values.flatten_all().unwrap();
    let tensor = for_format!(values.dtype(), E => {
        let elements = Buffer::from(flat.to_vec1::<E>().unwrap());
        Ok(match *values.dims() {
            [rows, cols] => Tensor::new(elements, (rows, cols)),
            [len] => Tensor::new(elements, len),
            ref dims => panic!("a tensor of the shape {dims:?}"),
        })
    });
    tensor.unwrap()
}

/// The tensor of [`uniform`] values.
pub(crate) fn uniform_tensor(name: &str, shape: &[usize]) -> Tensor {
    tensor(&uniform(name, shape))
}

/// What tests compare.
pub(crate) trait Values {
    fn elements(&self) -> Vec<f32>;
    fn shape_of(&self) -> Vec<usize>;
}

impl Values for Tensor {
    fn elements(&self) -> Vec<f32> {
        self.to_vec_f32().unwrap()
    }

    fn shape_of(&self) -> Vec<usize> {
        self.dims().to_vec()
    }
}

impl Values for Candle {
    fn elements(&self) -> Vec<f32> {
        let flat = self.to_dtype(DType::F32).unwrap().flatten_all().unwrap();
        flat.to_vec1().unwrap()
    }

    fn shape_of(&self) -> Vec<usize> {
        self.dims().to_vec()
    }
}

pub(crate) fn elements(tensor: &impl Values) -> Vec<f32> {
    tensor.elements()
}

/// The largest difference, over the largest magnitude of `want`.
pub(crate) fn distance(got: &impl Values, want: &impl Values) -> f32 {
    assert_eq!(got.shape_of(), want.shape_of());
    let (got, want) = (got.elements(), want.elements());
    let scale = want.iter().fold(1e-12f32, |max, value| max.max(value.abs()));
    got.iter().zip(&want).fold(0f32, |max, (got, want)| {
        let difference = (got - want).abs() / scale;
        if difference.is_nan() {
            f32::INFINITY
        } else {
            max.max(difference)
        }
    })
}

pub(crate) fn assert_close(got: &impl Values, want: &impl Values, tolerance: f32, what: &str) {
    let distance = distance(got, want);
    assert!(distance <= tolerance, "{what}: {distance} is more than {tolerance}");
}

/// `sum(a · b)`, in double precision.
pub(crate) fn dot(a: &impl Values, b: &impl Values) -> f64 {
    let pairs = a.elements().into_iter().zip(b.elements());
    pairs.map(|(a, b)| f64::from(a) * f64::from(b)).sum()
}

/// The gradients of `sum(f(inputs) · weights)` by candle's autograd.
pub(crate) fn autograd(inputs: &[&Candle], weights: &Candle, f: impl Fn(&[Candle]) -> Candle) -> Vec<Candle> {
    let vars: Vec<Var> = inputs.iter().map(|input| Var::from_tensor(input).unwrap()).collect();
    let tensors: Vec<Candle> = vars.iter().map(|var| var.as_tensor().clone()).collect();
    let gradients = (f(&tensors) * weights).unwrap().sum_all().unwrap().backward().unwrap();
    vars.iter().map(|var| gradients.get(var).unwrap().clone()).collect()
}

/// A layer's parameters that are trained, in their order.
pub(crate) trait Trained {
    fn trained(&mut self) -> Vec<&mut Param>;
}

macro_rules! implement_trained {
    ($([$($generic:tt)*] $layer:ty),* $(,)?) => {$(
        impl<$($generic)*> Trained for $layer {
            fn trained(&mut self) -> Vec<&mut Param> {
                let mut params = Vec::new();
                self.trainable(&mut params);
                params
            }
        }
    )*};
}
implement_trained!(
    [] Classifier,
    [] DecoderBlock,
    [] EncoderBlock,
    [] EncoderEmbedding,
    [] Head,
    [] LayerNorm,
    [] RmsNorm,
    [const N: usize] Projection<N>,
);

/// Copies of the values that are trained, as candle's.
pub(crate) fn values_of(layer: &mut impl Trained) -> Vec<Candle> {
    let values = layer.trained().into_iter().map(|param| param.value.to_candle());
    values.collect::<Result<_, _>>().unwrap()
}

/// Copies of the gradients, as candle's, which are released.
pub(crate) fn take_gradients(layer: &mut impl Trained) -> Vec<Candle> {
    let gradients = layer.trained().into_iter().map(|param| {
        let gradient = param.gradient().unwrap().to_candle();
        param.release_gradient();
        gradient
    });
    gradients.collect::<Result<_, _>>().unwrap()
}

/// Compares the gradients with `want`, in that order, and releases them.
pub(crate) fn assert_gradients(layer: &mut impl Trained, want: &[Candle], tolerance: f32) {
    let names: Vec<String> = layer.trained().iter().map(|param| param.name.to_string()).collect();
    let got = take_gradients(layer);
    assert_eq!(got.len(), want.len());
    for ((got, want), name) in got.iter().zip(want).zip(&names) {
        assert_close(got, want, tolerance, name);
    }
}

/// A copy with one element moved by `by`.
pub(crate) fn moved(values: &Candle, index: usize, by: f32) -> Candle {
    let mut elements = elements(values);
    elements[index] += by;
    Candle::from_vec(elements, values.shape(), &Device::Cpu).unwrap()
}

/// Compares gradients with central differences of `objective(layer, x)`: `dx` at some elements of `x`, and the gradient
/// held by each parameter at three of its elements.
pub(crate) fn assert_finite_differences<L: Trained>(
    layer: &mut L,
    objective: impl Fn(&L, &Candle) -> f64,
    x: &Candle,
    dx: &Tensor,
    step: f32,
) {
    let check = |got: f32, high: f64, low: f64, what: &str| {
        let want = (high - low) / f64::from(2.0 * step);
        assert!(
            (f64::from(got) - want).abs() < 0.02 * want.abs().max(1.0),
            "{what}: {got} against {want}"
        );
    };
    for index in (0..x.elem_count()).step_by(7) {
        let high = objective(layer, &moved(x, index, step));
        let low = objective(layer, &moved(x, index, -step));
        check(elements(dx)[index], high, low, &format!("x[{index}]"));
    }
    let (values, gradients) = (values_of(layer), take_gradients(layer));
    for (at, (value, gradient)) in values.iter().zip(&gradients).enumerate() {
        for index in [0, value.elem_count() / 2, value.elem_count() - 1] {
            let mut with = |by: f32| {
                layer.trained()[at].set(tensor(&moved(value, index, by)));
                objective(layer, x)
            };
            let (high, low) = (with(step), with(-step));
            layer.trained()[at].set(tensor(value));
            let name = layer.trained()[at].name;
            check(elements(gradient)[index], high, low, &format!("{name}[{index}]"));
        }
    }
}

pub(crate) fn pass(batch: usize, len: usize) -> Pass {
    Pass {
        sequences: Sequences::even(batch, len),
        lengths: vec![len as u32; batch],
        dropout: None,
    }
}

/// A pass with dropout of the samples' own masks.
pub(crate) fn dropout_pass(batch: usize, len: usize, step: u64) -> Pass {
    Pass {
        dropout: Some(DropoutPass {
            step,
            samples: (0..batch as u64).collect(),
            first_tokens: Vec::new(),
        }),
        ..pass(batch, len)
    }
}

/// A weight of the base model, by the name `NAME.weight`.
pub(crate) fn param(name: &'static str, value: &Candle, trainable: bool) -> Param {
    Param::base(ModuleName::new(name).part("weight"), tensor(value), trainable)
}

/// A low-rank term whose B is not zero.
pub(crate) fn low_rank(name: &'static str, outputs: usize, inputs: usize, rank: usize, dropout: f64) -> LowRank {
    let factor = |part, values: &str, shape: [usize; 2]| {
        let values = uniform_tensor(&format!("{name} {values}"), &shape);
        Param::adapter(ModuleName::new(name).part(part), values)
    };
    LowRank {
        down: Down::Factor(factor("lora_A.weight", "a", [rank, inputs])),
        up: Up::Factor(factor("lora_B.weight", "b", [outputs, rank])),
        scale: 0.5,
        dropout: Dropout::new(7, name, dropout),
    }
}

/// A linear layer with a dense weight and, with a rank, an adapter whose B is not zero.
pub(crate) fn linear(name: &'static str, outputs: usize, inputs: usize, rank: usize, trainable: bool) -> Linear {
    let adapter = || low_rank(name, outputs, inputs, rank, 0.25);
    Linear {
        weight: Weight::Dense(param(name, &uniform(name, &[outputs, inputs]), trainable)),
        bias: None,
        adapter: (rank > 0).then(|| Box::new(adapter()) as Box<dyn Adapter>),
    }
}

/// A linear layer with a dense weight, a bias and, with a rank, an adapter whose B is not zero.
pub(crate) fn biased(name: &'static str, outputs: usize, inputs: usize, rank: usize, trainable: bool) -> Linear {
    let bias = uniform_tensor(&format!("{name} bias"), &[outputs]);
    Linear {
        bias: Some(Param::base(ModuleName::new(name).part("bias"), bias, trainable)),
        ..linear(name, outputs, inputs, rank, trainable)
    }
}

/// Layers side by side, of which each gives an output.
pub(crate) fn side_by_side<const N: usize>(linears: [Linear; N]) -> Projection<N> {
    let widths = linears.each_ref().map(|linear| linear.weight.rows());
    Projection::new(linears.into(), widths)
}

pub(crate) fn rms_norm(name: &'static str, features: usize, trainable: bool) -> RmsNorm {
    RmsNorm {
        weight: param(name, &uniform(name, &[features]), trainable),
        offset: 0.0,
        eps: 1e-5,
        output: None,
    }
}

pub(crate) fn layer_norm(name: &'static str, features: usize, trainable: bool) -> LayerNorm {
    let param = |part: &'static str| {
        let value = uniform_tensor(&format!("{name} {part}"), &[features]);
        Param::base(ModuleName::new(name).part(part), value, trainable)
    };
    LayerNorm {
        weight: param("weight"),
        bias: param("bias"),
        eps: 1e-5,
    }
}

/// The shape of the preset of that name.
pub(crate) fn tiny() -> ModelConfig {
    Preset::named("tiny").unwrap().config()
}

/// Checks a layer whose adapter adds a matrix to the weight: kernels and plain ops agree, and both with candle's autograd
/// over `matrix`, the matrix from what is trained.
pub(crate) fn assert_delta<A: Adapter + 'static>(
    make: impl Fn() -> A,
    (outputs, inputs): (usize, usize),
    matrix: impl Fn(&[Candle]) -> Candle,
) {
    let widths = [outputs - 7, 7];
    let layer = || {
        let linear = Linear {
            adapter: Some(Box::new(make())),
            ..biased("qk", outputs, inputs, 0, false)
        };
        Projection::<2>::new(vec![linear], widths)
    };
    let x = uniform("x", &[9, inputs]);
    let dys = widths.map(|width| uniform("dy", &[9, width]));
    let results = || {
        let (mut layer, pass, x) = (layer(), pass(1, 9), tensor(&x));
        let dys = dys.each_ref().map(tensor);
        let ys = layer.forward(&x, &pass).unwrap();
        let dx = layer.backward(&x, dys.each_ref(), &pass).unwrap();
        let mut results: Vec<Candle> = ys.iter().map(|y| y.to_candle_f32().unwrap()).collect();
        results.push(dx.to_candle_f32().unwrap());
        results.extend(take_gradients(&mut layer));
        results
    };
    let mut params = Vec::new();
    let mut adapter = make();
    adapter.params(&mut params);
    let params: Vec<Candle> = params
        .iter()
        .map(|param| param.value.to_candle_f32().unwrap())
        .collect();
    let linear = biased("qk", outputs, inputs, 0, false);
    let weight = linear.weight.rows_f32(0..outputs).unwrap();
    let bias = linear.bias.unwrap().value.to_candle_f32().unwrap();
    let y_of = |inputs: &[Candle]| {
        let whole = (&weight + matrix(&inputs[1..])).unwrap();
        let y = inputs[0].matmul(&whole.t().unwrap()).unwrap();
        y.broadcast_add(&bias).unwrap()
    };
    let mut inputs: Vec<&Candle> = vec![&x];
    inputs.extend(&params);
    let dy = Candle::cat(&dys, 1).unwrap();
    let y = y_of(&inputs.iter().map(|input| (*input).clone()).collect::<Vec<_>>());
    let gradients = autograd(&inputs, &dy, y_of);
    let expected = [y.narrow(1, 0, widths[0]).unwrap(), y.narrow(1, widths[0], 7).unwrap()];
    let expected: Vec<Candle> = expected.into_iter().chain(gradients).collect();
    for ours in [results(), with_plain_ops(results)] {
        assert_eq!(ours.len(), expected.len());
        for (at, (ours, expected)) in ours.iter().zip(&expected).enumerate() {
            assert_close(&tensor(ours), expected, 1e-4, &format!("result {at}"));
        }
    }
}
