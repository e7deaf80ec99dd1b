"""VeRA's golden numbers: `golden_vera.json`, and adapters of other families' checkpoints. Called by make.py, after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import VeraConfig

import family
from decoders import Decoders
from encoders import Encoders
from methods import Method


class Vera(Method):
    config, adapter_part = VeraConfig, "vera_lambda_"

    def adapter_value(self, weight, generator):
        """The vector of outputs starts at zero, where the other has no gradient."""
        return weight + 0.3 * torch.randn(weight.shape, generator=generator)


class VeraDecoders(Vera, Decoders):
    models = {
        "tiny_llama_vera": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings=dict(r=6, target_modules="all-linear", projection_prng_key=3), cell={},
            runs=["float32", "bfloat16", "float16", "int8", "int4", "linear", "accumulated"]),
    }


class VeraEncoders(Vera, Encoders):
    models = {
        "tiny_bert_vera": Encoders.models["tiny_bert"] | dict(
            base="tiny_bert", settings=dict(r=6, target_modules="all-linear", d_initial=0.2), cell={}, runs=["float32"]),
    }


def write(folder):
    families = [VeraDecoders(folder), VeraEncoders(folder)]
    family.write(folder / "golden_vera.json", families, [torch, transformers, peft, bitsandbytes])
