//! Prompt tuning (Lester et al. 2021, arXiv:2104.08691): trained embeddings of virtual tokens, which stand before those of each
//! sequence.

use candle_core::{DType, Device, Result, Tensor as Candle};

use super::{
    convert,
    param::Param,
    tensor::{Tensor, floating, for_format},
};
use crate::{
    arch::ModuleName,
    kernels::{self, Element, Sequences},
    memory::{self, Buffer, Category},
    options::Dtype,
    peft, random,
};

/// The embeddings of virtual tokens.
#[derive(Debug)]
pub struct Prompt {
    /// `[virtual tokens, hidden]`.
    pub embeddings: Param,
}

impl Prompt {
    /// Normal embeddings `[virtual tokens, hidden]`, as PyTorch's `nn.Embedding` has them.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(shape: (usize, usize), dtype: Dtype, seed: u64, device: &Device) -> Result<Self> {
        let embeddings = normal_embeddings(shape, dtype, seed, device)?;
        Ok(Self { embeddings })
    }

    /// Number of virtual tokens.
    pub fn tokens(&self) -> usize {
        self.embeddings.value.rows()
    }

    /// The tokens' embeddings with the virtual ones before those of each of the `sequences`, which count both.
    pub(crate) fn before(&self, x: &Tensor, sequences: &Sequences) -> Result<Tensor> {
        let prompt = &self.embeddings.value;
        let (cols, own) = (x.cols(), self.tokens());
        if !x.has_kernels() {
            let (prompt, x) = (prompt.to_candle()?.to_dtype(x.dtype())?, x.to_candle()?);
            let mut parts = Vec::with_capacity(2 * sequences.count());
            for (index, tokens) in sequences.iter().enumerate() {
                parts.push(prompt.clone());
                parts.push(x.narrow(0, tokens.start - index * own, tokens.len() - own)?);
            }
            return Tensor::from_candle(Candle::cat(&parts, 0)?);
        }
        let wide = convert::widen(prompt)?;
        let prompt = wide.values::<f32>()?;
        for_format!(x.dtype(), E => {
            let mut from = x.values::<E>()?;
            Ok(Tensor::written((sequences.tokens(), cols), |out: &mut [E]| {
                for tokens in sequences.iter() {
                    let out = &mut out[tokens.start * cols..tokens.end * cols];
                    let (virtual_rows, rows) = out.split_at_mut(own * cols);
                    kernels::convert::narrow(prompt, virtual_rows);
                    let (own_rows, rest) = from.split_at(rows.len());
                    rows.copy_from_slice(own_rows);
                    from = rest;
                }
            }))
        })
    }

    /// Adds the gradients, which are summed over the sequences, from those of all embeddings, float32.
    pub(crate) fn backward(&mut self, dx: &Tensor, sequences: &Sequences) -> Result<()> {
        let (own, cols) = (self.tokens(), dx.cols());
        if !dx.has_kernels() {
            let dx = dx.to_candle_f32()?;
            let mut sum = Candle::zeros((own, cols), DType::F32, dx.device())?;
            for tokens in sequences.iter() {
                sum = (sum + dx.narrow(0, tokens.start, own)?)?;
            }
            return self.embeddings.accumulate(Tensor::from_candle(sum)?);
        }
        let values = dx.values::<f32>()?;
        let sum = Tensor::written((own, cols), |sum: &mut [f32]| {
            sum.fill(0.0);
            for tokens in sequences.iter() {
                let rows = &values[tokens.start * cols..][..own * cols];
                sum.iter_mut().zip(rows).for_each(|(sum, value)| *sum += value);
            }
        });
        self.embeddings.accumulate(sum)
    }
}

/// Normal embeddings of virtual tokens, drawn from the seed.
pub(super) fn normal_embeddings(shape: (usize, usize), dtype: Dtype, seed: u64, device: &Device) -> Result<Param> {
    let name = ModuleName::new(peft::PROMPT_ENCODER).part(peft::PROMPT_EMBEDDING);
    let mut stream = random::stream(seed, &name.to_string());
    let _scope = memory::scope(Category::Adapter);
    let normal = for_format!(floating(dtype), E => {
        let values = Buffer::<E>::from_fn(shape.0 * shape.1, |_| Element::narrow(random::normal(&mut stream)));
        Tensor::on_device(values, shape, device)
    })?;
    Ok(Param::adapter(name, normal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::testing::{assert_close, autograd, tensor, uniform, with_plain_ops};

    const TOKENS: usize = 3;
    const HIDDEN: usize = 17;

    #[test]
    fn virtual_tokens_stand_before_each_sequence() {
        // Of 4 and of 2 tokens.
        let sequences = Sequences::of([TOKENS + 4, TOKENS + 2]);
        let (x, dy) = (uniform("x", &[6, HIDDEN]), uniform("dy", &[12, HIDDEN]));
        let start = uniform("prompt", &[TOKENS, HIDDEN]);
        let of = |inputs: &[Candle]| {
            let [x, prompt] = inputs else { panic!("two inputs") };
            let parts = [prompt, &x.narrow(0, 0, 4).unwrap(), prompt, &x.narrow(0, 4, 2).unwrap()];
            Candle::cat(&parts, 0).unwrap()
        };
        let want = of(&[x.clone(), start.clone()]);
        let gradients = autograd(&[&x, &start], &dy, of);
        for dtype in [DType::F32, DType::BF16] {
            let check = || {
                let mut prompt = Prompt::new((TOKENS, HIDDEN), Dtype::Float32, 1, &Device::Cpu).unwrap();
                prompt.embeddings.set(tensor(&start));
                let x = tensor(&x.to_dtype(dtype).unwrap());
                let y = prompt.before(&x, &sequences).unwrap();
                assert_eq!(y.dtype(), dtype);
                assert_close(&y, &want, if dtype == DType::F32 { 0.0 } else { 1e-2 }, "y");
                prompt.backward(&tensor(&dy), &sequences).unwrap();
                let gradient = prompt.embeddings.gradient().unwrap();
                assert_close(gradient, &gradients[1], 1e-6, "gradient");
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn start_values_are_normal_and_follow_from_the_seed() {
        let values = |seed| {
            let prompt = Prompt::new((50, 400), Dtype::Float32, seed, &Device::Cpu).unwrap();
            prompt.embeddings.value.to_vec_f32().unwrap()
        };
        let drawn = values(1);
        let mean = drawn.iter().sum::<f32>() / drawn.len() as f32;
        let variance = drawn.iter().map(|value| value * value).sum::<f32>() / drawn.len() as f32;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{mean}, {variance}");
        assert_eq!(drawn, values(1));
        assert_ne!(drawn, values(2));
    }
}
