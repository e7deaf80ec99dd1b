//! The order in which tensors of a checkpoint arrive on the GPU and are quantised.

/// The order of loading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOrder {
    /// Each tensor is quantised before the next arrives.
    InTurn,
    /// Threads bring tensors, and the main thread quantises those that have arrived.
    Threads {
        /// The number of threads that bring tensors.
        workers: usize,
        /// The time that the main thread takes for a tensor, as the bytes that a worker would copy in it.
        main: u64,
    },
    /// All tensors arrive before the first is quantised.
    AllFirst,
}

/// A block that is taken and released before anything is loaded, so that the allocator has its memory at hand
/// (`caching_allocator_warmup` in `modeling_utils.py`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// No such block.
    None,
    /// As large as all weights before they are quantised.
    Unquantised,
    /// Half of that.
    Half,
    /// As large as the weights are to be, without their scales.
    Quantised,
}

impl WarmUp {
    /// The largest block on a GPU with `free` free bytes: 95 % of them until 4.52.0, then all but 1.2 GiB.
    pub(super) fn largest(self, free: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::Unquantised => free / 20 * 19,
            Self::Half | Self::Quantised => free.saturating_sub((6 << 30) / 5),
        }
    }
}

/// A tensor of a checkpoint, by its place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It arrives on the GPU.
    Arrives(usize),
    /// The main thread takes it.
    Taken(usize),
}

/// A worker's time for a tensor beside its bytes, as bytes.
const PER_TENSOR: u64 = 128 << 10;

impl LoadOrder {
    /// Threads as fast as no source says: the four of transformers (`GLOBAL_WORKERS`) copy equally fast, and the main
    /// thread takes as long for a tensor as one of them for half a MiB, about half a millisecond.
    pub const THREADS: Self = Self::Threads {
        workers: 4,
        main: 512 << 10,
    };

    /// The orders that threads may take elsewhere: none ahead of the main thread or all of them, on two cores or more,
    /// and with a main thread that takes no time or twice as long.
    pub const OTHER_THREADS: [Self; 5] = [
        Self::InTurn,
        Self::Threads {
            workers: 2,
            main: 512 << 10,
        },
        Self::Threads { workers: 4, main: 0 },
        Self::Threads {
            workers: 4,
            main: 1 << 20,
        },
        Self::AllFirst,
    ];

    /// The instants of tensors of these sizes, each in bytes, in order.
    pub(super) fn arrivals(self, sizes: &[u64]) -> Vec<Arrival> {
        let all = 0..sizes.len();
        match self {
            Self::InTurn => all.flat_map(|at| [Arrival::Arrives(at), Arrival::Taken(at)]).collect(),
            Self::AllFirst => {
                let taken = all.clone().map(Arrival::Taken);
                all.map(Arrival::Arrives).chain(taken).collect()
            }
            Self::Threads { workers, main } => threads(workers.max(1), main, sizes),
        }
    }
}

/// The worker that is free first brings the next tensor. Its memory is taken at once; the main thread waits for the
/// copy.
fn threads(workers: usize, main: u64, sizes: &[u64]) -> Vec<Arrival> {
    let mut free_at = vec![0_u64; workers];
    let mut main_free_at = 0;
    let mut begun = Vec::with_capacity(sizes.len());
    let mut taken = Vec::with_capacity(sizes.len());
    for (at, size) in sizes.iter().enumerate() {
        let first = free_at.iter_mut().min();
        let Some(worker) = first else { break };
        begun.push((*worker, Arrival::Arrives(at)));
        *worker += size + PER_TENSOR;
        main_free_at = worker.max(&mut main_free_at).to_owned() + main;
        taken.push((main_free_at, Arrival::Taken(at)));
    }
    // Both are in the order of time. A worker that is done goes on before the main thread has heard of it.
    let mut arrivals = Vec::with_capacity(2 * sizes.len());
    let mut begun = begun.into_iter().peekable();
    for (instant, take) in taken {
        while let Some((_, arrival)) = begun.next_if(|&(begin, _)| begin <= instant) {
            arrivals.push(arrival);
        }
        arrivals.push(take);
    }
    arrivals
}

#[cfg(test)]
mod tests {
    use super::Arrival::{Arrives, Taken};
    use super::*;

    #[test]
    fn orders_differ_in_what_waits_for_the_main_thread() {
        let sizes = [1 << 20; 3];
        let in_turn = [Arrives(0), Taken(0), Arrives(1), Taken(1), Arrives(2), Taken(2)];
        assert_eq!(LoadOrder::InTurn.arrivals(&sizes), in_turn);
        let all_first = [Arrives(0), Arrives(1), Arrives(2), Taken(0), Taken(1), Taken(2)];
        assert_eq!(LoadOrder::AllFirst.arrivals(&sizes), all_first);
        assert_eq!(
            LoadOrder::THREADS.arrivals(&sizes),
            all_first,
            "four workers for three tensors"
        );
        let two = LoadOrder::Threads { workers: 2, main: 0 };
        let arrivals = [Arrives(0), Arrives(1), Arrives(2), Taken(0), Taken(1), Taken(2)];
        assert_eq!(
            two.arrivals(&sizes),
            arrivals,
            "the third is begun when the first is done"
        );
    }

    /// The others do not wait for a large tensor, but the main thread does.
    #[test]
    fn threads_run_ahead_while_one_copies_a_large_tensor() {
        let order = LoadOrder::Threads { workers: 2, main: 0 };
        let arrivals = order.arrivals(&[10 << 20, 1 << 20, 1 << 20, 1 << 20]);
        let first = arrivals.iter().position(|arrival| *arrival == Taken(0));
        assert_eq!(first, Some(4), "{arrivals:?}");
    }

    #[test]
    fn the_warm_up_leaves_some_memory() {
        const GIB: u64 = 1 << 30;
        assert_eq!(WarmUp::Unquantised.largest(20 * GIB), 19 * GIB);
        assert_eq!(WarmUp::Quantised.largest(10 * GIB), 10 * GIB - 1_288_490_188);
        assert_eq!(WarmUp::Half.largest(GIB), 0);
    }

    #[test]
    fn every_tensor_arrives_before_it_is_taken() {
        let sizes: Vec<u64> = (1..100).map(|number| number * number * 7919 % 9_000_000).collect();
        for order in [LoadOrder::THREADS].into_iter().chain(LoadOrder::OTHER_THREADS) {
            let arrivals = order.arrivals(&sizes);
            assert_eq!(arrivals.len(), 2 * sizes.len());
            let of = |wanted| arrivals.iter().position(|arrival| *arrival == wanted);
            for at in 0..sizes.len() {
                assert!(of(Arrives(at)) < of(Taken(at)), "{order:?} {at}");
            }
            assert!((1..sizes.len()).all(|at| of(Taken(at - 1)) < of(Taken(at))));
        }
    }
}
