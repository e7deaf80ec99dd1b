//! What is shared, as a rank sees it.

use super::coordinator::{Coordinator, ModuleId, Number};
use crate::configuration::Zero;
use crate::dtype::Dtype;
use crate::versions::Deepspeed;
use crate::view::{StorageId, UnitId};

/// What stage 1 or 2 shares, as a rank sees it.
pub(crate) struct Flat {
    pub(super) zero: Zero,
    pub(super) version: Deepspeed,
    /// The format of the parameters.
    pub(super) dtype: Dtype,
    pub(super) groups: Vec<Group>,
    pub(super) parameters: Vec<FlatParameter>,
    /// The parameter of each leaf.
    pub(super) of_leaf: Vec<Option<usize>>,
    pub(super) bucket: Bucket,
    /// Gradients of the rank's own parameters, as they are reduced (`grads_in_partition`).
    pub(super) own: Option<StorageId>,
    /// The sum of those of the step's micro-batches.
    pub(super) sum: Option<StorageId>,
    /// Zeros behind the gradients of a share that is not full.
    pub(super) padding: Vec<StorageId>,
    /// Norms of gradients that went to the CPU.
    pub(super) norms: Vec<StorageId>,
    /// The next micro-batch is not the first of its step.
    pub(super) accumulates: bool,
}

/// Parameters that the optimizer steps together.
pub(super) struct Group {
    /// Elements of a rank's share.
    pub(super) share: u64,
    /// Elements behind the last parameter of the rank's share.
    pub(super) padding: u64,
}

/// A parameter of a group.
pub(super) struct FlatParameter {
    pub(super) group: usize,
    pub(super) leaf: usize,
    pub(super) elements: u64,
    /// Elements that lie in each rank's share, from the first that has some.
    pub(super) slices: Vec<(u64, u64)>,
    /// Elements that lie in the rank's own share.
    pub(super) own: u64,
    /// Its gradient, if it has memory of its own.
    pub(super) gradient: Option<StorageId>,
    /// The sum of its gradients, if that has memory of its own.
    pub(super) sum: Option<StorageId>,
    /// The sum of its gradients is on the CPU.
    pub(super) is_summed_on_cpu: bool,
}

/// What stage 3 shares, as a rank sees it.
pub(crate) struct Partitioned {
    pub(super) zero: Zero,
    pub(super) version: Deepspeed,
    /// The format of what is trained.
    pub(super) dtype: Dtype,
    /// The format of the model, in which gradients are reduced.
    pub(super) model_dtype: Dtype,
    pub(super) parameters: Vec<Parameter>,
    /// The parameter of each leaf.
    pub(super) of_leaf: Vec<Option<Number>>,
    /// The trained parameters that the optimizer steps together, and whose gradients it has.
    pub(super) groups: Vec<Vec<Number>>,
    pub(super) coordinator: Coordinator,
    /// The calls of modules in this micro-batch.
    pub(super) calls: Vec<Call>,
    /// Calls that are done once the gradient of their input is there.
    pub(super) awaiting: Vec<UnitId>,
    /// Modules whose backward pass has begun, in order.
    pub(super) at_work: Vec<ModuleId>,
    /// Frozen parameters that were recomputed, each with the module that asked for it.
    pub(super) recomputed: Vec<(ModuleId, Number)>,
    pub(super) handles: Vec<Handle>,
    /// Elements that were gathered in this micro-batch less those that were let go.
    pub(super) whole_elements: i64,
    pub(super) bucket: Bucket,
    /// Norms of gradients that went to the CPU.
    pub(super) norms: Vec<StorageId>,
}

/// A parameter in parts.
pub(super) struct Parameter {
    pub(super) leaf: Option<usize>,
    pub(super) elements: u64,
    /// Elements of a rank's part.
    pub(super) part: u64,
    pub(super) dtype: Dtype,
    /// The rank's part, as it came.
    pub(super) kept: StorageId,
    /// It is small, and stays whole from step to step.
    pub(super) persists: bool,
    pub(super) whole: Option<StorageId>,
    /// It was asked for, and nobody waited for it.
    pub(super) is_coming: bool,
    pub(super) handle: Option<usize>,
    /// Modules that are at work with it.
    pub(super) modules: Vec<ModuleId>,
    /// Its gradient, if that did not fit into the bucket's buffer.
    pub(super) gradient: Option<StorageId>,
}

impl Parameter {
    pub(super) fn is_whole_or_coming(&self) -> bool {
        self.is_coming || self.whole.is_some()
    }
}

/// Parameters that are gathered together (`AllGatherCoalescedHandle`).
pub(super) struct Handle {
    pub(super) arrived: StorageId,
    pub(super) numbers: Vec<Number>,
    /// How many were not waited for.
    pub(super) awaited: usize,
    /// One was, so that all are whole.
    pub(super) is_complete: bool,
}

/// A call of a module.
pub(super) struct Call {
    pub(super) module: ModuleId,
    /// The call that it is in.
    pub(super) parent: Option<UnitId>,
    pub(super) used: Vec<Number>,
    pub(super) first_node: usize,
    pub(super) input_wants_gradient: bool,
    pub(super) is_in_backward: bool,
}

/// A bucket, whose gradients lie in its buffer or for themselves (`IPGBucket`).
pub(super) struct Bucket {
    pub(super) size: u64,
    pub(super) buffers: Vec<StorageId>,
    /// The numbers of the parameters whose gradients are in it.
    pub(super) members: Vec<usize>,
    pub(super) elements: u64,
}
