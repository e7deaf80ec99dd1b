//! Tensors that wait in the host's memory, and are copied to the device when they are needed.

use arch::ModelConfig;
use base::text::format;
use cell::{Cell, Stack};
use options::{Checkpointing, Offload, OffloadedBlocks};

use super::price::{Harm, Price};
use super::technique::{Technique, nothing_follows};
use super::trainable;

/// Shares of the blocks whose weights leave.
const RATIOS: [f64; 3] = [0.25, 0.5, 1.0];

/// Copies of a frozen block's weights in a step: for the forward and for the backward pass.
const COPIES: f64 = 2.0;

/// Keeps tensors in the host's memory.
pub const OFFLOAD: Technique = Technique {
    key: "offload",
    does: "Keeps weights, optimizer state or checkpoints in the host's memory, and copies them to the device when they are \
           needed.",
    avoid: "Where steps are short: a copy takes as long for few tokens as for many, and computing must hide it.",
    follows: &[],
    // A head in pieces can need more than one that stays, if its vocabulary is small.
    is_ordered: false,
    is_of_tensors: true,
    steps: |cell, model| {
        if cell.stack != Stack::Candle {
            return Vec::new();
        }
        let mut offload = cell.offload.clone();
        let mut steps = Vec::new();
        let mut add = |offload: &Offload| {
            if *offload != cell.offload {
                steps.push(Cell {
                    offload: offload.clone(),
                    ..cell.clone()
                });
            }
        };
        offload.checkpoints |= cell.gradient_checkpointing != Checkpointing::None;
        add(&offload);
        offload.optimizer = true;
        add(&offload);
        if !cell.trains_all() {
            let own = blocks(&cell.offload, model);
            for ratio in RATIOS {
                let weights = OffloadedBlocks::Ratio(ratio);
                if weights.count(model.num_hidden_layers) > own {
                    offload.weights = Some(weights);
                    add(&offload);
                }
            }
            offload.embeddings = true;
            add(&offload);
        }
        steps
    },
    settle: nothing_follows,
    copy: |from: &Cell, to: &mut Cell| to.offload.clone_from(&from.offload),
    price: |change| {
        let copied = |cell| copied(cell, change.model);
        Price::new(Harm::Transfers, copied(change.to) - copied(change.from))
    },
    meaning: |change| {
        let share = copied(change.to, change.model);
        format!(
            "copies {} of the weights' size in a step",
            format::percent(share.into())
        )
    },
};

fn blocks(offload: &Offload, model: &ModelConfig) -> usize {
    let weights = offload.weights.as_ref();
    weights.map_or(0, |weights| weights.count(model.num_hidden_layers))
}

/// Bytes that a step of one micro-batch copies between the tiers, as a share of the base weights.
fn copied(cell: &Cell, model: &ModelConfig) -> f64 {
    let elements = model.parameter_count() as f64;
    let table = (model.vocab_size * model.hidden_size) as f64;
    let tables = if model.tie_word_embeddings { table } else { 2.0 * table };
    let in_blocks = (elements - tables).max(0.0);
    let bits = f64::from(cell.dtype.bits());
    // Tables are not quantised.
    let table_bits = bits.max(16.0);
    let all = in_blocks * bits + tables * table_bits;
    let share = blocks(&cell.offload, model) as f64 / model.num_hidden_layers as f64;
    let trained = trainable::trained(cell, model) as f64;
    let frozen = 1.0 - trainable::base_share(cell, model);
    let weights = COPIES * share * frozen * in_blocks * bits;
    let head = f64::from(u8::from(cell.offload.embeddings)) * table * table_bits;
    let state_bits = f64::from(cell.optim.state_bits(cell.adapter_dtype.bits()));
    // There and back.
    let state = f64::from(u8::from(cell.offload.optimizer)) * 2.0 * trained * state_bits;
    let tokens = (cell.batch_size * cell.max_seq_length) as f64;
    let inputs = cell.gradient_checkpointing.count(model.num_hidden_layers) as f64;
    let checkpoints =
        f64::from(u8::from(cell.offload.checkpoints)) * 2.0 * inputs * tokens * model.hidden_size as f64 * table_bits;
    (weights + head + state + checkpoints) / all
}
