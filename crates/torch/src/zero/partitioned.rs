//! Stage 3 (`runtime/zero/stage3.py` and `parameter_offload.py`): parameters in parts.

use trace::Category;

use super::coordinator::{Coordinator, ModuleId, Number};
use super::state::{Bucket, Call, Parameter, Partitioned};
use super::{Sharing, stream};
use crate::configuration::{Configuration, Zero};
use crate::dtype::Dtype;
use crate::fsdp::init::Member;
use crate::groups::Groups;
use crate::tape::{Mode, Tape, Tensor};
use crate::view::{StorageId, Target, UnitId};

/// Elements of which the norm is taken at once, before a gradient goes to the CPU (`_constant_buffered_norm2`).
const NORM: u64 = 250_000_000;

impl Tape {
    /// A parameter comes to the GPU: whole, or the rank keeps its part at once (`zero.Init`).
    pub(crate) fn arrive(&self, zero: &Zero, member: &Member) -> StorageId {
        let whole = self.alloc(member.elements * member.dtype.size(), Category::Parameter);
        match zero.init {
            true => self.partition(zero, member, whole),
            false => whole,
        }
    }

    /// Puts the rank's part of a parameter in the place of the whole (`_partition_param`).
    fn partition(&self, zero: &Zero, member: &Member, whole: StorageId) -> StorageId {
        let bytes = member.elements.div_ceil(zero.ranks) * member.dtype.size();
        let part = match zero.offload_param {
            Some(offload) => self.on_cpu(bytes, offload),
            None => self.alloc(bytes, Category::Parameter),
        };
        self.release(whole);
        part
    }

    /// Makes the optimizer of stage 3 for partitioned parameters. Gives the master weights of each group that is stepped by
    /// itself.
    pub(crate) fn share_partitioned<'t>(
        &'t self,
        configuration: &Configuration,
        zero: Zero,
        members: &[Member],
        trainable: &Groups<'t>,
    ) -> Vec<Tensor<'t>> {
        let partition = |member: &Member| Member {
            kept: match zero.init {
                true => member.kept,
                false => self.partition(&zero, member, member.kept),
            },
            ..*member
        };
        let members: Vec<Member> = members.iter().map(partition).collect();
        let mut partitioned = Partitioned::new(configuration, zero, &members, trainable);
        let masters = partitioned.make_optimizer(self);
        *self.sharing.borrow_mut() = Some(Sharing::Partitioned(Box::new(partitioned)));
        masters
    }

    /// A micro-batch begins (`_start_of_forward_hook`).
    pub(crate) fn begin_forward_of_zero(&self) {
        self.with_partitioned(|partitioned| partitioned.begin(self));
    }

    /// The forward pass is over.
    pub(crate) fn begin_backward_of_zero(&self) {
        self.with_flat(|flat| flat.begin_backward(self));
    }
}

