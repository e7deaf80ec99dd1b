//! The large tensors of training by their bytes: what they are.

use arch::ModelConfig;
use base::text::format;
use cell::{Autocast, Cell, Checkpointing, Dtype, FloatDtype, Task};
use torch::gpu::ComputeCapability;
use trace::{Category, Phase};

use super::moment::Moment;

/// A kind of tensor of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The name: `logits`.
    pub name: &'static str,
    /// The module that makes it.
    module: &'static str,
    size: Size,
}

/// Elements of a tensor by the batch and the length of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Size {
    /// So many for each token: the columns.
    OfTokens(u64),
    /// So many for each pair of tokens of a sample: the heads.
    OfPairs(u64),
}

/// The kinds that messages are about without a plan, the most likely first.
pub(super) const KINDS: [&str; 3] = [LOGITS, SCORES, FEED_FORWARD];

const LOGITS: &str = "logits";
const SCORES: &str = "attention scores";
const FEED_FORWARD: &str = "feed-forward activations";

/// The most tokens of a batch that are thought of without a plan.
const MOST_TOKENS: u64 = 1 << 17;

/// Those of [`KINDS`] that a model has.
pub(super) fn largest_kinds(model: &ModelConfig) -> Vec<Kind> {
    let mut kinds = kinds(model);
    kinds.retain(|kind| KINDS.contains(&kind.name));
    kinds
}

fn kinds(model: &ModelConfig) -> Vec<Kind> {
    let kind = |name, module, size| Kind { name, module, size };
    let tokens = |columns: usize| Size::OfTokens(columns as u64);
    let (hidden, inner, head) = (model.hidden_size, model.intermediate_size, model.head_dim);
    let (heads, key_heads) = (model.num_attention_heads, model.num_key_value_heads);
    let has = |name: &str| model.modules().any(|(path, _)| path.ends_with(name));
    let queries = match heads * head == hidden {
        true => "hidden states or queries",
        false => "queries or attention outputs",
    };
    let kinds = [
        (
            model.task() == Task::CausalLm,
            kind(LOGITS, "loss", tokens(model.vocab_size)),
        ),
        (true, kind(SCORES, "self_attn", Size::OfPairs(heads as u64))),
        (true, kind(queries, "self_attn", tokens(heads * head))),
        (true, kind("keys or values", "self_attn", tokens(key_heads * head))),
        (
            has("qkv_proj"),
            kind(
                "queries, keys and values",
                "self_attn",
                tokens((heads + 2 * key_heads) * head),
            ),
        ),
        (true, kind(FEED_FORWARD, "mlp", tokens(inner))),
        (
            has("gate_up_proj"),
            kind("gate and up projections", "mlp", tokens(2 * inner)),
        ),
        (true, kind("hidden states", "", tokens(hidden))),
        (true, kind("attention mask", "", Size::OfPairs(1))),
    ];
    kinds
        .into_iter()
        .filter(|(is_there, _)| *is_there)
        .map(|(_, kind)| kind)
        .collect()
}

impl Kind {
    /// Elements for a batch of samples with this length.
    pub fn elements(&self, batch: u64, length: u64) -> u64 {
        match self.size {
            Size::OfTokens(columns) => batch * length * columns,
            Size::OfPairs(heads) => batch * heads * length * length,
        }
    }

    /// Lengths for which the tensor has from `least` to `most` elements, if there are some.
    pub fn lengths(&self, batch: u64, [least, most]: [u64; 2]) -> Option<[u64; 2]> {
        let [from, to] = match self.size {
            Size::OfTokens(columns) => [least.div_ceil(batch * columns), most / (batch * columns)],
            Size::OfPairs(heads) => roots([least.div_ceil(batch * heads), most / (batch * heads)]),
        };
        (from <= to).then_some([from, to])
    }

