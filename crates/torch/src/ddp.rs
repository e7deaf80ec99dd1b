//! `DistributedDataParallel`: what a rank holds beside a training on one GPU.
//!
//! Buckets hold the gradients of all parameters once more, from before the first step to the end
//! (`torch/csrc/distributed/c10d/reducer.cpp`). Before that, the weights are broadcast in flat copies (`comm.cpp` beside
//! it).

use std::collections::VecDeque;

use trace::Category;

use super::configuration::Ddp;
use super::dtype::Dtype;
use super::layout::Layout;
use super::models::decoder::Output;
use super::tape::{Backward, Gradients, Tape, Tensor};
use super::view::Target;

const MIB: u64 = 1 << 20;

/// The least bytes of a flat copy of weights, but for the last: `broadcast_bucket_size` in
/// `torch/nn/parallel/distributed.py`.
const BROADCAST: u64 = 250 * MIB;

/// Flat copies at once: `max_in_flight` in `comm.cpp`.
const IN_FLIGHT: usize = 2;

/// The least bytes of the first bucket, and of the others: PyTorch's defaults.
const BUCKETS: [u64; 2] = [MIB, 25 * MIB];

/// Buckets of gradients.
pub(super) struct Reducer<'t> {
    ddp: Ddp,
    buckets: Vec<Tensor<'t>>,
    /// The count of each parameter's uses.
    _used: Option<Tensor<'t>>,
}

impl<'t> Reducer<'t> {
    /// Broadcasts the weights, then makes the buckets of the first step: one of each format, unless unused parameters
    /// are looked for.
    pub(super) fn new(tape: &'t Tape, ddp: Ddp, parameters: &[&Tensor<'t>]) -> Self {
        tape.broadcast();
        let looks = ddp.find_unused_parameters;
        let used = Layout::contiguous(&[parameters.len() as u32]);
        let mut reducer = Self {
            ddp,
            buckets: Vec::new(),
            _used: looks.then(|| tape.empty_as(used, Dtype::Int32, Category::Temporary)),
        };
        let limits = if looks { ddp.limits() } else { [u64::MAX; 2] };
        reducer.fill(tape, parameters, limits, true);
        reducer
    }

    /// Makes the buckets again, in the order of the backward pass, which the first step has shown.
    pub(super) fn rebuild(&mut self, tape: &'t Tape, parameters: &[&Tensor<'t>]) {
        if self.ddp.find_unused_parameters {
            return;
        }
        let backward: Vec<_> = parameters.iter().rev().copied().collect();
        self.buckets.clear();
        self.fill(tape, &backward, self.ddp.limits(), false);
    }

    fn fill(&mut self, tape: &'t Tape, parameters: &[&Tensor<'t>], limits: [u64; 2], is_reversed: bool) {
        let sizes: Vec<(Dtype, u64)> = parameters
            .iter()
            .map(|parameter| (parameter.dtype(), parameter.numel() * parameter.dtype().size()))
            .collect();
        let mut buckets = assignment(&sizes, limits);
        if is_reversed {
            buckets.reverse();
        }
        for bucket in buckets {
            let bytes = bucket.iter().map(|&index| sizes[index].1).sum();
            let gradients = tape.bytes(bytes, Category::Gradient);
            if self.ddp.gradient_as_bucket_view {
                for index in bucket {
                    tape.give_bucket(parameters[index], &gradients);
                }
            }
            self.buckets.push(gradients);
        }
    }

    /// The outputs of the model as they leave it: copies of loss and logits, where unused parameters are looked for
    /// (`_DDPSink`). The cache is an object that it does not look into.
    pub(super) fn outputs(&self, output: Output<'t>) -> Output<'t> {
        if !self.ddp.find_unused_parameters {
            return output;
        }
        let Output { loss, logits, cache } = output;
        Output {
            loss: loss.passed_on(),
            logits: logits.map(|logits| logits.passed_on()),
            cache,
        }
    }
}

impl Ddp {
    fn limits(self) -> [u64; 2] {
        match self.bucket_cap_mb {
            None => BUCKETS,
            Some(mib) => [u64::from(mib) * MIB; 2],
        }
    }
}

