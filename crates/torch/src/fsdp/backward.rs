//! The backward pass: a unit is whole again from before its first node runs until its gradients are there, which are
//! reduced at once.

use options::BackwardPrefetch;
use trace::Category;

use super::{Parameter, State, Units, stream};
use crate::configuration::Fsdp;
use crate::tape::{Tape, Tensor};
use crate::view::{StorageId, UnitId};

impl Tape {
    /// A node of this unit is about to run: `_pre_backward_hook`. `node` is its number.
    pub(crate) fn before_node(&self, unit: Option<UnitId>, node: usize) {
        if !self.is_sharded {
            return;
        }
        self.with_units(|units| {
            if units.fsdp.per_parameter {
                units.end_awaiting(self, node + 1);
                if let Some(id) = unit {
                    units.group_pre_backward(self, id);
                }
                return;
            }
            units.collect_ready(self, node + 1);
            if let Some(id) = unit {
                units.pre_backward(self, id);
            }
            units.end_awaiting(self, node + 1);
        });
    }

    /// The nodes from `first` on are done.
    pub(crate) fn after_nodes(&self, first: usize) {
        if self.is_sharded {
            self.with_units(|units| {
                units.collect_ready(self, first);
                units.end_awaiting(self, first);
            });
        }
    }

    /// The hook that lets a frozen unit go is one of the leaf that its recomputation begins with, and holds it with its
    /// gradient until the backward pass ends (`register_multi_grad_hook` keeps what accumulates the gradient).
    pub(crate) fn keep_with_hook(&self, block: usize, tensors: [&Tensor<'_>; 2]) {
        let Some(id) = self.unit_of_block(block) else { return };
        if self.checkpoints_within_units() {
            return;
        }
        self.with_units(|units| {
            if !units.unit(id).trains && !units.fsdp.per_parameter {
                units
                    .hooked
                    .extend(tensors.map(|tensor| tensor.clone().into_view().storage));
            }
        });
    }

    /// A parameter of the unit will get a gradient in this backward pass.
    pub(crate) fn await_in_unit(&self, id: UnitId) {
        self.with_units(|units| units.unit(id).awaited += 1);
    }

    /// The gradient of a parameter of the unit is there, in the buffer of its leaf.
    pub(crate) fn gradient_in_unit(&self, id: UnitId) {
        self.with_units(|units| {
            let unit = units.unit(id);
            unit.awaited -= 1;
            if unit.awaited == 0 {
                units.ready.push(id);
            }
        });
    }

    /// The backward pass is over: `_post_backward_final_callback`.
    pub(crate) fn end_backward_of_units(&self) {
        self.with_units(|units| {
            match units.fsdp.per_parameter {
                true => units.group_end_backward(self),
                false => units.end_backward(self),
            }
            // The Trainer looks at the loss.
            self.synchronize();
            units.let_go.clear();
        });
    }

    /// `zero_grad` of what is sharded. Where the optimizer has parts of shards, it lets go of these alone.
    pub(crate) fn zero_grad_of_units(&self) {
        self.with_units(|units| {
            if !units.fsdp.use_orig_params {
                units.release_gradients(self);
            }
        });
    }
}

impl Units {
    fn pre_backward(&mut self, tape: &Tape, id: UnitId) {
        if !self.unit(id).is_hooked {
            return;
        }
        self.unit(id).is_hooked = false;
        self.unit(id).state = State::BackwardPre;
        if self.unit(id).needs_backward && !self.unit(id).is_prefetched {
            self.gather(tape, id);
        }
        self.unit(id).needs_backward = false;
        self.prefetch_backward(tape, id, BackwardPrefetch::BackwardPre);
    }

    /// `_prefetch_handle` in the backward pass, at one of its two moments.
    fn prefetch_backward(&mut self, tape: &Tape, id: UnitId, moment: BackwardPrefetch) {
        if self.fsdp.backward_prefetch != moment {
            return;
        }
        let before = self.unit(id).after_forward.and_then(|at| at.checked_sub(1));
        let Some(&next) = before.and_then(|at| self.after_forward.get(at)) else {
            return;
        };
        if self.unit(next).needs_backward && !self.unit(next).is_prefetched {
            self.gather(tape, next);
            self.unit(next).is_prefetched = true;
        }
    }

    /// The nodes from `first` on are done: lays the gradients of units that were cut before them one after the other (the
    /// derivative of `split`), and reduces them.
    fn collect_ready(&mut self, tape: &Tape, first: usize) {
        if self.ready.is_empty() {
            return;
        }
        let ready = std::mem::take(&mut self.ready);
        let (mut ready, later): (Vec<_>, Vec<_>) = ready.into_iter().partition(|id| self.unit(*id).first_node >= first);
        self.ready = later;
        ready.sort_by_key(|id| std::cmp::Reverse(self.unit(*id).first_node));
        for id in ready {
            self.collect(tape, id);
            self.post_backward(tape, id);
        }
    }