    /// The most tokens of a row that are thought of: several samples in place of one have as many columns.
    pub(super) fn most_tokens(&self, model: &ModelConfig) -> u64 {
        match self.size {
            Size::OfTokens(_) => MOST_TOKENS,
            Size::OfPairs(_) => model.max_position_embeddings as u64,
        }
    }

    /// The shape for one length or for several: `1 × 4,096 tokens over 128,256`.
    pub fn shape(&self, batch: u64, lengths: [u64; 2]) -> String {
        match (self.size, self.name) {
            (Size::OfTokens(columns), LOGITS) => {
                format!("{batch} × {} tokens over {}", range(lengths), count(columns))
            }
            (Size::OfTokens(columns), _) => {
                format!("{batch} × {} tokens × {}", range(lengths), count(columns))
            }
            (Size::OfPairs(heads), _) => {
                let heads = if heads == 1 {
                    String::new()
                } else {
                    format!("{heads} heads × ")
                };
                match lengths[0] == lengths[1] {
                    true => format!("{batch} × {heads}{}²", range(lengths)),
                    false => format!("{batch} × {heads}({})²", range(lengths)),
                }
            }
        }
    }
}

/// The least and the largest number whose square lies within a range.
pub(super) fn roots([least, most]: [u64; 2]) -> [u64; 2] {
    [least.saturating_sub(1).isqrt() + 1, most.isqrt()]
}

/// What a moment asks for, in the words of a model: `the logits in float32, 1 × 4,096 tokens over 128,256`.
pub fn tensor(moment: &Moment, cell: &Cell, model: &ModelConfig) -> String {
    let is_in_pass = matches!(moment.phase, Phase::Forward | Phase::Backward);
    let is_of_pass = matches!(
        moment.category,
        Category::Activation | Category::Temporary | Category::Input
    );
    let of_tokens = || {
        (is_in_pass && is_of_pass)
            .then(|| of_tokens(moment, cell, model))
            .flatten()
    };
    of_tokens()
        .or_else(|| of_weights(moment, cell, model))
        .unwrap_or_else(|| {
            let what = match moment.category {
                Category::Parameter => "a weight",
                Category::Adapter => "an adapter's weight",
                Category::OptimizerState => "a state of the optimizer",
                Category::Gradient => "a gradient",
                Category::Activation => "a tensor that is kept for the backward pass",
                _ if moment.phase == Phase::Load => "a buffer of the load",
                _ if is_workspace(moment.bytes) => "cuBLAS's workspace",
                _ => "a tensor that lives within the pass",
            };
            format!("{what}, {}", bytes_of(moment.bytes))
        })
}

/// True for the size that cuBLAS's workspace has on some GPU.
fn is_workspace(bytes: u64) -> bool {
    let capabilities = [ComputeCapability(8, 0), ComputeCapability(9, 0)];
    capabilities
        .iter()
        .any(|capability| capability.cublas_workspace_bytes() == bytes)
}

/// A tensor of the batch's tokens.
fn of_tokens(moment: &Moment, cell: &Cell, model: &ModelConfig) -> Option<String> {
    let module = match moment.module {
        Some(module) if module.is_of_loss() => "loss",
        module => module.map_or("", |module| module.name),
    };
    let (mut kinds, others): (Vec<Kind>, Vec<Kind>) = kinds(model).into_iter().partition(|kind| kind.module == module);
    let own = kinds.len();
    kinds.extend(others);
    let (batch, length) = (cell.batch_size as u64, cell.max_seq_length as u64);
    let formats = [("float32", 4), (half(cell), 2)];
    // All positions, or all but the last.
    for length in [length, length - 1] {
        for kind in &kinds {
            for (format, width) in formats {
                if kind.elements(batch, length) * width == moment.bytes {
                    return Some(in_words(moment, cell, kind, format, &kind.shape(batch, [length; 2])));
                }
            }
        }
    }
    // A shorter batch, or some of its tokens.
    let shorter = kinds[..own]
        .iter()
        .flat_map(|kind| formats.map(|format| (kind, format)));
    shorter.into_iter().find_map(|(kind, (format, width))| {
        let Size::OfTokens(columns) = kind.size else {
            return None;
        };
        let tokens = moment.bytes / (columns * width);
        let is_whole = tokens * columns * width == moment.bytes && tokens < batch * length;
        is_whole.then(|| {
            let (batch, length) = match tokens % batch {
                0 => (batch, tokens / batch),
                _ => (1, tokens),
            };
            in_words(moment, cell, kind, format, &kind.shape(batch, [length; 2]))
        })
    })
}

