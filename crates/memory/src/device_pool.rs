//! The memory pool of a CUDA device. All tensors of a process on that device are allocated from it, in stream order.

#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::{
    result::{device, mem_pool},
    sys::{CUmemPool_attribute, CUmemoryPool},
};
use candle_core::{Device, Result};

/// The pool of a GPU.
pub struct DevicePool {
    #[cfg(feature = "cuda")]
    pool: CUmemoryPool,
    device: Device,
}

/// Figures of a pool, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PoolBytes {
    /// Allocated now.
    pub used: Option<u64>,
    /// The most allocated at once since the last reset.
    pub used_peak: Option<u64>,
    /// Held of the device now.
    pub reserved: Option<u64>,
    /// The most held at once since the last reset.
    pub reserved_peak: Option<u64>,
}

impl DevicePool {
    /// The pool that tensors on `device` are allocated from; `None` on the CPU.
    pub fn of(device: &Device) -> Option<Self> {
        match device {
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let context = cuda.cuda_stream().context().clone();
                context.bind_to_thread().ok()?;
                // SAFETY: the device is that of a live context.
                let pool = unsafe { device::get_mem_pool(context.cu_device()) }.ok()?;
                let device = device.clone();
                Some(Self { pool, device })
            }
            _ => None,
        }
    }

    /// Waits for the device and reads the figures.
    ///
    /// # Errors
    /// If something that the device was asked to do has failed.
    pub fn read(&self) -> Result<PoolBytes> {
        self.device.synchronize()?;
        #[cfg(not(feature = "cuda"))]
        return Ok(PoolBytes::default());
        #[cfg(feature = "cuda")]
        Ok(PoolBytes {
            used: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
            used_peak: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH),
            reserved: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
            reserved_peak: self.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
        })
    }

    /// Lets the peaks begin from what is allocated and held now. Returns false if the driver cannot.
    pub fn reset_peaks(&self) -> bool {
        #[cfg(not(feature = "cuda"))]
        return false;
        #[cfg(feature = "cuda")]
        [
            CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
        ]
        .into_iter()
        .all(|attribute| self.reset(attribute))
    }

    #[cfg(feature = "cuda")]
    fn get(&self, attribute: CUmemPool_attribute) -> Option<u64> {
        let mut value = 0_u64;
        // SAFETY: the pool is the device's own and lives as long; these attributes are 64-bit numbers.
        unsafe { mem_pool::get_attribute(self.pool, attribute, (&raw mut value).cast()) }.ok()?;
        Some(value)
    }

    #[cfg(feature = "cuda")]
    fn reset(&self, attribute: CUmemPool_attribute) -> bool {
        let mut zero = 0_u64;
        // SAFETY: as in `get`.
        unsafe { mem_pool::set_attribute(self.pool, attribute, (&raw mut zero).cast()) }.is_ok()
    }
}
