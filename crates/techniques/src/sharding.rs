//! The model, shared among processes by FSDP.

use cell::{Cell, Stack};
use options::{Distributed, ShardingStrategy};

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

/// How often a step of a micro-batch gathers the weights: for its forward and for its backward pass.
const GATHERED: f64 = 2.0;

/// What the CPU's optimizer adds: gradients go there, and weights come back each time that they are gathered.
const OFFLOADED: f64 = 3.0;

pub(super) const SHARDING: Technique = Technique {
    key: "distributed",
    does: "Shares weights, gradients and optimizer states among the processes by FSDP, in place of a copy of all in each.",
    avoid: "Where the GPUs have no fast links: all weights pass them twice in a micro-batch.",
    follows: &[
        "fsdp_config.version",
        "fsdp_config.sharding_strategy",
        "fsdp_config.reshard_after_forward",
        "fsdp_config.offload_params",
    ],
    // Flat units and parameters by themselves leave other gaps.
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        // DeepSpeed has formats of its own, so that another way to share would change more.
        if cell.stack != Stack::Torch || cell.world_size == 1 || cell.is_deepspeed() {
            return Vec::new();
        }
        let fsdp = |version: usize, offloads: bool| {
            let mut to = Cell {
                distributed: Distributed::Fsdp,
                ..cell.clone()
            };
            let config = &mut to.fsdp_config;
            config.version = version;
            config.sharding_strategy = ShardingStrategy::FullShard;
            config.reshard_after_forward = None;
            config.offload_params |= offloads;
            to
        };
        [(1, false), (2, false), (1, true), (2, true)]
            .map(|(version, offloads)| fsdp(version, offloads))
            .to_vec()
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| {
        to.distributed = from.distributed;
        to.fsdp_config.clone_from(&from.fsdp_config);
    },
    price: |change| {
        // Another version gathers as much.
        let gathered = f64::from(u8::from(change.from.distributed != Distributed::Fsdp)) * GATHERED;
        let offloads = change.to.fsdp_config.offload_params && !change.from.fsdp_config.offload_params;
        let share = 1.0 - 1.0 / change.to.world_size as f64;
        match gathered * share + f64::from(u8::from(offloads)) * OFFLOADED {
            0.0 => Price::free(),
            copied => Price::new(Harm::Transfers, copied),
        }
    },
    meaning: |change| {
        let version = change.to.fsdp_config.version;
        match change.to.fsdp_config.offload_params {
            true => format!("FSDP {version}, whose shards and optimizer are on the CPU"),
            false => format!(
                "FSDP {version}: a process holds 1/{} of the model",
                change.to.world_size
            ),
        }
    },
};
