"""Prompt tuning's golden numbers: `golden_prompt_tuning.json`, and prompts of other families' checkpoints. Called by make.py,
after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import PromptTuningConfig, get_peft_model
from safetensors.torch import load_file

import family
from decoders import Decoders
from gemma import Gemma3
from methods import Method


class PromptTuning(Method):
    config, adapter_part = PromptTuningConfig, "prompt_encoder."

    def adapted(self, model, name):
        """PEFT loads virtual tokens for inference alone, so they are put into new ones."""
        model = get_peft_model(model, self.adapter_config(self.models[name]))
        tensors = load_file(self.folder / self.adapter(name) / "adapter_model.safetensors")
        model.prompt_encoder["default"].load_state_dict({"embedding.weight": tensors["prompt_embeddings"]})
        return model.train()

    def labels(self, batch, ids, mask):
        """PEFT predicts a sample's first token from the last virtual one; expctl does not, as with other methods."""
        labels = super().labels(batch, ids, mask)
        labels[:, 0] = -100
        return labels

    def adapter_value(self, weight, generator):
        """As large as the tokens' embeddings."""
        return 0.5 * torch.randn(weight.shape, generator=generator)


class PromptDecoders(PromptTuning, Decoders):
    models = {
        "tiny_llama_prompt": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", settings=dict(num_virtual_tokens=5), cell={},
            runs=["float32", "bfloat16", "float16", "int8", "int4", "linear", "accumulated"]),
    }


class PromptGemma3(PromptTuning, Gemma3):
    """Tokens' embeddings are scaled, and virtual ones are not."""
    models = {
        "tiny_gemma3_prompt": Gemma3.models["tiny_gemma3"] | dict(
            base="tiny_gemma3", settings=dict(num_virtual_tokens=3), cell={}, runs=["float32", "bfloat16"]),
    }


def write(folder):
    families = [PromptDecoders(folder), PromptGemma3(folder)]
    family.write(folder / "golden_prompt_tuning.json", families, [torch, transformers, peft, bitsandbytes])
