//! Settings with which the plan of a cell has a message's moment.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use base::text::to_flow_yaml;
use cell::{Cell, Dtype};
use rayon::prelude::*;
use serde_json::{Value, json};
use trace::{Event, Trace};

use super::message::Message;
use super::moment::{Moment, nearest, nearest_on_device};
use super::tensor::roots;
use crate::Planner;

/// Other values of keys with which a plan agrees with a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// The keys with their values.
    pub changes: Vec<(&'static str, Value)>,
    /// Values of the last key between which such a segment is asked for, too, if it is a size.
    pub between: Option<[u64; 2]>,
    /// The cell with them.
    pub cell: Cell,
    /// The moment with them.
    pub moment: Moment,
}

impl Agreement {
    /// The changes as of the command line: `batch_size=2, max_seq_length=1827`.
    pub fn words(&self) -> String {
        let changes = self.changes.iter();
        let changes = changes.map(|(key, value)| format!("{key}={}", to_flow_yaml(value)));
        changes.collect::<Vec<_>>().join(", ")
    }

    fn is_of_loss(&self) -> bool {
        self.moment.module.is_some_and(|module| module.is_of_loss())
    }
}

/// The most samples of a batch that are tried.
const MOST_SAMPLES: u64 = 1 << 12;

/// Batches that are tried with other lengths.
const BATCHES: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// The largest requests of a plan, for which two keys are changed.
const LARGEST: usize = 3;

/// Changes with which the plan of `cell` has the message's moment, those that need the fewest assumptions first: of one key,
/// or if none of them has the logits ask for so much, of the length and one more key.
pub fn agreements(planner: &Planner, cell: &Cell, message: &Message) -> Vec<Agreement> {
    let search = Search { planner, message };
    let has_size = nearest(planner, cell, message).is_ok_and(|moment| moment.is_some());
    let of_settings = settings(cell)
        .into_par_iter()
        .filter_map(|setting| search.agreement(cell, setting));
    let mut found: Vec<Agreement> = of_settings.collect();
    found.extend(search.sizes(cell, "max_seq_length", usize::MAX));
    found.extend(search.sizes(cell, "batch_size", usize::MAX));
    // Most messages are of the logits.
    if !found.iter().any(Agreement::is_of_loss) {
        let of_length = search.with_length(cell).into_iter();
        let is_first = found.is_empty();
        found.extend(of_length.filter(|agreement| is_first || agreement.is_of_loss()));
    }
    // A length that has the bytes is not in doubt.
    let rank = |agreement: &Agreement| {
        let is_size = has_size && matches!(agreement.changes[..], [("max_seq_length" | "batch_size", _)]);
        (is_size, agreement.changes.len(), !agreement.is_of_loss())
    };
    let difference = |agreement: &Agreement| agreement.moment.difference(message).abs();
    found.sort_by(|one, other| {
        rank(one)
            .cmp(&rank(other))
            .then(difference(one).total_cmp(&difference(other)))
    });
    found
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
    settings
}

/// The cell with another value of a key, if it is another one and can be.
fn changed(cell: &Cell, key: &str, value: &Value) -> Option<Cell> {
    let changed = cell.with(key, value).filter(|_| cell.value(key) != *value)?;
    changed.validate().ok()?;
    Some(changed)
}

/// What is searched for.
struct Search<'a> {
    planner: &'a Planner,
    message: &'a Message,
}

