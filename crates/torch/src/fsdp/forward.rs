//! The forward pass: a unit is whole from before its module runs until after it.

use trace::Category;

use super::{State, Units};
use crate::tape::{Mode, Tape, Tensor};
use crate::view::{Target, UnitId};

impl Tape {
    /// The unit of a block, if it is one.
    pub(super) fn unit_of_block(&self, block: usize) -> Option<UnitId> {
        let units = self.units.borrow();
        units.as_ref().and_then(|units| units.blocks.get(block).copied())
    }

    /// Runs a block with its checkpoint.
    pub(crate) fn in_block<'t>(
        &'t self,
        block: usize,
        input: &Tensor<'t>,
        work: impl FnOnce() -> Tensor<'t>,
    ) -> Tensor<'t> {
        let unit = self.unit_of_block(block).filter(|_| self.checkpoints_within_units());
        self.in_unit(unit, input.requires_grad(), || match self.checkpoints_within {
            true => self.in_container(None, input.requires_grad(), work),
            false => work(),
        })
    }

    /// Runs what a block's checkpoint runs again.
    pub(crate) fn in_checkpoint<'t>(
        &'t self,
        block: usize,
        input: &Tensor<'t>,
        work: impl FnOnce() -> Tensor<'t>,
    ) -> Tensor<'t> {
        let unit = self.unit_of_block(block).filter(|_| !self.checkpoints_within_units());
        self.in_unit(unit, input.requires_grad(), || match self.checkpoints_within {
            true => work(),
            false => self.in_container(None, input.requires_grad(), work),
        })
    }

    /// Embeds the tokens.
    pub(crate) fn in_embedding<R>(&self, work: impl FnOnce() -> R) -> R {
        let unit = self.with_units(|units| units.embedding).flatten();
        self.in_unit(unit, false, work)
    }

    /// Runs the last norm or the head.
    pub(crate) fn in_tail<R>(&self, input_wants_gradient: bool, work: impl FnOnce() -> R) -> R {
        let unit = self.with_units(|units| units.tail).flatten();
        self.in_unit(unit, input_wants_gradient, work)
    }

    /// True if the hooks of a unit are around its checkpoint.
    pub(super) fn checkpoints_within_units(&self) -> bool {
        self.with_units(|units| units.fsdp.checkpoints_within)
            .unwrap_or_default()
    }

    /// The unit of a trained weight whose module is one.
    pub(crate) fn unit_of(&self, weight: &Tensor<'_>) -> Option<UnitId> {
        let Target::Leaf(leaf) = weight.view.edge.target() else {
            return None;
        };
        self.graph.borrow().leaves[leaf].unit
    }

    /// The unit of the model, if it is shared.
    pub(crate) fn root_unit(&self) -> Option<UnitId> {
        self.units.borrow().as_ref().map(|units| units.root)
    }

    /// Does something with the units, if there are any.
    pub(super) fn with_units<R>(&self, work: impl FnOnce(&mut Units) -> R) -> Option<R> {
        self.units.borrow_mut().as_mut().map(work)
    }

    /// Whether the next backward pass ends in a reduction of the gradients.
    pub(crate) fn sync_units(&self, syncs: bool) {
        self.with_units(|units| units.syncs = syncs);
    }

    /// Runs the module of a unit, if it is one; whether its input wants a gradient.
    pub(crate) fn in_unit<R>(&self, unit: Option<UnitId>, input_wants_gradient: bool, work: impl FnOnce() -> R) -> R {
        let Some(unit) = unit else { return work() };
        let runs_hooks = !self.stopped.get() && self.pre_forward(unit, input_wants_gradient);
        let nodes = self.graph.borrow().nodes.len();
        let before = self.unit.replace(Some(unit));
        let result = work();
        self.unit.set(before);
        // A recomputation that has all it needs ends without returning.
        if runs_hooks && !self.stopped.get() {
            let output_wants_gradient = match self.mode() {
                Mode::Recompute(_) => true,
                _ => self.graph.borrow().nodes.len() > nodes,
            };
            self.with_units(|units| match units.fsdp.per_parameter {
                true => units.group_post_forward(self, unit, output_wants_gradient),
                false => units.post_forward(self, unit, output_wants_gradient),
            });
        }
        result
    }

    /// `_pre_forward`. Returns false if the unit is whole for its backward pass, in which it is recomputed.
    fn pre_forward(&self, id: UnitId, input_wants_gradient: bool) -> bool {
        let first_node = self.graph.borrow().nodes.len();
        let runs = self.with_units(|units| {
            if units.unit(id).state == State::BackwardPre {
                return false;
            }
            if units.fsdp.per_parameter {
                units.group_pre_forward(self, id, input_wants_gradient, first_node);
                return true;
            }
            if id == units.root {
                units.root_pre_forward(self);
            }
            units.unit(id).state = State::Forward;
            if units.is_first_step && units.unit(id).before_forward.is_none() {
                units.unit(id).before_forward = Some(units.before_forward.len());
                units.before_forward.push(id);
            }
            let is_recorded = matches!(self.mode(), Mode::Record | Mode::Checkpoint(_));
            if !units.unit(id).is_prefetched {
                units.gather(self, id);
                if is_recorded {
                    units.unit(id).first_node = first_node;
                }
            }
            units.unit(id).needs_forward = false;
            units.prefetch_forward(self, id, first_node);
            if is_recorded && !units.unit(id).trains && input_wants_gradient {
                units.awaiting_input.push((id, first_node));
            }
            true
        });
        runs.unwrap_or(false)
    }
}

impl Units {
    /// `_root_pre_forward`, and in the first one `_lazy_init`.
    fn root_pre_forward(&mut self, tape: &Tape) {
        if self.before_forward.is_empty() {
            // The memory for each whole unit is made and freed: `init_flat_param_attributes`.
            for id in self.ids() {
                let unit = self.unit(id);
                if unit.is_shared() {
                    tape.release(tape.alloc(unit.whole_bytes(), Category::Temporary));
                }
            }
        }
        if self.fsdp.use_orig_params {
            self.release_gradients(tape);
        }
        if self.fsdp.forward_prefetch {
            for id in self.ids() {
                self.unit(id).needs_forward = true;
                self.unit(id).is_prefetched = false;
            }
        }
    }

    /// `_prefetch_handle` in the forward pass: the order of the first step is that of all others.
    fn prefetch_forward(&mut self, tape: &Tape, id: UnitId, first_node: usize) {
        if !self.fsdp.forward_prefetch {
            return;
        }
        let Some(at) = self.unit(id).before_forward else {
            return;
        };
        let Some(&next) = self.before_forward.get(at + 1) else {
            return;
        };
        if self.unit(next).needs_forward && !self.unit(next).is_prefetched {
            self.gather(tape, next);
            self.unit(next).is_prefetched = true;
            self.unit(next).first_node = first_node;
        }
    }

    /// `_post_forward`.
    fn post_forward(&mut self, tape: &Tape, id: UnitId, output_wants_gradient: bool) {
        let place = self.after_forward.len();
        self.after_forward.push(id);
        self.unit(id).after_forward.get_or_insert(place);
        // That of the root is needed for the backward pass at once.
        let frees = id != self.root && self.fsdp.strategy.reshards_after_forward() || !self.unit(id).is_shared();
        self.let_go(tape, id, frees);
        let unit = self.unit(id);
        if output_wants_gradient {
            unit.is_hooked = true;
            unit.needs_backward = true;
        }
        unit.state = State::Idle;
    }
}
