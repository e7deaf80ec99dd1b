"""Golden numbers of Mistral and Ministral: `golden_mistral.json`, checkpoints and their adapters. Called by make.py."""
import bitsandbytes
import peft
import torch
import transformers
from transformers import MinistralConfig, MistralConfig

import family
from decoders import Decoders


class Mistral(Decoders):
    models = {
        # a sliding window that is shorter than most rows; one key-value head of five; untied head
        "tiny_mistral": dict(
            config=MistralConfig(
                hidden_size=40, intermediate_size=52, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
                vocab_size=71, max_position_embeddings=64, sliding_window=5, tie_word_embeddings=False,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0), bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }


class Ministral(Decoders):
    models = {
        # a window in the last two of three blocks, heads wider than hidden size / heads, two key-value heads of six
        "tiny_ministral": dict(
            config=MinistralConfig(
                hidden_size=42, intermediate_size=58, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                head_dim=10, vocab_size=79, max_position_embeddings=64, sliding_window=6, tie_word_embeddings=False,
                layer_types=["full_attention", "sliding_attention", "sliding_attention"],
                rope_parameters=dict(rope_type="default", rope_theta=10000.0), bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }


def write(folder):
    families = [Mistral(folder), Ministral(folder)]
    family.write(folder / "golden_mistral.json", families, [torch, transformers, peft, bitsandbytes])
