"""Live tensor bytes of steps of models that FSDP shares between two processes of the CPU (gloo): a table for crates/torch/src/fsdp.

    python python/torch_abstract/make_fsdp.py > tests/fixtures/torch_abstract/fsdp.csv

Needs torch, transformers and peft. The tensors are real, and their storages are counted as by make_torch_abstract.py; those that
FSDP makes and frees without an operation are told by it. gloo copies what it sends, as NCCL does not, so nothing is sent. The
first process prints.
"""

import contextlib
import csv
import functools
import gc
import itertools
import os
import sys
import unittest.mock

import torch
import torch.distributed as dist
import torch.distributed.fsdp._flat_param as flat_param
import torch.distributed.fsdp._fully_shard._fsdp_param as fsdp_param
import torch.multiprocessing as mp
import transformers
from live import Live
from peft import LoraConfig, get_peft_model
from peft.utils.other import fsdp_auto_wrap_policy
from presets import preset
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.tensor import DTensor

RANKS = 2
LAYERS = 3
KEYS = ["version", "model", "dtype", "mixed", "rank", "gradient_checkpointing", "sharding_strategy", "auto_wrap_policy", "backward_prefetch",
        "forward_prefetch", "use_orig_params", "gradient_accumulation_steps", "batch", "len"]
FIGURES = ["end_of_forward", "peak_forward_backward", "peak_step", "after_optimizer_step", "between_steps"]
DEFAULTS = dict(version=1, model="tinyllama-1.1b", dtype="bfloat16", mixed=False, rank=0, gradient_checkpointing="none",
                sharding_strategy="full_shard", auto_wrap_policy="transformer_based_wrap", backward_prefetch="backward_pre",
                forward_prefetch=False, use_orig_params=True, gradient_accumulation_steps=1, batch=2, len=64)
LORA = dict(rank=8)
COLLECTIVES = ["all_gather", "all_gather_single", "reduce_scatter_single"]
NOTHING_IS_SENT = dict.fromkeys(COLLECTIVES, lambda *_, **__: None)
REENTRANT, NOT_REENTRANT = dict(gradient_checkpointing="default"), dict(gradient_checkpointing="not_reentrant")


def cases():
    for model, method, checkpoints in itertools.product(["tinyllama-1.1b", "smollm2-135m"], [{}, LORA], [{}, REENTRANT, NOT_REENTRANT]):
        yield dict(model=model) | method | checkpoints
    for method in [{}, LORA]:
        yield method | dict(sharding_strategy="shard_grad_op")
        yield method | dict(sharding_strategy="shard_grad_op") | REENTRANT
        yield method | dict(sharding_strategy="no_shard")
        yield method | dict(backward_prefetch="backward_post")
        yield method | dict(backward_prefetch="no_prefetch", len=256) | NOT_REENTRANT
        yield method | dict(forward_prefetch=True)
        yield method | dict(use_orig_params=False)
        yield method | dict(gradient_accumulation_steps=2)
        yield method | dict(gradient_accumulation_steps=2, use_orig_params=False) | NOT_REENTRANT
        yield method | dict(mixed=True)
        yield method | dict(mixed=True, use_orig_params=False, len=256) | REENTRANT
    yield dict(auto_wrap_policy="no_wrap")
    yield dict(auto_wrap_policy="no_wrap", dtype="float32")
    for model, method, checkpoints in itertools.product(["tinyllama-1.1b", "smollm2-135m"], [{}, LORA], [{}, REENTRANT, NOT_REENTRANT]):
        yield dict(version=2, model=model) | method | checkpoints
    for method in [{}, LORA]:
        # `reshard_after_forward=False`.
        yield method | dict(version=2, sharding_strategy="shard_grad_op")
        yield method | dict(version=2, gradient_accumulation_steps=2)
        yield method | dict(version=2, gradient_accumulation_steps=2, len=256) | NOT_REENTRANT
        yield method | dict(version=2, mixed=True)
        yield method | dict(version=2, mixed=True, len=256) | NOT_REENTRANT


def model_of(case):
    family, shape = preset(case["model"])
    keys = shape | dict(num_hidden_layers=LAYERS, use_cache=False, attn_implementation="eager")
    config = getattr(transformers, f"{family}Config")(**keys)
    model = getattr(transformers, f"{family}ForCausalLM")(config).to(getattr(torch, case["dtype"]))
    if case["gradient_checkpointing"] != "none":
        reentrant = case["gradient_checkpointing"] == "default"
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        model.enable_input_require_grads()
    if case["rank"]:
        model = get_peft_model(model, LoraConfig(r=case["rank"], target_modules="all-linear", lora_dropout=0.0))
    return model.train()


