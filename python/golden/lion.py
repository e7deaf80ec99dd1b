"""Lion's golden numbers: `golden_lion.json` and `lion.safetensors`. Called by make.py, after decoders.py."""
import bitsandbytes
import peft
import torch
import transformers
from safetensors.torch import save_file
from transformers import get_linear_schedule_with_warmup

import family
from decoders import CLIPPED, Decoders

RATE, DECAY, STEPS = 0.01, 0.1, 6


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al. 2023, arXiv:2302.06675. It computes in float32 and rounds the weight to its own format once a
    step. `updates` checks it against bitsandbytes."""

    def __init__(self, weights, lr, weight_decay=0.0, betas=(0.9, 0.99)):
        super().__init__(weights, dict(lr=lr, weight_decay=weight_decay, betas=betas))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            rate, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
            for weight in group["params"]:
                gradient = weight.grad.float()
                momentum = self.state[weight].setdefault("momentum", torch.zeros_like(gradient))
                direction = (beta1 * momentum).add(gradient, alpha=1 - beta1).sign()
                weight.copy_((weight.float() * (1 - rate * decay)).add(direction, alpha=-rate))
                momentum.mul_(beta2).add_(gradient, alpha=1 - beta2)


class LionDecoders(Decoders):
    """Llama with its LoRA adapter, and without one, trained by Lion."""

    optimizer = Lion
    learning_rate = 2e-4
    runs = {
        "float32": {},
        "bfloat16": dict(dtype=torch.bfloat16),
        "linear": dict(scheduler=get_linear_schedule_with_warmup, **CLIPPED),
        "full": dict(adapter=False),
        "full_bfloat16": dict(dtype=torch.bfloat16, adapter=False),
    }
    models = {"tiny_llama_lion": Decoders.models["tiny_llama"] | dict(base="tiny_llama")}

    def adapter(self, name):
        return f"{self.checkpoint(name)}_adapter"

    def make(self, name, spec, generator):
        batches = self.make_batches(spec["config"].vocab_size, generator)
        return dict(base=spec["base"], batches=batches, runs=self.make_runs(name, batches))


def updates(dtype, decay, generator):
    """A weight's start, its gradients, and its values and momentum after each step. Element 0 never has a gradient, element 1
    has none at the first step: where the momentum is 0 too, Lion does not move the weight."""
    start = torch.randn(37, generator=generator).to(dtype)
    gradients = torch.randn(STEPS, 37, generator=generator).to(dtype)
    gradients[:, 0] = gradients[0, 1] = 0
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    lion = Lion([ours], lr=RATE, weight_decay=decay)
    reference = bitsandbytes.optim.Lion([theirs], lr=RATE, weight_decay=decay, betas=(0.9, 0.99))
    values, momentum = [], []
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        lion.step()
        reference.step()
        values.append(ours.detach().clone())
        momentum.append(lion.state[ours]["momentum"].clone())
        assert torch.equal(ours, theirs) and torch.equal(momentum[-1], reference.state[theirs]["state1"])
    return dict(start=start, gradients=gradients, values=torch.stack(values), momentum=torch.stack(momentum))


def write(folder):
    family.write(folder / "golden_lion.json", [LionDecoders(folder)], [torch, transformers, peft, bitsandbytes])
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for case, dtype in {"float32": torch.float32, "bfloat16": torch.bfloat16}.items():
        for suffix, decay in {"": 0.0, ".decay": DECAY}.items():
            case_tensors = updates(dtype, decay, generator)
            tensors |= {f"{case}{suffix}.{key}": tensor for key, tensor in case_tensors.items()}
    save_file(tensors, folder / "lion.safetensors")
