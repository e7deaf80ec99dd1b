//! Tensors of well-known models that have as many bytes as a message says: what it is compatible with.

use arch::{ModelConfig, Preset};
use indexmap::IndexMap;
use torch::caching_allocator::rounding::{Divisions, block_size, segment_size};

use super::message::Message;

/// A tensor of some models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// What it is, with its shape.
    pub what: String,
    /// The models.
    pub models: Vec<&'static str>,
}

/// Lengths and batches that people write.
const LENGTHS: [u64; 15] = [
    128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 16384, 32768,
];
const BATCHES: [u64; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64];

/// The tensors: weights, then those of a step with the smallest batch first.
pub fn compatible(message: &Message) -> Vec<Tensor> {
    let mut found: IndexMap<String, Vec<&'static str>> = IndexMap::new();
    let mut compare = |preset: Preset, (what, count): (String, u64), formats: &[(&str, u64)]| {
        for (format, width) in formats {
            let size = block_size(count * width, &Divisions::default());
            if message.tried.is(segment_size(size)) {
                let models = found.entry(format!("{what} in {format}")).or_default();
                models.push(preset.name());
            }
        }
    };
    let presets: Vec<_> = Preset::all().iter().map(|preset| (*preset, preset.config())).collect();
    for (preset, config) in &presets {
        for weight in weights(config) {
            compare(*preset, weight, &[("float32", 4), ("16 bits", 2), ("8 bits", 1)]);
        }
    }
    for batch in BATCHES {
        for length in LENGTHS {
            for (preset, config) in &presets {
                for tensor in tensors(config, batch, length) {
                    compare(*preset, tensor, &[("float32", 4), ("16 bits", 2)]);
                }
            }
        }
    }
    found
        .into_iter()
        .map(|(what, models)| Tensor { what, models })
        .collect()
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

/// The large tensors of a step with their elements.
fn tensors(config: &ModelConfig, batch: u64, length: u64) -> Vec<(String, u64)> {
    let tokens = batch * length;
    let (vocabulary, heads) = (config.vocab_size as u64, config.num_attention_heads as u64);
    let inner = config.intermediate_size as u64;
    vec![
        (
            format!("logits of {batch} × {length} tokens over {vocabulary} words"),
            tokens * vocabulary,
        ),
        (
            format!("scores of eager attention, {batch} × {heads} heads × {length} × {length}"),
            tokens * heads * length,
        ),
        (
            format!("the feed-forward layer's {inner} columns of {batch} × {length} tokens"),
            tokens * inner,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;

    #[test]
    fn logits_of_llama_3_are_recognised_by_their_bytes() {
        let message = Message::read("Tried to allocate 1.96 GiB").unwrap();
        let found = compatible(&message);
        let logits = found
            .iter()
            .find(|tensor| tensor.what.contains("1 × 4096 tokens over 128256 words in float32"));
        assert!(
            logits.is_some_and(|tensor| tensor.models.contains(&"llama-3.1-8b")),
            "{found:?}"
        );
        // LLaMA 65B's, dequantised to float32.
        let weight = compatible(&Message::read("Tried to allocate 688.00 MiB").unwrap());
        assert!(
            weight[0].what.contains("8192 × 22016 in float32") && weight[0].models.contains(&"llama-65b"),
            "{weight:?}"
        );
        let odd = Message::read("Tried to allocate 1.23 KiB").unwrap();
        assert!(compatible(&odd).is_empty());
    }
}
