//! An encoder's input: the sum of learned embeddings of token, position and token type, normed.

use candle_core::{DType, Result};
use kernels::embedding;
use memory::Buffer;

use super::{
    Pass,
    dropout::Dropout,
    embedding::without_padding,
    layer_norm::LayerNorm,
    param::Param,
    tensor::{Tensor, for_format},
};

/// The embedding of an encoder's tokens.
#[derive(Debug)]
pub struct EncoderEmbedding {
    /// A row a token, `[vocabulary, hidden]`.
    pub words: Param,
    /// A row a position.
    pub positions: Param,
    /// Every token has the first row: there is one text a sample.
    pub token_types: Option<Param>,
    /// Norm of the rows' sum.
    pub norm: LayerNorm,
    /// Follows the norm.
    pub dropout: Dropout,
    /// The token whose row is never trained (PyTorch's `padding_idx`).
    pub padding: Option<u32>,
}

impl EncoderEmbedding {
    /// `n` ids to `[n, hidden]` in the hidden dtype. Keeps nothing: the backward pass takes the sum again.
    pub fn forward(&self, ids: &Buffer<u32>, hidden: DType, pass: &Pass) -> Result<Tensor> {
        self.dropout
            .forward(self.norm.forward(&self.sum(ids, hidden, pass)?)?, pass)
    }

    /// Adds the gradients of what is trained, given that of the output, float32.
    pub fn backward(&mut self, ids: &Buffer<u32>, dy: Tensor, hidden: DType, pass: &Pass) -> Result<()> {
        let tables = [Some(&self.words), Some(&self.positions), self.token_types.as_ref()];
        if !self.norm.is_trained() && !tables.into_iter().flatten().any(|table| table.trainable) {
            return Ok(());
        }
        let dropped = self.dropout.backward(&dy, DType::F32, pass)?.copy();
        let dx = self
            .norm
            .backward(&self.sum(ids, hidden, pass)?, dropped.unwrap_or(dy))?;
        let positions = Buffer::from_fn(ids.len(), |at| pass.sequences.locate(at).1 as u32);
        self.positions.accumulate_rows(&positions, &dx)?;
        if let Some(types) = &mut self.token_types {
            types.accumulate_rows(&Buffer::zeros(ids.len()), &dx)?;
        }
        let dx = without_padding(ids, dx, self.padding)?;
        self.words.accumulate_rows(ids, &dx)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.words.push_trainable(params);
        self.positions.push_trainable(params);
        if let Some(types) = &mut self.token_types {
            types.push_trainable(params);
        }
        self.norm.trainable(params);
    }

    /// The sum that is normed, in the hidden dtype.
    fn sum(&self, ids: &Buffer<u32>, hidden: DType, pass: &Pass) -> Result<Tensor> {
        self.words.count_rows(ids.len());
        if !self.words.value.has_kernels() {
            return self.sum_plain(ids, hidden, pass);
        }
        let cols = self.words.value.cols();
        for_format!(hidden, E => {
            let (words, positions) = (self.words.value.values::<E>()?, self.positions.value.values::<E>()?);
            let types = self.token_types.as_ref().map(|types| types.value.values::<E>()).transpose()?;
            Ok(Tensor::written((ids.len(), cols), |out: &mut [E]| {
                let shared = types.map_or(&[][..], |types| &types[..cols]);
                embedding::sum_tables((words, positions, shared), ids.values(), pass.sequences.longest(), cols, out);
            }))
        })
    }

    fn sum_plain(&self, ids: &Buffer<u32>, hidden: DType, pass: &Pass) -> Result<Tensor> {
        let (words, cols) = (self.words.value.to_candle()?, self.words.value.cols());
        let ids = candle_core::Tensor::from_slice(ids.values(), ids.len(), words.device())?;
        let device = self.positions.value.device();
        let mut sum = words.index_select(&ids, 0)?.to_device(device)?.to_dtype(DType::F32)?;
        if let Some(types) = &self.token_types {
            sum = sum.broadcast_add(&types.value.to_candle_f32()?.get(0)?)?;
        }
        let (batch, len) = (pass.sequences.count(), pass.sequences.longest());
        let positions = self.positions.value.to_candle_f32()?.narrow(0, 0, len)?;
        let sum = sum.reshape((batch, len, cols))?.broadcast_add(&positions)?;
        Tensor::from_candle(sum.reshape((batch * len, cols))?.to_dtype(hidden)?)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor as Candle};

