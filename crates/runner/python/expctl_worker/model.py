"""The model as a script loads it: its format, its attention, its checkpoints, and what is trained of it."""
import pathlib

import torch
import transformers

from . import adapters


def loaded_dtype(cell):
    """The format that a model is loaded in, before its linear layers are quantised."""
    is_quantised = cell["dtype"] in ["int4", "int8"]
    return getattr(torch, cell["bnb_4bit_compute_dtype"] if is_quantised else cell["dtype"])


def quantisation(cell):
    """bitsandbytes' configuration; None for weights that are not quantised."""
    if cell["dtype"] == "int4":
        return transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type=cell["bnb_4bit_quant_type"], bnb_4bit_compute_dtype=loaded_dtype(cell),
            bnb_4bit_use_double_quant=cell["bnb_4bit_use_double_quant"])
    if cell["dtype"] == "int8":
        threshold = cell["llm_int8_threshold"]
        more = {} if threshold is None else {"llm_int8_threshold": float(threshold)}
        if cell["task"] == "sequence_classification":
            more["llm_int8_skip_modules"] = ["pre_classifier", "classifier"]
        return transformers.BitsAndBytesConfig(load_in_8bit=True, **more)
    return None


def load(cell, inputs, device):
    """The model on the device, in training mode, with its adapters."""
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    quantised = quantisation(cell)
    more = {"quantization_config": quantised} if quantised else {}
    if cell["task"] == "sequence_classification":
        kind, more["num_labels"] = transformers.AutoModelForSequenceClassification, cell["num_labels"]
    else:
        kind = transformers.AutoModelForCausalLM
    by_map = bool(quantised) or bool(cell["torch"]["device_map"])
    if by_map:
        more["device_map"] = {"": device}
    # The name that releases before 4.56 know.
    name = "dtype" if release("transformers") >= (4, 56) else "torch_dtype"
    model, info = kind.from_pretrained(
        pathlib.Path(inputs.model), attn_implementation=cell["attn_implementation"], output_loading_info=True, local_files_only=True,
        **{name: loaded_dtype(cell)}, **more)
    if info["missing_keys"]:
        raise RuntimeError(f"the checkpoint lacks {sorted(info['missing_keys'])[:5]}")
    if not by_map:
        model.to(device)
    model.config.use_cache = cell["torch"]["use_cache"]
    if cell["torch"]["repeat_kv"]:
        transformers.integrations.sdpa_attention.use_gqa_in_sdpa = lambda *_: False
    if cell["loss"] == "liger":
        from liger_kernel.transformers import _apply_liger_kernel_to_instance
        only = dict(rope=False, rms_norm=False, swiglu=False, geglu=False, cross_entropy=False)
        _apply_liger_kernel_to_instance(model, fused_linear_cross_entropy=True, **only)
    prepare(model, cell)
    return adapters.adapt(model, cell, inputs).train()


def prepare(model, cell):
    """Casts weights for k-bit training, and sets up checkpoints."""
    chosen, reentrant = cell["gradient_checkpointing"], cell["torch"]["use_reentrant"]
    options = {} if reentrant is None else {"gradient_checkpointing_kwargs": {"use_reentrant": reentrant}}
    if cell["upcast"] == "peft":
        import peft
        peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=chosen != "none", **options)
    elif cell["upcast"] == "trl":
        # As TRL's `peft_module_casting_to_bf16` does: norms in float32, the head and embeddings in bfloat16.
        for name, module in model.named_modules():
            if "norm" in name:
                module.to(torch.float32)
            elif any(part in name for part in ["lm_head", "embed_tokens", "wte", "wpe"]) and hasattr(module, "weight"):
                if module.weight.dtype == torch.float32:
                    module.to(torch.bfloat16)
    if chosen == "none":
        return
    model.gradient_checkpointing_enable(**options)
    if chosen != "full":
        from transformers.modeling_layers import GradientCheckpointingLayer
        blocks = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
        for index, block in enumerate(blocks):
            block.gradient_checkpointing = recomputes(chosen, index)


def recomputes(chosen, index):
    """True if the block of this index is one of those that are chosen."""
    (way, value), = chosen.items()
    return {"every": lambda: index % value == 0, "first": lambda: index < value, "layers": lambda: index in value}[way]()


def release(package):
    """The first two numbers of a release."""
    import importlib.metadata

    return tuple(int(part) for part in importlib.metadata.version(package).split(".")[:2])
