"""LoKr's golden numbers: `golden_lokr.json`, and adapters of other families' checkpoints. Called by make.py, after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import LoKrConfig

import family
from decoders import Decoders
from encoders import Encoders
from methods import Method


class Lokr(Method):
    config, adapter_part = LoKrConfig, "lokr_"

    def adapter_value(self, weight, generator):
        return 0.4 * torch.randn(weight.shape, generator=generator)


class LokrDecoders(Lokr, Decoders):
    """The right, both, or the left of the product's matrices have a low rank. Not in 4 bits: PEFT takes the shape of the packed
    weight."""

    models = {
        name: Decoders.models["tiny_llama"] | dict(base="tiny_llama") | spec
        for name, spec in {
            "tiny_llama_lokr": dict(
                settings=dict(r=2, alpha=3, target_modules="all-linear"), cell={},
                runs=["float32", "bfloat16", "float16", "int8", "linear", "accumulated"]),
            "tiny_llama_lokr_both": dict(
                settings=dict(r=2, alpha=5, decompose_both=True, target_modules="all-linear"), cell={},
                runs=["float32", "bfloat16"]),
            "tiny_llama_lokr_factor": dict(
                settings=dict(r=3, alpha=4, decompose_both=True, decompose_factor=16, rank_pattern={"v_proj": 1},
                              alpha_pattern={"layers.1.mlp.down_proj": 1.5}, target_modules=["q_proj", "v_proj", "down_proj"]),
                cell=dict(target_modules=["q_proj", "v_proj", "down_proj"]), runs=["float32"]),
        }.items()
    }


class LokrEncoders(Lokr, Encoders):
    """No matrix has a low rank."""

    models = {
        "tiny_bert_lokr": Encoders.models["tiny_bert"] | dict(
            base="tiny_bert", settings=dict(r=3, alpha=3, target_modules="all-linear"), cell={}, runs=["float32"]),
    }


def write(folder):
    families = [LokrDecoders(folder), LokrEncoders(folder)]
    family.write(folder / "golden_lokr.json", families, [torch, transformers, peft, bitsandbytes])
