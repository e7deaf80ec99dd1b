//! `FullyShardedDataParallel` (FSDP): what a rank holds of a model that several share.
//!
//! A unit is a module whose parameters lie in one flat tensor. Each rank keeps a shard of it, gathers the whole for the
//! unit's forward and backward pass, and reduces the gradient of the whole to that of its shard
//! (`torch/distributed/fsdp/_runtime_utils.py` and `_flat_param.py`). Weights are views of their unit's flat tensor, so
//! they have no memory of their own here, and what a node saves of them keeps nothing alive.

mod backward;
mod forward;
mod gather;
mod groups;
pub(super) mod init;
mod shards;

use std::collections::VecDeque;

use super::configuration::Fsdp;
use super::dtype::Dtype;
use super::view::{StorageId, UnitId};

/// Streams beside that of computation, whose allocations the allocator keeps apart (`_init_streams`).
mod stream {
    pub(super) const UNSHARD: u8 = 1;
    pub(super) const PRE_UNSHARD: u8 = 2;
    pub(super) const POST_BACKWARD: u8 = 3;
}

/// Units that may be let go and not be free yet when another is gathered: `_max_num_inflight_all_gathers` in
/// `_limiter_utils.py`.
const IN_FLIGHT: usize = 2;

/// All units of a model.
pub(super) struct Units {
    fsdp: Fsdp,
    units: Vec<Unit>,
    /// The unit of each block, if blocks are units.
    blocks: Vec<UnitId>,
    /// The unit of all that is in no other.
    root: UnitId,
    /// FSDP2's unit of the embeddings, and that of the last norm and the head, which tied embeddings are in.
    embedding: Option<UnitId>,
    tail: Option<UnitId>,
    /// FSDP2's units that become whole with the first node of the root.
    begin_with_root: Vec<UnitId>,
    /// FSDP2's tensors that stay until the next unit is copied out, or reduced.
    copied: Option<StorageId>,
    reduced: Option<StorageId>,
    /// Units in the order of their forward passes in this step, which ends with the backward pass.
    after_forward: Vec<UnitId>,
    /// Units in the order of their first forward passes.
    before_forward: Vec<UnitId>,
    /// Units that are done once the gradient of their input is there, each with its first node: frozen ones, and all of
    /// FSDP2.
    awaiting_input: Vec<(UnitId, usize)>,
    /// Units all of whose gradients are there, which are laid one after the other when the backward pass comes to where
    /// the flat tensor was cut.
    ready: Vec<UnitId>,
    /// What hooks of frozen units hold until the backward pass ends.
    hooked: Vec<StorageId>,
    /// Units that were let go, as the CPU waits for them: `_FreeEventQueue`.
    let_go: VecDeque<StorageId>,
    /// False in micro-batches whose gradients are not reduced (`no_sync`).
    syncs: bool,
    /// The first step shows the order of the forward pass.
    is_first_step: bool,
}

/// `HandleTrainingState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Forward,
    BackwardPre,
    BackwardPost,
}

/// A parameter in a unit's flat tensor.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    elements: u64,
    /// Its leaf, if it is trained.
    leaf: Option<usize>,
    /// Elements of a rank's part, and its format there and whole: FSDP2's.
    shard_elements: u64,
    dtype: Dtype,
    gathered_dtype: Dtype,
}

/// A unit: `FlatParamHandle`.
struct Unit {
    /// Its parameters in order.
    parameters: Vec<Parameter>,
    /// The format of its shard.
    dtype: Dtype,
    /// The format that it is gathered in.
    gathered_dtype: Dtype,
    /// Bytes of a rank's part as it is gathered.
    shard_bytes: u64,
    /// Elements of a rank's shard, and of the flat tensor without padding for the ranks.
    shard_elements: u64,
    elements: u64,
    /// The ranks that it is shared among; 1 if each holds it whole.
    ranks: u64,
    trains: bool,
    /// The rank's part of the flat tensor, which is on the CPU if it is offloaded.
    shard: StorageId,
    state: State,
    /// The flat tensor, while it is whole; with FSDP2 what arrived of all parameters, until it is copied out.
    gathered: Option<StorageId>,
    /// FSDP2's whole parameters.
    wholes: Vec<StorageId>,
    /// FSDP2's unit is of so many modules, some of which have run.
    modules: usize,
    modules_run: usize,
    reshards_after_forward: bool,
    /// Gradients of its parameters that the backward pass has yet to give.
    awaited: usize,
    /// The first node after its flat tensor was cut into its parameters.
    first_node: usize,
    /// The gradient of the whole: kept from micro-batches that reduce nothing.
    gradient: Option<StorageId>,
    /// The gradient of the shard.
    shard_gradient: Option<StorageId>,
    /// It was gathered before its turn.
    is_prefetched: bool,
    needs_forward: bool,
    /// Its backward pass is to come, and has begun.
    needs_backward: bool,
    is_hooked: bool,
    /// Its place in [`Units::after_forward`] and [`Units::before_forward`].
    after_forward: Option<usize>,
    before_forward: Option<usize>,
}

impl Units {
    fn unit(&mut self, id: UnitId) -> &mut Unit {
        &mut self.units[usize::from(id.0)]
    }

    fn ids(&self) -> impl Iterator<Item = UnitId> + use<> {
        (0..self.units.len() as u16).map(UnitId)
    }
}

impl Unit {
    /// Bytes of the flat tensor with the padding for the ranks.
    fn whole_bytes(&self) -> u64 {
        self.ranks * self.shard_bytes
    }

    /// False if each rank holds it whole.
    fn is_shared(&self) -> bool {
        self.ranks > 1
    }
}