impl Search<'_> {
    /// The moment with another value of a key, if the plan then agrees.
    fn agreement(&self, cell: &Cell, (key, value): (&'static str, Value)) -> Option<Agreement> {
        let cell = changed(cell, key, &value)?;
        let moment = nearest(self.planner, &cell, self.message).ok()??;
        moment.agrees(self.message).then(|| Agreement {
            changes: vec![(key, value)],
            between: None,
            cell,
            moment,
        })
    }

    /// Other lengths with which the plan agrees, each with another batch or another setting.
    fn with_length(&self, cell: &Cell) -> Vec<Agreement> {
        let batches = BATCHES.map(|batch| ("batch_size", json!(batch)));
        let settings: Vec<_> = batches.into_iter().chain(settings(cell)).collect();
        let with_length = settings.into_par_iter().flat_map_iter(|(key, value)| {
            let changed = changed(cell, key, &value);
            let found = changed.map(|changed| self.sizes(&changed, "max_seq_length", LARGEST));
            found.into_iter().flatten().map(move |mut agreement| {
                agreement.changes.insert(0, (key, value.clone()));
                agreement
            })
        });
        with_length.collect()
    }

    /// Other values of a key that is a size, the length or the batch, with which the plan agrees. The `largest` requests of
    /// the plan are thought of.
    fn sizes(&self, cell: &Cell, key: &'static str, largest: usize) -> Vec<Agreement> {
        let Ok(trace) = self.planner.live_trace(cell) else {
            return Vec::new();
        };
        let Some(own) = cell.value(key).as_u64() else {
            return Vec::new();
        };
        let is_length = key == "max_seq_length";
        let most = match self.planner.model(cell) {
            Ok(model) if is_length => (model.max_position_embeddings as u64).max(own),
            _ => MOST_SAMPLES,
        };
        let asked = self.message.own_requests();
        let ranges = requests(&trace).into_iter().rev().take(largest).flat_map(|bytes| {
            let ranges = asked.as_ref().map(|asked| scaled(bytes, own, is_length, asked));
            ranges.unwrap_or_default()
        });
        let ranges = ranges.map(|[from, to]| [from.max(1), to.min(most)]);
        let ranges = merged(ranges.filter(|[from, to]| from <= to).collect());
        let of_bytes = ranges.into_par_iter().filter_map(|range| {
            let agreement = self.within(cell, key, range)?;
            Some(Agreement {
                between: Some(range),
                ..agreement
            })
        });
        let mut found: Vec<Agreement> = of_bytes.collect();
        // Where a tensor of this size does not depend on the key, what is allocated tells.
        let is_there = nearest(self.planner, cell, self.message).is_ok_and(|moment| moment.is_some());
        let wide = [(own / 16).max(1), (own * 16).min(most)];
        found.extend(is_there.then(|| self.within(cell, key, wide)).flatten());
        found
    }

    /// The value within a range with which the plan agrees best: what is allocated grows with it.
    fn within(&self, cell: &Cell, key: &'static str, [mut from, mut to]: [u64; 2]) -> Option<Agreement> {
        let is_narrow = to - from < from / 16;
        let mut best: Option<Agreement> = None;
        while from <= to {
            let middle = from.midpoint(to);
            let value = json!(middle);
            let cell = cell.with(key, &value).filter(|cell| cell.validate().is_ok())?;
            // A model may have fewer positions.
            let Ok(moment) = nearest_on_device(self.planner, &cell, self.message) else {
                to = middle - 1;
                continue;
            };
            let moment = moment?;
            let difference = moment.difference(self.message);
            if best
                .as_ref()
                .is_none_or(|best| difference.abs() < best.moment.difference(self.message).abs())
            {
                best = Some(Agreement {
                    changes: vec![(key, value)],
                    between: None,
                    cell,
                    moment,
                });
            }
            if difference == 0.0 || is_narrow && difference.abs() > 0.5 {
                break;
            }
            match difference < 0.0 {
                true => from = middle + 1,
                false => to = middle - 1,
            }
        }
        best.filter(|best| best.moment.agrees(self.message))
    }
}

/// The sizes that are requested in a plan's steps.
fn requests(trace: &Trace) -> BTreeSet<u64> {
    let mut is_in_step = false;
    let mut requests = BTreeSet::new();
    for event in trace.events() {
        match *event {
            Event::Step(_) => is_in_step = true,
            Event::Alloc { bytes, category, .. } if is_in_step && category.is_tensor() => {
                requests.insert(bytes);
            }
            _ => {}
        }
    }
    requests
}

/// Sizes in place of `own` with which a tensor of so many bytes has as many as are asked for: it grows with them; or with
/// all positions of a length but the last; or with the square of the length.
fn scaled(bytes: u64, own: u64, is_length: bool, asked: &RangeInclusive<u64>) -> Vec<[u64; 2]> {
    let mut ranges = Vec::new();
    let of = |size: u64, others: u64| {
        let each = bytes / size;
        let range = [asked.start().div_ceil(each) + others, asked.end() / each + others];
        (range[0] <= range[1]).then_some(range)
    };
    let divides = |size: u64| size > 0 && bytes >= size && bytes.is_multiple_of(size);
    if divides(own) {
        ranges.extend(of(own, 0));
    }
    if is_length && divides(own - 1) {
        ranges.extend(of(own - 1, 1));
    }
    if is_length && divides(own * own) {
        let each = bytes / (own * own);
        let range = roots([asked.start().div_ceil(each), asked.end() / each]);
        ranges.extend((range[0] <= range[1]).then_some(range));
    }
    ranges
}

/// The ranges, those that overlap as one.
fn merged(mut ranges: Vec<[u64; 2]>) -> Vec<[u64; 2]> {
    ranges.sort_unstable();
    let mut merged: Vec<[u64; 2]> = Vec::new();
    for [from, to] in ranges {
        match merged.last_mut() {
            Some(last) if from <= last[1] => last[1] = last[1].max(to),
            _ => merged.push([from, to]),
        }
    }
    merged
}
