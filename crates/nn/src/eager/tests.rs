//! Against attention that does not hold its weights, which is compared with autograd in its own tests.

use candle_core::DType;
use kernels::{Sequences, attention::Keys, dropout::Mask, softcap::SoftCap};

use super::*;
use crate::{
    sdpa,
    testing::{assert_close, tensor, uniform, with_plain_ops},
};

/// The output and the gradients of q, k and v.
fn run(inputs: [&Tensor; 3], d_out: &Tensor, shape: Shape, pattern: Pattern) -> [Tensor; 4] {
    let (out, weights) = forward(inputs, shape, pattern).unwrap();
    let [dq, dk, dv] = backward(inputs, weights, d_out, shape, pattern).unwrap();
    [out, dq, dk, dv]
}

#[test]
fn both_ways_of_attention_agree() {
    for (lengths, heads, kv_heads, head_dim) in [
        (&[2][..], 1, 1, 2),
        (&[15, 15], 4, 2, 6),
        (&[63], 3, 3, 5),
        (&[65, 65], 6, 2, 8),
        (&[131], 9, 3, 40),
        (&[3, 130, 1, 33], 4, 2, 6),
    ] {
        let sequences = Sequences::of(lengths.iter().copied());
        let shape = Shape {
            sequences: &sequences,
            heads,
            kv_heads,
            head_dim,
            scores: Scores::of(head_dim),
        };
        let capped = Shape {
            scores: Scores {
                scale: 0.7,
                cap: Some(SoftCap(1.5)),
            },
            ..shape
        };
        let counted: Vec<u32> = (0..)
            .zip(lengths)
            .map(|(index, &len)| (len - index % 3 * len / 3) as u32)
            .collect();
        let masks: Vec<Mask> = (9..).take(lengths.len()).map(|key| Mask::new(key, 0.3)).collect();
        for (dtype, tolerance) in [(DType::F32, 2e-5), (DType::BF16, 4e-2), (DType::F16, 4e-3)] {
            let values = |name: &str, heads: usize| {
                let values = uniform(name, &[sequences.tokens(), heads * head_dim]);
                tensor(&values.to_dtype(dtype).unwrap())
            };
            let (q, k, v) = (values("q", heads), values("k", kv_heads), values("v", kv_heads));
            let d_out = values("d_out", heads);
            let inputs = [&q, &k, &v];
            let uncapped = [Keys::Causal, Keys::First(&counted), Keys::Window(7)].map(|keys| (shape, keys));
            for (shape, keys) in uncapped
                .into_iter()
                .chain([(capped, Keys::Causal), (capped, Keys::Window(40))])
            {
                for dropout in [None, Some(&masks[..])] {
                    let pattern = Pattern { keys, dropout };
                    let (out, lse) = sdpa::forward(&q, &k, &v, shape, pattern).unwrap();
                    let [dq, dk, dv] = sdpa::backward(inputs, (&out, &lse), &d_out, shape, pattern).unwrap();
                    let want = [out, dq, dk, dv];
                    let kernel = run(inputs, &d_out, shape, pattern);
                    let plain = with_plain_ops(|| run(inputs, &d_out, shape, pattern));
                    for (index, name) in ["out", "dq", "dk", "dv"].into_iter().enumerate() {
                        let name = format!("{name}, {dtype:?}, {sequences:?}, {keys:?}, {}", dropout.is_some());
                        assert_close(&kernel[index], &want[index], tolerance, &name);
                        assert_close(&plain[index], &want[index], tolerance, &format!("plain {name}"));
                    }
                }
            }
        }
    }
}