def grouped(case, model, block):
    """As accelerate 1.15 has FSDP2 share it (`fsdp2_prepare_model`)."""
    half = torch.bfloat16
    keys = {"mesh": torch.distributed.init_device_mesh("cpu", (RANKS,))}
    if case["mixed"]:
        keys["mp_policy"] = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(torch.float32)
    reshards = case["sharding_strategy"] == "full_shard"
    decoder = model.get_base_model() if case["rank"] else model
    for module in model.modules():
        if isinstance(module, block):
            fully_shard(module, reshard_after_forward=reshards, **keys)
    embedding, head = decoder.model.embed_tokens, decoder.lm_head
    # accelerate finds no last norm in a model of PEFT's.
    norm = [] if case["rank"] else [decoder.model.norm]
    tail = [*norm, head]
    if head.weight is embedding.weight:
        tail = [*norm, embedding, head]
    else:
        fully_shard(embedding, reshard_after_forward=reshards, **keys)
    fully_shard(tail, reshard_after_forward=False, **keys)
    return fully_shard(model, **keys)


def wrapped(case, model):
    """As accelerate wraps it."""
    block = next(module for name, module in model.named_modules() if name.endswith("layers.0")).__class__
    if case["version"] == 2:
        return grouped(case, model, block)
    if case["rank"]:
        model._no_split_modules = [block.__name__]
        policy = fsdp_auto_wrap_policy(model)
    elif case["auto_wrap_policy"] == "no_wrap":
        policy = None
    else:
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={block})
    half = torch.bfloat16
    prefetch = None if case["backward_prefetch"] == "no_prefetch" else BackwardPrefetch[case["backward_prefetch"].upper()]
    model = FullyShardedDataParallel(
        model,
        sharding_strategy=ShardingStrategy[case["sharding_strategy"].upper()],
        auto_wrap_policy=policy,
        backward_prefetch=prefetch,
        forward_prefetch=case["forward_prefetch"],
        use_orig_params=case["use_orig_params"],
        mixed_precision=MixedPrecision(param_dtype=half, reduce_dtype=half, buffer_dtype=half) if case["mixed"] else None,
        device_id=torch.device("cpu"),
    )
    if case["mixed"]:
        for module in FullyShardedDataParallel.fsdp_modules(model):
            if module._has_params and module._flat_param.requires_grad and module._flat_param.dtype != torch.float32:
                module._flat_param.data = module._flat_param.data.to(torch.float32)
                module._handle._orig_param_dtype = torch.float32
    return model


class LiveOfRank(Live):
    """Counts of a distributed tensor what this rank has."""

    def see(self, tensor):
        super().see(tensor.to_local() if isinstance(tensor, DTensor) else tensor)


@contextlib.contextmanager
def storages_told_by_fsdp(live):
    """Lets FSDP tell of storages that it makes and frees without an operation."""

    def told(allocate, free):
        def allocated(tensor, *size):
            allocate(tensor, *size)
            live.see(tensor)

        def freed(tensor):
            live.gone(tensor.untyped_storage()._cdata)
            free(tensor)

        return allocated, freed

    before = flat_param._alloc_storage, flat_param._free_storage, fsdp_param.alloc_storage, fsdp_param.free_storage
    flat_param._alloc_storage, flat_param._free_storage = told(*before[:2])
    fsdp_param.alloc_storage, fsdp_param.free_storage = told(*before[2:])
    yield
    flat_param._alloc_storage, flat_param._free_storage, fsdp_param.alloc_storage, fsdp_param.free_storage = before


@contextlib.contextmanager
def without_reduction(case, model, is_last):
    """The micro-batches but the last, as accelerate runs them."""
    if case["version"] == 1:
        with contextlib.nullcontext() if is_last else model.no_sync():
            yield
        return
    model.set_requires_gradient_sync(is_last)
    yield


def figures(case):
    torch.manual_seed(0)
    model = wrapped(case, model_of(case))
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-4)
    ids = torch.zeros(case["batch"], case["len"], dtype=torch.int64)
    live = LiveOfRank()
    gc.collect()
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        live.see(tensor)
    for module in FullyShardedDataParallel.fsdp_modules(model) if case["version"] == 1 else []:
        if module._has_params:
            live.see(module._flat_param)
    steps = case["gradient_accumulation_steps"]
    autocast = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16, enabled=case["mixed"])
    with storages_told_by_fsdp(live), unittest.mock.patch.multiple(dist, **NOTHING_IS_SENT), live:
        for _ in range(2):
            live.peak = live.now
            for number in range(steps):
                with without_reduction(case, model, number + 1 == steps):
                    with autocast():
                        out = model(input_ids=ids, labels=ids)
                    forward = live.now
                    out.loss.backward()
                    backward = live.peak
            optimizer.step()
            resting = live.now
            optimizer.zero_grad()
            del out
            rows = [forward, backward, live.peak, resting, live.now]
    return rows


def run(rank, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29512")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    table = csv.writer(sys.stdout, lineterminator="\n")
    if rank == 0:
        table.writerow(KEYS + FIGURES)
    for case in cases():
        case = DEFAULTS | case
        if arguments[1:] and str(case["version"]) not in arguments[1:]:
            continue
        row = figures(case)
        gc.collect()
        if rank == 0:
            words = [str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in KEYS]
            table.writerow(words + row)
            sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, (sys.argv,), nprocs=RANKS)
