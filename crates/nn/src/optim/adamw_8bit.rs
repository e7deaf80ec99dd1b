//! AdamW with moments of 8 bits, as bitsandbytes' `AdamW8bit`: a code of a dynamic map for each element, and a scale
//! for each block of 256. Small tensors and embeddings have moments in float32, as AdamW has ([`has_8bit_states`]).

use candle_core::{D, DType, Device, Result, Tensor as Candle};
use kernels::{
    adamw,
    adamw_8bit::{self, BLOCK, Coefficients},
    codebook::Codebook8,
};
use memory::{Buffer, tiers::Slot};
use options::{AdamwOptions, has_8bit_states};
use quant::dynamic::{SIGNED, UNSIGNED};
use trace::Category;

use super::{
    adamw::{AdamwRule, moments_plain},
    each_param::ParamRule,
    elementwise::{Rule, state},
};
use crate::{
    param::Param,
    tensor::{Tensor, for_format},
};

/// The rule of a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adamw8bitRule(pub(super) AdamwOptions);

/// The two moments of a parameter.
#[derive(Debug)]
pub(super) enum Moments {
    Float32([Tensor; 2]),
    Blocks([Moment; 2]),
}

/// A moment in codes.
#[derive(Debug)]
pub(super) struct Moment {
    codes: Codes,
    absmax: Tensor,
}

/// Codes in this process's memory, or candle's of one dimension.
#[derive(Debug)]
enum Codes {
    Cpu(Buffer<u8>),
    Candle(Candle),
}

/// The meaning of the two moments' codes.
fn codebooks() -> [&'static Codebook8; 2] {
    [&SIGNED, &UNSIGNED]
}

impl Adamw8bitRule {
    fn coefficients(&self, step: usize, learning_rate: f64) -> Coefficients {
        let options = self.0;
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        let beta = |beta: f64| [beta as f32, (1.0 - beta) as f32];
        Coefficients {
            beta1: beta(options.beta1),
            beta2: beta(options.beta2),
            epsilon: options.epsilon as f32,
            decay: (1.0 - learning_rate * options.weight_decay) as f32,
            rate: (learning_rate / (1.0 - options.beta1.powi(step))) as f32,
            root_correction: (1.0 - options.beta2.powi(step)).sqrt() as f32,
        }
    }
}

impl ParamRule for Adamw8bitRule {
    type State = Moments;

    fn new_state(&self, param: &Param) -> Result<Moments> {
        let (count, device) = (param.value.len(), param.value.device());
        if !has_8bit_states(count, param.is_embedding) {
            let moment = || state(param.value.shape(), DType::F32, device);
            return Ok(Moments::Float32([moment()?, moment()?]));
        }
        Ok(Moments::Blocks([
            Moment::new(count, device)?,
            Moment::new(count, device)?,
        ]))
    }

    fn slots(state: &mut Moments) -> impl Iterator<Item = &mut dyn Slot> {
        let slots: Vec<&mut dyn Slot> = match state {
            Moments::Float32(moments) => moments.iter_mut().map(Tensor::slot).collect(),
            Moments::Blocks(moments) => moments.iter_mut().flat_map(Moment::slots).collect(),
        };
        slots.into_iter()
    }

    fn update(&self, param: &mut Param, state: &mut Moments, step: usize, learning_rate: f64) -> Result<()> {
        let (value, Some(gradient)) = param.value_and_gradient() else {
            return Ok(());
        };
        for_format!(value.dtype(), E => {
            let (values, gradients) = (value.values_mut::<E>()?, gradient.values::<E>()?);
            match state {
                Moments::Float32([m, v]) => {
                    let c = AdamwRule(self.0).coefficients(step, learning_rate);
                    adamw::step(values, gradients, m.values_mut()?, v.values_mut()?, c);
                }
                Moments::Blocks([m, v]) => {
                    let [signed, unsigned] = codebooks();
                    let (m, v) = (m.in_kernel(signed)?, v.in_kernel(unsigned)?);
                    adamw_8bit::step(values, gradients, m, v, self.coefficients(step, learning_rate));
                }
            }
            Ok(())
        })
    }