    use super::*;
    use crate::testing::{
        assert_close, assert_gradients, autograd, dropout_pass, elements, layer_norm, param, pass, tensor, uniform,
        uniform_tensor, values_of, with_plain_ops,
    };

    fn embedding(types: bool, dropout: f64) -> EncoderEmbedding {
        let table = |name: &'static str, rows| param(name, &uniform(name, &[rows, 6]), true);
        EncoderEmbedding {
            words: table("words", 9),
            positions: table("positions", 7),
            token_types: types.then(|| table("types", 2)),
            norm: layer_norm("norm", 6, true),
            dropout: Dropout::new(0, "embeddings", dropout),
            padding: None,
        }
    }

    const IDS: [u32; 6] = [3, 8, 3, 0, 4, 1];

    fn ids() -> Buffer<u32> {
        IDS.to_vec().into()
    }

    #[test]
    fn kernel_and_plain_ops_and_autograd_agree() {
        for types in [true, false] {
            let mut layer = embedding(types, 0.0);
            let (ids, dy) = (ids(), uniform("dy", &[6, 6]));
            let pass = pass(2, 3);
            let tables = values_of(&mut layer);
            let inputs: Vec<&Candle> = tables.iter().collect();
            let oracle = |inputs: &[Candle]| {
                let ids = Candle::new(&IDS, &Device::Cpu).unwrap();
                let (tables, norm) = inputs.split_at(inputs.len() - 2);
                let positions = Candle::new(&[0u32, 1, 2, 0, 1, 2], &Device::Cpu).unwrap();
                let mut sum = (tables[0].index_select(&ids, 0).unwrap()
                    + tables[1].index_select(&positions, 0).unwrap())
                .unwrap();
                if let Some(types) = tables.get(2) {
                    let first = Candle::zeros(6, DType::U32, &Device::Cpu).unwrap();
                    sum = (sum + types.index_select(&first, 0).unwrap()).unwrap();
                }
                let centred = sum.broadcast_sub(&sum.mean_keepdim(1).unwrap()).unwrap();
                let variance = centred.sqr().unwrap().mean_keepdim(1).unwrap();
                let normed = centred
                    .broadcast_div(&(variance + 1e-5).unwrap().sqrt().unwrap())
                    .unwrap();
                let scaled = normed.broadcast_mul(&norm[0]).unwrap();
                scaled.broadcast_add(&norm[1]).unwrap()
            };
            let want = oracle(&tables);
            let gradients = autograd(&inputs, &dy, oracle);
            let mut check = || {
                let y = layer.forward(&ids, DType::F32, &pass).unwrap();
                assert_close(&y, &want, 1e-5, "forward");
                layer.backward(&ids, tensor(&dy), DType::F32, &pass).unwrap();
                assert_gradients(&mut layer, &gradients, 2e-5);
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn kernel_and_plain_ops_drop_the_same() {
        let pass = dropout_pass(2, 3, 0);
        let run = || {
            let mut layer = embedding(true, 0.3);
            let y = layer.forward(&ids(), DType::F32, &pass).unwrap();
            let dy = uniform_tensor("dy", &[6, 6]);
            layer.backward(&ids(), dy, DType::F32, &pass).unwrap();
            (y, layer.words.gradient().unwrap().to_candle().unwrap())
        };
        let (kernel, plain) = (run(), with_plain_ops(run));
        assert_close(&kernel.0, &plain.0, 1e-5, "forward");
        assert_close(&kernel.1, &plain.1, 1e-5, "gradient");
        assert!(elements(&kernel.0).contains(&0.0));
    }

    #[test]
    fn the_padding_token_is_not_trained() {
        let run = || {
            let mut layer = EncoderEmbedding {
                padding: Some(3),
                ..embedding(false, 0.0)
            };
            let dy = uniform_tensor("dy", &[6, 6]);
            layer.backward(&ids(), dy, DType::F32, &pass(2, 3)).unwrap();
            elements(layer.words.gradient().unwrap())
        };
        for gradient in [run(), with_plain_ops(run)] {
            assert!(gradient[3 * 6..4 * 6].iter().all(|value| *value == 0.0));
            assert!(gradient[8 * 6..].iter().all(|value| *value != 0.0));
        }
    }
}