/// The parameters of each bucket, of which `sizes` has formats and bytes. A bucket is full once it has the least bytes:
/// the first of `limits` for the first of its format, then the second. (`compute_bucket_assignment_by_size`)
fn assignment(sizes: &[(Dtype, u64)], limits: [u64; 2]) -> Vec<Vec<usize>> {
    struct Open {
        dtype: Dtype,
        parameters: Vec<usize>,
        bytes: u64,
        limit: u64,
    }
    let (mut full, mut open): (Vec<Vec<usize>>, Vec<Open>) = Default::default();
    for (index, &(dtype, bytes)) in sizes.iter().enumerate() {
        let at = open.iter().position(|bucket| bucket.dtype == dtype).unwrap_or_else(|| {
            open.push(Open {
                dtype,
                parameters: Vec::new(),
                bytes: 0,
                limit: limits[0],
            });
            open.len() - 1
        });
        let bucket = &mut open[at];
        bucket.parameters.push(index);
        bucket.bytes += bytes;
        if bucket.bytes >= bucket.limit {
            full.push(std::mem::take(&mut bucket.parameters));
            (bucket.bytes, bucket.limit) = (0, limits[1]);
        }
    }
    full.extend(open.into_iter().map(|bucket| bucket.parameters));
    full.retain(|bucket| !bucket.is_empty());
    full.sort_by_key(|bucket| bucket[0]);
    full
}

impl<'t> Tensor<'t> {
    /// A copy, whose gradient is this one's.
    fn passed_on(&self) -> Tensor<'t> {
        fn derivative<'t>(_: &mut Backward<'t>, grad: &Tensor<'t>) -> Gradients<'t> {
            [Some(grad.clone()), None, None, None]
        }
        let record = self.tape.record(&[self], derivative);
        record.finish(self.like(self.dtype()))
    }
}

impl Tape {
    /// Broadcasts all weights, in flat copies of several; a large one is sent as it lies. What belongs to quantised
    /// weights is taken for weights, and all for one format.
    fn broadcast(&self) {
        self.broadcast_all(&self.live_bytes(|category| matches!(category, Category::Parameter | Category::Adapter)));
    }

    /// Broadcasts tensors of so many bytes.
    pub(super) fn broadcast_all(&self, sizes: &[u64]) {
        let sizes: Vec<_> = sizes.iter().map(|&bytes| (Dtype::Uint8, bytes)).collect();
        let mut in_flight = VecDeque::new();
        for bucket in assignment(&sizes, [BROADCAST; 2]) {
            if in_flight.len() == IN_FLIGHT {
                in_flight.pop_front();
            }
            let bytes = bucket.iter().map(|&index| sizes[index].1).sum();
            let copy = (bucket.len() > 1).then(|| self.bytes(bytes, Category::Temporary));
            if let Some(copy) = copy.as_ref().filter(|_| self.pytorch.records_streams) {
                self.record_stream(copy.view.storage);
            }
            in_flight.push_back(copy);
        }
        // In the order in which they were sent.
        in_flight.into_iter().for_each(drop);
        // The CPU is ahead of NCCL until then.
        if self.pytorch.records_streams {
            self.synchronize();
        }
    }

    /// The gradient of `parameter` lies in this bucket once it is reduced.
    fn give_bucket(&self, parameter: &Tensor<'_>, bucket: &Tensor<'_>) {
        let Target::Leaf(leaf) = parameter.view.edge.target() else {
            return;
        };
        let leaf = &mut self.graph.borrow_mut().leaves[leaf];
        let before = leaf.bucket.replace(bucket.view.storage);
        if let Some(grad) = &mut leaf.grad
            && before == Some(grad.storage)
        {
            self.move_to(grad, bucket.view.storage);
        }
    }
}

#[cfg(test)]
mod tests {
    use arch::Preset;
    use serde::Deserialize;
    use trace::{Account, Phase};

