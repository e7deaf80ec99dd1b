"""Golden numbers of number formats beside the weights': `golden_precision.json`. Called by make.py, after decoders.py."""
import bitsandbytes
import peft
import torch
import transformers
from bitsandbytes.autograd import _functions as functions

import family
from decoders import Decoders


class PrecisionDecoders(Decoders):
    """Llama with its LoRA adapter under torch.autocast, after PEFT's preparation for k-bit training, and with an adapter in
    bfloat16."""

    runs = {
        "autocast": dict(autocast=True),
        "full_autocast": dict(adapter=False, autocast=True),
        "kbit": dict(dtype=torch.bfloat16, quantized="int4", kbit=True),
        "kbit_autocast": dict(dtype=torch.bfloat16, quantized="int4", kbit=True, autocast=True),
        "llm_int8": dict(dtype=torch.bfloat16, quantized="llm_int8", kbit=True),
        "fp4": dict(dtype=torch.bfloat16, quantized="fp4"),
        "adapter_bfloat16": dict(dtype=torch.bfloat16, adapter_dtype=torch.bfloat16),
    }
    models = {"tiny_llama_precision": Decoders.models["tiny_llama"] | dict(base="tiny_llama")}
    kbit = autocast = False

    def adapter(self, name):
        return f"{self.checkpoint(name)}_adapter"

    def run(self, name, batches, kbit=False, autocast=False, adapter_dtype=torch.float32, **how):
        self.kbit, self.autocast, self.adapter_dtype = kbit, autocast, adapter_dtype
        return super().run(name, batches, **how)

    def adapted(self, model, name):
        if self.kbit:
            model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
        model = super().adapted(model, name)
        for key, weight in model.named_parameters():
            if "lora_" in key:
                weight.data = weight.data.to(self.adapter_dtype)
        return model

    def weigh(self, model, batch, taken):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            return super().weigh(model, batch, taken)

    def make(self, name, spec, generator):
        batches = self.make_batches(spec["config"].vocab_size, generator)
        return dict(base=spec["base"], batches=batches, runs=self.make_runs(name, batches))


def write(folder):
    # In training on a CPU, bitsandbytes multiplies dequantised weights instead.
    functions.MatMul8bitFp = functions.MatMul8bitLt
    family.write(folder / "golden_precision.json", [PrecisionDecoders(folder)], [torch, transformers, peft, bitsandbytes])
