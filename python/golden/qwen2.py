"""Qwen 2's golden numbers: `golden_qwen2.json`, two checkpoints and their adapters. Called by make.py."""
import bitsandbytes
import peft
import torch
import transformers
from transformers import Qwen2Config

import family
from decoders import Decoders


class Qwen2(Decoders):
    models = {
        # biases of queries, keys and values; one key-value head of three; no size but the heads' is a multiple of 4
        "tiny_qwen2": dict(
            config=Qwen2Config(
                hidden_size=42, intermediate_size=50, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                vocab_size=61, max_position_embeddings=64, tie_word_embeddings=True, use_sliding_window=False,
                rope_parameters=dict(rope_type="default", rope_theta=1000000.0), bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
        # a window in the last two blocks; the padding token also stands among the others
        "tiny_qwen2_window": dict(
            config=Qwen2Config(
                hidden_size=42, intermediate_size=50, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=3,
                vocab_size=61, max_position_embeddings=64, tie_word_embeddings=False, use_sliding_window=True, sliding_window=4,
                max_window_layers=1, rope_parameters=dict(rope_type="default", rope_theta=1000000.0), bos_token_id=1,
                eos_token_id=2, pad_token_id=2,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }

    def start_value(self, name, shape, generator):
        """Biases, which have one dimension as norms have, but do not lie around 1."""
        value = super().start_value(name, shape, generator)
        return (value - 1).bfloat16().float() if name.endswith("bias") else value


def write(folder):
    family.write(folder / "golden_qwen2.json", [Qwen2(folder)], [torch, transformers, peft, bitsandbytes])