    use super::super::configuration::{Configuration, MicroBatchShape, Ranks};
    use super::super::training::trace;
    use super::*;

    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        sizes: Vec<(String, u32)>,
        bucket_cap_mb: Option<u32>,
        find_unused_parameters: bool,
        gradient_as_bucket_view: bool,
        first: Vec<u64>,
        later: Vec<u64>,
    }

    fn tiny(ddp: Option<Ddp>) -> Configuration {
        Configuration {
            adapter: None,
            dtype: options::Dtype::Float32,
            ranks: ddp.map(Ranks::Ddp),
            ..Configuration::new(Preset::named("tiny").unwrap().config())
        }
    }

    /// Two processes of PyTorch have these buckets (`python/torch_abstract/make_ddp.py`).
    #[test]
    fn buckets_are_those_of_pytorch() {
        let json = include_str!("../../../tests/fixtures/torch_abstract/ddp.json");
        let golden: Golden = serde_json::from_str(json).unwrap();
        assert!(!golden.cases.is_empty());
        for case in golden.cases {
            let ddp = Ddp {
                find_unused_parameters: case.find_unused_parameters,
                bucket_cap_mb: case.bucket_cap_mb,
                gradient_as_bucket_view: case.gradient_as_bucket_view,
            };
            let tape = Tape::new(&tiny(Some(ddp)));
            let leaf = |(dtype, elements): &(String, u32)| {
                let dtype = if dtype == "float32" {
                    Dtype::Float32
                } else {
                    Dtype::Bfloat16
                };
                tape.leaf(tape.empty(&[*elements], dtype))
            };
            let parameters: Vec<_> = case.sizes.iter().map(leaf).collect();
            let parameters: Vec<_> = parameters.iter().collect();
            let mut reducer = Reducer::new(&tape, ddp, &parameters);
            let bytes = || tape.live_bytes(|category| category == Category::Gradient);
            let sorted = |mut bytes: Vec<u64>| {
                bytes.sort_unstable();
                bytes
            };
            assert_eq!(bytes(), case.first, "{ddp:?} {:?}", case.sizes);
            reducer.rebuild(&tape, &parameters);
            // PyTorch leaves the last of each format in the order of a hash table.
            assert_eq!(sorted(bytes()), sorted(case.later), "{ddp:?} {:?}", case.sizes);
        }
    }

    #[test]
    fn buckets_hold_the_gradients_once_more_or_in_their_place() {
        let micro = MicroBatchShape {
            batch: 1,
            len: 16,
            padded: false,
            apart: 0,
            unpadded: 0,
        };
        let of = |ddp: Option<Ddp>, micros: &[MicroBatchShape]| {
            let trace = trace(&tiny(ddp), &[micros, micros, micros]);
            Account::of(&trace, 1, 1)
        };
        let ddp = |gradient_as_bucket_view| {
            Some(Ddp {
                find_unused_parameters: false,
                bucket_cap_mb: None,
                gradient_as_bucket_view,
            })
        };
        for micros in [&[micro][..], &[micro; 3]] {
            let (alone, copied, viewed) = (of(None, micros), of(ddp(false), micros), of(ddp(true), micros));
            let gradients = copied.at_end - alone.at_end;
            let config = tiny(None).model;
            assert_eq!(gradients, 4 * config.parameter_count(), "as many as parameters");
            assert_eq!(copied.peak.bytes - alone.peak.bytes, gradients);
            assert_eq!(viewed.at_end - alone.at_end, gradients, "buckets outlive the gradients");
            let in_step = |account: &Account| account.in_phase[Phase::Optimizer];
            assert_eq!(in_step(&viewed), in_step(&alone), "the gradients are the buckets");
            assert_eq!(in_step(&copied), in_step(&alone) + gradients);
        }
    }

    #[test]
    fn weights_are_broadcast_two_copies_at_a_time() {
        let tape = Tape::new(&tiny(None));
        let weights = [100, 200, 50, 249, 2, 300, 10].map(|mib| tape.bytes(mib * MIB, Category::Parameter));
        let before = weights.len();
        tape.broadcast();
        let trace = tape.take_trace();
        let events: Vec<String> = trace.events().skip(before).map(|event| format!("{event:?}")).collect();
        // 100 + 200, 50 + 249, 2 + 300, and 10 as it lies: the third is made when the first is gone.
        assert_eq!(events.len(), 6, "{events:#?}");
        let is_free: Vec<bool> = events.iter().map(|event| event.starts_with("Free")).collect();
        assert_eq!(is_free, [false, false, true, false, true, true]);
    }
}
