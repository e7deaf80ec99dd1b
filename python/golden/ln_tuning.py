"""LayerNorm tuning's golden numbers: `golden_ln_tuning.json`, and tuned norms of other families' checkpoints. Called by make.py,
after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import LNTuningConfig

import family
from decoders import Decoders
from gemma import Gemma3
from methods import Method
from qwen2 import Qwen2


class LnTuning(Method):
    """With the norms that PEFT chooses. They have the model's format, in which AdamW's states are not finite for float16."""
    config, adapter_part = LNTuningConfig, "ln_tuning_layers"

    def adapter_value(self, weight, generator):
        """Another than the model's."""
        return weight + 0.2 * torch.randn(weight.shape, generator=generator)


class LnDecoders(LnTuning, Decoders):
    models = {
        "tiny_llama_ln": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings={}, cell={},
            runs=["float32", "bfloat16", "int8", "int4", "linear", "accumulated"]),
    }


class LnGemma3(LnTuning, Gemma3):
    models = {
        "tiny_gemma3_ln": Gemma3.models["tiny_gemma3"] | dict(
            base="tiny_gemma3", settings={}, cell={}, runs=["float32"]),
    }


class LnQwen2(LnTuning, Qwen2):
    models = {
        "tiny_qwen2_ln": Qwen2.models["tiny_qwen2"] | dict(
            base="tiny_qwen2", settings={}, cell={}, runs=["float32"]),
    }


def write(folder):
    families = [LnDecoders(folder), LnGemma3(folder), LnQwen2(folder)]
    family.write(folder / "golden_ln_tuning.json", families, [torch, transformers, peft, bitsandbytes])
