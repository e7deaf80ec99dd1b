//! Stages 1 and 2 (`runtime/zero/stage_1_and_2.py`): parameters in flat tensors, of which each rank steps its share.

use trace::Category;

use super::state::{Bucket, Flat, FlatParameter, Group};
use super::stream;
use crate::configuration::{Configuration, Zero};
use crate::dtype::Dtype;
use crate::groups::Groups;
use crate::layout::Layout;
use crate::tape::{Tape, Tensor};
use crate::view::{StorageId, Target};

/// Elements that the starts of ranks' shares are multiples of (`nccl_start_alignment_factor`).
const ALIGNMENT: u64 = 2;

impl Tape {
    /// Makes the optimizer of stages 1 and 2 (`DeepSpeedZeroOptimizer.__init__`): lays the parameters one after the other,
    /// and makes the master weights of the rank's share. Gives these, in the optimizer's groups.
    pub(crate) fn share_flat<'t>(
        &'t self,
        configuration: &Configuration,
        zero: Zero,
        trainable: &Groups<'t>,
    ) -> Vec<Tensor<'t>> {
        let flat = Flat::new(configuration, zero, trainable);
        let (dtype, master_dtype) = (flat.dtype, zero.master_dtype);
        let mut masters = Vec::new();
        let mut copies = Vec::new();
        for (number, members) in groups(trainable).into_iter().enumerate() {
            let bytes = flat.groups[number].share * zero.ranks * dtype.size();
            self.lay_flat(configuration, &members, bytes);
            let share = flat.groups[number].share;
            let copy = self.alloc(share * dtype.size(), Category::OptimizerState);
            let storage = match zero.offload_optimizer {
                Some(offload) => {
                    let master = self.on_cpu(share * master_dtype.size(), offload);
                    self.release(copy);
                    // The share as it goes back to the GPU.
                    self.on_cpu(share * dtype.size(), offload);
                    master
                }
                None if dtype == master_dtype => copy,
                None => {
                    let master = self.alloc(share * master_dtype.size(), Category::OptimizerState);
                    self.release(copy);
                    master
                }
            };
            masters.push(self.seen(storage, share, master_dtype));
        }
        if let Some(offload) = zero.offload_optimizer {
            let largest = flat.parameters.iter().map(|parameter| parameter.elements).max();
            let bytes = largest.unwrap_or_default() * dtype.size();
            self.on_cpu(bytes, offload);
            self.alloc(bytes, Category::Gradient);
        }
        for group in &flat.groups {
            let bytes = group.share * master_dtype.size();
            match zero.offload_optimizer {
                Some(offload) => {
                    self.on_cpu(bytes, offload);
                }
                None => copies.push(self.alloc(bytes, Category::Gradient)),
            }
        }
        copies.into_iter().for_each(|gradient| self.release(gradient));
        *self.sharing.borrow_mut() = Some(super::Sharing::Flat(Box::new(flat)));
        masters
    }

    /// Lays parameters one after the other: on the GPU if it has room for them twice, or on the CPU, from which they come
    /// back.
    fn lay_flat(&self, configuration: &Configuration, members: &[&Tensor<'_>], bytes: u64) {
        let own: u64 = members
            .iter()
            .map(|member| member.numel() * member.dtype().size())
            .sum();
        if let [_] = members
            && own == bytes
            && configuration.deepspeed.flattens_on_gpu
        {
            // Flat as it is.
            return;
        }
        let has_room = || {
            let free = configuration.free_bytes.unwrap_or(u64::MAX);
            free.saturating_sub(self.live_bytes(|category| category != Category::Offloaded).iter().sum()) >= bytes
        };
        let storages: Vec<StorageId> = members.iter().map(|member| member.view.storage).collect();
        self.empty_cache();
        if configuration.deepspeed.flattens_on_gpu && has_room() {
            let padding = (own < bytes).then(|| self.alloc(bytes - own, Category::Temporary));
            let flat = self.alloc(bytes, Category::Parameter);
            padding.into_iter().for_each(|padding| self.release(padding));
            storages.iter().for_each(|storage| self.move_into(*storage, flat));
        } else {
            self.move_after(&storages, || {
                self.empty_cache();
                self.alloc(bytes, Category::Parameter)
            });
        }
    }

    /// A tensor of so many elements in this storage.
    pub(super) fn seen(&self, storage: StorageId, elements: u64, dtype: Dtype) -> Tensor<'_> {
        let mut seen = self.empty(&[0], dtype);
        seen.view.storage = storage;
        seen.view.layout = Layout::row(elements);
        seen
    }
}

