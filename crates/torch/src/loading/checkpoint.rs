//! The tensors of a checkpoint in the order in which transformers reads them.

use arch::{Kind, ModelConfig, Module};

/// A tensor of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Weight,
    Bias,
}

/// A tensor of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) module: &'static Module,
    pub(super) part: Part,
    /// The module's block, if it is in one.
    pub(super) block: Option<usize>,
}

impl Entry {
    /// True if bitsandbytes quantises it: the weight of a linear layer, except for the head's.
    pub(super) fn is_quantised(&self) -> bool {
        self.part == Part::Weight && self.module.kind == Kind::Linear
    }

    pub(super) fn dims(&self, config: &ModelConfig) -> Vec<u32> {
        let dims = self.module.dims(config);
        let dims = match self.part {
            Part::Weight => &dims[..],
            Part::Bias => &dims[..1],
        };
        dims.iter().map(|&dim| dim as u32).collect()
    }
}

/// Every tensor, by the parts of its name: sorted with numbers as numbers (`dot_natural_key` in
/// `core_model_loading.py`). Before 5.0.0 the tenth block came after the first, which is as large.
pub(super) fn sorted(config: &ModelConfig) -> Vec<Entry> {
    let family = config.family.description();
    let tensors = |modules: &'static [Module]| {
        let present = modules
            .iter()
            .filter(|module| module.kind != Kind::TokenHead || !config.tie_word_embeddings);
        present.flat_map(|module| {
            let bias = module.bias.of(config).then_some((module, Part::Bias));
            std::iter::once((module, Part::Weight)).chain(bias)
        })
    };
    let mut outside: Vec<_> = tensors(family.embeddings).chain(tensors(family.head)).collect();
    let mut inside: Vec<_> = tensors(family.block).collect();
    let by_name = |a: &(&'static Module, Part), b: &(&'static Module, Part)| {
        let key = |(module, part): &(&'static Module, Part)| {
            let last = if *part == Part::Bias { "bias" } else { "weight" };
            module.path.split('.').chain([last])
        };
        key(a).cmp(key(b))
    };
    outside.sort_by(by_name);
    inside.sort_by(by_name);
    let first_after = outside.partition_point(|(module, _)| module.path.split('.').lt(family.blocks.split('.')));
    let entry = |block| move |&(module, part): &(&'static Module, Part)| Entry { module, part, block };
    let mut all = Vec::with_capacity(outside.len() + inside.len() * config.num_hidden_layers);
    all.extend(outside[..first_after].iter().map(entry(None)));
    for block in 0..config.num_hidden_layers {
        all.extend(inside.iter().map(entry(Some(block))));
    }
    all.extend(outside[first_after..].iter().map(entry(None)));
    all
}

#[cfg(test)]
mod tests {
    use arch::Preset;

    use super::*;

    #[test]
    fn tensors_are_sorted_by_the_parts_of_their_names() {
        let names = |preset: &str| {
            let config = Preset::named(preset).unwrap().config();
            let entries = sorted(&config);
            let of_model = config.weights().len();
            assert_eq!(entries.len(), of_model, "{preset}");
            let names = entries.iter().map(|entry| {
                let last = if entry.part == Part::Bias { " bias" } else { "" };
                format!("{}{last}", entry.module.path)
            });
            (names.collect::<Vec<_>>(), entries[1].block)
        };
        let (qwen, second) = names("qwen2.5-1.5b");
        let first_block = [
            "model.embed_tokens",
            "input_layernorm",
            "mlp.down_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "post_attention_layernorm",
            "self_attn.k_proj bias",
            "self_attn.k_proj",
            "self_attn.o_proj",
            "self_attn.q_proj bias",
            "self_attn.q_proj",
            "self_attn.v_proj bias",
            "self_attn.v_proj",
            "input_layernorm",
        ];
        assert_eq!((&qwen[..14], second), (&first_block.map(str::to_owned)[..], Some(0)));
        assert_eq!(qwen.last().map(String::as_str), Some("model.norm"));
        let (untied, _) = names("tinyllama-1.1b");
        assert_eq!(untied[..2], ["lm_head", "model.embed_tokens"]);
    }
}