    /// The nodes from `first` on are done: so are the units that await the gradient of their input and were run after it.
    fn end_awaiting(&mut self, tape: &Tape, first: usize) {
        while let Some((id, _)) = self.awaiting_input.pop_if(|(_, of_unit)| *of_unit >= first) {
            match self.fsdp.per_parameter {
                true => self.group_post_backward(tape, id),
                false => self.reshard_in_backward(tape, id),
            }
        }
    }

    /// `_post_backward_reshard`.
    fn reshard_in_backward(&mut self, tape: &Tape, id: UnitId) {
        self.unit(id).state = State::BackwardPost;
        let frees = self.fsdp.frees_in_backward(self.syncs) || !self.unit(id).is_shared();
        self.let_go(tape, id, frees);
        self.prefetch_backward(tape, id, BackwardPrefetch::BackwardPost);
    }

    /// Lays the gradients of the unit's parameters one after the other; zeros stand for those that have none.
    fn collect(&mut self, tape: &Tape, id: UnitId) {
        let unit = self.unit(id);
        let dtype = unit.gathered_dtype;
        let parts: Vec<StorageId> = {
            let leaves = &mut tape.graph.borrow_mut().leaves;
            let of = |parameter: &Parameter| {
                let there = parameter.leaf.and_then(|leaf| leaves[leaf].buffer.take());
                there.map_or_else(
                    || tape.alloc(parameter.elements * dtype.size(), Category::Temporary),
                    |view| view.storage,
                )
            };
            unit.parameters.iter().map(of).collect()
        };
        let flat = tape.alloc(unit.elements * dtype.size(), Category::Gradient);
        parts.into_iter().for_each(|part| tape.release(part));
        match unit.gradient {
            // Added in place.
            Some(_) => tape.release(flat),
            None => unit.gradient = Some(flat),
        }
    }

    /// `_post_backward_hook`.
    fn post_backward(&mut self, tape: &Tape, id: UnitId) {
        self.reshard_in_backward(tape, id);
        if !self.syncs {
            return;
        }
        let (reduce_dtype, offloads) = (self.unit(id).gathered_dtype, self.fsdp.offload_params);
        let leads = self.fsdp.cpu_leads;
        let unit = self.unit(id);
        let Some(flat) = unit.gradient.take() else {
            return;
        };
        if !unit.is_shared() {
            // Reduced where it is, and brought to the format of the parameters.
            let own = match reduce_dtype == unit.dtype {
                true => flat,
                false => {
                    let bytes = unit.elements * unit.dtype.size();
                    let own = tape.on(stream::POST_BACKWARD, || tape.alloc(bytes, Category::Gradient));
                    if leads {
                        tape.record_stream(flat);
                    }
                    tape.release(flat);
                    own
                }
            };
            match unit.shard_gradient {
                Some(_) => tape.release(own),
                None => unit.shard_gradient = Some(own),
            }
            return;
        }
        tape.on(stream::POST_BACKWARD, || {
            let padded = (unit.elements < unit.shard_elements * unit.ranks)
                .then(|| tape.alloc(unit.whole_bytes(), Category::Temporary));
            let mut reduced = tape.alloc(unit.shard_elements * reduce_dtype.size(), Category::Gradient);
            if reduce_dtype != unit.dtype {
                let own = tape.alloc(unit.shard_elements * unit.dtype.size(), Category::Gradient);
                tape.release(std::mem::replace(&mut reduced, own));
            }
            if offloads {
                if leads {
                    tape.record_stream(reduced);
                }
                let on_cpu = || tape.alloc(unit.shard_elements * unit.dtype.size(), Category::Offloaded);
                unit.shard_gradient.get_or_insert_with(on_cpu);
                tape.release(reduced);
            } else if unit.shard_gradient.is_some() {
                tape.release(reduced);
            } else {
                unit.shard_gradient = Some(reduced);
            }
            if let Some(padded) = padded {
                tape.release(padded);
            }
        });
        self.record_stream(tape, flat);
        tape.release(flat);
    }

    fn end_backward(&mut self, tape: &Tape) {
        for id in self.ids() {
            if self.unit(id).gathered.is_some() {
                let frees = self.fsdp.frees_in_backward(self.syncs);
                self.let_go(tape, id, frees);
            }
            let unit = self.unit(id);
            unit.is_hooked = false;
            unit.needs_backward = false;
            unit.after_forward = None;
            unit.is_prefetched = false;
            unit.state = State::Idle;
        }
        self.after_forward.clear();
        self.is_first_step = false;
        self.awaiting_input.clear();
        self.hooked.drain(..).for_each(|storage| tape.release(storage));
    }

    /// Releases the gradients of all shards.
    pub(super) fn release_gradients(&mut self, tape: &Tape) {
        for id in self.ids() {
            if let Some(gradient) = self.unit(id).shard_gradient.take() {
                tape.release(gradient);
            }
        }
    }
}

impl Fsdp {
    /// True if a unit is let go in the backward pass of a micro-batch whose gradients are not reduced, too.
    fn frees_in_backward(&self, syncs: bool) -> bool {
        syncs || self.strategy.reshards_after_forward()
    }
}
