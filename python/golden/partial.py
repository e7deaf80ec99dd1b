"""Golden numbers of training some weights of a model: `golden_partial.json`. Called by make.py, after the families."""
import re

import peft
import torch
import transformers

import family
from decoders import Decoders
from encoders import Encoders
from family import trainable
from qwen2 import Qwen2


class Partial:
    """Each model has `patterns`, regular expressions for the ends of the names of weights or of their modules."""

    runs = {"float32": dict(adapter=False)}

    def load(self, name, *args, **kwargs):
        model = super().load(name, *args, **kwargs)
        patterns = [re.compile(rf"(.*\.)?({pattern})$") for pattern in self.models[name]["patterns"]]
        for key, weight in model.named_parameters():
            names = [key, key.rsplit(".", 1)[0]]
            is_head = key.startswith("classifier")
            weight.requires_grad_(is_head or any(pattern.match(name) for pattern in patterns for name in names))
        return model

    def make(self, name, spec, generator):
        """Also the trained values after the twenty steps."""
        batches = self.make_batches(spec["config"].vocab_size, generator)
        loss, tensors = self.sample(self.load(name, adapter=False), batches[self.sampled])
        model = self.load(name, adapter=False)
        self.train(model, batches)
        tensors |= {f"trained.{key}": weight.detach() for key, weight in trainable(model).items()}
        self.save_tensors(name, tensors)
        cell = dict(trainable=spec["patterns"])
        return dict(base=spec["base"], cell=cell, batches=batches, loss=loss, runs=self.make_runs(name, batches))


class PartialLlama(Partial, Decoders):
    models = {
        "tiny_llama_norms": Decoders.models["tiny_llama"] | dict(base="tiny_llama", patterns=[".*norm"]),
        "tiny_llama_block": Decoders.models["tiny_llama"] | dict(
            base="tiny_llama", patterns=[r"layers\.1\..*", "layers.0.self_attn.q_proj"]),
    }


class PartialQwen2(Partial, Qwen2):
    models = {"tiny_qwen2_bitfit": Qwen2.models["tiny_qwen2"] | dict(base="tiny_qwen2", patterns=["bias"])}


class PartialBert(Partial, Encoders):
    models = {"tiny_bert_bitfit": Encoders.models["tiny_bert"] | dict(base="tiny_bert", patterns=["bias"])}


def write(folder):
    families = [PartialLlama(folder), PartialQwen2(folder), PartialBert(folder)]
    family.write(folder / "golden_partial.json", families, [torch, transformers, peft])
