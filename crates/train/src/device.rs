//! The device that computes, opened.

use candle_core::Device;

use super::TrainError;

/// Opens a device.
///
/// # Errors
/// If this build has no CUDA, or candle cannot open the device.
pub(super) fn open(device: options::Device) -> Result<Device, TrainError> {
    device.check_build()?;
    match device {
        options::Device::Cpu => Ok(Device::Cpu),
        options::Device::Cuda(index) => Device::new_cuda(index).map_err(|error| TrainError::Device {
            device: device.to_string(),
            reason: error.to_string(),
        }),
    }
}
