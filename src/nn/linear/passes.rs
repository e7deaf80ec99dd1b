//! The passes of linear layers that share an input: by kernels on the CPU, by candle's ops elsewhere.

use candle_core::{DType, Result, Tensor};

use super::{
    cpu,
    layer::{Linear, RankGradients},
};
use crate::nn::{host, pass::Pass};

/// The outputs of layers that share an input: `[n, in] → [n, out]` each, in the dtype of `x`. Keeps nothing: the backward
/// pass is given `x` again.
pub fn forward<const N: usize>(linears: [&Linear; N], x: &Tensor, pass: &Pass) -> Result<[Tensor; N]> {
    let ys = if host::has_kernels(x.device()) {
        cpu::forward(&linears, &[], x, None, pass)?
    } else {
        let plain = |linear: &&Linear| linear.forward_plain(x, pass)?.to_dtype(x.dtype());
        linears.iter().map(plain).collect::<Result<Vec<_>>>()?
    };
    ys.try_into()
        .map_err(|_| candle_core::Error::Msg("a layer gave no output".into()))
}

/// The sum over layers that share an input of its gradient, `[n, in]` in `dtype`, from the gradients of their outputs.
pub fn input_gradient<const N: usize>(
    linears: [&Linear; N],
    dys: [&Tensor; N],
    pass: &Pass,
    dtype: DType,
) -> Result<(Tensor, RankGradients)> {
    if host::has_kernels(dys[0].device()) {
        return cpu::input_gradient(&linears, &dys, pass, dtype);
    }
    let mut sum: Option<Tensor> = None;
    for (linear, dy) in linears.into_iter().zip(dys) {
        let dx = linear.input_gradient_plain(dy, pass)?;
        sum = Some(match sum {
            None => dx,
            Some(sum) => (sum + dx)?,
        });
    }
    let sum = sum.ok_or_else(|| candle_core::Error::Msg("no layer, no gradient".into()))?;
    Ok((sum.to_dtype(dtype)?, RankGradients(None)))
}

/// Adds the gradients of what is trained of layers that share the input `x`.
pub fn accumulate<const N: usize>(
    mut linears: [&mut Linear; N],
    x: &Tensor,
    dys: [&Tensor; N],
    ranks: RankGradients,
    pass: &Pass,
) -> Result<()> {
    if host::has_kernels(x.device()) {
        return cpu::accumulate(&mut linears, x, &dys, ranks, pass);
    }
    for (linear, dy) in linears.into_iter().zip(dys) {
        linear.accumulate_plain(x, dy, pass)?;
    }
    Ok(())
}