fn in_words(moment: &Moment, cell: &Cell, kind: &Kind, format: &str, shape: &str) -> String {
    let name = kind.name;
    let is_of_loss = moment.module.is_some_and(|module| module.is_of_loss());
    // What a checkpointed block computes again has the same shape.
    let what = match moment.phase {
        Phase::Backward if is_of_loss || cell.gradient_checkpointing == Checkpointing::None => {
            format!("the gradient of the {name}")
        }
        Phase::Backward => format!("the {name}, computed again, or their gradient"),
        _ => format!("the {name}"),
    };
    format!("{what} in {format}, {shape}")
}

/// A weight of the model, or a copy that has its shape.
fn of_weights(moment: &Moment, cell: &Cell, model: &ModelConfig) -> Option<String> {
    let formats = [("float32", 8), (half(cell), 4), ("8 bits", 2), ("4 bits", 1)];
    let module = moment.module.map_or("", |module| module.name);
    formats.into_iter().find_map(|(format, halves)| {
        let mut names: Vec<&str> = Vec::new();
        let mut shape = Vec::new();
        let modules: Vec<_> = model.modules().map(|(_, module)| module).collect();
        let is_at_work = |path: &str| path.split('.').any(|part| part == module);
        let has_size = |module: &arch::Module| {
            let elements: u64 = module.dims(model).iter().map(|size| *size as u64).product();
            elements * halves / 2 == moment.bytes
        };
        let fitting: Vec<_> = modules.into_iter().filter(|module| has_size(module)).collect();
        let any_at_work = fitting.iter().any(|module| is_at_work(module.path));
        for module in fitting {
            let name = module.path.rsplit('.').next().unwrap_or(module.path);
            if (!any_at_work || is_at_work(module.path)) && !names.contains(&name) {
                names.push(name);
                shape = module.dims(model);
            }
        }
        let (last, init) = names.split_last()?;
        let names = match init {
            [] => (*last).to_owned(),
            init => format!("{} or {last}", init.join(", ")),
        };
        let what = match moment.category {
            Category::Gradient => "the gradient of ",
            Category::OptimizerState => "the optimizer's state of ",
            _ if moment.phase == Phase::Backward || moment.phase == Phase::Forward => "a copy of the weight of ",
            _ => "the weight of ",
        };
        let shape: Vec<String> = shape.iter().map(|size| count(*size as u64)).collect();
        Some(format!("{what}{names} in {format}, {}", shape.join(" × ")))
    })
}

/// The cell's format of 16 bits.
fn half(cell: &Cell) -> &'static str {
    let computes_in_float16 = match (cell.autocast, cell.dtype) {
        (Autocast::Float16, _) | (Autocast::None, Dtype::Float16) => true,
        (Autocast::None, Dtype::Int4) => cell.bnb_4bit_compute_dtype == FloatDtype::Float16,
        (Autocast::Bfloat16 | Autocast::None, _) => false,
    };
    if computes_in_float16 { "float16" } else { "bfloat16" }
}

/// `3,645 to 3,661`, or one number if they are the same.
pub(super) fn range([from, to]: [u64; 2]) -> String {
    match from == to {
        true => count(from),
        false => format!("{} to {}", count(from), count(to)),
    }
}

fn bytes_of(bytes: u64) -> String {
    format!("{} bytes", count(bytes))
}

fn count(number: u64) -> String {
    format::number((number as f64).into(), 0)
}