impl Partitioned {
    fn new(configuration: &Configuration, zero: Zero, members: &[Member], trainable: &Groups<'_>) -> Self {
        let mut kept = 0;
        let parameters: Vec<_> = members
            .iter()
            .map(|member| {
                let persists = member.elements <= zero.param_persistence_threshold
                    && kept + member.elements <= zero.model_persistence_threshold;
                kept += if persists { member.elements } else { 0 };
                Parameter {
                    leaf: member.leaf,
                    elements: member.elements,
                    part: member.elements.div_ceil(zero.ranks),
                    dtype: member.dtype,
                    kept: member.kept,
                    persists,
                    whole: None,
                    is_coming: false,
                    handle: None,
                    modules: Vec::new(),
                    gradient: None,
                }
            })
            .collect();
        let leaves = parameters.iter().filter_map(|parameter| parameter.leaf).max();
        let mut of_leaf = vec![None; leaves.map_or(0, |leaf| leaf + 1)];
        for (number, parameter) in parameters.iter().enumerate() {
            if let Some(leaf) = parameter.leaf {
                of_leaf[leaf] = Some(number);
            }
        }
        let number = |tensor: &&Tensor<'_>| match tensor.view.edge.target() {
            Target::Leaf(leaf) => of_leaf[leaf],
            _ => None,
        };
        let mut groups = Vec::new();
        let trained = super::flat::groups(trainable);
        for group in &trained {
            // `_create_fp16_sub_groups`: full with the parameter that fills it.
            let numbers: Vec<Number> = group.iter().filter_map(number).collect();
            let mut elements = 0;
            let mut sub_group = Vec::new();
            for number in numbers {
                sub_group.push(number);
                elements += parameters[number].part;
                if elements >= zero.sub_group_size {
                    groups.push(std::mem::take(&mut sub_group));
                    elements = 0;
                }
            }
            groups.extend((!sub_group.is_empty()).then_some(sub_group));
        }
        Self {
            zero,
            version: configuration.deepspeed,
            model_dtype: configuration.unquantised(),
            dtype: trained
                .iter()
                .flatten()
                .next()
                .map_or(configuration.unquantised(), |tensor| tensor.dtype()),
            coordinator: Coordinator::new(parameters.len()),
            parameters,
            of_leaf,
            groups,
            calls: Vec::new(),
            awaiting: Vec::new(),
            at_work: Vec::new(),
            recomputed: Vec::new(),
            handles: Vec::new(),
            whole_elements: 0,
            bucket: Bucket::new(zero.reduce_bucket_size),
            norms: Vec::new(),
        }
    }

    /// Elements of the rank's parts of a group.
    fn share(&self, group: &[Number]) -> u64 {
        group.iter().map(|&number| self.parameters[number].part).sum()
    }

    /// Elements of the rank's parts of all that is trained.
    pub(super) fn own_elements(&self) -> u64 {
        self.groups.iter().map(|group| self.share(group)).sum()
    }

    pub(super) fn gradient_dtype(&self) -> Dtype {
        self.zero.grad_accum_dtype.unwrap_or(self.model_dtype)
    }

    /// The parts of each parameter that is trained, group by group.
    pub(super) fn sub_groups(&self) -> Vec<Vec<u64>> {
        let part = |number: &Number| self.parameters[*number].part;
        self.groups
            .iter()
            .map(|group| group.iter().map(part).collect())
            .collect()
    }

    /// Partitions the parameters, and makes all that the optimizer has.
    fn make_optimizer<'t>(&mut self, tape: &'t Tape) -> Vec<Tensor<'t>> {
        // `defragment`: those that are trained go to the CPU, and come back as one.
        let own = self.own_elements();
        for number in self.groups.concat() {
            tape.release(self.parameters[number].kept);
        }
        match self.zero.offload_param {
            Some(offload) => {
                tape.on_cpu(own * self.dtype.size(), offload);
            }
            None => {
                tape.empty_cache();
                tape.alloc(own * self.dtype.size(), Category::Parameter);
            }
        }
        let masters = self.make_masters(tape);
        self.make_gradients(tape);
        self.gather_once(tape);
        masters
    }

    /// `_create_fp32_partitions`.
    fn make_masters<'t>(&self, tape: &'t Tape) -> Vec<Tensor<'t>> {
        let (zero, master) = (self.zero, self.zero.master_dtype);
        let of_group = |group: &Vec<Number>| {
            let share = self.share(group);
            let bytes = share * master.size();
            let storage = match zero.offload_optimizer {
                // Not pinned.
                Some(_) => tape.alloc(bytes, Category::Offloaded),
                None if master == self.dtype => tape.alloc(bytes, Category::OptimizerState),
                None => {
                    // Converted, and copied.
                    let converted = tape.alloc(bytes, Category::OptimizerState);
                    let copy = tape.alloc(bytes, Category::OptimizerState);
                    tape.release(converted);
                    copy
                }
            };
            tape.seen(storage, share, master)
        };
        self.groups.iter().map(of_group).collect()
    }

    /// The gradients' buffers (`initialize_optimizer_states` and `_setup_for_real_optimizer`).
    fn make_gradients(&mut self, tape: &Tape) {
        let zero = self.zero;
        let shares: Vec<u64> = self.groups.iter().map(|group| self.share(group)).collect();
        let largest = shares.iter().max().copied().unwrap_or_default() * zero.master_dtype.size();
        let own = self.own_elements() * self.gradient_dtype().size();
        match zero.offload_optimizer {
            Some(offload) => {
                for share in shares {
                    tape.on_cpu(share * zero.master_dtype.size(), offload);
                }
            }
            None => tape.passing(largest),
        }
        if zero.contiguous_gradients {
            tape.alloc(zero.reduce_bucket_size * self.model_dtype.size(), Category::Gradient);
        }
        match zero.offload_optimizer {
            Some(offload) => tape.on_cpu(own, offload),
            None => tape.alloc(own, Category::Gradient),
        };
    }

    /// Each trained parameter is gathered for its hook (`create_reduce_and_remove_grad_hooks`).
    fn gather_once(&mut self, tape: &Tape) {
        for number in self.groups.concat() {
            self.gather_now(tape, &[number]);
            if let Some(whole) = self.parameters[number].whole.take() {
                tape.release(whole);
            }
        }
    }

    fn begin(&mut self, tape: &Tape) {
        self.wait_for_all(tape);
        self.coordinator.begin();
        self.whole_elements = 0;
        self.calls.clear();
        self.awaiting.clear();
        self.handles.clear();
    }

    /// `_clean_inflight_param_registry`.
    fn wait_for_all(&mut self, tape: &Tape) {
        for number in 0..self.parameters.len() {
            if self.parameters[number].is_coming {
                self.wait(tape, number);
                self.let_go(tape, number);
            }
        }
    }

    /// A module begins (`pre_sub_module_forward_function`). Gives its call, if a backward pass may come to it; and what it is to
    /// hooks.
    pub(super) fn enter(
        &mut self,
        tape: &Tape,
        module: Option<ModuleId>,
        used: &[Number],
        input_wants_gradient: bool,
    ) -> (Option<UnitId>, ModuleId) {
        let number = u16::try_from(self.calls.len());
        let is_recorded = number.is_ok() && matches!(tape.mode(), Mode::Record | Mode::Checkpoint(_));
        let number = number.unwrap_or_default();
        let module = module.unwrap_or(match is_recorded {
            true => ModuleId::Container(number),
            false => ModuleId::Passing,
        });
        self.fetch(tape, module, used);
        if tape.in_backward.get()
            && self.version.keeps_recomputed
            && let Some(&owner) = self.at_work.last()
        {
            for &number in used {
                let parameter = &mut self.parameters[number];
                if parameter.leaf.is_none() {
                    parameter.modules.push(owner);
                    self.recomputed.push((owner, number));
                }
            }
        }
        if !is_recorded {
            return (None, module);
        }
        self.calls.push(Call {
            module,
            parent: tape.unit.get(),
            used: used.to_vec(),
            first_node: tape.graph.borrow().nodes.len(),
            input_wants_gradient,
            is_in_backward: false,
        });
        (Some(UnitId(number)), module)
    }

    /// A module is done (`post_sub_module_forward_function`).
    pub(super) fn leave(&mut self, tape: &Tape, module: ModuleId, used: &[Number]) {
        self.release(tape, module, used, false);
    }

    /// The backward pass comes to a call, unless it has before; and first to those that it is in.
    pub(super) fn enter_backward(&mut self, tape: &Tape, id: UnitId) {
        let call = &mut self.calls[usize::from(id.0)];
        if std::mem::replace(&mut call.is_in_backward, true) {
            return;
        }
        let (module, used) = (call.module, call.used.clone());
        let is_awaited = call.input_wants_gradient;
        if let Some(parent) = call.parent {
            self.enter_backward(tape, parent);
        }
        if is_awaited {
            self.awaiting.push(id);
        }
        self.fetch(tape, module, &used);
        self.at_work.push(module);
    }

    /// The nodes from `first` on are done: so are the modules that were called after it.
    pub(super) fn release_before(&mut self, tape: &Tape, first: usize) {
        while let Some(call) = self.awaiting.last().map(|id| &self.calls[usize::from(id.0)])
            && call.first_node >= first
        {
            let (module, used) = (call.module, call.used.clone());
            self.awaiting.pop();
            self.release(tape, module, &used, true);
        }
    }

    /// `fetch_sub_module`.
    fn fetch(&mut self, tape: &Tape, module: ModuleId, used: &[Number]) {
        self.coordinator.call(used);
        self.begin_gather(tape, used.to_vec());
        for &number in used {
            let modules = &mut self.parameters[number].modules;
            if !modules.contains(&module) {
                modules.push(module);
            }
            self.wait(tape, number);
        }
        let room = (self.zero.max_live_parameters as i64).saturating_sub(self.whole_elements);
        let most = match self.zero.prefetch_bucket_size {
            0 => 0,
            size => room.min(size as i64),
        };
        let parameters = &self.parameters;
        let size = |number: Number| {
            let parameter = &parameters[number];
            (!parameter.is_whole_or_coming()).then_some(parameter.elements)
        };
        let ahead = self.coordinator.look_ahead(used, most, size);
        self.begin_gather(tape, ahead);
    }

    /// `release_sub_module`.
    fn release(&mut self, tape: &Tape, module: ModuleId, used: &[Number], in_backward: bool) {
        let parameters = &self.parameters;
        let mut own = used.to_vec();
        let mut released = match used {
            [] => Vec::new(),
            _ => self.coordinator.released(
                module,
                used,
                self.zero.max_reuse_distance,
                |number| parameters[number].persists,
                |number| parameters[number].elements,
            ),
        };
        if in_backward {
            self.at_work.retain(|other| *other != module);
            let of_module = self.recomputed.extract_if(.., |(owner, _)| *owner == module);
            let recomputed: Vec<Number> = of_module.map(|(_, number)| number).collect();
            released.extend(recomputed.iter().filter(|&&number| !parameters[number].persists));
            own.extend(recomputed);
        }
        for number in own {
            self.parameters[number].modules.retain(|other| *other != module);
            if released.contains(&number) {
                self.let_go(tape, number);
            }
        }
    }

    /// The whole parameter, if it is.
    pub(super) fn whole(&self, number: Number) -> Option<StorageId> {
        self.parameters[number].whole
    }

    /// The gradient of a parameter is there (`reduce_independent_p_g_buckets_and_remove_grads`).
    pub(super) fn gradient(&mut self, tape: &Tape, leaf: usize) {
        let Some(number) = self.of_leaf.get(leaf).copied().flatten() else {
            return;
        };
        let Some(gradient) = tape.take_leaf_gradient(leaf) else {
            return;
        };
        let elements = self.parameters[number].elements;
        if self.bucket.is_full(elements) && !self.bucket.is_empty() {
            self.reduce(tape);
        }
        if self.zero.contiguous_gradients && !self.bucket.is_full(elements) {
            tape.release(gradient);
        } else {
            self.parameters[number].gradient = Some(gradient);
        }
        self.bucket.push(number, elements);
    }

    /// `__reduce_and_partition_ipg_grads`.
    fn reduce(&mut self, tape: &Tape) {
        let members = self.bucket.take();
        if members.is_empty() {
            return;
        }
        let stream = match self.zero.overlap_comm {
            true => stream::REDUCE,
            false => stream::COMPUTE,
        };
        let (ranks, dtype) = (self.zero.ranks, self.model_dtype);
        let total: u64 = members.iter().map(|&number| self.parameters[number].part * ranks).sum();
        tape.on(stream, || {
            let is_whole = |number: Number| self.parameters[number].elements.is_multiple_of(ranks);
            let lies_ready = match (
                self.zero.reduce_scatter || !self.zero.contiguous_gradients,
                &members[..],
            ) {
                (true, &[number]) => is_whole(number),
                (true, _) => false,
                (false, _) => true,
            };
            let laid = (!lies_ready).then(|| tape.alloc(total * dtype.size(), Category::Gradient));
            let converted = (self.gradient_dtype() != dtype).then(|| {
                let elements = if self.zero.reduce_scatter { total / ranks } else { total };
                tape.alloc(elements * self.gradient_dtype().size(), Category::Gradient)
            });
            for &number in &members {
                self.keep_part(tape, number);
                if let Some(gradient) = self.parameters[number].gradient.take() {
                    tape.release(gradient);
                }
            }
            converted.into_iter().for_each(|converted| tape.release(converted));
            laid.into_iter().for_each(|laid| tape.release(laid));
        });
    }

    /// The rank's part of a gradient goes where it is kept (`partition_grads`): with the optimizer on the CPU by way of a
    /// copy on the GPU, of which the norm is taken.
    fn keep_part(&mut self, tape: &Tape, number: Number) {
        if self.zero.offload_optimizer.is_none() {
            return;
        }
        let part = self.parameters[number].part;
        let copy = tape.alloc(part * self.gradient_dtype().size(), Category::Temporary);
        if tape.syncs.get() {
            self.norms.push(tape.norm(part.min(NORM)));
            if self.gradient_dtype() != self.zero.master_dtype {
                tape.passing(part * self.zero.master_dtype.size());
            }
        }
        tape.release(copy);
    }

    /// The backward pass is over: the last bucket is reduced, and what no gradient of an input has let go is.
    pub(super) fn end_backward(&mut self, tape: &Tape) {
        self.reduce(tape);
        if self.zero.overlap_comm {
            tape.synchronize();
        }
        for number in 0..self.parameters.len() {
            let parameter = &mut self.parameters[number];
            parameter.modules.clear();
            if self.version.keeps_recomputed && !parameter.persists {
                self.let_go(tape, number);
            }
        }
        self.at_work.clear();
        self.recomputed.clear();
    }

    /// `_partition_all_parameters`.
    pub(super) fn release_all(&mut self, tape: &Tape) {
        for number in 0..self.parameters.len() {
            self.wait(tape, number);
            self.parameters[number].modules.clear();
            self.let_go(tape, number);
        }
    }

    /// The gradient of a group's master weights, in their format (`_prepare_fp32_grad_for_sub_group`).
    pub(super) fn master_gradient(&self, tape: &Tape, number: usize) -> StorageId {
        let group = &self.groups[number];
        tape.joined(
            group.len(),
            self.share(group),
            self.gradient_dtype(),
            self.zero.master_dtype,
        )
    }

    /// `_post_step`: what persists is gathered again.
    pub(super) fn end_step(&mut self, tape: &Tape) {
        self.norms.drain(..).for_each(|norm| tape.release(norm));
        let persist = (0..self.parameters.len()).filter(|&number| self.parameters[number].persists);
        self.gather_now(tape, &persist.collect::<Vec<_>>());
    }
}
