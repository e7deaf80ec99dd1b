//! FSDP2 (`fully_shard`): each parameter is shared along its first dimension, and those of a unit are gathered and
//! reduced together (`torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py` and `_fsdp_collectives.py`).
//!
//! What is gathered arrives in one tensor and is copied out into whole parameters. Their gradients have memory of their
//! own until the unit's backward pass is done. Streams wait for each other, so nothing stays reserved for one.

use trace::Category;

use super::{State, Units, stream};
use crate::tape::{Mode, Tape};
use crate::view::{StorageId, UnitId};

impl Units {
    /// `pre_forward`.
    pub(super) fn group_pre_forward(&mut self, tape: &Tape, id: UnitId, input_wants_gradient: bool, first_node: usize) {
        let begins = self.unit(id).state != State::Forward;
        self.unit(id).state = State::Forward;
        self.gather_group(tape, id);
        self.copy_out(tape, id, true);
        let is_recorded = matches!(tape.mode(), Mode::Record | Mode::Checkpoint(_));
        if begins && is_recorded && input_wants_gradient {
            self.awaiting_input.push((id, first_node));
        }
    }

    /// `post_forward`, once all of the unit's modules have run.
    pub(super) fn group_post_forward(&mut self, tape: &Tape, id: UnitId, output_wants_gradient: bool) {
        if id == self.root {
            return self.end_forward(tape);
        }
        let unit = self.unit(id);
        unit.modules_run += 1;
        unit.is_hooked |= output_wants_gradient;
        if unit.modules_run == unit.modules {
            self.end_group(tape, id);
        }
    }

    fn end_group(&mut self, tape: &Tape, id: UnitId) {
        let unit = self.unit(id);
        unit.modules_run = 0;
        unit.state = State::Idle;
        // A checkpoint is run again.
        if tape.in_backward.get() {
            return;
        }
        let place = self.after_forward.len();
        self.after_forward.push(id);
        self.unit(id).after_forward = Some(place);
        if self.unit(id).reshards_after_forward {
            self.let_wholes_go(tape, id);
        }
    }

    /// The model's forward pass is done. Units of whose modules some did not run, as the head with a loss of its own, are
    /// done too, and become whole at the beginning of the backward pass (`_force_complete_incomplete_states`).
    fn end_forward(&mut self, tape: &Tape) {
        if let Some(before) = self.copied.take() {
            tape.release(before);
        }
        for id in self.ids() {
            if self.unit(id).modules_run > 0 {
                self.end_group(tape, id);
                self.begin_with_root.push(id);
            }
        }
    }

    /// `pre_backward`: the unit becomes whole, and the next one arrives already.
    pub(super) fn group_pre_backward(&mut self, tape: &Tape, id: UnitId) {
        if id == self.root {
            for incomplete in std::mem::take(&mut self.begin_with_root) {
                self.group_pre_backward(tape, incomplete);
            }
        }
        if !std::mem::take(&mut self.unit(id).is_hooked) {
            return;
        }
        self.unit(id).state = State::BackwardPre;
        self.gather_group(tape, id);
        self.copy_out(tape, id, false);
        let before = self.unit(id).after_forward.and_then(|at| at.checked_sub(1));
        if let Some(&next) = before.and_then(|at| self.after_forward.get(at)) {
            self.gather_group(tape, next);
        }
    }

