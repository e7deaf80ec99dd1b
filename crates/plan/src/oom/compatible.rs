//! Tensors that have as many bytes as a message says, without a plan: what the message is compatible with.

use arch::{ModelConfig, Preset};
use indexmap::IndexMap;

use super::message::Message;
use super::tensor::{KINDS, Kind, largest_kinds, range};

/// A tensor of some models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// What it is, with its shape.
    pub what: String,
    /// The models.
    pub models: Vec<&'static str>,
}

/// A kind of tensor, with the lengths of one sample at which it has the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfLengths {
    /// The kind.
    pub kind: Kind,
    /// The lengths in each format, from the shortest to the longest.
    pub lengths: Vec<(&'static str, [u64; 2])>,
    /// The models.
    pub models: Vec<&'static str>,
}

impl OfLengths {
    /// `logits of 1 × 3,645 to 3,661 tokens over 152,064 in float32, 7,289 to 7,323 in 16 bits`.
    pub fn words(&self) -> String {
        let lengths = self.lengths.iter().enumerate();
        let shapes = lengths.map(|(index, (format, lengths))| match index {
            0 => format!("{} in {format}", self.kind.shape(1, *lengths)),
            _ => format!(", {} in {format}", range(*lengths)),
        });
        format!("{} of {}", self.kind.name, shapes.collect::<String>())
    }
}

/// Lengths and batches that people write.
const LENGTHS: [u64; 15] = [
    128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 16384, 32768,
];
const BATCHES: [u64; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64];

/// The formats of a step's tensors with their bytes.
const FORMATS: [(&str, u64); 2] = [("float32", 4), ("16 bits", 2)];

/// Tensors of the presets that need the fewest assumptions: logits in float32, which most messages are of, with a length
/// and a batch that people write, the smallest batch first; then weights, and then the others of a step.
pub fn compatible(message: &Message) -> Vec<Tensor> {
    let mut found: IndexMap<String, Vec<&'static str>> = IndexMap::new();
    let presets: Vec<_> = Preset::all().iter().map(|preset| (*preset, preset.config())).collect();
    for (preset, config) in &presets {
        for (what, elements) in weights(config) {
            for (format, width) in FORMATS.into_iter().chain([("8 bits", 1)]) {
                if has_bytes(message, elements * width) {
                    found
                        .entry(format!("{what} in {format}"))
                        .or_default()
                        .push(preset.name());
                }
            }
        }
    }
    // As many tokens in another batch are the same bytes.
    let mut first: IndexMap<(Kind, u64, u64), String> = IndexMap::new();
    for batch in BATCHES {
        for length in LENGTHS {
            for (preset, config) in &presets {
                for kind in largest_kinds(config) {
                    for (format, width) in FORMATS {
                        let elements = kind.elements(batch, length);
                        if !has_bytes(message, elements * width) {
                            continue;
                        }
                        let shape = kind.shape(batch, [length; 2]);
                        let what = format!("{} of {shape} in {format}", kind.name);
                        let what = first.entry((kind, elements, width)).or_insert(what);
                        let models = found.entry(what.clone()).or_default();
                        if !models.contains(&preset.name()) {
                            models.push(preset.name());
                        }
                    }
                }
            }
        }
    }
    let found = found.into_iter().map(|(what, models)| Tensor { what, models });
    let (mut logits, others): (Vec<_>, Vec<_>) =
        found.partition(|tensor| tensor.what.starts_with("logits") && tensor.what.ends_with("float32"));
    logits.extend(others);
    logits
}

/// The large kinds of tensors of a step with the lengths of one sample at which they have the bytes: the logits first, of
/// each kind what most presets share.
pub fn lengths(message: &Message) -> Vec<OfLengths> {
    let mut found: IndexMap<Kind, OfLengths> = IndexMap::new();
    for preset in Preset::all() {
        for of_lengths in lengths_of(message, &preset.config()) {
            let of_kind = found.entry(of_lengths.kind).or_insert(of_lengths);
            of_kind.models.push(preset.name());
        }
    }
    let mut found: Vec<OfLengths> = found.into_values().collect();
    let order = |of_lengths: &OfLengths| KINDS.iter().position(|name| *name == of_lengths.kind.name);
    found.sort_by_key(|of_lengths| (order(of_lengths), std::cmp::Reverse(of_lengths.models.len())));
    found
}

