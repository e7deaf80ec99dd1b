//! The device that a cell computes on.

use std::fmt;

/// A device, by its name in specs: `cpu` or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Device {
    /// The CPU.
    Cpu,
    /// The CUDA device with this index.
    Cuda(usize),
}

/// The device needs CUDA, and this build has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("device \"{0}\" cannot be used: this build has no CUDA; build with `cargo build --release --features cuda`")]
pub struct NoCuda(Device);

impl Device {
    /// The word for the first GPU of CUDA if there is one, else the CPU; for engines that find out.
    pub const AUTO: &'static str = "auto";

    /// The device of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name.split_once(':') {
            None if name == "cpu" => Some(Self::Cpu),
            Some(("cuda", index)) if index == "0" || !index.starts_with(['0', '+']) => {
                index.parse().ok().map(Self::Cuda)
            }
            _ => None,
        }
    }

    /// Checks that this build can compute on the device. A missing GPU shows only when the device is opened.
    ///
    /// # Errors
    /// If the device needs CUDA and this build has none.
    pub fn check_build(self) -> Result<(), NoCuda> {
        self.check(cfg!(feature = "cuda"))
    }

    /// Checks that a build with or without CUDA can compute on the device.
    ///
    /// # Errors
    /// If the device needs CUDA and the build has none.
    pub fn check(self, has_cuda: bool) -> Result<(), NoCuda> {
        match self {
            Self::Cuda(_) if !has_cuda => Err(NoCuda(self)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}
