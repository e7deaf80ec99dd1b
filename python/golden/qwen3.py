"""Qwen 3's golden numbers: `golden_qwen3.json`, a checkpoint and its adapter. Called by make.py."""
import bitsandbytes
import peft
import torch
import transformers
from transformers import Qwen3Config

import family
from decoders import Decoders


class Qwen3(Decoders):
    models = {
        # norms of queries and keys, heads wider than hidden_size / heads, three key-value heads of six, untied head
        "tiny_qwen3": dict(
            config=Qwen3Config(
                hidden_size=30, intermediate_size=46, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                head_dim=10, vocab_size=67, max_position_embeddings=64, tie_word_embeddings=False, use_sliding_window=False,
                rope_parameters=dict(rope_type="default", rope_theta=1000000.0), bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }


def write(folder):
    family.write(folder / "golden_qwen3.json", [Qwen3(folder)], [torch, transformers, peft, bitsandbytes])