/// The large kinds of tensors of a step of one model, with the lengths of one sample at which they have the bytes.
pub fn lengths_of(message: &Message, model: &ModelConfig) -> Vec<OfLengths> {
    let Some(requests) = message.own_requests() else {
        return Vec::new();
    };
    let kinds = largest_kinds(model).into_iter().map(|kind| {
        let of_format = |(format, width): (&'static str, u64)| {
            let lengths = kind.lengths(1, [requests.start().div_ceil(width), requests.end() / width])?;
            (lengths[0] <= kind.most_tokens(model)).then_some((format, lengths))
        };
        OfLengths {
            kind,
            lengths: FORMATS.into_iter().filter_map(of_format).collect(),
            models: Vec::new(),
        }
    });
    kinds.filter(|of_lengths| !of_lengths.lengths.is_empty()).collect()
}

fn has_bytes(message: &Message, bytes: u64) -> bool {
    message.requests().iter().any(|requests| requests.contains(&bytes))
}

/// The largest weights with their elements: loaded, dequantised, copied for a file, or their gradients.
fn weights(config: &ModelConfig) -> Vec<(String, u64)> {
    let [hidden, inner, vocabulary] =
        [config.hidden_size, config.intermediate_size, config.vocab_size].map(|size| size as u64);
    vec![
        (
            format!("a weight of the feed-forward layer, {hidden} × {inner}"),
            hidden * inner,
        ),
        (
            format!("the embeddings or the head, {vocabulary} × {hidden}"),
            vocabulary * hidden,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::read_all(text).unwrap()[0]
    }

    #[test]
    fn logits_of_llama_3_are_recognised_by_their_bytes() {
        let found = compatible(&message("Tried to allocate 1.96 GiB"));
        let what = "logits of 1 × 4,096 tokens over 128,256 in float32";
        let logits = found.iter().find(|tensor| tensor.what == what);
        assert!(
            logits.is_some_and(|tensor| tensor.models.contains(&"llama-3.1-8b")),
            "{found:?}"
        );
        // LLaMA 65B's, dequantised to float32.
        let weight = compatible(&message("Tried to allocate 688.00 MiB"));
        assert!(
            weight[0].what.contains("8192 × 22016 in float32") && weight[0].models.contains(&"llama-65b"),
            "{weight:?}"
        );
        let odd = message("Tried to allocate 1.23 KiB");
        assert!(compatible(&odd).is_empty() && lengths(&odd).is_empty());
    }

    #[test]
    fn lengths_that_nobody_writes_are_read_off_the_bytes() {
        let found = lengths(&message("Tried to allocate 2.07 GiB"));
        let of = |name: &str, model: &str| {
            let of_model = |of_lengths: &&OfLengths| of_lengths.kind.name == name && of_lengths.models.contains(&model);
            found.iter().find(of_model).unwrap().lengths.clone()
        };
        // 3,654 × 152,064 × 4 bytes are 2.07 GiB.
        let logits = of("logits", "qwen2.5-7b");
        assert_eq!(logits, [("float32", [3645, 3661]), ("16 bits", [7289, 7323])]);
        let scores = of("attention scores", "qwen2.5-7b");
        assert_eq!(scores, [("float32", [4449, 4459]), ("16 bits", [6292, 6306])]);
        for (name, lengths, bytes) in [("logits", logits, 152_064), ("attention scores", scores, 28)] {
            for ((_, [from, to]), width) in lengths.into_iter().zip([4, 2]) {
                let size = |length: u64| if name == "logits" { length } else { length * length } * bytes * width;
                let tried = message("Tried to allocate 2.07 GiB").requests()[0].clone();
                let inside = [size(from), size(to)].iter().all(|bytes| tried.contains(bytes));
                let outside = [size(from - 1), size(to + 1)].iter().any(|bytes| tried.contains(bytes));
                assert!(inside && !outside, "{name}");
            }
        }
    }
}
