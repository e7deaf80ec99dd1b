//! Optimizers, one a file, and the learning rate over the steps.

pub mod adamw;
pub mod clip;
pub mod schedule;

use crate::nn::{host, param::Param};

/// Whether the kernels can change these parameters, which are on one device.
fn have_kernels(params: &[&mut Param]) -> bool {
    params
        .first()
        .is_some_and(|param| host::has_kernels(param.value.device()))
}
