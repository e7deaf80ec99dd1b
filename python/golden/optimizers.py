"""Golden numbers of SGD, Adafactor and AdamW with states of 8 bits: `golden_sgd.json`, `golden_adafactor.json`,
`golden_adamw_8bit.json` and `adamw_8bit.safetensors`. Called by make.py, after decoders.py and at the end: it changes how
bitsandbytes quantises."""
import functools

import bitsandbytes
import peft
import torch
import transformers
from safetensors.torch import save_file
from transformers import get_linear_schedule_with_warmup

import family
from decoders import CLIPPED, Decoders

STEPS = 4


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

    def make_optimizer(self, model, weight_decay):
        """Embeddings are registered with bitsandbytes, as `Trainer.create_optimizer` does."""
        manager = bitsandbytes.optim.GlobalOptimManager.get_instance()
        manager.initialize()
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                manager.register_module_override(module, "weight", {"optim_bits": 32})
        return super().make_optimizer(model, weight_decay)

    def adapter(self, name):
        return f"{self.checkpoint(name)}_adapter"

    def make(self, name, spec, generator):
        batches = self.make_batches(spec["config"].vocab_size, generator)
        return dict(base=spec["base"], batches=batches, runs=self.make_runs(name, batches))

    def write(self):
        family.write(self.folder / f"golden_{self.name}.json", [self], [torch, transformers, peft, bitsandbytes])


LIBRARY = torch.library.Library("bitsandbytes", "IMPL")


def quantize_to_the_nearest():
    """Puts bitsandbytes' kernel for all devices in place of its CPU library's, which looks codes up in 65536 equal bins: the
    dynamic maps are finer near 0."""
    LIBRARY.impl("quantize_blockwise", quantize_blockwise, "CPU", allow_override=True)


def quantize_blockwise(values, code, blocksize):
    """`quantize_blockwise` of bitsandbytes' backends/default/ops.py."""
    flat = values.reshape(-1).float()
    full = flat.numel() - flat.numel() % blocksize
    blocks = flat[:full].reshape(-1, blocksize)
    absmax = blocks.abs().amax(dim=-1)
    scaled = (blocks * (1.0 / absmax.clamp(min=1e-38).view(-1, 1))).clamp(-1, 1).reshape(-1)
    if full < flat.numel():
        last = flat[full:].abs().max().clamp(min=1e-38)
        absmax = torch.cat([absmax, last.unsqueeze(0)])
        scaled = torch.cat([scaled, (flat[full:] / last).clamp(-1, 1)])
    codes = torch.bucketize(scaled, (code[:-1] + code[1:]) / 2, out_int32=True)
    return codes.to(torch.uint8).reshape(values.shape), absmax


def updates(dtype, decay, generator):
    """A weight's start and gradients, its codes and scales after each step, and its values after the last. The second block
    never has a gradient, the third has one at the first step only, and the last block is short."""
    shape = (7, 628)
    start = torch.randn(shape, generator=generator).bfloat16()
    size = 10 ** (-torch.rand(STEPS, *shape, generator=generator))
    gradients = (torch.randn(STEPS, *shape, generator=generator) * size).bfloat16()
    gradients.view(STEPS, -1)[:, 256:512] = 0
    gradients.view(STEPS, -1)[1:, 512:768] = 0
    weight = torch.nn.Parameter(start.to(dtype, copy=True))
    optimizer = bitsandbytes.optim.AdamW8bit([weight], lr=0.01, weight_decay=decay)
    after = {key: [] for key in ("state1", "state2", "absmax1", "absmax2")}
    for gradient in gradients:
        weight.grad = gradient.to(dtype)
        optimizer.step()
        for key, values in after.items():
            values.append(optimizer.state[weight][key].clone())
    states = {key: torch.stack(values) for key, values in after.items()}
    return dict(start=start, gradients=gradients, values=weight.detach().clone(), **states)


def write(folder):
    OptimizerDecoders(folder, "sgd", torch.optim.SGD, 0.05).write()
    adafactor = functools.partial(transformers.Adafactor, scale_parameter=False, relative_step=False)
    OptimizerDecoders(folder, "adafactor", adafactor, 2e-3).write()
    quantize_to_the_nearest()
    OptimizerDecoders(folder, "adamw_8bit", bitsandbytes.optim.AdamW8bit, 2e-3).write()
    generator = torch.Generator().manual_seed(0)
    cases = {"float32": (torch.float32, 0.0), "float32.decay": (torch.float32, 0.1), "bfloat16": (torch.bfloat16, 0.1)}
    tensors = {}
    for case, (dtype, decay) in cases.items():
        tensors |= {f"{case}.{key}": tensor for key, tensor in updates(dtype, decay, generator).items()}
    tensors["unsigned_map"] = bitsandbytes.functional.create_dynamic_map(signed=False)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / "adamw_8bit.safetensors")
