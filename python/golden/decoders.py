"""Llama's golden numbers: `golden.json`, two checkpoints and their adapters. Called by make.py."""
import math

import bitsandbytes
import peft
import torch
import transformers
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

import family
from family import LENGTHS, Family

CLIPPED = dict(weight_decay=0.1, max_grad_norm=0.5)


class Decoders(Family):
    auto, task, sampled = AutoModelForCausalLM, "CAUSAL_LM", 0
    runs = {
        "float32": {},
        "bfloat16": dict(dtype=torch.bfloat16),
        "float16": dict(dtype=torch.float16),
        "int8": dict(dtype=torch.bfloat16, quantized="int8"),
        "int4": dict(dtype=torch.bfloat16, quantized="int4"),
        "int4_single": dict(dtype=torch.bfloat16, quantized="int4_single"),
        "linear": dict(scheduler=get_linear_schedule_with_warmup, **CLIPPED),
        "cosine": dict(scheduler=get_cosine_schedule_with_warmup, **CLIPPED),
        "accumulated": dict(accumulate=True),
        "full": dict(adapter=False),
    }
    models = {
        # tied head, stored in bfloat16, one file
        "tiny_llama": dict(
            config=LlamaConfig(
                hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                vocab_size=128, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=True,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0), bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.bfloat16, shards="1GB", rank=4, alpha=8,
        ),
        # untied head, Llama 3's rotary scaling, heads wider than hidden_size / heads, one key-value head, several files
        "tiny_llama3": dict(
            config=LlamaConfig(
                hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1,
                head_dim=16, vocab_size=96, max_position_embeddings=512, rms_norm_eps=1e-6, tie_word_embeddings=False,
                rope_parameters=dict(
                    rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                    original_max_position_embeddings=64,
                ),
                bos_token_id=1, eos_token_id=2, pad_token_id=0,
            ),
            dtype=torch.float32, shards="40KB", rank=2, alpha=8,
        ),
    }

    def start_value(self, name, shape, generator):
        if len(shape) == 1:
            value = 1 + 0.2 * torch.randn(shape, generator=generator)
        else:
            scale = 0.2 if "embed" in name or "lm_head" in name else 1.5 / math.sqrt(shape[1])
            value = scale * torch.randn(shape, generator=generator)
        return value.bfloat16().float()

    def save(self, model, folder, spec):
        model.to(spec["dtype"]).save_pretrained(folder, max_shard_size=spec["shards"])
        (folder / "generation_config.json").unlink()

    def make_batches(self, vocab, generator):
        """Small ids are more frequent."""
        batches = []
        for lengths in LENGTHS:
            uniform = torch.rand(len(lengths), max(lengths), generator=generator)
            ids = (1 + (vocab - 1) * uniform.square()).long()
            for row, length in enumerate(lengths):
                ids[row, length:] = 0
            batches.append(dict(ids=ids.tolist(), lengths=lengths))
        return batches

    def labels(self, batch, ids, mask):
        return ids.masked_fill(~mask, -100)

    def weigh(self, model, batch, taken):
        """The sum over counted tokens / counted tokens of the step."""
        count = sum(map(counted, taken))
        return model(**self.inputs(batch), num_items_in_batch=torch.tensor(count)).loss

    def load(self, name, dtype=torch.float32, adapter=True, quantized=None):
        loading = {}
        if quantized in ("int4", "int4_single", "fp4"):
            quant_type = "fp4" if quantized == "fp4" else "nf4"
            loading = dict(quantization_config=BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type=quant_type, bnb_4bit_use_double_quant=quantized == "int4",
                bnb_4bit_compute_dtype=dtype))
        if quantized == "llm_int8":
            loading = dict(quantization_config=BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=2.0))
        model = super().load(name, dtype, adapter=False, device_map="cpu", **loading)
        if quantized == "int8":
            store_as_int8(model)
        return self.adapted(model, name) if adapter else model


def counted(batch):
    """Labels are shifted, so a row of n tokens is counted n - 1 times."""
    return sum(length - 1 for length in batch["lengths"])


def store_as_int8(model):
    """Rounds every linear weight but the head's to 127ths of its row's largest value: int8 as expctl does it, which is
    storage only. bitsandbytes' LLM.int8() rounds the activations too, so it is not a reference for that."""
    for key, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and "lm_head" not in key:
            codes, absmax, _ = bitsandbytes.functional.int8_vectorwise_quant(module.weight.data.float())
            module.weight.data = (codes.float() * (absmax / 127)[:, None]).to(module.weight.dtype)


def write(folder):
    family.write(folder / "golden.json", [Decoders(folder)], [torch, transformers, peft, bitsandbytes])
