"""OFT's golden numbers: `golden_oft.json`, and adapters of other families' checkpoints. Called by make.py, after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import OFTConfig

import family
from decoders import Decoders
from encoders import Encoders
from methods import Method


class Oft(Method):
    config, adapter_part = OFTConfig, "oft_R"

    def adapter_value(self, weight, generator):
        """Large enough for the last terms of the series to matter."""
        return 0.1 * torch.randn(weight.shape, generator=generator)


class OftDecoders(Oft, Decoders):
    """Five blocks do not divide the inputs: PEFT takes four, of 16 or 24 rows."""

    models = {
        name: Decoders.models["tiny_llama"] | dict(base="tiny_llama") | spec
        for name, spec in {
            "tiny_llama_oft": dict(
                settings=dict(oft_block_size=8, target_modules="all-linear"), cell={},
                runs=["float32", "bfloat16", "float16", "int8", "int4", "linear", "accumulated"]),
            "tiny_llama_oft_exact": dict(
                settings=dict(oft_block_size=0, r=5, use_cayley_neumann=False, target_modules=["q_proj", "v_proj", "down_proj"]),
                cell=dict(target_modules=["q_proj", "v_proj", "down_proj"]), runs=["float32", "bfloat16"]),
            "tiny_llama_oft_share": dict(
                settings=dict(oft_block_size=8, block_share=True, num_cayley_neumann_terms=3, target_modules="all-linear"),
                cell={}, runs=["float32", "bfloat16"]),
        }.items()
    }


class OftEncoders(Oft, Encoders):
    """Blocks of 5 become blocks of 4."""

    models = {
        "tiny_bert_oft": Encoders.models["tiny_bert"] | dict(
            base="tiny_bert", settings=dict(oft_block_size=5, num_cayley_neumann_terms=6, target_modules="all-linear"), cell={},
            runs=["float32"]),
    }


def write(folder):
    families = [OftDecoders(folder), OftEncoders(folder)]
    family.write(folder / "golden_oft.json", families, [torch, transformers, peft, bitsandbytes])
