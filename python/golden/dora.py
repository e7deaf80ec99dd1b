"""DoRA's golden numbers (PEFT's `use_dora`): `golden_dora.json`, and adapters of other families' checkpoints. Called by
make.py, after those."""
import bitsandbytes
import peft
import torch
import transformers
from peft import get_peft_model

import family
from decoders import Decoders
from encoders import Encoders
from family import trainable


class Dora:
    """Adapters with magnitudes, of the family that it is inherited together with."""

    def adapter_config(self, spec):
        config = super().adapter_config(spec)
        config.use_dora = True
        return config

    def adapter_value(self, weight, generator):
        """Magnitudes about a tenth off the norms that PEFT begins with."""
        if weight.dim() == 1:
            return weight * (1 + 0.1 * torch.randn(weight.shape, generator=generator))
        return super().adapter_value(weight, generator)

    def make(self, name, spec, generator):
        """Also a new adapter's magnitudes by the run whose base they are of, and the trained values after the float32 run."""
        self.make_adapter(name, spec, generator)
        batches = self.make_batches(spec["config"].vocab_size, generator)
        loss, tensors = self.sample(self.load(name), batches[self.sampled])
        for run in spec["initial"]:
            model = get_peft_model(self.load(name, **self.runs[run], adapter=False), self.adapter_config(spec))
            magnitudes = {key: weight for key, weight in trainable(model).items() if key.endswith("magnitude_vector")}
            tensors |= {f"initial.{run}.{key}": weight.detach() for key, weight in magnitudes.items()}
        model = self.load(name)
        self.train(model, batches)
        tensors |= {f"trained.{key}": weight.detach() for key, weight in trainable(model).items()}
        self.save_tensors(name, tensors)
        return dict(base=spec["base"], batches=batches, loss=loss, runs=self.make_runs(name, batches))


def with_adapter(runs):
    return {run: how for run, how in runs.items() if how.get("adapter", True)}


class DoraDecoders(Dora, Decoders):
    runs = with_adapter(Decoders.runs)
    models = {
        "tiny_llama_dora": Decoders.models["tiny_llama"] | dict(base="tiny_llama", initial=["float32", "bfloat16", "int4"]),
    }


class DoraEncoders(Dora, Encoders):
    """With biases, which the magnitudes leave alone."""

    runs = with_adapter(Encoders.runs)
    models = {"tiny_bert_dora": Encoders.models["tiny_bert"] | dict(base="tiny_bert", initial=["float32", "bfloat16"])}


def write(folder):
    families = [DoraDecoders(folder), DoraEncoders(folder)]
    family.write(folder / "golden_dora.json", families, [torch, transformers, peft, bitsandbytes])
