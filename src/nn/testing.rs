//! What the layers' tests share: seeded tensors, comparison, and candle's autograd as an oracle.

use std::cell::Cell;

use candle_core::{DType, Device, Tensor, Var};
use rand::Rng;

use super::{
    Pass, affine::Affine, dropout::Dropout, layer_norm::LayerNorm, linear::Linear, lora::Lora, param::Param,
    weight::Weight,
};
use crate::{
    arch::{ModelConfig, Preset},
    random,
};

thread_local! {
    static PLAIN_ONLY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` as on a device without kernels: by candle's ops alone.
pub(crate) fn with_plain_ops<T>(f: impl FnOnce() -> T) -> T {
    PLAIN_ONLY.set(true);
    let outcome = f();
    PLAIN_ONLY.set(false);
    outcome
}

pub(crate) fn plain_only() -> bool {
    PLAIN_ONLY.get()
}

/// Values between -1 and 1.
pub(crate) fn uniform(name: &str, shape: &[usize]) -> Tensor {
    let mut random = random::stream(7, name);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| random.random_range(-1.0..1.0))
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

pub(crate) fn elements(tensor: &Tensor) -> Vec<f32> {
    tensor
        .to_dtype(DType::F32)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1()
        .unwrap()
}

/// The largest difference, over the largest magnitude of `want`.
pub(crate) fn distance(got: &Tensor, want: &Tensor) -> f32 {
    assert_eq!(got.dims(), want.dims());
    let (got, want) = (elements(got), elements(want));
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

pub(crate) fn assert_close(got: &Tensor, want: &Tensor, tolerance: f32, what: &str) {
    let distance = distance(got, want);
    assert!(distance <= tolerance, "{what}: {distance} is more than {tolerance}");
}

/// The gradients of `sum(f(inputs) · weights)` by candle's autograd.
pub(crate) fn autograd(inputs: &[&Tensor], weights: &Tensor, f: impl Fn(&[Tensor]) -> Tensor) -> Vec<Tensor> {
    let vars: Vec<Var> = inputs.iter().map(|input| Var::from_tensor(input).unwrap()).collect();
    let tensors: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
    let gradients = (f(&tensors) * weights).unwrap().sum_all().unwrap().backward().unwrap();
    vars.iter().map(|var| gradients.get(var).unwrap().clone()).collect()
}

pub(crate) fn pass(batch: usize, len: usize) -> Pass {
    Pass {
        batch,
        len,
        lengths: vec![len as u32; batch],
        dropout: None,
    }
}

/// A linear layer with a dense weight and, with a rank, an adapter whose B is not zero.
pub(crate) fn linear(name: &str, outputs: usize, inputs: usize, rank: usize, trainable: bool) -> Linear {
    let weight = uniform(name, &[outputs, inputs]);
    Linear {
        weight: Weight::Dense(Param::base(name, weight, trainable)),
        adapter: (rank > 0).then(|| Lora {
            a: Param::adapter("a", uniform(&format!("{name} a"), &[rank, inputs])),
            b: Param::adapter("b", uniform(&format!("{name} b"), &[outputs, rank])),
            scale: 0.5,
            dropout: Dropout::new(7, name, 0.25),
        }),
    }
}

/// The same with a bias.
pub(crate) fn affine(name: &str, outputs: usize, inputs: usize, rank: usize, trainable: bool) -> Affine {
    let bias = format!("{name} bias");
    Affine {
        linear: linear(name, outputs, inputs, rank, trainable),
        bias: Param::base(bias.clone(), uniform(&bias, &[outputs]), trainable),
    }
}

pub(crate) fn layer_norm(name: &str, features: usize, trainable: bool) -> LayerNorm {
    let param = |part: &str| {
        let name = format!("{name} {part}");
        Param::base(name.clone(), uniform(&name, &[features]), trainable)
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
