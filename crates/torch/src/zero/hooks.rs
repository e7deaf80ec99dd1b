//! Where the tape tells ZeRO what happens.

use trace::Category;

use super::Sharing;
use super::coordinator::{ModuleId, Number};
use super::state::{Flat, Partitioned};
use crate::configuration::Offload;
use crate::tape::{Tape, Tensor};
use crate::view::{StorageId, UnitId};

impl Tape {
    /// Does something with what is shared by stage 1 or 2.
    pub(super) fn with_flat<R>(&self, work: impl FnOnce(&mut Flat) -> R) -> Option<R> {
        match self.sharing.borrow_mut().as_mut() {
            Some(Sharing::Flat(flat)) => Some(work(flat)),
            _ => None,
        }
    }

    /// Does something with what is shared by stage 3.
    pub(super) fn with_partitioned<R>(&self, work: impl FnOnce(&mut Partitioned) -> R) -> Option<R> {
        match self.sharing.borrow_mut().as_mut() {
            Some(Sharing::Partitioned(partitioned)) => Some(work(partitioned)),
            _ => None,
        }
    }

    /// The gradient of a leaf is there.
    pub(crate) fn gradient_arrived(&self, leaf: usize) {
        if !self.reduces_gradients {
            return;
        }
        self.with_flat(|flat| flat.gradient(self, leaf));
        self.with_partitioned(|partitioned| partitioned.gradient(self, leaf));
    }

    /// The backward pass is over.
    pub(crate) fn end_backward_of_zero(&self) {
        let syncs = self.syncs.get();
        self.with_flat(|flat| flat.end_backward(self, syncs));
        self.with_partitioned(|partitioned| partitioned.end_backward(self));
    }

    /// Runs a module, whose own parameters stage 3 gathers before it and lets go of after it.
    pub(crate) fn in_module<R>(
        &self,
        parameters: [Option<&Tensor<'_>>; 2],
        input_wants_gradient: bool,
        work: impl FnOnce() -> R,
    ) -> R {
        self.in_call(parameters, ModuleId::Of, input_wants_gradient, work)
    }

    /// Runs a module that has others and no parameters of its own. It may look at one of theirs, which stage 3 then takes for
    /// its own (`register_external_parameter`).
    pub(crate) fn in_container<R>(
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
    pub(crate) fn before_node_of_module(&self, call: Option<UnitId>, node: usize) {
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
    pub(crate) fn after_nodes_of_modules(&self, first: usize) {
        if self.partitions_parameters {
            self.with_partitioned(|partitioned| partitioned.release_before(self, first));
        }
    }

    /// A parameter as an operation saves it: the whole one, where the operation saves a view of it.
    pub(crate) fn viewed<'t>(&'t self, parameter: &Tensor<'t>) -> Tensor<'t> {
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
    pub(super) fn on_cpu(&self, bytes: u64, offload: Offload) -> StorageId {
        let bytes = if offload.pinned {
            bytes.next_power_of_two()
        } else {
            bytes
        };
        self.alloc(bytes, Category::Offloaded)
    }

    /// Memory that is made and let go.
    pub(super) fn passing(&self, bytes: u64) {
        self.release(self.alloc(bytes, Category::Temporary));
    }
}
