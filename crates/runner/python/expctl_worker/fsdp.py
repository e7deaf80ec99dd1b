"""A model that FSDP shares among ranks, wrapped as accelerate wraps it."""
import contextlib, functools

import torch
from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def block_class(model, name):
    """The class of the blocks: the one that is named, or the model's own."""
    names = [name] if name else getattr(model, "_no_split_modules", None) or []
    classes = {type(module) for module in model.modules() if type(module).__name__ in names}
    if not classes:
        raise ValueError(f"fsdp_config: the model has no module {' or '.join(names)}")
    return classes


def wrap(model, cell, device):
    """The model as FSDP shares it."""
    config, half = cell["fsdp_config"], HALF.get(cell["autocast"])
    blocks = block_class(model.get_base_model() if cell["rank"] else model, config["transformer_layer_cls_to_wrap"])
    if half:
        for parameter in model.parameters():
            if parameter.requires_grad:
                # What is trained is float32 under mixed precision.
                parameter.data = parameter.data.to(torch.float32)
    by_version = {1: wrap_flat, 2: wrap_each}
    return by_version[config["version"]](model, cell, config, blocks, half, device)


def wrap_flat(model, cell, config, blocks, half, device):
    """Version 1: units are flat tensors."""
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    if config["auto_wrap_policy"] == "no_wrap":
        policy = None
    elif cell["rank"]:
        from peft.utils.other import fsdp_auto_wrap_policy
        model._no_split_modules = [block.__name__ for block in blocks]
        policy = fsdp_auto_wrap_policy(model)
    else:
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=blocks)
    prefetch = config["backward_prefetch"]
    return FullyShardedDataParallel(
        model, sharding_strategy=ShardingStrategy[config["sharding_strategy"].upper()], auto_wrap_policy=policy,
        backward_prefetch=None if prefetch == "no_prefetch" else BackwardPrefetch[prefetch.upper()],
        forward_prefetch=config["forward_prefetch"], limit_all_gathers=config["limit_all_gathers"],
        use_orig_params=config["use_orig_params"], device_id=device,
        cpu_offload=CPUOffload(offload_params=True) if config["offload_params"] else None,
        mixed_precision=MixedPrecision(param_dtype=half, reduce_dtype=half, buffer_dtype=half) if half else None)


def wrap_each(model, cell, config, blocks, half, device):
    """Version 2: each parameter is shared, in units of blocks, of the embeddings, and of what follows the blocks."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    keys = {"mesh": torch.distributed.init_device_mesh(device.type, (torch.distributed.get_world_size(),))}
    if half:
        keys["mp_policy"] = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half)
    if config["offload_params"]:
        keys["offload_policy"] = CPUOffloadPolicy()
    reshards = config["reshard_after_forward"] is not False
    decoder = model.get_base_model() if cell["rank"] else model
    if config["auto_wrap_policy"] != "no_wrap":
        for module in model.modules():
            if type(module) in blocks:
                fully_shard(module, reshard_after_forward=reshards, **keys)
        embedding, head = decoder.get_input_embeddings(), decoder.get_output_embeddings()
        # accelerate finds no last norm in a model of PEFT's.
        tail = [] if cell["rank"] or not hasattr(decoder.base_model, "norm") else [decoder.base_model.norm]
        if head is not None and head.weight is embedding.weight:
            tail += [embedding]
        else:
            fully_shard(embedding, reshard_after_forward=reshards, **keys)
        tail += [head] if head is not None else []
        if tail:
            fully_shard(tail, reshard_after_forward=False, **keys)
    return fully_shard(model, **keys)


@contextlib.contextmanager
def without_reduction(model, is_last):
    """A micro-batch, whose gradients ranks reduce if it is the step's last."""
    if isinstance(model, FullyShardedDataParallel):
        with contextlib.nullcontext() if is_last else model.no_sync():
            yield
    else:
        model.set_requires_gradient_sync(is_last)
        yield


def clip(model, most):
    """Scales gradients to a norm over all ranks. Returns what the norm was."""
    if isinstance(model, FullyShardedDataParallel):
        return model.clip_grad_norm_(most)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), most)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm
