"""Live tensor bytes of steps of models that DeepSpeed's ZeRO shares between processes of the CPU (gloo): a table for crates/torch.

    DS_ACCELERATOR=cpu python python/torch_abstract/make_deepspeed.py > tests/fixtures/torch_abstract/deepspeed.csv

One case alone, by its name: `… make_deepspeed.py z2 z3-prefetch-0`; no header then. Needs torch, transformers, peft and deepspeed
(0.19.8). The tensors are real, and their storages are counted as by make_fsdp.py, each rounded up to 512 bytes. gloo copies what it
sends, as NCCL does not, so nothing is sent but first values: the other processes' parts are zeros.

A row is what is alive at the end of a phase, and at most within it: of `initialize` (its peak without how the model was built), of each
`forward` and `backward`, of the optimizer's `step`, and `between` the steps, when the output is let go. Rows of other processes
follow where they differ from those of process 0. `host` is what of `live` lies in the computer's memory if the optimizer is offloaded
from a GPU; a copy from there to the GPU is none here where the type stays.

What CUDA does otherwise: streams, and so `record_stream` and the events that hold memory back, memory that is pinned, the flat buffer
of stage 3 that goes by way of the computer's memory (`defragment`), and AdamW's counts of steps, which are the computer's unless fused.
"""

import csv
import gc
import itertools
import os
import sys
import unittest.mock
import weakref

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import transformers
from deepspeed.comm.torch import TorchBackend
from live import Live
from peft import LoraConfig, get_peft_model
from presets import preset
from transformers.integrations import HfDeepSpeedConfig

STEPS = 2
# Those of ZeRO, by the names in its configuration.
ZERO = dict(stage=2, overlap_comm=True, contiguous_gradients=True, reduce_scatter=True, reduce_bucket_size="auto",
            sub_group_size=1_000_000_000, stage3_prefetch_bucket_size="auto", stage3_param_persistence_threshold="auto",
            stage3_max_live_parameters=1_000_000_000, stage3_max_reuse_distance=1_000_000_000, offload_optimizer="none")
REST = dict(world_size=2, model="smollm2-135m", layers=3, rank=0, dtype="bfloat16", grad_accum_dtype="default",
            gradient_checkpointing="none", gradient_accumulation_steps=1, gradient_clipping=1.0, optimizer="for_loop", batch=2, len=64)
DEFAULTS = REST | ZERO
FIGURES = ["phase", "step", "micro", "process", "live", "peak", "host"]
LORA = dict(rank=8)
REENTRANT, NOT_REENTRANT = dict(gradient_checkpointing="default"), dict(gradient_checkpointing="not_reentrant")
TWICE, ALONE, HUGE = dict(gradient_accumulation_steps=2), dict(world_size=1), 1_000_000_000


def cases():
    for stage in [1, 2, 3]:
        name, words = f"z{stage}", dict(stage=stage)
        yield name, words
        yield f"{name}-accumulate", words | TWICE
        yield f"{name}-alone", words | ALONE
        yield f"{name}-no-overlap", words | dict(overlap_comm=False)
        yield f"{name}-offload", words | dict(offload_optimizer="cpu")
        if stage == 3:
            yield f"{name}-fp32-grads-accumulate", words | TWICE | dict(grad_accum_dtype="fp32")
        yield f"{name}-lora", words | LORA
        if stage == 1:
            continue
        yield f"{name}-not-contiguous", words | dict(contiguous_gradients=False)
        yield f"{name}-bucket-large", words | dict(reduce_bucket_size=500_000_000)
        yield f"{name}-tinyllama", words | dict(model="tinyllama-1.1b")
        yield f"{name}-reentrant", words | REENTRANT
        for method, of_method in [("", {}), ("-lora", LORA)]:
            yield f"{name}{method}-tiny", words | of_method | dict(model="tiny")
            yield f"{name}{method}-tiny-of-three", words | of_method | dict(model="tiny", world_size=3)
    for name, words in [
        ("no-overlap-not-contiguous", dict(overlap_comm=False, contiguous_gradients=False)),
        ("no-clipping", dict(gradient_clipping=0.0)),
        ("offload-accumulate", TWICE | dict(offload_optimizer="cpu")),
        ("fp16", dict(dtype="float16")),
        ("fused", dict(optimizer="fused")),
    ]:
        yield f"z2-{name}", dict(stage=2) | words
    reuse, live = dict(stage3_max_reuse_distance=10_000), dict(stage3_max_live_parameters=60_000)
    # As a large model is within the usual limits: its parameters do not stay from forward to backward.
    near = reuse | live | dict(model="tiny", layers=8, batch=1, len=8)
    for name, words in [
        ("not-reentrant", NOT_REENTRANT),
        ("lora-reentrant", LORA | REENTRANT),
        ("lora-not-reentrant", LORA | NOT_REENTRANT),
        ("no-reduce-scatter", dict(reduce_scatter=False)),
        ("prefetch-0", dict(stage3_prefetch_bucket_size=0)),
        ("persistence-0", dict(stage3_param_persistence_threshold=0)),
        ("persistence-huge", dict(stage3_param_persistence_threshold=HUGE)),
        ("sub-groups", dict(sub_group_size=1_000_000)),
        ("reuse-small", reuse),
        ("live-small", live),
        ("near", near),
        ("near-prefetch-0", near | dict(stage3_prefetch_bucket_size=0)),
        ("near-prefetch-large", near | dict(stage3_prefetch_bucket_size=25_000)),
        ("near-not-reentrant", near | NOT_REENTRANT),
        ("near-lora", near | LORA),
        ("near-lora-reentrant", near | LORA | REENTRANT),
        ("near-tinyllama", dict(model="tinyllama-1.1b", stage3_max_reuse_distance=10_000_000, stage3_max_live_parameters=100_000_000)),
    ]:
        yield f"z3-{name}", dict(stage=3) | words