    /// `post_backward`: the gradients of whole parameters become those of shards.
    pub(super) fn group_post_backward(&mut self, tape: &Tape, id: UnitId) {
        self.unit(id).state = State::BackwardPost;
        if !self.syncs {
            return self.let_wholes_go(tape, id);
        }
        let gradients: Vec<StorageId> = {
            let leaves = &mut tape.graph.borrow_mut().leaves;
            let parameters = self.unit(id).parameters.iter();
            let with_leaf = parameters.filter_map(|parameter| parameter.leaf);
            with_leaf
                .filter_map(|leaf| leaves[leaf].grad.take())
                .map(|gradient| gradient.storage)
                .collect()
        };
        self.let_wholes_go(tape, id);
        if let Some(input) = self.reduced.take() {
            tape.release(input);
        }
        if gradients.is_empty() {
            return;
        }
        let offloads = self.fsdp.offload_params;
        let unit = self.unit(id);
        let trained = || unit.parameters.iter().filter(|parameter| parameter.leaf.is_some());
        let elements: u64 = trained().map(|parameter| parameter.shard_elements).sum();
        let own: u64 = trained()
            .map(|parameter| parameter.shard_elements * parameter.dtype.size())
            .sum();
        let reduced = elements * trained().next().map_or(0, |parameter| parameter.gathered_dtype.size());
        let input = tape.alloc(unit.ranks * reduced, Category::Temporary);
        gradients.into_iter().for_each(|gradient| tape.release(gradient));
        tape.on(stream::POST_BACKWARD, || {
            let mut output = tape.alloc(reduced, Category::Gradient);
            if own != reduced {
                let converted = tape.alloc(own, Category::Gradient);
                tape.release(std::mem::replace(&mut output, converted));
            }
            match (offloads, unit.shard_gradient) {
                (false, None) => unit.shard_gradient = Some(output),
                (true, None) => {
                    unit.shard_gradient = Some(tape.alloc(own, Category::Offloaded));
                    tape.release(output);
                }
                // Added in place.
                (_, Some(_)) => tape.release(output),
            }
        });
        self.reduced = Some(input);
    }

    /// `_root_post_backward_final_callback`.
    pub(super) fn group_end_backward(&mut self, tape: &Tape) {
        for id in self.ids() {
            if self.unit(id).state != State::BackwardPost {
                self.group_post_backward(tape, id);
            }
            let unit = self.unit(id);
            if let Some(arrived) = unit.gathered.take() {
                tape.release(arrived);
            }
            unit.is_hooked = false;
            unit.modules_run = 0;
            unit.after_forward = None;
            unit.state = State::Idle;
        }
        for kept in self.copied.take().into_iter().chain(self.reduced.take()) {
            tape.release(kept);
        }
        self.after_forward.clear();
        self.awaiting_input.clear();
        self.begin_with_root.clear();
    }

    /// `unshard`: the parameters arrive in one tensor.
    fn gather_group(&mut self, tape: &Tape, id: UnitId) {
        let offload = self.fsdp.offload_params;
        let unit = self.unit(id);
        if unit.gathered.is_some() || !unit.wholes.is_empty() {
            return;
        }
        let converted = unit
            .parameters
            .iter()
            .filter(|parameter| parameter.dtype != parameter.gathered_dtype);
        let converted: u64 = converted
            .map(|parameter| parameter.shard_elements * parameter.gathered_dtype.size())
            .sum();
        let shards = unit
            .parameters
            .iter()
            .map(|parameter| parameter.shard_elements * parameter.dtype.size());
        let shards = if offload { shards.sum() } else { 0 };
        unit.gathered = Some(tape.on(stream::UNSHARD, || {
            let sent = [shards, converted].map(|bytes| tape.alloc(bytes, Category::Temporary));
            let arrived = tape.alloc(unit.whole_bytes(), Category::Parameter);
            sent.into_iter().for_each(|shard| tape.release(shard));
            arrived
        }));
    }

    /// `wait_for_unshard`: what arrived is copied out into whole parameters. In the forward pass it stays until the next
    /// unit is copied out.
    fn copy_out(&mut self, tape: &Tape, id: UnitId, is_forward: bool) {
        let Some(arrived) = self.unit(id).gathered.take() else {
            return;
        };
        if is_forward && let Some(before) = self.copied.take() {
            tape.release(before);
        }
        let unit = self.unit(id);
        let ranks = unit.ranks;
        let whole = unit
            .parameters
            .iter()
            .map(|parameter| ranks * parameter.shard_elements * parameter.gathered_dtype.size());
        unit.wholes = whole.map(|bytes| tape.alloc(bytes, Category::Parameter)).collect();
        match is_forward {
            true => self.copied = Some(arrived),
            false => tape.release(arrived),
        }
    }

    fn let_wholes_go(&mut self, tape: &Tape, id: UnitId) {
        self.unit(id).wholes.drain(..).for_each(|whole| tape.release(whole));
    }
}
