//! LLM.int8()'s products and gradients against bitsandbytes' `MatMul8bitLt`.

use candle_core::DType;
use expctl::arch::ModuleName;
use expctl::cell::{Cell, Dtype, Upcast};
use expctl::kernels::Sequences;
use expctl::nn::Pass;
use expctl::nn::linear::{Linear, Projection};
use expctl::nn::param::Param;
use expctl::nn::tensor::Tensor;
use expctl::nn::weight::Weight;
use expctl::quant::{Builder, Format};

use crate::fixtures::{Tensors, assert_close};
use crate::runs::{adapter_cell, assert_run, departure};

fn tensor(golden: &Tensors, name: &str, dtype: DType) -> Tensor {
    let [rows, cols] = golden.shape(name)[..] else {
        panic!("{name} is not a matrix")
    };
    Tensor::from_f32(&golden.f32(name), (rows, cols), dtype).expect("a tensor")
}

#[test]
fn products_and_gradients_are_bitsandbytes() {
    let golden = Tensors::open("llm_int8.safetensors");
    let name = |part| ModuleName::new("layer").part(part);
    let [outputs, inputs] = golden.shape("weight")[..] else {
        panic!("a matrix")
    };
    // bitsandbytes' kernel for the CPU multiplies by 6.200124e-5 where 1 / 127² is 6.200012e-5, as on a GPU.
    for (format, dtype, tolerance) in [("float32", DType::F32, 3e-5), ("bfloat16", DType::BF16, 1e-2)] {
        for threshold in [0.0, 3.0, 6.0] {
            let mut builder = Builder::new(Format::LlmInt8 { threshold }, outputs, inputs);
            builder.push(&golden.f32("weight")).expect("room for the values");
            let bias = Tensor::from_f32(&golden.f32("bias"), outputs, dtype).expect("a bias");
            let layer = Projection::of(Linear {
                weight: Weight::Quantized {
                    matrix: builder.finish().expect("every value"),
                    products: dtype,
                },
                bias: Some(Param::base(name("bias"), bias, false)),
                adapter: None,
            });
            let (x, dy) = (tensor(&golden, "x", dtype), tensor(&golden, "dy", dtype));
            let pass = Pass {
                sequences: Sequences::even(1, x.rows()),
                lengths: Vec::new(),
                dropout: None,
            };
            let what = |value| format!("{value}, {format}, threshold {threshold}");
            let [y] = layer.forward(&x, &pass).expect("the output");
            let want = golden.f32(&format!("{format}.{threshold:.1}.y"));
            assert_close(&y.to_vec_f32().expect("values"), &want, tolerance, &what("y"));
            let (dx, _) = layer.input_gradient([&dy], &pass, dtype).expect("the gradient");
            let want = golden.f32(&format!("{format}.{threshold:.1}.dx"));
            assert_close(&dx.to_vec_f32().expect("values"), &want, tolerance, &what("dx"));
        }
    }
}

/// A threshold that some of the model's activations are above. Hidden states are float32, whose rounding is less than that of
/// codes: losses with activations as they are, or with other outliers, are further off.
#[test]
fn twenty_steps_with_quantised_activations() {
    let (model, run, tolerance) = ("tiny_llama_precision", "llm_int8", 3e-3);
    let with = |llm_int8_threshold| Cell {
        dtype: Dtype::Int8,
        upcast: Upcast::Peft,
        llm_int8_threshold,
        ..adapter_cell(model)
    };
    assert_run(model, run, &with(Some(2.0)), tolerance);
    for other in [None, Some(0.0), Some(6.0)] {
        assert!(departure(model, run, &with(other)) > tolerance, "{other:?}");
    }
}
