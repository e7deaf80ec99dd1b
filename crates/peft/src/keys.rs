//! PEFT's fields and the keys of a cell that they stand for.

use options::Adapter;

/// A field of `adapter_config.json`, and the cell's key.
pub type FieldKey = (&'static str, &'static str);

const OF_ALL: [FieldKey; 4] = [
    ("peft_type", "adapter"),
    ("target_modules", "target_modules"),
    ("layers_to_transform", "layers_to_transform"),
    ("modules_to_save", "modules_to_save"),
];

/// The fields of a method with the cell's keys.
pub fn keys(adapter: Adapter) -> impl Iterator<Item = FieldKey> {
    let own: &[FieldKey] = match adapter {
        Adapter::Lora | Adapter::Dora => &[
            ("use_dora", "adapter"),
            ("r", "rank"),
            ("lora_alpha", "lora_alpha"),
            ("lora_dropout", "lora_dropout"),
            ("use_rslora", "lora.use_rslora"),
            ("init_lora_weights", "lora.init_lora_weights"),
            ("rank_pattern", "lora.rank_pattern"),
            ("alpha_pattern", "lora.alpha_pattern"),
            ("bias", "lora.bias"),
        ],
        Adapter::Ia3 => &[("feedforward_modules", "ia3.feedforward_modules")],
        Adapter::Miss => &[
            ("r", "rank"),
            ("init_weights", "miss.init_weights"),
            ("mini_r", "miss.mini_r"),
            ("miss_dropout", "miss.miss_dropout"),
        ],
        Adapter::Vera => &[
            ("r", "rank"),
            ("d_initial", "vera.d_initial"),
            ("projection_prng_key", "vera.projection_prng_key"),
            ("save_projection", "vera.save_projection"),
            ("vera_dropout", "vera.vera_dropout"),
        ],
        Adapter::PromptTuning => &[
            ("num_virtual_tokens", "prompt_tuning.num_virtual_tokens"),
            ("prompt_tuning_init", "prompt_tuning.init"),
            ("prompt_tuning_init_text", "prompt_tuning.init_text"),
        ],
        Adapter::PrefixTuning => &[("num_virtual_tokens", "prefix_tuning.num_virtual_tokens")],
        Adapter::LnTuning => &[],
    };
    OF_ALL.into_iter().chain(own.iter().copied())
}