def settings(case):
    """DeepSpeed's configuration, `auto` as transformers' Trainer fills it in."""
    hidden = preset(case["model"])[1]["hidden_size"]
    auto = dict(
        reduce_bucket_size=hidden**2,
        stage3_prefetch_bucket_size=int(0.9 * hidden**2),
        stage3_param_persistence_threshold=10 * hidden,
    )
    zero = {key: auto[key] if case[key] == "auto" else case[key] for key in ZERO}
    zero["offload_optimizer"] = dict(device=case["offload_optimizer"])
    keys = dict(
        zero_optimization=zero,
        train_micro_batch_size_per_gpu=case["batch"],
        gradient_accumulation_steps=case["gradient_accumulation_steps"],
        train_batch_size=case["batch"] * case["gradient_accumulation_steps"] * case["world_size"],
        gradient_clipping=case["gradient_clipping"],
        zero_allow_untested_optimizer=True,
        zero_force_ds_cpu_optimizer=False,
        steps_per_print=HUGE,
    )
    # A first scale of the loss that overflows nothing.
    keys |= dict(fp16=dict(enabled=True, initial_scale_power=4)) if case["dtype"] == "float16" else dict(bf16=dict(enabled=True))
    if case["grad_accum_dtype"] != "default":
        keys["data_types"] = dict(grad_accum_dtype=case["grad_accum_dtype"])
    return keys


def model_of(case):
    """As transformers makes it: under `deepspeed.zero.Init` if its parameters are to be shared."""
    family, shape = preset(case["model"])
    keys = shape | dict(num_hidden_layers=case["layers"], use_cache=False, attn_implementation="eager")
    config = getattr(transformers, f"{family}Config")(**keys)
    model = getattr(transformers, f"{family}ForCausalLM")._from_config(config, dtype=getattr(torch, case["dtype"]))
    if case["gradient_checkpointing"] != "none":
        reentrant = case["gradient_checkpointing"] == "default"
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        model.enable_input_require_grads()
    if case["rank"]:
        model = get_peft_model(model, LoraConfig(r=case["rank"], target_modules="all-linear", lora_dropout=0.0))
    return model.train()


def optimizer_of(case, model):
    """With the groups of transformers' Trainer: those that decay, and the others."""
    decays = set(transformers.Trainer.get_decay_parameter_names(None, model))
    groups = [[], []]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[name not in decays].append(parameter)
    groups = [dict(params=groups[0], weight_decay=0.01), dict(params=groups[1], weight_decay=0.0)]
    return torch.optim.AdamW(groups, lr=1e-4, foreach=False, fused=case["optimizer"] == "fused")


class LiveOfDevice(Live):
    """Counts no tensors of shapes alone."""

    def __init__(self):
        super().__init__()
        self.storages = []

    def see(self, tensor):
        if not tensor.is_meta:
            super().see(tensor)
            self.storages.append(weakref.ref(tensor.untyped_storage()))

    def free(self):
        """The memory of what DeepSpeed keeps for good: its lists and caches hold the modules of engines that are gone."""
        for storage in self.storages:
            if storage() is not None and storage().resizable():
                storage().resize_(0)


class Over:
    """A collective that is over."""

    def wait(self):
        pass

    def is_completed(self):
        return True


