//! What is known of the options of methods.

use super::acts::{IA3, LOHA, LOKR, LORA, MISS, Move::*, OFT, PREFIX, PROMPT, VERA, both, candle};
use super::facts::Facts;

/// Keys of a map, with their facts.
type Keys = &'static [(&'static str, Facts)];

/// Of LoRA and DoRA.
pub(super) const LORA_OPTIONS: Keys = &[
    (
        "use_rslora",
        Facts::acting(&[candle(LORA, "true", &[Loss])]).of_training(),
    ),
    (
        "init_lora_weights",
        Facts::acting(&[
            candle(LORA, "gaussian", &[Loss]),
            both(LORA, "pissa", &[Bytes, Loss], &[Bytes]),
        ]),
    ),
    (
        "rank_pattern",
        Facts::acting(&[both(LORA, "{q_proj: 4}", &[Bytes, File, Loss], &[Bytes, File])]),
    ),
    (
        "alpha_pattern",
        Facts::acting(&[candle(LORA, "{q_proj: 4}", &[Loss])]).of_training(),
    ),
    (
        "bias",
        Facts::acting(&[both(
            "model: ./files/qwen, weights: random",
            "all",
            &[Bytes, File, Loss],
            &[Bytes, File],
        )]),
    ),
    (
        "loraplus_lr_ratio",
        Facts::acting(&[both(LORA, "16", &[Loss], &[Bytes])]).example("1.0"),
    ),
];

/// Of IA3.
pub(super) const IA3_OPTIONS: Keys = &[(
    "feedforward_modules",
    Facts::acting(&[both(IA3, "[]", &[Bytes, File, Loss], &[Bytes, File])]).example("[]"),
)];

/// Of MiSS.
pub(super) const MISS_OPTIONS: Keys = &[
    (
        "init_weights",
        Facts::acting(&[both(MISS, "mini", &[Bytes, File, Loss], &[Bytes, File])]),
    ),
    (
        "mini_r",
        Facts::acting(&[both(
            "adapter: miss, miss: {init_weights: mini}",
            "32",
            &[Bytes, File, Loss],
            &[Bytes, File],
        )])
        .example("1"),
    ),
    ("miss_dropout", Facts::acting(&[both(MISS, "0.1", &[Loss], &[Bytes])])),
];

/// Of VeRA.
pub(super) const VERA_OPTIONS: Keys = &[
    (
        "d_initial",
        Facts::acting(&[candle(VERA, "0.5", &[Loss])]).of_training(),
    ),
    (
        "projection_prng_key",
        Facts::acting(&[candle(VERA, "1", &[Loss])]).of_training(),
    ),
    (
        "save_projection",
        Facts::acting(&[both(VERA, "false", &[File], &[File])]),
    ),
    ("vera_dropout", Facts::acting(&[both(VERA, "0.1", &[Loss], &[Bytes])])),
];

/// Of OFT.
pub(super) const OFT_OPTIONS: Keys = &[
    (
        "oft_block_size",
        Facts::acting(&[both(OFT, "16", &[Bytes, File, Loss], &[Bytes, File])]),
    ),
    (
        "r",
        Facts::acting(&[both(
            "adapter: oft, oft: {oft_block_size: 0, r: 2}",
            "4",
            &[Bytes, File, Loss],
            &[Bytes, File],
        )]),
    ),
    (
        "block_share",
        Facts::acting(&[both(OFT, "true", &[Bytes, File, Loss], &[Bytes, File])]),
    ),
    (
        "use_cayley_neumann",
        Facts::acting(&[both(OFT, "false", &[Loss], &[Bytes])]),
    ),
    (
        "num_cayley_neumann_terms",
        Facts::acting(&[both(OFT, "3", &[Loss], &[Bytes])]),
    ),
];

/// Of LoHa.
pub(super) const LOHA_OPTIONS: Keys = &[
    ("alpha", Facts::acting(&[candle(LOHA, "16", &[Loss])]).of_training()),
    (
        "rank_pattern",
        Facts::acting(&[both(LOHA, "{q_proj: 4}", &[Bytes, File, Loss], &[Bytes, File])]),
    ),
    (
        "alpha_pattern",
        Facts::acting(&[candle(LOHA, "{q_proj: 4}", &[Loss])]).of_training(),
    ),
];

/// Of LoKr.
pub(super) const LOKR_OPTIONS: Keys = &[
    ("alpha", Facts::acting(&[candle(LOKR, "16", &[Loss])]).of_training()),
    (
        "decompose_both",
        Facts::acting(&[both(
            "adapter: lokr, rank: 2, lokr: {decompose_factor: 8}",
            "true",
            &[Bytes, File, Loss],
            &[Bytes, File],
        )]),
    ),
    (
        "decompose_factor",
        Facts::acting(&[both(LOKR, "4", &[Bytes, File, Loss], &[Bytes, File])]).example("8"),
    ),
    (
        "rank_pattern",
        Facts::acting(&[both(
            "adapter: lokr, rank: 2",
            "{q_proj: 1}",
            &[Bytes, File, Loss],
            &[Bytes, File],
        )]),
    ),
    (
        "alpha_pattern",
        Facts::acting(&[candle(LOKR, "{q_proj: 4}", &[Loss])]).of_training(),
    ),
];

/// Of prompt tuning.
pub(super) const PROMPT_TUNING_OPTIONS: Keys = &[
    (
        "num_virtual_tokens",
        Facts::acting(&[both(PROMPT, "8", &[Bytes, File, Loss], &[Bytes, File])]),
    ),
    (
        "init",
        Facts::acting(&[candle(PROMPT, "text", &[Loss]).with("prompt_tuning.init_text: Classify this text")])
            .of_training(),
    ),
    (
        "init_text",
        Facts::acting(&[candle(
            "adapter: prompt_tuning, prompt_tuning: {init: text, init_text: Classify this text}",
            "Another text",
            &[Loss],
        )])
        .example("''")
        .of_training(),
    ),
];

/// Of prefix tuning.
pub(super) const PREFIX_TUNING_OPTIONS: Keys = &[(
    "num_virtual_tokens",
    Facts::acting(&[both(PREFIX, "8", &[Bytes, File, Loss], &[Bytes, File])]),
)];