/// The parameters in the groups that transformers' Trainer makes: those that decay, and vectors.
pub(super) fn groups<'g, 't>(trainable: &'g Groups<'t>) -> Vec<Vec<&'g Tensor<'t>>> {
    let split = |group: &'g [Tensor<'t>]| {
        let (vectors, others): (Vec<_>, Vec<_>) = group.iter().partition(|parameter| parameter.dims().len() < 2);
        [others, vectors]
    };
    let split = trainable.groups().flat_map(split);
    split.filter(|group| !group.is_empty()).collect()
}

/// The parameters in turn, as the ranks reduce them (`_round_robin_reorder`).
fn in_turn<T>(parameters: Vec<T>, ranks: u64) -> Vec<T> {
    let mut turns: Vec<Vec<T>> = (0..ranks).map(|_| Vec::new()).collect();
    for (number, parameter) in parameters.into_iter().enumerate() {
        turns[number % ranks as usize].push(parameter);
    }
    turns.into_iter().flatten().collect()
}

/// What becomes of a gradient once it is reduced.
enum Fate {
    /// It stays where it is.
    Stays,
    /// It is another rank's.
    Goes,
    /// It is copied to where the rank keeps its own.
    IsCopied,
}

impl Flat {
    fn new(configuration: &Configuration, zero: Zero, trainable: &Groups<'_>) -> Self {
        let zero = Zero {
            // The CPU's optimizer is given gradients that lie one after the other.
            contiguous_gradients: zero.contiguous_gradients || zero.offload_optimizer.is_some(),
            ..zero
        };
        let first = trainable.iter().next();
        let dtype = first.map_or(configuration.unquantised(), |parameter| parameter.dtype());
        let mut parameters = Vec::new();
        let mut sizes = Vec::new();
        for (group, members) in groups(trainable).into_iter().enumerate() {
            let elements: u64 = members.iter().map(|member| member.numel()).sum();
            let share = elements.next_multiple_of(ALIGNMENT * zero.ranks) / zero.ranks;
            sizes.push((elements, share));
            let members = match zero.round_robin_gradients {
                true => in_turn(members, zero.ranks),
                false => members,
            };
            let mut begin = 0;
            for member in members {
                let Target::Leaf(leaf) = member.view.edge.target() else {
                    continue;
                };
                let end = begin + member.numel();
                let ranks = begin / share..=(end - 1) / share;
                let slice = |rank: u64| end.min((rank + 1) * share) - begin.max(rank * share);
                parameters.push(FlatParameter {
                    group,
                    leaf,
                    elements: member.numel(),
                    slices: ranks.map(|rank| (rank, slice(rank))).collect(),
                    own: 0,
                    gradient: None,
                    sum: None,
                    is_summed_on_cpu: false,
                });
                begin = end;
            }
        }
        let of_rank = |parameter: &FlatParameter, rank| {
            let own = parameter.slices.iter().find(|slice| slice.0 == rank);
            own.map_or(0, |(_, elements)| *elements)
        };
        let held = |rank: &u64| -> u64 {
            let own = parameters.iter().filter(|parameter| of_rank(parameter, *rank) > 0);
            own.map(|parameter| parameter.elements).sum()
        };
        // Of several the first.
        let fullest = || (0..zero.ranks).rev().max_by_key(held);
        let rank = zero.rank.or_else(fullest).unwrap_or_default();
        let leaves = parameters
            .iter()
            .map(|parameter| parameter.leaf + 1)
            .max()
            .unwrap_or_default();
        let mut of_leaf = vec![None; leaves];
        for (number, parameter) in parameters.iter_mut().enumerate() {
            parameter.own = of_rank(parameter, rank);
            of_leaf[parameter.leaf] = Some(number);
        }
        let group = |(elements, share): (u64, u64)| Group {
            share,
            padding: share - elements.saturating_sub(rank * share).min(share),
        };
        Self {
            zero,
            version: configuration.deepspeed,
            dtype,
            groups: sizes.into_iter().map(group).collect(),
            parameters,
            of_leaf,
            bucket: Bucket::new(zero.reduce_bucket_size),
            own: None,
            sum: None,
            padding: Vec::new(),
            norms: Vec::new(),
            accumulates: false,
        }
    }