    fn update_plain(&self, param: &mut Param, state: &mut Moments, step: usize, learning_rate: f64) -> Result<()> {
        let c = AdamwRule(self.0).coefficients(step, learning_rate);
        let Some(gradient) = param.gradient() else {
            return Ok(());
        };
        let gradient = gradient.to_candle_f32()?;
        let change = match state {
            Moments::Float32([m, v]) => {
                let (mut first, mut second) = (m.to_candle()?, v.to_candle()?);
                let change = moments_plain(&gradient, &mut first, &mut second, c)?;
                (*m, *v) = (Tensor::from_candle(first)?, Tensor::from_candle(second)?);
                change
            }
            Moments::Blocks([m, v]) => {
                let [signed, unsigned] = codebooks();
                let flat = gradient.flatten_all()?;
                let (mut first, mut second) = (m.values_plain(signed)?, v.values_plain(unsigned)?);
                let change = moments_plain(&flat, &mut first, &mut second, c)?;
                m.set_plain(&first, signed)?;
                v.set_plain(&second, unsigned)?;
                change.reshape(gradient.shape())?
            }
        };
        let value = ((param.value.to_candle_f32()? * f64::from(c.decay))? - change)?;
        param.set(Tensor::from_candle(value.to_dtype(param.value.dtype())?)?);
        Ok(())
    }
}

impl Moment {
    /// Zeros.
    fn new(count: usize, device: &Device) -> Result<Self> {
        let codes = if device.is_cpu() {
            let _scope = memory::scope(Category::OptimizerState);
            let codes = Buffer::zeros(count);
            codes.describe("uint8", &[count]);
            Codes::Cpu(codes)
        } else {
            Codes::Candle(Candle::zeros(count, DType::U8, device)?)
        };
        let absmax = state(count.div_ceil(BLOCK).into(), DType::F32, device)?;
        Ok(Self { codes, absmax })
    }

    fn slots(&mut self) -> [&mut dyn Slot; 2] {
        let codes: &mut dyn Slot = match &mut self.codes {
            Codes::Cpu(codes) => codes,
            Codes::Candle(codes) => codes,
        };
        [codes, self.absmax.slot()]
    }

    fn in_kernel<'a>(&'a mut self, codebook: &'a Codebook8) -> Result<adamw_8bit::Moment<'a>> {
        let Codes::Cpu(codes) = &mut self.codes else {
            candle_core::bail!("a kernel was given codes of candle's");
        };
        Ok(adamw_8bit::Moment {
            codes: codes.values_mut(),
            absmax: self.absmax.values_mut()?,
            codebook,
        })
    }

    /// The values of the codes, in float32, by candle's ops.
    fn values_plain(&self, codebook: &Codebook8) -> Result<Candle> {
        let codes = match &self.codes {
            Codes::Cpu(codes) => Candle::from_slice(codes.values(), codes.len(), &Device::Cpu)?,
            Codes::Candle(codes) => codes.clone(),
        };
        let map = Candle::from_slice(codebook.values(), 256, codes.device())?;
        // candle gives zeros for a byte of 255, so the bytes are widened.
        let values = map.index_select(&codes.to_dtype(DType::U32)?, 0)?;
        in_blocks(&values)?
            .broadcast_mul(&self.absmax.to_candle()?.unsqueeze(1)?)?
            .flatten_all()?
            .narrow(0, 0, values.elem_count())
    }

    /// Puts values in codes, by candle's ops.
    fn set_plain(&mut self, values: &Candle, codebook: &Codebook8) -> Result<()> {
        let blocks = in_blocks(values)?;
        let absmax = blocks.abs()?.max_keepdim(D::Minus1)?;
        let scaled = blocks.broadcast_div(&absmax.maximum(1e-38)?)?;
        let scaled = scaled.flatten_all()?.narrow(0, 0, values.elem_count())?;
        self.codes = Codes::Candle(nearest_plain(&scaled, codebook)?);
        self.absmax = Tensor::from_candle(absmax.squeeze(1)?)?;
        Ok(())
    }
}

