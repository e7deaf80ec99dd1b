//! The outputs of a model's leaf modules, added up: what forward hooks on them count in PyTorch.

use super::config::ModelConfig;
use super::module::{Kind, Module, Size};

impl ModelConfig {
    /// Elements of the outputs of all leaf modules over a micro-batch of `batch` samples with `len` tokens each, as
    /// forward hooks on transformers' modules see them with fused attention. Adapters are not counted. Most of these
    /// tensors are never alive at once.
    pub fn module_outputs(&self, batch: usize, len: usize) -> u64 {
        let family = self.family.description();
        let (tokens, leaves) = (batch * len, family.weightless_leaves);
        // A classifier's head sees the first token of each sample alone.
        let head_rows = if self.family.is_encoder() { batch } else { tokens };
        let weightless = |sizes: &[Size], rows: usize| -> usize { sizes.iter().map(|size| rows * size.of(self)).sum() };
        let sum = |modules: &[Module], rows: usize| -> usize {
            let output = |module: &Module| match module.shape {
                // All samples share one output.
                [Size::Positions, width] => len * width.of(self),
                _ => rows * output_width(module).of(self),
            };
            modules.iter().map(output).sum()
        };
        let embeddings = sum(family.embeddings, tokens) + weightless(leaves.embeddings, tokens);
        let block = sum(family.block, tokens) + weightless(leaves.block, tokens);
        let head = sum(family.head, head_rows) + weightless(leaves.head, head_rows);
        (embeddings + self.num_hidden_layers * block + head) as u64
    }
}

/// Width of a module's output for one token or sample.
fn output_width(module: &Module) -> Size {
    match (module.kind, module.shape) {
        (Kind::Embedding | Kind::ScaledEmbedding | Kind::PaddedEmbedding, [_, width]) => *width,
        // Norms of heads, whose weights all heads share.
        (Kind::Norm | Kind::CenteredNorm, [Size::Head]) if module.name() == "q_norm" => Size::Queries,
        (Kind::Norm | Kind::CenteredNorm, [Size::Head]) => Size::Keys,
        (_, shape) => shape[0],
    }
}

#[cfg(test)]
mod tests {
    use crate::Preset;

    fn outputs(preset: &str, batch: usize, len: usize) -> u64 {
        Preset::named(preset).unwrap().config().module_outputs(batch, len)
    }

    /// ASB1127/HPMLProj hooks every leaf module of DistilBERT: 37.51 MiB for one sample of 128 tokens
    /// (rSVD/MEMORY_PROFILING_COMPARISON.md), 1,246,298,368 bytes for 32 (rSVD/graph/memory_breakdown_r4.csv).
    #[test]
    fn distilberts_outputs_are_those_published() {
        assert_eq!(4 * outputs("distilbert-base", 32, 128), 1_246_298_368);
        let one = 4 * outputs("distilbert-base", 1, 128);
        assert_eq!(one, 4 * (100 * 128 * 768 + 2 * 768 + 2));
        assert_eq!(format!("{:.2}", one as f64 / f64::from(1 << 20)), "37.51");
    }

    /// By hand, from transformers' `LlamaForCausalLM`.
    #[test]
    fn llamas_outputs_are_those_of_its_leaf_modules() {
        let tokens = 3 * 5;
        let (hidden, inner, keys, vocabulary) = (64, 160, 32, 512);
        let block = 2 * hidden // norms
            + hidden + 2 * keys + hidden // q, k, v and o
            + 3 * inner // gate, its activation and up
            + hidden; // down
        let all = tokens * (hidden + 2 * block + hidden + vocabulary);
        assert_eq!(outputs("tiny", 3, 5), all);
    }

    /// By hand, from transformers' `BertForSequenceClassification`.
    #[test]
    fn berts_outputs_are_those_of_its_leaf_modules() {
        let (batch, len, hidden) = (2, 7, 768);
        let tokens = batch * len;
        let embeddings = 4 * tokens * hidden + len * hidden; // words, types, norm and dropout; positions once
        let block = tokens * hidden * (3 + 3 + 4 + 4 + 3); // query to value; dense, dropout, norm; inner, GELU; as before
        let head = batch * (3 * hidden + 2); // dense, tanh, dropout and labels
        assert_eq!(
            outputs("bert-base", batch, len) as usize,
            embeddings + 12 * block + head
        );
    }

    #[test]
    fn norms_of_heads_have_all_heads() {
        let config = Preset::named("qwen3-0.6b").unwrap().config();
        let (hidden, inner, vocabulary) = (1024, 3072, 151_936);
        let (queries, keys) = (16 * 128, 8 * 128);
        let block = 2 * hidden + 2 * queries + 3 * keys + hidden + 3 * inner + hidden;
        assert_eq!(
            config.module_outputs(1, 1),
            (hidden + 28 * block + hidden + vocabulary) as u64
        );
    }
}