    /// The backward pass is about to begin.
    pub(super) fn begin_backward(&mut self, tape: &Tape) {
        if !self.version.buckets_with_first_gradient {
            self.make_buffers(tape);
        }
    }

    fn make_buffers(&mut self, tape: &Tape) {
        let buffers = match (self.zero.contiguous_gradients, self.zero.overlap_comm) {
            (true, true) => 2,
            (true, false) => 1,
            // The second buffer is made in any case, with the first gradient.
            (false, overlaps) => usize::from(overlaps && self.version.buckets_with_first_gradient),
        };
        self.bucket.make_buffers(tape, buffers, self.dtype);
    }

    /// The gradient of a parameter is there (`process_gradients`).
    pub(super) fn gradient(&mut self, tape: &Tape, leaf: usize) {
        let Some(number) = self.of_leaf.get(leaf).copied().flatten() else {
            return;
        };
        if self.version.buckets_with_first_gradient && !self.bucket.has_buffers() {
            self.make_buffers(tape);
        }
        let waits = self.zero.stage == 1 && !(self.zero.overlap_comm && tape.syncs.get());
        if !waits {
            self.add(tape, number);
        }
    }

    /// `reduce_independent_p_g_buckets_and_remove_grads`.
    fn add(&mut self, tape: &Tape, number: usize) {
        let Some(gradient) = tape.take_leaf_gradient(self.parameters[number].leaf) else {
            return;
        };
        let elements = self.parameters[number].elements;
        if self.bucket.is_full(elements) {
            self.reduce(tape);
        }
        let is_copied = self.zero.contiguous_gradients && elements <= self.zero.reduce_bucket_size;
        self.parameters[number].gradient = match is_copied {
            true => {
                tape.release(gradient);
                None
            }
            false if self.zero.offload_optimizer.is_some() && self.version.copies_large_gradients => {
                let copy = tape.alloc(elements * self.dtype.size(), Category::Gradient);
                tape.release(gradient);
                Some(copy)
            }
            false => Some(gradient),
        };
        self.bucket.push(number, elements);
    }

    /// `reduce_ipg_grads`.
    fn reduce(&mut self, tape: &Tape) {
        let members = self.bucket.take();
        if members.is_empty() {
            return;
        }
        let overlaps = self.zero.overlap_comm;
        tape.on(if overlaps { stream::REDUCE } else { stream::COMPUTE }, || {
            self.average(tape, &members);
            for &number in &members {
                match self.fate(number) {
                    Fate::Stays => {}
                    Fate::Goes => self.let_go(tape, number),
                    Fate::IsCopied if self.zero.offload_optimizer.is_some() => self.offload(tape, number),
                    Fate::IsCopied => {
                        if self.own.is_none() {
                            let own = self.parameters.iter().filter(|parameter| parameter.own > 0);
                            let elements: u64 = own.map(|parameter| parameter.elements).sum();
                            self.own = Some(tape.alloc(elements * self.dtype.size(), Category::Gradient));
                        }
                        self.let_go(tape, number);
                    }
                }
            }
        });
    }

