use arch::ModuleName;
use candle_core::{DType, Result, Tensor as Candle};
use quant::Format;

use super::{Linear, Projection};
use crate::{
    Pass,
    adapter::{Adapter, Down, LowRank, Up},
    dropout::Dropout,
    param::Param,
    tensor::Tensor,
    testing::{
        assert_close, assert_gradients, autograd, biased, distance, dot, dropout_pass, linear, param, pass,
        side_by_side, take_gradients, tensor, uniform, uniform_tensor, values_of, with_plain_ops,
    },
    weight::Weight,
};

#[test]
fn kernel_and_plain_ops_and_autograd_agree() {
    type Make = fn(&'static str, usize, usize, usize, bool) -> Linear;
    for (make, has_bias) in [(linear as Make, false), (biased as Make, true)] {
        for (tokens, outputs, inputs, rank) in [(1, 1, 1, 1), (15, 17, 33, 3), (64, 31, 63, 0), (5, 130, 16, 16)] {
            let mut layer = Projection::of(make("layer", outputs, inputs, rank, true));
            let (x, dy) = (uniform("x", &[tokens, inputs]), uniform("dy", &[tokens, outputs]));
            let pass = pass(1, tokens);
            let mut inputs = vec![x.clone()];
            inputs.extend(values_of(&mut layer));
            // After the weight come the adapter's factors, and the bias last.
            let definition = |inputs: &[Candle]| {
                let mut y = inputs[0].matmul(&inputs[1].t().unwrap()).unwrap();
                if rank > 0 {
                    let h = inputs[0].matmul(&inputs[2].t().unwrap()).unwrap();
                    y = (y + (h.matmul(&inputs[3].t().unwrap()).unwrap() * 0.5).unwrap()).unwrap();
                }
                match inputs.last().filter(|_| has_bias) {
                    Some(bias) => y.broadcast_add(bias).unwrap(),
                    None => y,
                }
            };
            let want = definition(&inputs);
            let inputs: Vec<&Candle> = inputs.iter().collect();
            let oracle = autograd(&inputs, &dy, definition);
            let mut check = || {
                let (x, dy) = (tensor(&x), tensor(&dy));
                let [y] = layer.forward(&x, &pass).unwrap();
                assert_close(&y, &want, 1e-5, "forward");
                let onto = layer.forward_onto(&x, &dy, &pass).unwrap();
                let sum = (&want + dy.to_candle().unwrap()).unwrap();
                assert_close(&onto, &sum, 1e-5, "forward onto a residual");
                let dx = layer.backward(&x, [&dy], &pass).unwrap();
                assert_close(&dx, &oracle[0], 1e-5, "dx");
                assert_gradients(&mut layer, &oracle[1..], 1e-5);
                layer.accumulate_alone(&x, [&dy], &pass).unwrap();
                assert_gradients(&mut layer, &oracle[1..], 1e-5);
            };
            check();
            with_plain_ops(check);
        }
    }
}

/// With the same rank, with different ones, and with none.
#[test]
fn layers_that_share_an_input_compute_what_each_does_alone() {
    const WIDTHS: [usize; 3] = [9, 33, 4];
    for ranks in [[3, 3, 3], [3, 0, 5], [0, 0, 0]] {
        let layer = |at: usize| biased(["a", "b", "c"][at], WIDTHS[at], 12, ranks[at], true);
        for pass in [pass(2, 20), dropout_pass(2, 20, 1)] {
            let x = uniform_tensor("x", &[40, 12]);
            let dys = WIDTHS.map(|width| uniform_tensor("dy", &[40, width]));
            let mut together = side_by_side([0, 1, 2].map(layer));
            let ys = together.forward(&x, &pass).unwrap();
            let dx = together.backward(&x, dys.each_ref(), &pass).unwrap();
            let mut gradients = take_gradients(&mut together).into_iter();
            let mut sum = dx.to_candle().unwrap().zeros_like().unwrap();
            for (at, (y, dy)) in ys.iter().zip(&dys).enumerate() {
                let mut alone = Projection::of(layer(at));
                assert_close(&alone.forward(&x, &pass).unwrap()[0], y, 1e-6, "forward");
                let dx = alone.backward(&x, [dy], &pass).unwrap();
                sum = (sum + dx.to_candle().unwrap()).unwrap();
                for alone in take_gradients(&mut alone) {
                    assert_close(&gradients.next().unwrap(), &alone, 1e-6, "gradient");
                }
            }
            assert!(gradients.next().is_none());
            assert_close(&dx, &sum, 1e-5, "dx");
        }
    }
}

#[test]
fn dropout_is_the_same_in_both_passes_and_in_plain_ops() {
    let mut layer = Projection::of(linear("layer", 9, 12, 4, false));
    let (x, dy) = (uniform_tensor("x", &[10, 12]), uniform_tensor("dy", &[10, 9]));
    let with = dropout_pass(2, 5, 3);
    let [y] = layer.forward(&x, &with).unwrap();
    let [plain] = with_plain_ops(|| layer.forward(&x, &with)).unwrap();
    assert_close(&y, &plain, 1e-5, "forward");
    let [without] = layer.forward(&x, &pass(2, 5)).unwrap();
    assert!(distance(&y, &without) > 1e-3);

    // The layer is linear in x: sum(y · dy) = sum(x · dx).
    let mut check = || {
        let dx = layer.backward(&x, [&dy], &with).unwrap();
        assert!((dot(&y, &dy) - dot(&x, &dx)).abs() < 1e-4);
    };
    check();
    with_plain_ops(check);
}

#[test]
fn a_frozen_weight_never_gets_a_gradient() {
    let mut layer = Projection::of(biased("layer", 3, 4, 2, false));
    let (x, dy) = (uniform_tensor("x", &[5, 4]), uniform_tensor("dy", &[5, 3]));
    layer.backward(&x, [&dy], &pass(1, 5)).unwrap();
    let mut params = Vec::new();
    layer.trainable(&mut params);
    let names: Vec<String> = params.iter().map(|param| param.name.to_string()).collect();
    assert_eq!(names, ["layer.lora_A.weight", "layer.lora_B.weight"]);
    let mut frozen = linear("layer", 3, 4, 0, false);
    let Weight::Dense(param) = &mut frozen.weight else {
        panic!("the weight is dense")
    };
    param.accumulate(uniform_tensor("dw", &[3, 4])).unwrap();
    assert!(param.gradient().is_none());
}

/// The numbers of a layer whose outputs are cut in three.
struct Fused {
    weight: Candle,
    /// None if weight and bias are trained.
    format: Option<Format>,
    bias: Candle,
    /// A and B.
    low_rank: Option<[Candle; 2]>,
}

const WIDTHS: [usize; 3] = [9, 33, 4];
const INPUTS: usize = 64;

impl Fused {
    fn new(format: Option<Format>, rank: usize) -> Self {
        let outputs = WIDTHS.iter().sum();
        Self {
            weight: uniform("weight", &[outputs, INPUTS]),
            format,
            bias: uniform("bias", &[outputs]),
            low_rank: (rank > 0).then(|| [uniform("a", &[rank, INPUTS]), uniform("b", &[outputs, rank])]),
        }
    }

    /// The layer of these rows. Its dropout is the same for any rows.
    fn rows(&self, first: usize, count: usize) -> Linear {
        let rows = |values: &Candle| values.narrow(0, first, count).unwrap().contiguous().unwrap();
        let part = |part| ModuleName::new("fused").part(part);
        let trained = self.format.is_none();
        let weight = match self.format {
            None => Weight::Dense(param("fused", &rows(&self.weight), true)),
            Some(format) => {
                let mut builder = quant::Builder::new(format, count, INPUTS);
                let values = rows(&self.weight).flatten_all().unwrap().to_vec1().unwrap();
                builder.push(&values).unwrap();
                Weight::Quantized {
                    matrix: builder.finish().unwrap(),
                    products: candle_core::DType::BF16,
                }
            }
        };
        let low_rank = |[a, b]: &[Candle; 2]| LowRank {
            down: Down::Factor(Param::adapter(part("lora_A.weight"), tensor(a))),
            up: Up::Factor(Param::adapter(part("lora_B.weight"), tensor(&rows(b)))),
            scale: 0.5,
            dropout: Dropout::new(7, "fused", 0.25),
        };
        Linear {
            weight,
            bias: Some(Param::base(part("bias"), tensor(&rows(&self.bias)), trained)),
            adapter: self
                .low_rank
                .as_ref()
                .map(|factors| Box::new(low_rank(factors)) as Box<dyn Adapter>),
        }
    }

    /// The first row of each output.
    fn firsts() -> [usize; 3] {
        [0, WIDTHS[0], WIDTHS[0] + WIDTHS[1]]
    }
}

/// Outputs, the input's gradient, and the gradients of what is trained.
type Outcome = ([Tensor; 3], Tensor, Vec<Candle>);

fn run(mut layers: Projection<3>, dtype: DType, pass: &Pass) -> Outcome {
    let cast = |values: Candle| tensor(&values.to_dtype(dtype).unwrap());
    let x = cast(uniform("x", &[40, INPUTS]));
    let dys = WIDTHS.map(|width| cast(uniform(&format!("dy {width}"), &[40, width])));
    let ys = layers.forward(&x, pass).unwrap();
    let dx = layers.backward(&x, dys.each_ref(), pass).unwrap();
    (ys, dx, take_gradients(&mut layers))
}

/// The gradients of layers that are each some rows of a fused one, as that one's.
fn joined(separate: &[Candle], has_low_rank: bool, is_trained: bool) -> Vec<Candle> {
    let each = separate.len() / 3;
    let of = |at: usize| [0, 1, 2].map(|layer| separate[layer * each + at].clone());
    let stacked = |at: usize| Candle::cat(&of(at), 0).unwrap();
    let sum = |at: usize| {
        let [a, b, c] = of(at);
        a + b + c
    };
    // Weight, A, B, bias: A is the same in each layer, the others are rows.
    let a = usize::from(is_trained);
    (0..each)
        .map(|at| match has_low_rank && at == a {
            true => sum(at),
            false => Ok(stacked(at)),
        })
        .collect::<Result<_>>()
        .unwrap()
}

#[test]
fn a_fused_layer_computes_what_layers_of_its_rows_do() {
    let nf4 = Format::nf4(false);
    let llm_int8 = |threshold| Some(Format::LlmInt8 { threshold });
    for (format, rank) in [
        (None, 0),
        (None, 5),
        (Some(nf4), 5),
        (Some(Format::Int8), 3),
        (llm_int8(0.0), 0),
        (llm_int8(0.0), 3),
        (llm_int8(0.875), 0),
        (llm_int8(0.875), 3),
        (llm_int8(2.0), 3),
    ] {
        for pass in [pass(2, 20), dropout_pass(2, 20, 1)] {
            for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 1e-2)] {
                let fused = Fused::new(format, rank);
                let whole = || Projection::new(vec![fused.rows(0, WIDTHS.iter().sum())], WIDTHS);
                let separate = || {
                    let layers = Fused::firsts().into_iter().zip(WIDTHS);
                    Projection::new(layers.map(|(first, width)| fused.rows(first, width)).collect(), WIDTHS)
                };
                // The first output has a layer of its own, the other two share one.
                let mixed = || {
                    let [first, rest @ ..] = WIDTHS;
                    let layers = vec![fused.rows(0, first), fused.rows(first, rest.iter().sum())];
                    Projection::new(layers, WIDTHS)
                };
                let want = run(separate(), dtype, &pass);
                let gradients = joined(&want.2, rank > 0, format.is_none());
                let check = |got: Outcome, what: &str| {
                    let what = format!("{what}: {format:?}, rank {rank}, {dtype:?}, {:?}", pass.dropout);
                    for (got, want) in got.0.iter().zip(&want.0) {
                        assert_close(got, want, tolerance, &format!("y of {what}"));
                    }
                    assert_close(&got.1, &want.1, tolerance, &format!("dx of {what}"));
                    got.2
                };
                for (got, what) in [
                    (run(whole(), dtype, &pass), "kernels"),
                    (with_plain_ops(|| run(whole(), dtype, &pass)), "plain ops"),
                ] {
                    let got = check(got, what);
                    assert_eq!(got.len(), gradients.len());
                    for (got, want) in got.iter().zip(&gradients) {
                        assert_close(got, want, tolerance, &format!("gradient of {what}"));
                    }
                }
                check(run(mixed(), dtype, &pass), "two layers");
                check(with_plain_ops(|| run(mixed(), dtype, &pass)), "two layers by plain ops");
            }
        }
    }
}

#[test]
fn a_layer_of_all_outputs_is_cut_where_they_end() {
    let outputs = WIDTHS.iter().sum();
    let fused = Fused::new(None, 0);
    let x = uniform("x", &[3, INPUTS]);
    let ys = Projection::new(vec![fused.rows(0, outputs)], WIDTHS);
    let ys = ys.forward(&tensor(&x), &pass(1, 3)).unwrap();
    let whole = x.matmul(&fused.weight.t().unwrap()).unwrap();
    let whole = whole.broadcast_add(&fused.bias).unwrap();
    for ((y, first), width) in ys.iter().zip(Fused::firsts()).zip(WIDTHS) {
        assert_close(y, &whole.narrow(1, first, width).unwrap(), 1e-5, "the output's columns");
    }
}
