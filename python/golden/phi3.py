"""Phi-3's golden numbers: `golden_phi3.json`, a checkpoint and its adapter. Called by make.py."""
import bitsandbytes
import peft
import torch
import transformers
from transformers import Phi3Config

import family
from decoders import Decoders


class Phi3(Decoders):
    models = {
        # as Phi-4-mini: tied head, three quarters of each head rotated, LongRoPE; one key-value head of three
        "tiny_phi3": dict(
            config=Phi3Config(
                hidden_size=48, intermediate_size=44, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                vocab_size=64, max_position_embeddings=64, original_max_position_embeddings=16, tie_word_embeddings=True,
                rope_parameters=dict(
                    rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                    short_factor=[1.0, 1.05, 1.1, 1.2, 1.3, 1.4], long_factor=[1.0, 1.5, 3.0, 6.0, 12.0, 20.0],
                ),
                bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
    }

    def start_value(self, name, shape, generator):
        """Smaller queries and keys than Llama's, as LongRoPE's attention factor makes the scores larger."""
        value = super().start_value(name, shape, generator)
        return value / 2 if "qkv_proj" in name else value

    def make(self, name, spec, generator):
        """Also the logits of a row that is longer than the original context, so that the long factors are used."""
        entry = super().make(name, spec, generator)
        config = spec["config"]
        length = config.original_max_position_embeddings + 4
        ids = torch.randint(1, config.vocab_size, (1, length), generator=generator)
        batch = dict(ids=ids.tolist(), lengths=[length])
        with torch.no_grad():
            logits = self.load(name)(**self.inputs(batch)).logits
        self.save_tensors(f"{name}_long", {"logits": logits})
        return entry | dict(long=batch)


def write(folder):
    family.write(folder / "golden_phi3.json", [Phi3(folder)], [torch, transformers, peft, bitsandbytes])
