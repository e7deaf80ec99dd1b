//! Attention with its projections: the same for decoders, as `nn::attention`, and encoders, as `nn::self_attention`.

use super::{
    held::{Held, Memory},
    linear::{self, Linear, Numbers},
};

/// What is kept for the backward pass: q, k, v, the output before its projection, and the rows' log-sum-exps.
pub(super) type Saved<'m> = [Held<'m>; 5];

/// The projected output, and what is kept.
pub(super) fn forward<'m>(
    memory: &'m Memory,
    qkv: [&Linear<'m>; 3],
    output: &Linear<'m>,
    heads: u64,
    tokens: u64,
    numbers: Numbers,
) -> (Held<'m>, Saved<'m>) {
    let [q, k, v] = linear::forward(memory, qkv, tokens, numbers).map(Held::keep);
    let sums = memory.tensor(tokens * heads, 4);
    let out = memory.tensor(tokens * output.inputs, numbers.hidden).keep();
    let sums = sums.keep();
    let [y] = linear::forward(memory, [output], tokens, numbers);
    (y, [q, k, v, out, sums])
}

/// The gradient of the input, float32. `dy` is what only the output's projection needs.
pub(super) fn backward<'m>(
    memory: &'m Memory,
    [q, k, v]: [&mut Linear<'m>; 3],
    output: &mut Linear<'m>,
    saved: Saved<'m>,
    dy: Option<Held<'m>>,
    tokens: u64,
    numbers: Numbers,
) -> Held<'m> {
    let (d_out, ranks) = linear::input_gradient(memory, [&*output], tokens, numbers, numbers.hidden);
    linear::accumulate(memory, [output], tokens, ranks, numbers);
    drop(dy);
    let dys = [&*q, &*k, &*v].map(|layer| memory.tensor(tokens * layer.outputs, numbers.hidden));
    drop((saved, d_out));
    let (dx, ranks) = linear::input_gradient(memory, [&*q, &*k, &*v], tokens, numbers, 4);
    linear::accumulate(memory, [q, k, v], tokens, ranks, numbers);
    drop(dys);
    dx
}
