//! What DeepSpeed's ZeRO shares among processes, and what it keeps on the CPU.

use cell::{Cell, Stack};
use options::OffloadDevice;

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};

/// How often stage 3 gathers the weights in a micro-batch: for its forward and for its backward pass. Stages 1 and 2 send no
/// more than the sum of gradients that DDP sends.
const GATHERED: f64 = 2.0;

/// What the CPU's optimizer adds: gradients go there, weights come back, and the GPU waits for the step.
const OFFLOADED_OPTIMIZER: f64 = 3.0;

/// What weights on the CPU add: they come from there each time that they are gathered.
const OFFLOADED_WEIGHTS: f64 = 2.0;

pub(super) const ZERO: Technique = Technique {
    key: "zero_optimization.stage",
    does: "Shares gradients and weights among the processes of DeepSpeed besides optimizer states, and keeps states or weights on \
           the CPU.",
    avoid: "Where links are slow: stage 3 sends all weights twice in a micro-batch, and the CPU's optimizer steps slowly.",
    follows: &[
        "zero_optimization.offload_optimizer_device",
        "zero_optimization.offload_param_device",
    ],
    // Whole weights come and go with stage 3, and leave other gaps.
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, _| {
        if cell.stack != Stack::Torch || !cell.is_deepspeed() {
            return Vec::new();
        }
        let own = &cell.zero_optimization;
        let mut steps = Vec::new();
        for stage in own.stage..=3 {
            for (optimizer, param) in [(false, false), (true, false), (true, true)] {
                let mut to = cell.clone();
                let zero = &mut to.zero_optimization;
                zero.stage = stage;
                if optimizer {
                    zero.offload_optimizer_device = OffloadDevice::Cpu;
                }
                if param {
                    zero.offload_param_device = OffloadDevice::Cpu;
                }
                if (stage == 3 || !param) && to != *cell {
                    steps.push(to);
                }
            }
        }
        steps
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| {
        let (from, to) = (&from.zero_optimization, &mut to.zero_optimization);
        to.stage = from.stage;
        to.offload_optimizer_device = from.offload_optimizer_device;
        to.offload_param_device = from.offload_param_device;
    },
    price: |change| {
        let (from, to) = (&change.from.zero_optimization, &change.to.zero_optimization);
        let share = 1.0 - 1.0 / change.to.world_size as f64;
        let gathered = if to.stage == 3 && from.stage != 3 {
            GATHERED * share
        } else {
            0.0
        };
        let moves =
            |from: OffloadDevice, to: OffloadDevice| f64::from(u8::from(from != to && to == OffloadDevice::Cpu));
        let optimizer = moves(from.offload_optimizer_device, to.offload_optimizer_device) * OFFLOADED_OPTIMIZER;
        let weights = moves(from.offload_param_device, to.offload_param_device) * OFFLOADED_WEIGHTS;
        match gathered + optimizer + weights {
            0.0 => Price::free(),
            copied => Price::new(Harm::Transfers, copied),
        }
    },
    meaning: |change| {
        let zero = &change.to.zero_optimization;
        let shared = match zero.stage {
            1 => "optimizer states",
            2 => "optimizer states and gradients",
            _ => "optimizer states, gradients and weights",
        };
        let on_cpu = match (zero.offload_optimizer_device, zero.offload_param_device) {
            (OffloadDevice::Cpu, OffloadDevice::Cpu) => "; optimizer and weights are on the CPU",
            (OffloadDevice::Cpu, _) => "; the optimizer is on the CPU",
            (_, OffloadDevice::Cpu) => "; weights are on the CPU",
            _ => "",
        };
        format!("a process holds 1/{} of {shared}{on_cpu}", change.to.world_size)
    },
};