def nothing_is_sent():
    """The collectives of DeepSpeed's backend, without sending and without tensors of their own."""

    def gather(self, tensor_list, tensor, **_):
        # What pads the last part may be any number.
        for number, part in enumerate(tensor_list):
            part.copy_(tensor) if number == dist.get_rank() else part.zero_()
        return Over()

    def gather_tensor(self, output_tensor, input_tensor, **_):
        return gather(self, output_tensor.view(-1).split(input_tensor.numel()), input_tensor.view(-1))

    def gather_tensors(self, output_tensors, input_tensors, **_):
        for output, part in zip(output_tensors, input_tensors, strict=True):
            gather_tensor(self, output, part)
        return Over()

    def nothing(self, *_, **__):
        return Over()

    def broadcast(self, tensor, src, group=None, **_):
        dist.broadcast(tensor, src, group)
        return Over()

    return unittest.mock.patch.multiple(
        TorchBackend, all_gather_into_tensor=gather_tensor, all_gather=gather, all_gather_coalesced=gather_tensors,
        reduce_scatter_tensor=nothing, all_reduce=nothing, reduce=nothing, broadcast=broadcast)


def on_host(engine, case):
    """The bytes of the tensors that the offloaded optimizer keeps in the computer's memory."""
    if case["offload_optimizer"] == "none":
        return 0
    zero = engine.optimizer
    names = ["single_partition_of_fp32_groups", "param_buffer_of_bit16_for_cpu_offload_groups", "fp32_partitioned_groups_flat"]
    tensors = [tensor for name in names for tensor in getattr(zero, name, [])]
    tensors += [tensor.grad for tensor in tensors if tensor.grad is not None]
    tensors += [value for state in zero.optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    names = ["temp_grad_buffer_for_cpu_offload", "grad_partitions_flat_buffer", "inf_or_nan_tracker"]
    tensors += [getattr(zero, name) for name in names if hasattr(zero, name)]
    tensors += list(getattr(zero, "accumulated_grads_in_cpu", {}).values())
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum((size + 511) // 512 * 512 for size in storages.values())


def figures(case):
    torch.manual_seed(0)
    keys = settings(case)
    for_transformers = HfDeepSpeedConfig(keys)
    ids = torch.zeros(case["batch"], case["len"], dtype=torch.int64)
    rows, live, steps = [], LiveOfDevice(), case["gradient_accumulation_steps"]

    def row(phase, step=0, micro=0):
        rows.append([phase, step, micro, live.now, live.peak, on_host(engine, case)])
        live.peak = live.now

    gc.collect()
    # `zero.Init` replaces `linear` for good.
    linear = unittest.mock.patch.object(torch.nn.functional, "linear", torch.nn.functional.linear)
    with nothing_is_sent(), linear, live:
        model = model_of(case)
        for tensor in itertools.chain(model.parameters(), model.buffers()):
            live.see(tensor)
        optimizer = optimizer_of(case, model)
        gc.collect()
        live.peak = live.now
        engine = deepspeed.initialize(model=model, optimizer=optimizer, config=keys)[0]
        row("initialize")
        for step in range(1, STEPS + 1):
            for micro in range(1, steps + 1):
                # As accelerate's wrapper has it.
                engine.set_gradient_accumulation_boundary(is_boundary=micro == steps)
                out = engine(input_ids=ids, labels=ids)
                row("forward", step, micro)
                engine.backward(out.loss, scale_wrt_gas=False)
                row("backward", step, micro)
            engine.step()
            row("step", step, steps)
            del out
            row("between", step, steps)
        assert engine.was_step_applied()
    engine.destroy()
    del engine, model, optimizer, for_transformers
    gc.collect()
    live.free()
    return rows


def run(process, world_size, names):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29513", RANK=str(process), WORLD_SIZE=str(world_size), LOCAL_RANK=str(process),
                      LOCAL_SIZE=str(world_size))
    torch.set_num_threads(1)
    # Collectives of inference, that would have to be compiled.
    unittest.mock.patch("deepspeed.comm.torch.build_shm_op", lambda: None).start()
    deepspeed.init_distributed("gloo", rank=process, world_size=world_size, auto_mpi_discovery=False)
    deepspeed.utils.logger.setLevel("WARNING")
    # DeepSpeed writes there, too.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    table = csv.writer(out, lineterminator="\n")
    for name, case in cases():
        case = DEFAULTS | case
        if case["world_size"] != world_size or names and name not in names:
            continue
        of_processes = [None] * world_size
        dist.all_gather_object(of_processes, figures(case))
        if process:
            continue
        words = [name, *(str(case[key]).lower() if isinstance(case[key], bool) else case[key] for key in DEFAULTS)]
        for rows in zip(*of_processes, strict=True):
            for number, (phase, step, micro, *counts) in enumerate(rows):
                if number == 0 or counts != rows[0][3:]:
                    table.writerow([*words, phase, step, micro, number, *counts])
        out.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    names = sys.argv[1:]
    if not names:
        csv.writer(sys.stdout, lineterminator="\n").writerow(["case", *DEFAULTS, *FIGURES])
        sys.stdout.flush()
    sizes = {(DEFAULTS | case)["world_size"] for name, case in cases() if not names or name in names}
    for world_size in sorted(sizes):
        mp.spawn(run, (world_size, names), nprocs=world_size)
