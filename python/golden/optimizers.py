"""Golden numbers of SGD and Adafactor: `golden_sgd.json` and `golden_adafactor.json`. Called by make.py, after decoders.py."""
import functools

import bitsandbytes
import peft
import torch
import transformers
from transformers import get_linear_schedule_with_warmup

import family
from decoders import CLIPPED, Decoders


class OptimizerDecoders(Decoders):
    """Llama with its LoRA adapter, and without one, trained by another optimizer."""

    runs = {
        "float32": {},
        "bfloat16": dict(dtype=torch.bfloat16),
        "linear": dict(scheduler=get_linear_schedule_with_warmup, **CLIPPED),
        "full": dict(adapter=False),
    }

    def __init__(self, folder, name, optimizer, learning_rate):
        super().__init__(folder)
        self.name, self.optimizer, self.learning_rate = name, optimizer, learning_rate
        self.models = {f"tiny_llama_{name}": Decoders.models["tiny_llama"] | dict(base="tiny_llama")}

    def adapter(self, name):
        return f"{self.checkpoint(name)}_adapter"

    def make(self, name, spec, generator):
        batches = self.make_batches(spec["config"].vocab_size, generator)
        return dict(base=spec["base"], batches=batches, runs=self.make_runs(name, batches))

    def write(self):
        family.write(self.folder / f"golden_{self.name}.json", [self], [torch, transformers, peft, bitsandbytes])


def write(folder):
    OptimizerDecoders(folder, "sgd", torch.optim.SGD, 0.05).write()
    adafactor = functools.partial(transformers.Adafactor, scale_parameter=False, relative_step=False)
    OptimizerDecoders(folder, "adafactor", adafactor, 2e-3).write()
