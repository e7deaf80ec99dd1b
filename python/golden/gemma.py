"""Golden numbers of Gemma 1, 2 and 3: `golden_gemma.json`, checkpoints and their adapters. Called by make.py."""
import bitsandbytes
import peft
import torch
import transformers
from transformers import Gemma2Config, Gemma3TextConfig, GemmaConfig

import family
from decoders import Decoders


class Gemma(Decoders):
    def start_value(self, name, shape, generator):
        """Norms multiply by 1 more than their weight."""
        value = super().start_value(name, shape, generator)
        return (value - 1).bfloat16().float() if len(shape) == 1 else value


class Gemma1(Gemma):
    models = {
        # one head of keys and values for three of queries, heads wider than hidden size / heads
        "tiny_gemma": dict(
            config=GemmaConfig(
                hidden_size=44, intermediate_size=54, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                head_dim=18, vocab_size=67, max_position_embeddings=64,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0), bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }


class Gemma2(Gemma):
    attention = "eager"  # transformers' sdpa has no soft cap
    models = {
        # soft caps low enough to matter, a window in the first block, a scale of scores of its own
        "tiny_gemma2": dict(
            config=Gemma2Config(
                hidden_size=36, intermediate_size=38, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                head_dim=10, vocab_size=59, max_position_embeddings=64, sliding_window=5, query_pre_attn_scalar=7,
                attn_logit_softcapping=3.0, final_logit_softcapping=4.0,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0), bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }


class Gemma3(Gemma):
    models = {
        # norms of queries and keys, two local blocks with a window before a global one, rotary bases of their own
        "tiny_gemma3": dict(
            config=Gemma3TextConfig(
                hidden_size=28, intermediate_size=42, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                head_dim=6, vocab_size=73, max_position_embeddings=64, sliding_window=5, query_pre_attn_scalar=9,
                layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                rope_parameters=dict(
                    sliding_attention=dict(rope_type="default", rope_theta=100.0),
                    full_attention=dict(rope_type="linear", factor=8.0, rope_theta=10000.0),
                ),
                bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }


def write(folder):
    families = [Gemma1(folder), Gemma2(folder), Gemma3(folder)]
    family.write(folder / "golden_gemma.json", families, [torch, transformers, peft, bitsandbytes])
