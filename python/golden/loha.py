"""LoHa's golden numbers: `golden_loha.json`, and adapters of other families' checkpoints. Called by make.py, after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import LoHaConfig

import family
from decoders import Decoders
from encoders import Encoders
from methods import Method


class Loha(Method):
    config, adapter_part = LoHaConfig, "hada_"

    def adapter_value(self, weight, generator):
        return 0.3 * torch.randn(weight.shape, generator=generator)


class LohaDecoders(Loha, Decoders):
    """Not in 4 bits: PEFT takes the shape of the packed weight."""

    models = {
        name: Decoders.models["tiny_llama"] | dict(base="tiny_llama") | spec
        for name, spec in {
            "tiny_llama_loha": dict(
                settings=dict(r=2, alpha=3, target_modules="all-linear"), cell={},
                runs=["float32", "bfloat16", "float16", "int8", "linear", "accumulated"]),
            "tiny_llama_loha_patterns": dict(
                settings=dict(r=3, alpha=4, target_modules=["q_proj", "v_proj", "down_proj"], rank_pattern={"q_proj": 1},
                              alpha_pattern={"layers.1.mlp.down_proj": 1.5}),
                cell=dict(target_modules=["q_proj", "v_proj", "down_proj"]), runs=["float32"]),
        }.items()
    }


class LohaEncoders(Loha, Encoders):
    models = {
        "tiny_bert_loha": Encoders.models["tiny_bert"] | dict(
            base="tiny_bert", settings=dict(r=3, alpha=3, target_modules="all-linear"), cell={}, runs=["float32"]),
    }


def write(folder):
    families = [LohaDecoders(folder), LohaEncoders(folder)]
    family.write(folder / "golden_loha.json", families, [torch, transformers, peft, bitsandbytes])