/// Whole blocks, one a row; the last is filled up with zeros.
fn in_blocks(values: &Candle) -> Result<Candle> {
    let count = values.elem_count();
    let blocks = count.div_ceil(BLOCK);
    values
        .pad_with_zeros(0, 0, blocks * BLOCK - count)?
        .reshape((blocks, BLOCK))
}

/// The number of bounds below each value, by bisection.
fn nearest_plain(values: &Candle, codebook: &Codebook8) -> Result<Candle> {
    let bounds = Candle::from_slice(codebook.bounds(), 256, values.device())?;
    let mut codes = values.zeros_like()?;
    for bit in [128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0] {
        let bound = bounds.index_select(&(&codes + (bit - 1.0))?.to_dtype(DType::U32)?, 0)?;
        let is_above = values.gt(&bound)?.to_dtype(DType::F32)?;
        codes = (codes + (is_above * bit)?)?;
    }
    codes.to_dtype(DType::U8)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use candle_core::{IndexOp, safetensors};

    use super::*;
    use crate::optim::{each_param::EachParam, optimizer::Optimizer, testing::assert_kernel_and_plain_ops_agree};
    use crate::testing::{assert_close, elements, param, tensor};

    fn optimizer(weight_decay: f64) -> EachParam<Adamw8bitRule> {
        let options = AdamwOptions {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay,
        };
        EachParam::new(Adamw8bitRule(options), false)
    }

    fn golden() -> std::collections::HashMap<String, Candle> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/adamw_8bit.safetensors");
        safetensors::load(file, &Device::Cpu).unwrap()
    }

    /// bitsandbytes' states after each step, and its values after the last (`python/golden/optimizers.py`).
    #[test]
    fn states_are_bitsandbytes_bit_for_bit() {
        let golden = golden();
        for (case, dtype, weight_decay) in [
            ("float32", DType::F32, 0.0),
            ("float32.decay", DType::F32, 0.1),
            ("bfloat16", DType::BF16, 0.1),
        ] {
            let of = |what: &str| &golden[&format!("{case}.{what}")];
            let mut param = param("p", &of("start").to_dtype(dtype).unwrap(), true);
            let mut optimizer = optimizer(weight_decay);
            for step in 0..4 {
                let gradient = of("gradients").i(step).unwrap().to_dtype(DType::F32).unwrap();
                param.accumulate(tensor(&gradient)).unwrap();
                optimizer.step(&mut [&mut param], 0.01).unwrap();
                param.release_gradient();
                let Moments::Blocks(moments) = &optimizer.states[0] else {
                    panic!("a tensor of 4396 elements has codes");
                };
                for (at, moment) in moments.iter().enumerate() {
                    let what = format!("{case}, step {step}, moment {}", at + 1);
                    let after = |key: &str| of(&format!("{key}{}", at + 1)).i(step).unwrap().flatten_all().unwrap();
                    let Codes::Cpu(codes) = &moment.codes else {
                        panic!("the codes are in a buffer")
                    };
                    assert_eq!(codes.values(), after("state").to_vec1::<u8>().unwrap(), "{what}");
                    let absmax: Vec<u32> = elements(&moment.absmax).iter().map(|value| value.to_bits()).collect();
                    let want: Vec<f32> = after("absmax").to_vec1().unwrap();
                    assert_eq!(
                        absmax,
                        want.iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
                        "{what}"
                    );
                }
            }
            let tolerance = if dtype == DType::F32 { 1e-6 } else { 1.0 / 256.0 };
            assert_close(&param.value, of("values"), tolerance, case);
        }
    }

    #[test]
    fn the_unsigned_map_is_bitsandbytes() {
        let want: Vec<f32> = golden()["unsigned_map"].to_vec1().unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(UNSIGNED.values()), bits(&want));
    }

    #[test]
    fn kernel_and_plain_ops_agree() {
        // Codes and moments in float32, a short last block, and one without a gradient. A moment between two codes can
        // take either.
        let shapes: [&[usize]; 6] = [&[64, 64], &[3, 50], &[5000], &[130, 301], &[4096], &[70, 90]];
        assert_kernel_and_plain_ops_agree(&shapes.map(<[usize]>::to_vec), Some(4), || optimizer(0.1), 1e-2);
    }
}
