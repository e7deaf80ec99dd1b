"""The shapes of the models that are measured: expctl's presets (crates/arch/src/presets), as keys of transformers' configurations."""

import json
from pathlib import Path

PRESETS = Path(__file__).parents[2] / "crates/arch/src/presets"
SHAPE = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
         "tie_word_embeddings", "partial_rotary_factor", "hidden_activation", "sliding_window", "layer_types", "query_pre_attn_scalar",
         "attn_logit_softcapping", "final_logit_softcapping"]


def read(name):
    return json.loads((PRESETS / f"{name}.json").read_text())


def preset(name):
    """The first part of the model's class names, such as `Llama`, and the keys that decide its shape."""
    keys = read(name)
    family = keys["architectures"][0].split("For")[0]
    return family, {key: keys[key] for key in SHAPE if key in keys}


def positions(name):
    """The most tokens that a sample can have."""
    return read(name)["max_position_embeddings"]
