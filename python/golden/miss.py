"""MiSS's golden numbers: `golden_miss.json`, and adapters of other families' checkpoints. Called by make.py, after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import MissConfig

import family
from decoders import Decoders
from encoders import Encoders
from methods import Method


class Miss(Method):
    config, adapter_part = MissConfig, "miss_"


class MissDecoders(Miss, Decoders):
    """Rank 7 does not divide the inputs, whose last shard is then shorter."""

    models = {
        name: Decoders.models["tiny_llama"] | dict(base="tiny_llama") | spec
        for name, spec in {
            "tiny_llama_miss": dict(
                settings=dict(r=8, target_modules="all-linear"), cell={},
                runs=["float32", "bfloat16", "float16", "int8", "int4", "linear", "accumulated"]),
            "tiny_llama_miss_odd": dict(
                settings=dict(r=7, target_modules=["q_proj", "v_proj", "down_proj"]),
                cell=dict(target_modules=["q_proj", "v_proj", "down_proj"]), runs=["float32"]),
            # On few layers: a block that is repeated moves all outputs alike, and on all layers the steps would diverge.
            "tiny_llama_miss_mini": dict(
                settings=dict(r=8, target_modules=["v_proj", "down_proj"], init_weights="mini", mini_r=4),
                cell=dict(target_modules=["v_proj", "down_proj"]), runs=["float32", "bfloat16"]),
        }.items()
    }


class MissEncoders(Miss, Encoders):
    models = {
        "tiny_bert_miss": Encoders.models["tiny_bert"] | dict(
            base="tiny_bert", settings=dict(r=8, target_modules="all-linear"), cell={}, runs=["float32"]),
    }


def write(folder):
    families = [MissDecoders(folder), MissEncoders(folder)]
    family.write(folder / "golden_miss.json", families, [torch, transformers, peft, bitsandbytes])
