//! Clipping by the global norm (Pascanu et al. 2013, arXiv:1211.5063), as `torch.nn.utils.clip_grad_norm_`.

use candle_core::Result;
use rayon::prelude::*;

use super::optimizer::have_kernels;
use crate::{
    param::Param,
    tensor::{Tensor, for_format},
};

/// Divides the gradients by the scale of the loss, and scales them down so that their global L2 norm is at most
/// `max_norm`; 0 switches clipping off. Returns the norm before clipping, which a dry run does not know. Gradients
/// whose norm is not finite stay as they are.
///
/// # Errors
/// Errors of candle.
pub fn clip_gradients(params: &mut [&mut Param], max_norm: f64, loss_scale: f64) -> Result<f64> {
    if params.iter().any(|param| param.has_gradient_away()) {
        return clip_on_host(params, max_norm, loss_scale);
    }
    // All parameters share a parallel region: adapters are many and small.
    if memory::is_dry_run() {
        return Ok(0.0);
    }
    let kernels = have_kernels(params);
    let squares: Vec<f64> = if kernels {
        let squares = params
            .par_iter()
            .map(|param| param.gradient().map_or(Ok(0.0), sum_of_squares));
        squares.collect::<Result<_>>()
    } else {
        let gradients = params.iter().filter_map(|param| param.gradient());
        gradients.map(sum_of_squares_plain).collect::<Result<_>>()
    }?;
    let norm = squares.iter().sum::<f64>().sqrt() / loss_scale;
    if let Some(factor) = factor(norm, max_norm, loss_scale) {
        if kernels {
            params
                .par_iter_mut()
                .try_for_each(|param| param.scale_gradient(factor))?;
        } else {
            params.iter_mut().try_for_each(|param| param.scale_gradient(factor))?;
        }
    }
    Ok(norm)
}

/// Clips one parameter after the other, whose gradients come from the host's memory and go there again. A dry run takes
/// one of the two passes, which allocate alike.
fn clip_on_host(params: &mut [&mut Param], max_norm: f64, loss_scale: f64) -> Result<f64> {
    let mut squares = 0.0;
    for param in &mut *params {
        let is_away = param.has_gradient_away();
        param.bring_gradient_back()?;
        squares += match param.gradient() {
            Some(_) if memory::is_dry_run() => 0.0,
            Some(gradient) if gradient.has_kernels() => sum_of_squares(gradient)?,
            Some(gradient) => sum_of_squares_plain(gradient)?,
            None => 0.0,
        };
        if is_away {
            param.send_gradient_away()?;
        }
    }
    let norm = squares.sqrt() / loss_scale;
    if let Some(factor) = factor(norm, max_norm, loss_scale) {
        for param in params {
            let is_away = param.has_gradient_away();
            param.bring_gradient_back()?;
            param.scale_gradient(factor)?;
            if is_away {
                param.send_gradient_away()?;
            }
        }
    }
    Ok(norm)
}

/// What gradients of this norm, times the scale of the loss, are multiplied by, if they are.
fn factor(norm: f64, max_norm: f64, loss_scale: f64) -> Option<f64> {
    let clipped = match max_norm > 0.0 && norm > max_norm {
        true => max_norm / (norm + 1e-6),
        false => 1.0,
    };
    let factor = clipped / loss_scale;
    (factor != 1.0 && norm.is_finite()).then_some(factor)
}

fn sum_of_squares(gradient: &Tensor) -> Result<f64> {
    for_format!(gradient.dtype(), E => Ok(kernels::sum_of_squares(gradient.values::<E>()?)))
}

fn sum_of_squares_plain(gradient: &Tensor) -> Result<f64> {
    let sum = gradient.to_candle_f32()?.sqr()?.sum_all()?;
    Ok(f64::from(sum.to_scalar::<f32>()?))
}

#[cfg(test)]
mod tests {
    use arch::{ModuleName, WeightName};
    use candle_core::DType;

