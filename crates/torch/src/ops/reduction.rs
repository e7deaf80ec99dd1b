//! Sums over rows, which PyTorch's kernel splits among blocks of threads if there are many rows and few columns
//! (`aten/src/ATen/native/cuda/Reduce.cuh`).

use trace::Category;

use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::tape::{Tape, Tensor};

/// Threads of a block.
const THREADS: u64 = 512;
const WARP: u64 = 32;
/// Numbers of a thread: beyond the most, a column is split among blocks whose threads have no fewer than the least.
const LEAST_VALUES: u64 = 16;
const MOST_VALUES: u64 = 256;

impl<'t> Tensor<'t> {
    /// The sum over all that `dims` lacks, in the engine.
    pub(crate) fn sum_to(&self, dims: &[u32]) -> Tensor<'t> {
        let sum = self.tape.empty(dims, self.dtype());
        let columns = sum.numel();
        if self.dims().ends_with(dims) && columns > 0 {
            self.tape.use_staging(self.numel() / columns, columns);
        }
        sum
    }
}

impl Tape {
    /// The blocks that share columns hand each other what they have in memory, with a counter for each column's blocks.
    pub(crate) fn use_staging(&self, rows: u64, columns: u64) {
        if self.backend == Backend::Cpu {
            return;
        }
        let at_once = self.multiprocessors * self.capability.threads();
        if let Some(Staging { numbers, counters }) = staging(rows, columns, at_once) {
            let numbers = self.bytes(numbers * Dtype::Float32.size(), Category::Temporary);
            let counters = self.bytes(counters * 4, Category::Temporary);
            drop((counters, numbers));
        }
    }
}

/// What blocks of threads share.
#[derive(Debug, PartialEq, Eq)]
struct Staging {
    numbers: u64,
    counters: u64,
}

/// The choices of `setReduceConfig`, on a GPU that runs so many threads at once. None if a block has columns for
/// itself.
fn staging(rows: u64, columns: u64, at_once: u64) -> Option<Staging> {
    let vector = [4, 2, 1].into_iter().find(|width| columns.is_multiple_of(*width))?;
    let most = THREADS / vector;
    let least_power = |count: u64| if count < most { 1 << count.max(1).ilog2() } else { most };
    let (width, height) = (least_power(columns / vector), least_power(rows));
    let height = height.min(most / width.min(WARP));
    let width = width.min(most / height);
    if rows < (height * 16).min(MOST_VALUES) {
        return None;
    }
    let values = rows.div_ceil(height);
    let blocks = (columns / vector).div_ceil(width);
    let most_blocks = at_once / (width * height);
    if values < MOST_VALUES || blocks > most_blocks {
        return None;
    }
    let fewest = values.div_ceil(MOST_VALUES);
    let split = most_blocks
        .div_ceil(blocks)
        .min(values.div_ceil(LEAST_VALUES))
        .max(fewest);
    (split > 1).then_some(Staging {
        numbers: columns * split * width * vector,
        counters: blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an H100 took for the gradients of biases (torch 2.11).
    #[test]
    fn staging_is_what_a_gpu_took() {
        const H100: u64 = 132 * 2048;
        for (rows, columns, bytes) in [
            (1024, 1536, Some((12_582_912, 48))),
            (1024, 576, Some((4_718_592, 20))),
            (1024, 49152, Some((150_994_944, 1536))),
            (2048, 768, Some((12_582_912, 24))),
            (1024, 16, None),
            (333, 8192, None),
            (16, 2, None),
        ] {
            let staging = staging(rows, columns, H100);
            let taken = staging.map(|staging| (4 * staging.numbers, 4 * staging.counters));
            assert_eq!(taken, bytes, "{rows} x {columns}");
        }
    }
}
