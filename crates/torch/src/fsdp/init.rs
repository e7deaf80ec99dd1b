//! The sharding of a model: `FullyShardedDataParallel(model)`, as accelerate calls it when the training begins.

use std::collections::VecDeque;

use arch::ModelConfig;
use options::ShardingStrategy;
use trace::Category;

use super::{Parameter, State, Unit, Units};
use crate::configuration::Fsdp;
use crate::dtype::Dtype;
use crate::tape::Tape;
use crate::view::{StorageId, UnitId};

/// Bytes that the addresses of parameters in a flat tensor are multiples of, where the optimizer sees them.
const ALIGNMENT: u64 = 16;

/// A parameter of the model that is to be sharded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    /// The block that it is in, if any.
    pub block: Option<usize>,
    /// Its module is a unit of its own: PEFT's policy wraps each that has a trained weight and no other modules.
    pub is_own_unit: bool,
    /// Its leaf, if it is trained.
    pub leaf: Option<usize>,
    pub elements: u64,
    /// Its first dimension.
    pub rows: u64,
    pub dtype: Dtype,
    /// It is the table of the embeddings.
    pub is_embedding: bool,
    /// The rank's part, if ZeRO has partitioned it.
    pub kept: StorageId,
}

impl Tape {
    /// Shards the model, unit by unit: those within a block, the block, and in the end what is in no block.
    pub(crate) fn shard(&self, fsdp: &Fsdp, members: &[Member], model: &ModelConfig) {
        let mut units = Units::new(*fsdp);
        let mut of_root: Vec<&Member> = members.iter().collect();
        if fsdp.wraps_blocks {
            for block in 0..model.num_hidden_layers {
                let of_block = of_root.extract_if(.., |member| member.block == Some(block)).collect();
                let rest = units.add_own(self, of_block);
                let id = units.add(self, &rest);
                units.blocks.push(id);
            }
            of_root = units.add_own(self, of_root);
        }
        if fsdp.per_parameter {
            units.add_embedding_and_tail(self, std::mem::take(&mut of_root), model.tie_word_embeddings);
        }
        units.root = units.add(self, &of_root);
        if fsdp.upcasts && !fsdp.per_parameter {
            units.upcast(self);
        }
        *self.units.borrow_mut() = Some(units);
    }
}

impl Units {
    fn new(fsdp: Fsdp) -> Self {
        Self {
            fsdp,
            units: Vec::new(),
            blocks: Vec::new(),
            root: UnitId(0),
            embedding: None,
            tail: None,
            begin_with_root: Vec::new(),
            copied: None,
            reduced: None,
            after_forward: Vec::new(),
            before_forward: Vec::new(),
            awaiting_input: Vec::new(),
            ready: Vec::new(),
            hooked: Vec::new(),
            let_go: VecDeque::new(),
            syncs: true,
            is_first_step: true,
        }
    }

