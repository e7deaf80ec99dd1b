//! Prefix tuning (Li & Liang 2021, arXiv:2101.00190): trained keys and values of virtual tokens, which the attention of
//! every block has before those of each sequence. As in PEFT they are not rotated, and positions of tokens begin behind
//! them.

use std::borrow::Cow;

use candle_core::{Device, Result, Tensor as Candle};
use kernels::{Element, Sequences};
use options::Dtype;

use super::{
    Pass,
    convert::Converted,
    param::Param,
    prompt::normal_embeddings,
    tensor::{Tensor, for_format},
    virtual_rows,
};

/// Keys and values of virtual tokens, for all blocks.
#[derive(Debug)]
pub struct Prefix {
    /// `[virtual tokens, blocks · 2 · width]`: a block's keys, and its values behind them.
    pub embeddings: Param,
    /// Elements of a token's keys.
    width: usize,
}

impl Prefix {
    /// Normal keys and values, as PyTorch's `nn.Embedding` has them, for blocks whose keys have `width` elements a
    /// token.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(
        (tokens, blocks, width): (usize, usize, usize),
        dtype: Dtype,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        let shape = (tokens, blocks * 2 * width);
        Ok(Self {
            embeddings: normal_embeddings(shape, dtype, seed, device)?,
            width,
        })
    }

    /// What stands before the keys and values of a block.
    pub fn of_block(&self, block: usize) -> Past<'_> {
        Past(Some(OfBlock { prefix: self, block }))
    }

    fn tokens(&self) -> usize {
        self.embeddings.value.rows()
    }

    /// The first column of a block's keys or values.
    fn column(&self, block: usize, part: usize) -> usize {
        (2 * block + part) * self.width
    }

    /// What takes the gradients of a block's keys and values.
    pub fn gradients(&mut self, block: usize) -> PastGradients<'_> {
        PastGradients(Some((self, block)))
    }

    /// Adds the gradients of a block's keys and values, which are summed over the sequences, from those of `sequences`
    /// that count virtual tokens.
    fn accumulate(&mut self, block: usize, gradients: [&Tensor; 2], sequences: &Sequences) -> Result<()> {
        for (part, gradient) in gradients.into_iter().enumerate() {
            let sum = virtual_rows::sum(gradient, self.tokens(), sequences)?;
            let first = self.column(block, part);
            self.embeddings.accumulate_columns(first, &sum)?;
        }
        Ok(())
    }
}

/// Takes the gradients of what stands before the keys and values of one block, if there is something.
#[derive(Debug)]
pub struct PastGradients<'a>(Option<(&'a mut Prefix, usize)>);

impl PastGradients<'_> {
    /// Nothing stands there.
    pub const NONE: Self = PastGradients(None);

    /// What stands there.
    pub(super) fn past(&self) -> Past<'_> {
        self.0
            .as_ref()
            .map_or(Past::NONE, |(prefix, block)| prefix.of_block(*block))
    }

    /// Adds the gradients, from those of keys and values of `sequences` that count virtual tokens.
    pub(super) fn accumulate(&mut self, gradients: [&Tensor; 2], sequences: &Sequences) -> Result<()> {
        match &mut self.0 {
            Some((prefix, block)) => prefix.accumulate(*block, gradients, sequences),
            None => Ok(()),
        }
    }
}

/// What stands before the keys and values of one block. Without anything, all is left as it is.
#[derive(Debug, Clone, Copy)]
pub struct Past<'a>(Option<OfBlock<'a>>);

/// A block's part of a prefix.
#[derive(Debug, Clone, Copy)]
struct OfBlock<'a> {
    prefix: &'a Prefix,
    block: usize,
}

impl Past<'_> {
    /// Nothing.
    pub const NONE: Self = Past(None);

    /// True if there is nothing.
    pub(super) fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// The pass with the virtual tokens as tokens of each sequence.
    pub(super) fn pass(self, pass: &Pass) -> Cow<'_, Pass> {
        let Some(OfBlock { prefix, .. }) = self.0 else {
            return Cow::Borrowed(pass);
        };
        let own = prefix.tokens();
        Cow::Owned(Pass {
            sequences: Sequences::of(pass.sequences.iter().map(|tokens| own + tokens.len())),
            ..pass.clone()
        })
    }

    /// The rows with zeros before those of each of the `sequences`, which count virtual tokens.
    pub(super) fn before(self, x: Tensor, sequences: &Sequences) -> Result<Tensor> {
        match self.0 {
            Some(OfBlock { prefix, .. }) => virtual_rows::before(&x, prefix.tokens(), None, sequences),
            None => Ok(x),
        }
    }

    /// Queries, keys and values with zeros before the rows of each sequence. The old ones are freed as it goes.
    pub(super) fn before_all(self, [q, k, v]: [Tensor; 3], sequences: &Sequences) -> Result<[Tensor; 3]> {
        let one = |x: Tensor| self.before(x, sequences);
        Ok([one(q)?, one(k)?, one(v)?])
    }

    /// The gradients of queries, keys and values without the rows of virtual tokens.
    pub(super) fn without_all(self, [dq, dk, dv]: [Tensor; 3], sequences: &Sequences) -> Result<[Tensor; 3]> {
        let Some(past) = self.0 else { return Ok([dq, dk, dv]) };
        let one = |x: Tensor| past.without(&x, sequences);
        Ok([one(dq)?, one(dk)?, one(dv)?])
    }

    /// The rows without those of virtual tokens.
    pub(super) fn without<'x>(self, x: &'x Tensor, sequences: &Sequences) -> Result<Converted<'x>> {
        match self.0 {
            Some(past) => past.without(x, sequences).map(Converted::Copy),
            None => Ok(Converted::Same(x)),
        }
    }

    /// The keys with the prefix's in the rows of virtual tokens.
    pub(super) fn keys(self, k: Tensor, sequences: &Sequences) -> Result<Tensor> {
        self.fill(0, k, sequences)
    }

    /// The values with the prefix's in the rows of virtual tokens.
    pub(super) fn values(self, v: Tensor, sequences: &Sequences) -> Result<Tensor> {
        self.fill(1, v, sequences)
    }

    fn fill(self, part: usize, x: Tensor, sequences: &Sequences) -> Result<Tensor> {
        match self.0 {
            Some(past) => past.fill(part, x, sequences),
            None => Ok(x),
        }
    }
}