impl Linear {
    /// The output added to `residual`, of the output's shape and the dtype of `x`.
    pub fn forward_onto(&self, x: &Tensor, residual: &Tensor, pass: &Pass) -> Result<Tensor> {
        if host::has_kernels(x.device()) {
            return Ok(cpu::forward(&[self], &[], x, Some(residual), pass)?.remove(0));
        }
        residual + self.forward_plain(x, pass)?.to_dtype(x.dtype())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{
        DropoutPass,
        testing::{assert_close, autograd, linear, pass, uniform, with_plain_ops},
        weight::Weight,
    };

    /// The input's gradient, after the gradients of what is trained were added.
    fn backward(layer: &mut Linear, x: &Tensor, dy: &Tensor, pass: &Pass) -> Tensor {
        let (dx, ranks) = input_gradient([layer], [dy], pass, DType::F32).unwrap();
        accumulate([layer], x, [dy], ranks, pass).unwrap();
        dx
    }

    fn output(layer: &Linear, x: &Tensor, pass: &Pass) -> Tensor {
        let [y] = forward([layer], x, pass).unwrap();
        y
    }

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for (tokens, outputs, inputs, rank) in [(1, 1, 1, 1), (15, 17, 33, 3), (64, 31, 63, 0), (5, 130, 16, 16)] {
            let mut layer = linear("layer", outputs, inputs, rank, true);
            let (x, dy) = (uniform("x", &[tokens, inputs]), uniform("dy", &[tokens, outputs]));
            let pass = pass(1, tokens);
            let y = output(&layer, &x, &pass);
            assert_close(&y, &layer.forward_plain(&x, &pass).unwrap(), 1e-5, "forward");
            let onto = layer.forward_onto(&x, &dy, &pass).unwrap();
            assert_close(&onto, &(&y + &dy).unwrap(), 1e-5, "forward onto a residual");

            let values: Vec<Tensor> = layer.trainable().iter().map(|param| param.value.clone()).collect();
            let mut inputs = vec![&x];
            inputs.extend(&values);
            let oracle = autograd(&inputs, &dy, |inputs| {
                let y = inputs[0].matmul(&inputs[1].t().unwrap()).unwrap();
                match inputs.get(2..4) {
                    Some([a, b]) => {
                        let h = inputs[0].matmul(&a.t().unwrap()).unwrap();
                        (y + (h.matmul(&b.t().unwrap()).unwrap() * 0.5).unwrap()).unwrap()
                    }
                    _ => y,
                }
            });
            let mut check = || {
                let dx = backward(&mut layer, &x, &dy, &pass);
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

    /// With the same rank, with different ones, and with none.
    #[test]
    fn layers_that_share_an_input_compute_what_each_does_alone() {
        for ranks in [[3, 3, 3], [3, 0, 5], [0, 0, 0]] {
            let layers = || {
                let sizes = [9, 33, 4].into_iter().zip(ranks).enumerate();
                let layers = sizes.map(|(at, (outputs, rank))| linear(&format!("layer {at}"), outputs, 12, rank, true));
                <[Linear; 3]>::try_from(layers.collect::<Vec<_>>()).unwrap()
            };
            let dropout = DropoutPass {
                step: 1,
                samples: vec![4, 5],
            };
            for dropout in [None, Some(dropout)] {
                let pass = Pass { dropout, ..pass(2, 20) };
                let x = uniform("x", &[40, 12]);
                let dys = [9, 33, 4].map(|outputs| uniform("dy", &[40, outputs]));
                let ([mut a, mut b, mut c], mut alone) = (layers(), layers());
                let ys = forward([&a, &b, &c], &x, &pass).unwrap();
                let (dx, ranks) = input_gradient([&a, &b, &c], dys.each_ref(), &pass, DType::F32).unwrap();
                accumulate([&mut a, &mut b, &mut c], &x, dys.each_ref(), ranks, &pass).unwrap();
                let mut sum = dx.zeros_like().unwrap();
                for ((together, alone), (y, dy)) in [a, b, c].iter_mut().zip(&mut alone).zip(ys.iter().zip(&dys)) {
                    assert_close(&output(alone, &x, &pass), y, 1e-6, "forward");
                    sum = (sum + backward(alone, &x, dy, &pass)).unwrap();
                    for (together, alone) in together.trainable().into_iter().zip(alone.trainable()) {
                        let (together, alone) = (together.gradient().unwrap(), alone.gradient().unwrap());
                        assert_close(together, alone, 1e-6, "gradient");
                    }
                }
                assert_close(&dx, &sum, 1e-5, "dx");
            }
        }
    }

    #[test]
    fn dropout_is_the_same_in_both_passes_and_in_plain_ops() {
        let mut layer = linear("layer", 9, 12, 4, false);
        let (x, dy) = (uniform("x", &[10, 12]), uniform("dy", &[10, 9]));
        let dropout = DropoutPass {
            step: 3,
            samples: vec![0, 1],
        };
        let pass = Pass {
            dropout: Some(dropout),
            ..pass(2, 5)
        };
        let y = output(&layer, &x, &pass);
        assert_close(&y, &layer.forward_plain(&x, &pass).unwrap(), 1e-5, "forward");
        let without = output(
            &layer,
            &x,
            &Pass {
                dropout: None,
                ..pass.clone()
            },
        );
        assert!(crate::nn::testing::distance(&y, &without) > 1e-3);

        // The layer is linear in x: sum(y · dy) = sum(x · dx).
        let dot = |a: &Tensor, b: &Tensor| (a * b).unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
        let mut check = || {
            let dx = backward(&mut layer, &x, &dy, &pass);
            assert!((dot(&y, &dy) - dot(&x, &dx)).abs() < 1e-4);
        };
        check();
        with_plain_ops(check);
    }

    #[test]
    fn a_frozen_weight_never_gets_a_gradient() {
        let mut layer = linear("layer", 3, 4, 2, false);
        backward(&mut layer, &uniform("x", &[5, 4]), &uniform("dy", &[5, 3]), &pass(1, 5));
        assert_eq!(layer.trainable().len(), 2);
        let Weight::Dense(param) = &layer.weight else {
            panic!("the weight is dense")
        };
        assert!(param.gradient().is_none());
    }
}