    /// Makes units of the members whose modules are such, and gives the others. FSDP2 has none.
    fn add_own<'m>(&mut self, tape: &Tape, members: Vec<&'m Member>) -> Vec<&'m Member> {
        if self.fsdp.per_parameter {
            return members;
        }
        let (own, rest): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.is_own_unit);
        for member in own {
            self.add(tape, &[member]);
        }
        rest
    }

    /// The units that accelerate makes of what is in no block: the embeddings, and the last norm with the head, which
    /// stays whole after the forward pass (`fsdp2_prepare_model` in `utils/fsdp_utils.py` of 1.15). Tied embeddings are
    /// among the latter.
    fn add_embedding_and_tail(&mut self, tape: &Tape, members: Vec<&Member>, is_tied: bool) {
        let (embedding, tail): (Vec<&Member>, Vec<&Member>) =
            members.into_iter().partition(|member| member.is_embedding);
        let tail = match is_tied {
            true => [tail, embedding].concat(),
            false => {
                self.embedding = Some(self.add(tape, &embedding));
                tail
            }
        };
        let id = self.add(tape, &tail);
        self.tail = Some(id);
        self.unit(id).reshards_after_forward = false;
        self.unit(id).modules = 2;
        if is_tied {
            self.embedding = Some(id);
            self.unit(id).modules = 3;
        }
    }

    /// Makes a unit of these parameters: they come to the GPU, get the values of the first rank, are laid one after the
    /// other, and the rank keeps its shard.
    fn add(&mut self, tape: &Tape, members: &[&Member]) -> UnitId {
        let id = UnitId(self.units.len() as u16);
        let dtype = members.first().map_or(Dtype::Float32, |member| member.dtype);
        let gathered_dtype = self.fsdp.param_dtype.unwrap_or(dtype);
        let alignment = match self.fsdp.use_orig_params {
            true => ALIGNMENT / gathered_dtype.size(),
            false => 1,
        };
        let ranks = match self.fsdp.strategy {
            ShardingStrategy::NoShard => 1,
            _ => self.fsdp.ranks,
        };
        let parameters = members.iter().map(|member| Parameter {
            elements: member.elements.next_multiple_of(alignment),
            leaf: member.leaf,
            shard_elements: member.rows.div_ceil(ranks) * (member.elements / member.rows.max(1)),
            dtype: match self.fsdp.upcasts && member.leaf.is_some() {
                true => Dtype::Float32,
                false => member.dtype,
            },
            gathered_dtype: self.fsdp.param_dtype.unwrap_or(member.dtype),
        });
        let parameters: Vec<_> = parameters.collect();
        if self.fsdp.per_parameter {
            return self.add_group(tape, members, parameters, ranks);
        }
        let sum: u64 = parameters.iter().map(|parameter| parameter.elements).sum();
        // Padded for the ranks at once, where parameters are padded at all.
        let elements = match self.fsdp.use_orig_params {
            true => sum.next_multiple_of(ranks),
            false => sum,
        };
        let shard_elements = sum.div_ceil(ranks);
        let bytes: Vec<u64> = members.iter().map(|member| member.elements * dtype.size()).collect();
        let arrived: Vec<_> = bytes
            .iter()
            .map(|&bytes| tape.alloc(bytes, Category::Parameter))
            .collect();
        tape.broadcast_all(&bytes);
        let flat = tape.alloc(elements * dtype.size(), Category::Parameter);
        let shard = match ranks {
            1 => flat,
            _ => tape.alloc(shard_elements * dtype.size(), self.category(members)),
        };
        if ranks > 1 {
            tape.release(flat);
        }
        arrived.into_iter().for_each(|parameter| tape.release(parameter));
        for leaf in parameters.iter().filter_map(|parameter| parameter.leaf) {
            tape.graph.borrow_mut().leaves[leaf].unit = Some(id);
        }
        self.units.push(Unit {
            dtype,
            gathered_dtype,
            shard_bytes: shard_elements * gathered_dtype.size(),
            shard_elements,
            elements,
            shard,
            ..Unit::new(parameters, ranks)
        });
        id
    }

    /// The category of a shard of these.
    fn category(&self, members: &[&Member]) -> Category {
        match members.iter().all(|member| member.is_own_unit) {
            _ if self.fsdp.offload_params => Category::Offloaded,
            true => Category::Adapter,
            false => Category::Parameter,
        }
    }

    /// Makes one of FSDP2's units. Each parameter comes to the GPU by itself, and the rank keeps its part
    /// (`fsdp2_load_full_state_dict`).
    fn add_group(&mut self, tape: &Tape, members: &[&Member], parameters: Vec<Parameter>, ranks: u64) -> UnitId {
        for (parameter, member) in parameters.iter().zip(members) {
            let whole = tape.alloc(parameter.elements * parameter.dtype.size(), Category::Temporary);
            let category = self.category(&[member]);
            tape.alloc(parameter.shard_elements * parameter.dtype.size(), category);
            tape.release(whole);
        }
        let gathered = |parameter: &Parameter| parameter.shard_elements * parameter.gathered_dtype.size();
        self.units.push(Unit {
            shard_bytes: parameters.iter().map(gathered).sum(),
            reshards_after_forward: self.fsdp.strategy.reshards_after_forward(),
            ..Unit::new(parameters, ranks)
        });
        UnitId(self.units.len() as u16 - 1)
    }

    /// Makes the shards of what is trained float32, one after the other.
    fn upcast(&mut self, tape: &Tape) {
        for unit in self.units.iter_mut().filter(|unit| unit.trains) {
            if unit.dtype != Dtype::Float32 {
                unit.dtype = Dtype::Float32;
                tape.reallocate(unit.shard, unit.shard_elements * Dtype::Float32.size());
            }
        }
    }
}

impl Unit {
    /// A unit of these parameters whose tensors are not there yet.
    fn new(parameters: Vec<Parameter>, ranks: u64) -> Self {
        Self {
            trains: parameters.iter().any(|parameter| parameter.leaf.is_some()),
            parameters,
            dtype: Dtype::Float32,
            gathered_dtype: Dtype::Float32,
            shard_bytes: 0,
            shard_elements: 0,
            elements: 0,
            ranks,
            shard: StorageId::NOWHERE,
            state: State::Idle,
            gathered: None,
            wholes: Vec::new(),
            modules: 1,
            modules_run: 0,
            reshards_after_forward: true,
            awaited: 0,
            first_node: 0,
            gradient: None,
            shard_gradient: None,
            is_prefetched: false,
            needs_forward: false,
            needs_backward: false,
            is_hooked: false,
            after_forward: None,
            before_forward: None,
        }
    }
}
