//! The tokens that the loss is of.

use std::ops::Range;

use candle_core::{Device, Result, Tensor as Candle};
use memory::Buffer;

/// The rows whose next token counts: their index among the micro-batch's tokens, and that next token.
#[derive(Debug)]
pub struct Targets {
    /// Indices of the rows among the micro-batch's tokens.
    pub rows: Buffer<u32>,
    /// The next token of each row.
    pub next: Buffer<u32>,
}

impl Targets {
    /// The targets of the tokens `rows`, `count` of them. A dry run has rows without ids.
    pub fn new(ids: &[u32], count: usize, mut rows: impl Iterator<Item = usize>) -> Self {
        let rows = Buffer::from_fn(count, |_| rows.next().unwrap_or_default() as u32);
        let next = Buffer::from_fn(count, |at| ids[rows.values()[at] as usize + 1]);
        Self { rows, next }
    }

    /// These targets in parts of so many rows.
    pub(super) fn chunks(&self, at_a_time: usize) -> impl Iterator<Item = Self> + '_ {
        let all = self.rows.len();
        (0..all)
            .step_by(at_a_time)
            .map(move |start| self.chunk(start..all.min(start + at_a_time)))
    }

    fn chunk(&self, range: Range<usize>) -> Self {
        let part = |of: &Buffer<u32>| Buffer::from_fn(range.len(), |at| of.values()[range.start + at]);
        Self {
            rows: part(&self.rows),
            next: part(&self.next),
        }
    }

    pub(super) fn next_plain(&self, device: &Device) -> Result<Candle> {
        Candle::from_slice(self.next.values(), self.next.len(), device)
    }
}