    /// What becomes of a gradient that is reduced.
    fn fate(&self, number: usize) -> Fate {
        match (self.parameters[number].own > 0, self.zero.contiguous_gradients) {
            (true, true) => Fate::IsCopied,
            (true, false) => Fate::Stays,
            (false, _) if self.zero.stage == 1 => Fate::Stays,
            (false, _) => Fate::Goes,
        }
    }

    /// Lets a gradient go that has memory of its own.
    fn let_go(&mut self, tape: &Tape, number: usize) {
        if let Some(gradient) = self.parameters[number].gradient.take() {
            tape.release(gradient);
        }
    }

    /// `average_tensor`: the slices of a bucket that belong to different ranks are laid one after the other once more.
    fn average(&self, tape: &Tape, members: &[usize]) {
        let copy = |elements: u64| tape.passing(elements * self.dtype.size());
        if !self.zero.contiguous_gradients {
            if members.len() > 1 {
                copy(members.iter().map(|&number| self.parameters[number].elements).sum());
            }
            return;
        }
        if !self.zero.reduce_scatter {
            return;
        }
        let mut slices: Vec<(u64, u64)> = Vec::new();
        for &(rank, elements) in members.iter().flat_map(|&number| &self.parameters[number].slices) {
            match slices.last_mut() {
                Some(last) if last.0 == rank => last.1 += elements,
                _ => slices.push((rank, elements)),
            }
        }
        let (mut count, mut elements) = (0, 0);
        for (place, slice) in slices.iter().enumerate() {
            count += 1;
            elements += slice.1;
            if elements > self.zero.reduce_bucket_size || place + 1 == slices.len() {
                if count > 1 {
                    copy(elements);
                }
                (count, elements) = (0, 0);
            }
        }
    }

    /// A gradient of the rank's own goes to the CPU (`copy_grads_in_partition`).
    fn offload(&mut self, tape: &Tape, number: usize) {
        let Some(offload) = self.zero.offload_optimizer else {
            return;
        };
        let (dtype, master) = (self.dtype, self.zero.master_dtype);
        let syncs = tape.syncs.get();
        let parameter = &mut self.parameters[number];
        if (self.accumulates || !syncs) && !parameter.is_summed_on_cpu {
            tape.on_cpu(parameter.elements * dtype.size(), offload);
            parameter.is_summed_on_cpu = true;
        }
        if syncs {
            let (own, elements) = (parameter.own, parameter.elements);
            self.norms.push(tape.norm(own));
            if !self.version.looks_at_extremes {
                tape.look_for_overflow(elements, dtype);
            }
            if dtype != master {
                tape.passing(own * master.size());
            }
        }
        self.let_go(tape, number);
    }

    /// `independent_gradient_partition_epilogue`, and before it with stage 1 what it reduces at once.
    pub(super) fn end_backward(&mut self, tape: &Tape, syncs: bool) {
        if self.zero.stage == 1 && !syncs {
            return;
        }
        if self.zero.stage == 1 && !self.zero.overlap_comm {
            (0..self.parameters.len()).for_each(|number| self.add(tape, number));
        }
        self.reduce(tape);
        if self.zero.overlap_comm {
            tape.synchronize();
        }
        self.accumulates = !syncs;
        self.bucket.release_buffers(tape);
        if let Some(own) = self.own.take() {
            match self.sum {
                // Added in place.
                Some(_) => tape.release(own),
                None => self.sum = Some(own),
            }
        }
        for parameter in &mut self.parameters {
            let Some(gradient) = parameter.gradient.take() else {
                continue;
            };
            match parameter.own > 0 && parameter.sum.is_none() {
                true => parameter.sum = Some(gradient),
                false => tape.release(gradient),
            }
        }
        if syncs && self.zero.offload_optimizer.is_none() {
            let zeros = self.groups.iter().filter(|group| group.padding > 0);
            let zeros = zeros.map(|group| tape.alloc(group.padding * self.dtype.size(), Category::Gradient));
            self.padding = zeros.collect();
        }
    }
}
