//! A linear layer with a bias, as encoders have them.

use candle_core::{DType, Result, Tensor};

use super::{
    Pass,
    host::{self, for_format, values},
    linear::{self, Linear, RankGradients, cpu},
    param::Param,
};
use crate::kernels::columns;

/// A linear layer with a bias.
#[derive(Debug)]
pub struct Affine {
    /// The weight, `[out, in]`, and its adapter.
    pub linear: Linear,
    /// `[out]`.
    pub bias: Param,
}

/// The outputs of layers that share an input: `[n, in] → [n, out]` each, in the dtype of `x`. Keeps nothing: the backward
/// pass is given `x` again.
pub fn forward<const N: usize>(layers: [&Affine; N], x: &Tensor, pass: &Pass) -> Result<[Tensor; N]> {
    let ys = if host::has_kernels(x.device()) {
        let linears = layers.map(|layer| &layer.linear);
        cpu::forward(&linears, &layers.map(|layer| &layer.bias), x, None, pass)?
    } else {
        let plain = |layer: &&Affine| layer.forward_plain(x, pass);
        layers.iter().map(plain).collect::<Result<Vec<_>>>()?
    };
    ys.try_into()
        .map_err(|_| candle_core::Error::Msg("a layer gave no output".into()))
}

/// The sum over layers that share an input of its gradient, `[n, in]` in `dtype`, from the gradients of their outputs.
pub fn input_gradient<const N: usize>(
    layers: [&Affine; N],
    dys: [&Tensor; N],
    pass: &Pass,
    dtype: DType,
) -> Result<(Tensor, RankGradients)> {
    linear::input_gradient(layers.map(|layer| &layer.linear), dys, pass, dtype)
}

/// Adds the gradients of what is trained of layers that share the input `x`.
pub fn accumulate<const N: usize>(
    layers: [&mut Affine; N],
    x: &Tensor,
    dys: [&Tensor; N],
    ranks: RankGradients,
    pass: &Pass,
) -> Result<()> {
    let mut biases = dys.iter();
    let linears = layers.map(|layer| {
        let dy = biases.next();
        (&mut layer.linear, &mut layer.bias, dy)
    });
    let mut outcome = Ok(());
    let linears = linears.map(|(linear, bias, dy)| {
        if let (Some(dy), true) = (dy, bias.trainable && outcome.is_ok()) {
            outcome = column_sums(dy).and_then(|sums| bias.accumulate(sums));
        }
        linear
    });
    outcome?;
    linear::accumulate(linears, x, dys, ranks, pass)
}

impl Affine {
    /// The output added to `residual`, of the output's shape and the dtype of `x`.
    pub fn forward_onto(&self, x: &Tensor, residual: &Tensor, pass: &Pass) -> Result<Tensor> {
        if host::has_kernels(x.device()) {
            return Ok(cpu::forward(&[&self.linear], &[&self.bias], x, Some(residual), pass)?.remove(0));
        }
        residual + self.forward_plain(x, pass)?
    }

    /// What is trained of this layer, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = self.linear.trainable();
        params.extend(Some(&mut self.bias).filter(|bias| bias.trainable));
        params
    }

    fn forward_plain(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let y = self.linear.forward_plain(x, pass)?;
        y.broadcast_add(&self.bias.f32()?)?.to_dtype(x.dtype())
    }
}

/// The sum of each column, float32.
fn column_sums(dy: &Tensor) -> Result<Tensor> {
    if !host::has_kernels(dy.device()) {
        return dy.to_dtype(DType::F32)?.sum(0);
    }
    let cols = dy.dim(1)?;
    let sums = for_format!(dy.dtype(), E => Ok::<_, candle_core::Error>(columns::sums(&values::<E>(dy)?, cols)))?;
    Tensor::from_vec(sums, cols, dy.device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{affine, assert_close, autograd, pass, uniform, with_plain_ops};

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for (tokens, outputs, inputs, rank) in [(1, 1, 1, 1), (15, 17, 33, 3), (64, 31, 63, 0), (5, 130, 16, 16)] {
            let mut layer = affine("layer", outputs, inputs, rank, true);
            let (x, dy) = (uniform("x", &[tokens, inputs]), uniform("dy", &[tokens, outputs]));
            let pass = pass(1, tokens);
            let [y] = forward([&layer], &x, &pass).unwrap();
            assert_close(&y, &layer.forward_plain(&x, &pass).unwrap(), 1e-5, "forward");
            let onto = layer.forward_onto(&x, &dy, &pass).unwrap();
            assert_close(&onto, &(&y + &dy).unwrap(), 1e-5, "forward onto a residual");

            let values: Vec<Tensor> = layer.trainable().iter().map(|param| param.value.clone()).collect();
            let mut inputs = vec![&x];
            inputs.extend(&values);
            // The bias comes last.
            let oracle = autograd(&inputs, &dy, |inputs| {
                let (bias, rest) = inputs.split_last().unwrap();
                let mut y = rest[0].matmul(&rest[1].t().unwrap()).unwrap();
                if let [a, b] = &rest[2..] {
                    let h = rest[0].matmul(&a.t().unwrap()).unwrap();
                    y = (y + (h.matmul(&b.t().unwrap()).unwrap() * 0.5).unwrap()).unwrap();
                }
                y.broadcast_add(bias).unwrap()
            });
            let mut check = || {
                let (dx, ranks) = input_gradient([&layer], [&dy], &pass, DType::F32).unwrap();
                accumulate([&mut layer], &x, [&dy], ranks, &pass).unwrap();
                assert_close(&dx, &oracle[0], 1e-5, "dx");
                for (param, want) in layer.trainable().into_iter().zip(&oracle[1..]) {
                    assert_close(param.gradient().unwrap(), want, 1e-5, &param.name);
                    param.release_gradient();
                }
            };
            check();
            with_plain_ops(check);
        }
    }

    /// With the same rank, and with different ones.
    #[test]
    fn layers_that_share_an_input_compute_what_each_does_alone() {
        for ranks in [[3, 3], [0, 5]] {
            let (a, b) = (affine("a", 9, 12, ranks[0], true), affine("b", 33, 12, ranks[1], true));
            let x = uniform("x", &[20, 12]);
            let together = forward([&a, &b], &x, &pass(1, 20)).unwrap();
            for (layer, together) in [a, b].iter().zip(&together) {
                let [alone] = forward([layer], &x, &pass(1, 20)).unwrap();
                assert_close(together, &alone, 1e-6, "forward");
            }
        }
    }
}
