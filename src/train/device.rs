//! `cpu` or `cuda:N`.

use candle_core::Device;

use super::TrainError;

/// Checks that this build can compute on a device; whether the device is there shows when it is opened.
///
/// # Errors
/// A CUDA device in a build without CUDA.
pub fn check(name: &str) -> Result<(), TrainError> {
    if name.starts_with("cuda:") && !cfg!(feature = "cuda") {
        return Err(fail(
            name,
            "this build has no CUDA; build with `cargo build --release --features cuda`".into(),
        ));
    }
    Ok(())
}

pub(super) fn open(name: &str) -> Result<Device, TrainError> {
    check(name)?;
    let Some(index) = name.strip_prefix("cuda:") else {
        return Ok(Device::Cpu);
    };
    let index = index
        .parse()
        .map_err(|_| fail(name, format!("{index:?} is not a device number")))?;
    Device::new_cuda(index).map_err(|error| fail(name, error.to_string()))
}

fn fail(name: &str, reason: String) -> TrainError {
    TrainError::Device {
        device: name.to_owned(),
        reason,
    }
}
