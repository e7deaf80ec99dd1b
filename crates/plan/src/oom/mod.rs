//! PyTorch's message that memory ran out, beside a plan: the moment that it tells of, the setting that does not agree
//! with it, and what else asks for such bytes.

mod compatible;
mod message;
mod moment;

use cell::{Cell, Dtype};
use rayon::prelude::*;
use serde_json::{Value, json};

pub use compatible::{Tensor, compatible};
pub use message::{Amount, Message, NoMessage};
pub use moment::{Moment, nearest};

use crate::Planner;

/// A plan and a message agree if their blocks in use differ by less than this share.
pub const AGREES: f64 = 0.03;

/// A value of a key with which a plan agrees with a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// The moment with it.
    pub moment: Moment,
}

/// The settings that people's reports leave out, with the values that they have.
fn settings(cell: &Cell) -> Vec<(&'static str, Value)> {
    let mut settings = vec![
        ("upcast", json!("none")),
        ("upcast", json!("peft")),
        ("upcast", json!("trl")),
        ("loss", json!("full")),
        ("loss", json!("chunked")),
        ("attn_implementation", json!("eager")),
        ("attn_implementation", json!("sdpa")),
        ("attn_implementation", json!("flash_attention_2")),
        ("gradient_checkpointing", json!("none")),
        ("gradient_checkpointing", json!("full")),
        ("autocast", json!("none")),
        ("adapter_dtype", json!("bfloat16")),
        ("adapter_dtype", json!("float32")),
        ("optim", json!("adamw")),
        ("optim", json!("adamw_8bit")),
        ("optim", json!("paged_adamw_8bit")),
        ("torch.keep_outputs", json!("none")),
        ("torch.keep_outputs", json!("next_forward")),
    ];
    // Weights in 16 bits are trained with autocast to their own format.
    let autocasts = [("bfloat16", Dtype::Float16), ("float16", Dtype::Bfloat16)];
    let autocasts = autocasts.into_iter().filter(|(_, other)| cell.dtype != *other);
    settings.extend(autocasts.map(|(autocast, _)| ("autocast", json!(autocast))));
    let releases = ["4.37.2", "4.44.2", "4.46.3", "4.55.4", "5.0.0"];
    settings.extend(releases.map(|release| ("torch.transformers_version", json!(release))));
    let batches = [1, 2, 4, 8, 16, 32].map(|batch| ("batch_size", json!(batch)));
    settings.extend(batches);
    let lengths = [0.25, 0.5, 2.0, 4.0, 8.0].map(|factor| (cell.max_seq_length as f64 * factor) as usize);
    settings.extend(lengths.map(|length| ("max_seq_length", json!(length))));
    settings
}

/// Values of single keys with which the plan of `cell` has the message's moment, the nearest first.
pub fn agreements(planner: &Planner, cell: &Cell, message: &Message) -> Vec<Agreement> {
    let agreement = |(key, value): (&'static str, Value)| {
        let changed = cell.with(key, &value).filter(|_| cell.value(key) != value)?;
        changed.validate().ok()?;
        let moment = nearest(planner, &changed, message).ok()??;
        let agrees = moment.difference(message).abs() < AGREES;
        agrees.then_some(Agreement { key, value, moment })
    };
    let mut agreements: Vec<Agreement> = settings(cell).into_par_iter().filter_map(agreement).collect();
    let difference = |agreement: &Agreement| agreement.moment.difference(message).abs();
    agreements.sort_by(|one, other| difference(one).total_cmp(&difference(other)));
    agreements
}
