//! Prompt tuning (Lester et al. 2021, arXiv:2104.08691): trained embeddings of virtual tokens, which stand before those
//! of each sequence.

use arch::ModuleName;
use base::random;
use candle_core::{Device, Result};
use kernels::{Element, Sequences};
use memory::Buffer;
use options::Dtype;
use trace::Category;

use super::{
    param::Param,
    tensor::{Tensor, floating, for_format},
    virtual_rows,
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
    pub fn before(&self, x: &Tensor, sequences: &Sequences) -> Result<Tensor> {
        virtual_rows::before(x, self.tokens(), Some(&self.embeddings.value), sequences)
    }

    /// Adds the gradients, which are summed over the sequences, from those of all embeddings, float32.
    pub fn backward(&mut self, dx: &Tensor, sequences: &Sequences) -> Result<()> {
        let sum = virtual_rows::sum(dx, self.tokens(), sequences)?;
        self.embeddings.accumulate(sum)
    }
}

/// Normal embeddings of virtual tokens, drawn from the seed.
pub(super) fn normal_embeddings(shape: (usize, usize), dtype: Dtype, seed: u64, device: &Device) -> Result<Param> {
    let name = ModuleName::new(options::methods::PROMPT_ENCODER).part(options::methods::PROMPT_EMBEDDING);
    let mut stream = random::stream(seed, &name.to_string());
    let _scope = memory::scope(Category::Adapter);
    let normal = for_format!(floating(dtype), E => {
        let values = Buffer::<E>::from_fn(shape.0 * shape.1, |_| Element::narrow(random::normal(&mut stream)));
        Tensor::on_device(values, shape, device)
    })?;
    let mut embeddings = Param::adapter(name, normal);
    // As in PEFT, whose optimizers know it by that.
    embeddings.is_embedding = true;
    Ok(embeddings)
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Tensor as Candle};

    use super::*;
    use crate::testing::{assert_close, autograd, tensor, uniform, with_plain_ops};

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