impl OfBlock<'_> {
    /// The rows without those of virtual tokens.
    fn without(self, x: &Tensor, sequences: &Sequences) -> Result<Tensor> {
        let (own, cols) = (self.prefix.tokens(), x.cols());
        if !x.has_kernels() {
            let x = x.to_candle()?;
            let parts = sequences
                .iter()
                .map(|tokens| x.narrow(0, tokens.start + own, tokens.len() - own));
            return Tensor::from_candle(Candle::cat(&parts.collect::<Result<Vec<_>>>()?, 0)?);
        }
        let rows = sequences.tokens() - own * sequences.count();
        for_format!(x.dtype(), E => {
            let from = x.values::<E>()?;
            Ok(Tensor::written((rows, cols), |out: &mut [E]| {
                let mut to = out;
                for tokens in sequences.iter() {
                    let rows = &from[(tokens.start + own) * cols..tokens.end * cols];
                    let (part, rest) = to.split_at_mut(rows.len());
                    part.copy_from_slice(rows);
                    to = rest;
                }
            }))
        })
    }

    fn fill(self, part: usize, mut x: Tensor, sequences: &Sequences) -> Result<Tensor> {
        let Prefix { embeddings, width } = self.prefix;
        let first = self.prefix.column(self.block, part);
        if !x.has_kernels() {
            let prefix = embeddings.value.to_candle()?.narrow(1, first, *width)?;
            let prefix = prefix.contiguous()?.to_dtype(x.dtype())?;
            let rows = self.without(&x, sequences)?.to_candle()?;
            return virtual_rows::before_plain(&rows, &prefix, sequences);
        }
        if !memory::is_dry_run() {
            let cols = embeddings.value.cols();
            for_format!(embeddings.value.dtype(), T => for_format!(x.dtype(), E => {
                let (prefix, values) = (embeddings.value.values::<T>()?, x.values_mut::<E>()?);
                for tokens in sequences.iter() {
                    let rows = values[tokens.start * width..].chunks_exact_mut(*width);
                    for (row, prefix) in rows.zip(prefix.chunks_exact(cols)) {
                        let pairs = row.iter_mut().zip(&prefix[first..first + width]);
                        pairs.for_each(|(to, from)| *to = E::narrow(from.widen()));
                    }
                }
                Ok::<_, candle_core::Error>(())
            }))?;
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, tensor, uniform, with_plain_ops};

    const TOKENS: usize = 3;
    const WIDTH: usize = 10;

    #[test]
    fn keys_and_values_stand_before_those_of_each_sequence() {
        // Of 4 and of 2 tokens.
        let sequences = Sequences::of([TOKENS + 4, TOKENS + 2]);
        let (x, dy) = (uniform("x", &[6, WIDTH]), uniform("dy", &[12, 2 * WIDTH]));
        let start = uniform("prefix", &[TOKENS, 4 * WIDTH]);
        let of_block = |part: usize| {
            let own = &start.narrow(1, (2 + part) * WIDTH, WIDTH).unwrap();
            let parts = [own, &x.narrow(0, 0, 4).unwrap(), own, &x.narrow(0, 4, 2).unwrap()];
            Candle::cat(&parts, 0).unwrap()
        };
        let sum = (dy.narrow(0, 0, TOKENS).unwrap() + dy.narrow(0, TOKENS + 4, TOKENS).unwrap()).unwrap();
        let want = Candle::cat(&[&sum.zeros_like().unwrap(), &sum], 1).unwrap();
        let part = |of: &Candle, at: usize| tensor(&of.narrow(1, at * WIDTH, WIDTH).unwrap().contiguous().unwrap());
        let check = || {
            let mut prefix = Prefix::new((TOKENS, 2, WIDTH), Dtype::Float32, 1, &Device::Cpu).unwrap();
            prefix.embeddings.set(tensor(&start));
            let past = prefix.of_block(1);
            let longer = || past.before(tensor(&x), &sequences).unwrap();
            let keys = past.keys(longer(), &sequences).unwrap();
            assert_close(&keys, &of_block(0), 0.0, "keys");
            let values = past.values(longer(), &sequences).unwrap();
            assert_close(&values, &of_block(1), 0.0, "values");
            assert_close(
                &*past.without(&values, &sequences).unwrap(),
                &x,
                0.0,
                "values of the sequences",
            );
            let gradients = [&part(&dy, 0), &part(&dy, 1)];
            prefix.accumulate(1, gradients, &sequences).unwrap();
            assert_close(prefix.embeddings.gradient().unwrap(), &want, 1e-6, "gradient");
        };
        check();
        with_plain_ops(check);
    }
}
