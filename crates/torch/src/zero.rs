//! DeepSpeed's ZeRO: what a rank holds of a training that several share (`deepspeed/runtime/zero`).
//!
//! With stages 1 and 2 ([`flat`]) a rank has all parameters, laid one after the other, and shares of the master weights
//! and of the optimizer's states; with stage 2 it keeps its share of the gradients alone. With stage 3 ([`partitioned`])
//! it has its part of each parameter, which is gathered for each module that uses it ([`coordinator`]).

mod bucket;
mod coordinator;
mod flat;
mod gather;
mod partitioned;
mod step;
#[cfg(test)]
mod tests;

use trace::Category;

use self::coordinator::{ModuleId, Number};
use self::flat::Flat;
use self::partitioned::Partitioned;
use super::configuration::Offload;
use super::tape::{Tape, Tensor};
use super::view::{StorageId, UnitId};

/// Streams beside that of computation (`overlap_comm`).
mod stream {
    pub(super) const COMPUTE: u8 = 0;
    pub(super) const GATHER: u8 = 1;
    pub(super) const REDUCE: u8 = 2;
}

/// A training that ZeRO shares.
pub(super) enum Sharing {
    Flat(Box<Flat>),
    Partitioned(Box<Partitioned>),
}

impl Tape {
    /// Does something with what is shared by stage 1 or 2.
    fn with_flat<R>(&self, work: impl FnOnce(&mut Flat) -> R) -> Option<R> {
        match self.sharing.borrow_mut().as_mut() {
            Some(Sharing::Flat(flat)) => Some(work(flat)),
            _ => None,
        }
    }

    /// Does something with what is shared by stage 3.
    fn with_partitioned<R>(&self, work: impl FnOnce(&mut Partitioned) -> R) -> Option<R> {
        match self.sharing.borrow_mut().as_mut() {
            Some(Sharing::Partitioned(partitioned)) => Some(work(partitioned)),
            _ => None,
        }
    }

    /// The gradient of a leaf is there.
    pub(super) fn gradient_arrived(&self, leaf: usize) {
        if !self.reduces_gradients {
            return;
        }
        self.with_flat(|flat| flat.gradient(self, leaf));
        self.with_partitioned(|partitioned| partitioned.gradient(self, leaf));
    }

    /// The backward pass is over.
    pub(super) fn end_backward_of_zero(&self) {
        let syncs = self.syncs.get();
        self.with_flat(|flat| flat.end_backward(self, syncs));
        self.with_partitioned(|partitioned| partitioned.end_backward(self));
    }

    /// Runs a module, whose own parameters stage 3 gathers before it and lets go of after it.
    pub(super) fn in_module<R>(
        &self,
        parameters: [Option<&Tensor<'_>>; 2],
        input_wants_gradient: bool,
        work: impl FnOnce() -> R,
    ) -> R {
        self.in_call(parameters, ModuleId::Of, input_wants_gradient, work)
    }

    /// Runs a module that has others and no parameters of its own. It may look at one of theirs, which stage 3 then takes for
    /// its own (`register_external_parameter`).
    pub(super) fn in_container<R>(
        &self,
        looks_at: Option<&Tensor<'_>>,
        input_wants_gradient: bool,
        work: impl FnOnce() -> R,
    ) -> R {
        self.in_call([looks_at, None], ModuleId::Around, input_wants_gradient, work)
    }

    fn in_call<R>(
        &self,
        parameters: [Option<&Tensor<'_>>; 2],
        module: impl FnOnce(Number) -> ModuleId,
        input_wants_gradient: bool,
        work: impl FnOnce() -> R,
    ) -> R {
        if !self.partitions_parameters || self.stopped.get() {
            return work();
        }
        let used = parameters.into_iter().flatten();
        let used: Vec<Number> = used
            .filter_map(|parameter| parameter.view.storage.parameter())
            .collect();
        let module = used.first().copied().map(module);
        let entered = self.with_partitioned(|partitioned| partitioned.enter(self, module, &used, input_wants_gradient));
        let Some((call, module)) = entered else { return work() };
        let before = self.unit.replace(call.or(self.unit.get()));
        let result = work();
        self.unit.set(before);
        // A recomputation that has all it needs ends without returning.
        if !self.stopped.get() {
            self.with_partitioned(|partitioned| partitioned.leave(self, module, &used));
        }
        result
    }

    /// A node of this call of a module is about to run; `node` is its number.
    pub(super) fn before_node_of_module(&self, call: Option<UnitId>, node: usize) {
        if self.partitions_parameters {
            self.with_partitioned(|partitioned| {
                partitioned.release_before(self, node + 1);
                if let Some(call) = call {
                    partitioned.enter_backward(self, call);
                }
            });
        }
    }

    /// The nodes from `first` on are done.
    pub(super) fn after_nodes_of_modules(&self, first: usize) {
        if self.partitions_parameters {
            self.with_partitioned(|partitioned| partitioned.release_before(self, first));
        }
    }

    /// A parameter as an operation saves it: the whole one, where the operation saves a view of it.
    pub(super) fn viewed<'t>(&'t self, parameter: &Tensor<'t>) -> Tensor<'t> {
        let number = parameter.view.storage.parameter();
        let whole = number.and_then(|number| self.with_partitioned(|partitioned| partitioned.whole(number))?);
        let Some(whole) = whole else {
            return parameter.clone();
        };
        let mut viewed = parameter.clone();
        self.move_to(&mut viewed.view, whole);
        viewed
    }

    /// Memory of the CPU: PyTorch's allocator of pinned memory rounds it up to a power of two
    /// (`CachingHostAllocator.h`).
    fn on_cpu(&self, bytes: u64, offload: Offload) -> StorageId {
        let bytes = if offload.pinned {
            bytes.next_power_of_two()
        } else {
            bytes
        };
        self.alloc(bytes, Category::Offloaded)
    }

    /// Memory that is made and let go.
    fn passing(&self, bytes: u64) {
        self.release(self.alloc(bytes, Category::Temporary));
    }
}
