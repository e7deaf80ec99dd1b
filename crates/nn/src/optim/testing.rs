//! What the tests of optimizers share.

use candle_core::DType;

use super::optimizer::Optimizer;
use crate::param::Param;
use crate::testing::{assert_close, param, uniform, uniform_tensor, with_plain_ops};

/// Parameters of these shapes with random values, in each dtype in turn.
pub(super) fn params(shapes: &[Vec<usize>]) -> Vec<Param> {
    let param = |(index, shape): (usize, &Vec<usize>)| {
        let dtype = [DType::F32, DType::BF16, DType::F16][index % 3];
        param("p", &uniform("p", shape).to_dtype(dtype).unwrap(), true)
    };
    shapes.iter().enumerate().map(param).collect()
}

/// Makes sure that kernels and plain ops train parameters of these shapes alike, those of float32 up to `tolerance`,
/// and that kernels do so with any number of threads. The parameter `idle` has no gradient and keeps its value.
pub(super) fn assert_kernel_and_plain_ops_agree<O: Optimizer>(
    shapes: &[Vec<usize>],
    idle: Option<usize>,
    optimizer: impl Fn() -> O,
    tolerance: f32,
) {
    let trained = || {
        let (mut params, mut optimizer) = (params(shapes), optimizer());
        for step in 0..3 {
            for (index, param) in params.iter_mut().enumerate() {
                if Some(index) != idle {
                    let gradient = uniform_tensor(&format!("{step} {index}"), param.value.dims());
                    param.accumulate(gradient).unwrap();
                }
            }
            let mut all: Vec<&mut Param> = params.iter_mut().collect();
            optimizer.step(&mut all, 0.01).unwrap();
            params.iter_mut().for_each(Param::release_gradient);
        }
        params
    };
    let (kernel, plain, again) = (trained(), with_plain_ops(trained), trained());
    for (index, ((kernel, plain), again)) in kernel.iter().zip(&plain).zip(&again).enumerate() {
        let tolerance = if kernel.value.dtype() == DType::F32 {
            tolerance
        } else {
            1e-2
        };
        assert_close(&kernel.value, &plain.value, tolerance, &format!("p{index}"));
        assert_close(&kernel.value, &again.value, 0.0, "threads do not matter");
    }
    if let Some(idle) = idle {
        let before = &params(shapes)[idle].value;
        assert_close(&kernel[idle].value, before, 0.0, "no gradient, no step");
    }
}
