"""IA3's golden numbers: `golden_ia3.json`, and adapters of other families' checkpoints. Called by make.py, after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import IA3Config

import family
from decoders import Decoders
from encoders import Encoders
from methods import Method
from qwen2 import Qwen2


class Ia3(Method):
    config, adapter_part = IA3Config, "ia3_"

    def adapter_value(self, weight, generator):
        return 1 + 0.3 * torch.randn(weight.shape, generator=generator)


class Ia3Decoders(Ia3, Decoders):
    """PEFT's own modules; and others, of which some scale the input that they share with layers that do not. Not in 4 bits: PEFT
    then gives float32 keys beside bfloat16 queries, which attention refuses."""

    models = {
        "tiny_llama_ia3": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings={}, cell={},
            runs=["float32", "bfloat16", "float16", "int8", "linear", "accumulated"]),
        "tiny_llama_ia3_inputs": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", runs=["float32", "bfloat16"],
            settings=dict(target_modules=["q_proj", "k_proj", "o_proj", "gate_proj", "up_proj"],
                          feedforward_modules=["q_proj", "gate_proj"]),
            cell=dict(target_modules=["q_proj", "k_proj", "o_proj", "gate_proj", "up_proj"],
                      ia3=dict(feedforward_modules=["q_proj", "gate_proj"]))),
    }


class Ia3Qwen2(Ia3, Qwen2):
    """Its queries and values have biases, which are scaled with the outputs."""

    models = {
        "tiny_qwen2_ia3": Qwen2.models["tiny_qwen2"] | dict(base="tiny_qwen2", settings={}, cell={}, runs=["float32", "bfloat16"]),
    }


class Ia3Encoders(Ia3, Encoders):
    models = {
        "tiny_bert_ia3": Encoders.models["tiny_bert"] | dict(base="tiny_bert", settings={}, cell={}, runs=["float32", "bfloat16"]),
    }


def write(folder):
    families = [Ia3Decoders(folder), Ia3Qwen2(folder), Ia3Encoders(folder)]
    family.write(folder / "golden_ia3.json", families, [torch, transformers, peft, bitsandbytes])