    use super::*;
    use crate::optim::testing::params;
    use crate::testing::{assert_close, uniform_tensor, with_plain_ops};

    const NAME: WeightName = ModuleName::new("p").part("weight");

    #[test]
    fn the_norm_is_over_all_gradients_and_clipping_brings_it_down() {
        let value = |values: &[f32]| Tensor::from_f32(values, values.len(), DType::F32).unwrap();
        let mut params = [
            Param::adapter(NAME, value(&[0.0, 0.0])),
            Param::adapter(NAME, value(&[0.0])),
            Param::adapter(NAME, value(&[0.0])),
        ];
        params[0].accumulate(value(&[3.0, 0.0])).unwrap();
        params[2].accumulate(value(&[4.0])).unwrap();
        let [a, none, b] = &mut params;
        assert_eq!(clip_gradients(&mut [a, none, b], 0.0, 1.0).unwrap(), 5.0);
        assert_eq!(clip_gradients(&mut [a, none, b], 6.0, 1.0).unwrap(), 5.0);
        assert_eq!(clip_gradients(&mut [a, none, b], 1.0, 1.0).unwrap(), 5.0);
        assert!((clip_gradients(&mut [a, none, b], 1.0, 1.0).unwrap() - 1.0).abs() < 1e-5);
        assert!((b.gradient().unwrap().to_vec_f32().unwrap()[0] - 0.8).abs() < 1e-5);
        assert!(none.gradient().is_none());
    }

    #[test]
    fn scaled_gradients_are_those_of_the_loss() {
        let clipped = |scale: f64, max_norm| {
            let mut param = Param::adapter(NAME, Tensor::from_f32(&[0.0; 2], 2, DType::F32).unwrap());
            let gradient = [3.0, 4.0].map(|value| (value * scale) as f32);
            param
                .accumulate(Tensor::from_f32(&gradient, 2, DType::F32).unwrap())
                .unwrap();
            let norm = clip_gradients(&mut [&mut param], max_norm, scale).unwrap();
            (norm, param.gradient().unwrap().to_vec_f32().unwrap())
        };
        for max_norm in [0.0, 1.0, 6.0] {
            let (want, got) = (clipped(1.0, max_norm), clipped(65536.0, max_norm));
            assert_eq!(got.0, want.0);
            let pairs = got.1.iter().zip(&want.1);
            assert!(pairs.clone().all(|(got, want)| (got - want).abs() < 1e-6), "{pairs:?}");
        }
        assert!(!clipped(f64::from(f32::MAX), 1.0).0.is_finite());
    }

    #[test]
    fn kernel_and_plain_ops_agree() {
        // Many small ones, a large one, and each dtype.
        let clipped = || {
            let mut shapes: Vec<Vec<usize>> = (0..40).map(|index| vec![3, 1 + index]).collect();
            shapes[7] = vec![130, 301];
            let mut params = params(&shapes);
            for (index, param) in params.iter_mut().enumerate() {
                let gradient = uniform_tensor(&format!("g{index}"), param.value.dims());
                param.accumulate(gradient).unwrap();
            }
            let norm = clip_gradients(&mut params.iter_mut().collect::<Vec<_>>(), 2.0, 1.0).unwrap();
            (norm, params)
        };
        let ((norm, kernel), (norm_plain, plain)) = (clipped(), with_plain_ops(clipped));
        assert!(
            (norm / norm_plain - 1.0).abs() < 1e-5,
            "{norm} by kernels, {norm_plain} by plain ops"
        );
        for (index, (kernel, plain)) in kernel.iter().zip(&plain).enumerate() {
            assert_close(
                kernel.gradient().unwrap(),
                plain.gradient().unwrap(),
                1e-2,
                &format!("p{index}"),
            );
        }
        assert_eq!(clipped().0, norm, "threads do not matter");
    }
}
