//! What leaves the device, and what there is to leave.

use arch::Preset;
use options::Checkpointing;

use super::super::{Cell, Device, OffloadedBlocks};
use super::found::Found;
use options::invalid::{Invalid, number};

impl Cell {
    pub(super) fn check_offload(&self, found: &mut Found) {
        match &self.offload.weights {
            Some(OffloadedBlocks::Ratio(ratio)) if !(*ratio > 0.0 && *ratio <= 1.0) => found.check(number(
                "offload.weights.ratio",
                *ratio,
                false,
                "more than 0 and at most 1",
            )),
            Some(weights) => self.check_offloaded_blocks(weights, found),
            None => {}
        }
        let frozen = [
            ("offload.weights", self.offload.weights.is_some()),
            ("offload.embeddings", self.offload.embeddings),
        ];
        for (key, _) in frozen.into_iter().filter(|(_, leaves)| *leaves && self.trains_all()) {
            found.add(
                Invalid::idle(
                    key,
                    "weights that are trained stay on the device, and `rank: 0` trains all of them",
                )
                .with("rank")
                .help("leave the key out, train adapters (`rank: 16`), or name what is trained (`trainable`)"),
            );
        }
        if self.offload.checkpoints && self.gradient_checkpointing == Checkpointing::None {
            found.add(
                Invalid::idle(
                    "offload.checkpoints",
                    "no block recomputes, so there are no inputs to offload",
                )
                .with("gradient_checkpointing")
                .help("leave the key out, or use `gradient_checkpointing: full`"),
            );
        }
        if self.host_memory.is_some_and(|budget| budget.0 == 0) {
            found
                .add(Invalid::new("host_memory", "a budget of 0 fits nothing").help("leave the key out for no budget"));
        }
        if self.host_memory.is_some() && self.device() != Some(Device::Cpu) {
            found.add(
                Invalid::new("host_memory", "a budget is kept on the cpu only so far")
                    .with("device")
                    .help("leave the key out for no budget"),
            );
        }
    }

    /// A directory's blocks are checked when it is opened.
    fn check_offloaded_blocks(&self, weights: &OffloadedBlocks, found: &mut Found) {
        let preset = Preset::named(&self.model).map(|preset| preset.config());
        if let Some(Err(mistake)) = preset.map(|config| weights.check(config.num_hidden_layers)) {
            found.add(Invalid::of("offload.weights", mistake).with("model"));
        }
        if let OffloadedBlocks::Blocks(indices) = weights {
            check_list(indices, found);
        }
    }
}

fn check_list(indices: &[usize], found: &mut Found) {
    if indices.is_empty() {
        found.add(
            Invalid::new("offload.weights", "an empty list offloads nothing")
                .help("name blocks, such as `[4, 5]`, or leave the key out"),
        );
    }
    let is_repeated = |at: &usize| indices[..*at].contains(&indices[*at]);
    if let Some(at) = (0..indices.len()).find(is_repeated) {
        let message = format!("block {} is named twice", indices[at]);
        found.add(Invalid::new(format!("offload.weights[{at}]"), message).help("name each block once"));
    }
}
