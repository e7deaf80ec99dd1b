//! VeRA's factors, which all layers share.

use candle_core::{Device, Result};
use kernels::Element;
use memory::Buffer;
use options::Dtype;
use rand_mt::Mt;
use trace::Category;

use crate::tensor::{Tensor, floating, for_format};

/// Two frozen factors, as large as the layers' largest sides ask for. PEFT draws the same.
#[derive(Debug)]
pub struct SharedFactors {
    /// `[rank, most inputs]`.
    pub a: Tensor,
    /// `[most outputs, rank]`.
    pub b: Tensor,
}

impl SharedFactors {
    /// The factors that follow from `key` for layers with at most so many outputs and inputs.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(key: u64, rank: usize, (rows, cols): (usize, usize), dtype: Dtype, device: &Device) -> Result<Self> {
        // As PyTorch seeds it: by the lower half.
        let mut random = Mt::new(key as u32);
        let _scope = memory::scope(Category::Adapter);
        let mut factor = |shape: (usize, usize)| {
            for_format!(floating(dtype), E => {
                let uniform = Uniform::of_fan(shape.1);
                let values = Buffer::<E>::from_fn(shape.0 * shape.1, |_| Element::narrow(uniform.value(random.next_u32())));
                Tensor::on_device(values, shape, device)
            })
        };
        Ok(Self {
            a: factor((rank, cols))?,
            b: factor((rows, rank))?,
        })
    }
}

/// Kaiming's uniform numbers (`_kaiming_init` in PEFT's `tuners/vera/model.py`), computed as PyTorch's `uniform_` does.
struct Uniform {
    from: f32,
    range: f32,
}

impl Uniform {
    fn of_fan(fan: usize) -> Self {
        let deviation = 2f64.sqrt() / (fan as f64).sqrt();
        let bound = (3f64.sqrt() * deviation) as f32;
        Self {
            from: -bound,
            range: bound + bound,
        }
    }

    /// The lower 24 bits as a number within the range.
    fn value(&self, bits: u32) -> f32 {
        let unit = f64::from(bits & 0x00ff_ffff) / f64::from(1u32 << 24);
        (unit * f64::from(self.range) + f64::from(self.from)) as f32
    }
}
