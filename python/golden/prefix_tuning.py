"""Prefix tuning's golden numbers: `golden_prefix_tuning.json`, and a prefix of Qwen 3, whose keys have norms. Called by make.py,
after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import PrefixTuningConfig

import family
from decoders import Decoders
from prompt_tuning import PromptTuning
from qwen3 import Qwen3


class PrefixTuning(PromptTuning):
    config = PrefixTuningConfig


class PrefixDecoders(PrefixTuning, Decoders):
    models = {
        "tiny_llama_prefix": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings=dict(num_virtual_tokens=5), cell={},
            runs=["float32", "bfloat16", "float16", "int8", "int4", "linear", "accumulated"]),
    }


class PrefixQwen3(PrefixTuning, Qwen3):
    models = {
        "tiny_qwen3_prefix": Qwen3.models["tiny_qwen3"] | dict(
            base="tiny_qwen3", settings=dict(num_virtual_tokens=3), cell={}, runs=["float32"]),
    }


def write(folder):
    families = [PrefixDecoders(folder), PrefixQwen3(folder)]
    family.write(folder / "golden_prefix_tuning.json", families, [torch, transformers, peft, bitsandbytes])
