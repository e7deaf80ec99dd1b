//! The order of samples in transformers' Trainer, under a seed.

use std::ops::Range;

use rand_mt::Mt;

/// The order of `count` samples in an epoch, from 0: accelerate's `SeedableRandomSampler`, which the Trainer uses since
/// transformers 4.38, seeds PyTorch's generator with `seed + epoch` and takes `torch.randperm(count)`.
///
/// The permutation is `randperm_cpu` of `aten/src/ATen/native/TensorFactories.cpp` for fewer than 2^32 / 20 samples,
/// with the generator of `aten/src/ATen/core/MT19937RNGEngine.h`, which heeds the lower half of a seed.
///
/// # Panics
/// If `count` does not fit into 32 bits.
pub fn epoch_order(seed: u64, epoch: usize, count: usize) -> Vec<u32> {
    permutation(&mut Mt::new(seed.wrapping_add(epoch as u64) as u32), count)
}

/// The orders of samples, epoch after epoch, that `LengthGroupedSampler` draws and then sorts in groups: from PyTorch's
/// global generator, which the Trainer seeds when it is made (`set_seed` in `Trainer.__init__`).
///
/// Of that generator, on the CPU, an epoch takes the seed of the loader's workers (64 bits,
/// `_BaseDataLoaderIter.__init__`) and the permutation. Dropout on a GPU has a generator of its own. An evaluation
/// between epochs would take some as well.
#[derive(Debug)]
pub struct GlobalOrders(Mt);

impl GlobalOrders {
    /// The orders of a Trainer with this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mt::new(seed as u32))
    }

    /// The next epoch's order of `count` samples.
    ///
    /// # Panics
    /// If `count` does not fit into 32 bits.
    pub fn next_epoch(&mut self, count: usize) -> Vec<u32> {
        let _seed_of_workers = [self.0.next_u32(), self.0.next_u32()];
        permutation(&mut self.0, count)
    }
}

/// `torch.randperm(count)`.
fn permutation(generator: &mut Mt, count: usize) -> Vec<u32> {
    assert!(u32::try_from(count).is_ok(), "samples have numbers of 32 bits");
    let mut order: Vec<u32> = (0..count as u32).collect();
    for index in 0..count.saturating_sub(1) {
        let other = generator.next_u32() as usize % (count - index);
        order.swap(index, index + other);
    }
    order
}

/// The micro-batches of an epoch's optimizer steps, as ranges of its order. A micro-batch has `batch_size` samples and
/// a step `accumulation` micro-batches; the last ones of the epoch have what is left (`Trainer._run_epoch`).
pub fn epoch_steps(
    count: usize,
    batch_size: usize,
    accumulation: usize,
) -> impl ExactSizeIterator<Item = impl ExactSizeIterator<Item = Range<usize>>> {
    let micro_batches = count.div_ceil(batch_size);
    (0..micro_batches.div_ceil(accumulation)).map(move |step| {
        let first = step * accumulation;
        let last = micro_batches.min(first + accumulation);
        (first..last).map(move |micro| micro * batch_size..count.min((micro + 1) * batch_size))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start and the end of each micro-batch, by step.
    fn steps(count: usize, batch_size: usize, accumulation: usize) -> Vec<Vec<(usize, usize)>> {
        let steps = epoch_steps(count, batch_size, accumulation);
        steps
            .map(|micro| micro.map(|range| (range.start, range.end)).collect())
            .collect()
    }

    #[test]
    fn the_last_step_has_what_is_left() {
        assert_eq!(steps(10, 3, 2), [[(0, 3), (3, 6)], [(6, 9), (9, 10)]]);
        assert_eq!(steps(7, 3, 2), [vec![(0, 3), (3, 6)], vec![(6, 7)]]);
        assert_eq!(steps(2, 4, 8), [[(0, 2)]]);
        assert!(steps(0, 4, 8).is_empty());
    }

    #[test]
    fn an_order_has_each_sample_once() {
        for count in [0, 1, 2, 1000] {
            let mut order = epoch_order(7, 3, count);
            assert_eq!(order, epoch_order(8, 2, count), "seed and epoch are added");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count as u32));
        }
    }
}
