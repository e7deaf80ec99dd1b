//! The sharding of a model: `FullyShardedDataParallel(model)`, as accelerate calls it when the training begins.

use std::collections::VecDeque;

use options::ShardingStrategy;
use trace::Category;

use super::{Parameter, State, Unit, Units};
use crate::configuration::Fsdp;
use crate::dtype::Dtype;
use crate::tape::Tape;
use crate::view::UnitId;

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
    pub dtype: Dtype,
}

impl Tape {
    /// Shards the model, unit by unit: those within a block, the block, and in the end what is in no block.
    pub(crate) fn shard(&self, fsdp: &Fsdp, members: &[Member], blocks: usize) {
        let mut units = Units::new(*fsdp);
        let of_root: Vec<&Member>;
        if fsdp.wraps_blocks {
            for block in 0..blocks {
                let (own, rest): (Vec<_>, Vec<_>) = members
                    .iter()
                    .filter(|member| member.block == Some(block))
                    .partition(|member| member.is_own_unit);
                for member in own {
                    units.add(self, &[member]);
                }
                let id = units.add(self, &rest);
                units.blocks.push(id);
            }
            let (own, rest): (Vec<_>, Vec<_>) = members
                .iter()
                .filter(|member| member.block.is_none())
                .partition(|member| member.is_own_unit);
            for member in own {
                units.add(self, &[member]);
            }
            of_root = rest;
        } else {
            of_root = members.iter().collect();
        }
        units.root = units.add(self, &of_root);
        if fsdp.upcasts {
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
            after_forward: Vec::new(),
            before_forward: Vec::new(),
            frozen: Vec::new(),
            ready: Vec::new(),
            hooked: Vec::new(),
            let_go: VecDeque::new(),
            syncs: true,
            is_first_step: true,
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
        let parameters = members.iter().map(|member| Parameter {
            elements: member.elements.next_multiple_of(alignment),
            leaf: member.leaf,
        });
        let parameters: Vec<_> = parameters.collect();
        let sum: u64 = parameters.iter().map(|parameter| parameter.elements).sum();
        let ranks = match self.fsdp.strategy {
            ShardingStrategy::NoShard => 1,
            _ => self.fsdp.ranks,
        };
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
        let category = match self.fsdp.offload_params {
            true => Category::Offloaded,
            false => Category::Parameter,
        };
        let shard = match ranks {
            1 => flat,
            _ => tape.alloc(shard_elements * dtype.size(), category),
        };
        if ranks > 1 {
            tape.release(flat);
        }
        arrived.into_iter().for_each(|parameter| tape.release(parameter));
        for leaf in parameters.iter().filter_map(|parameter| parameter.leaf) {
            tape.graph.borrow_mut().leaves[leaf].unit = Some(id);
        }
        self.units.push(Unit {
            trains: parameters.iter().any(|parameter| parameter.leaf.is_some()),
            parameters,
            dtype,
            gathered_dtype,
            shard_elements,
            elements,
            ranks,
            shard,
            state: State::Idle,
            gathered: None,
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
        });
        id
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
